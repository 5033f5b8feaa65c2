//! The login at one server: its token, refreshed when due by one process at a time, and its logout.
//!
//! Not rmcp's `refresh_token`: it repeats discovery or loses the `resource` of the login, requests
//! `offline_access` where that was never granted, and turns the cause of a failure into a text.
//!
//! A `WWW-Authenticate` challenge is untrusted. Only two facts are taken from it: whether more scopes
//! would help, and scope names that are safe to type. Its URLs are not followed: only `login`, which a
//! person starts, looks for an authorization server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use form_urlencoded::Serializer;
use http::{HeaderValue, StatusCode};
use rmcp::transport::auth::WWWAuthenticateParams;
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;

use crate::error::{LoginError, sanitize};
use crate::http_transport::GuardedClient;
use crate::logins::Logins;
use crate::token::{Bearer, Secret, SecretIn, StoredLogin, TokenResponse, now, scopes_in};
use crate::token_store::{LoginFile, ServerKey};

/// A renewed token refused within this time is not renewed again.
const RETRY_WINDOW: Duration = Duration::from_mins(1);
/// The time limit of a revocation.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A person's login at one server. Clones share the retry state.
#[derive(Debug, Clone)]
pub struct ServerLogin {
    logins: Logins,
    server: ServerKey,
    /// The token that replaced the last refused one, and when. If it is refused at once, another
    /// does not help; much later, it was revoked like any other.
    retried: Arc<Mutex<Option<(Secret, Instant)>>>,
}

/// The outcome of a logout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogoutOutcome {
    /// The number of deleted logins.
    pub removed: usize,
    /// Why the tokens may still be valid at the authorization server.
    pub not_revoked: Option<String>,
}

impl Logins {
    /// The login at one server, existing or not.
    pub fn for_server(&self, server: &Url) -> ServerLogin {
        ServerLogin::new(self.clone(), ServerKey::from_url(server))
    }

    /// Logs out: deletes the login, then asks the authorization server to revoke it. In this order
    /// the login is gone even if the server never responds.
    pub async fn forget(&self, server: &Url) -> Result<LogoutOutcome, LoginError> {
        let key = ServerKey::from_url(server);
        let mut outcome = LogoutOutcome::default();
        if self.folder.at_server(&key)?.is_empty() {
            return Ok(outcome);
        }
        let locked = self.folder.lock(&key).await?;
        let gone = self.folder.at_server(&key)?;
        for found in &gone {
            outcome.removed += usize::from(locked.remove(found)?);
        }
        drop(locked);
        for found in &gone {
            let client = self.client(&found.login.server)?;
            let why = revoke(&client, &found.login).await;
            outcome.not_revoked = outcome.not_revoked.or(why);
        }
        Ok(outcome)
    }
}

impl ServerLogin {
    fn new(logins: Logins, server: ServerKey) -> Self {
        Self { logins, server, retried: Arc::default() }
    }

    /// Returns the access token, refreshed if it expires within a minute; `None` without a login.
    pub async fn bearer(&self) -> Result<Option<Bearer>, LoginError> {
        let Some(LoginFile { login, .. }) = self.find()? else { return Ok(None) };
        if login.is_fresh(now()) {
            return Ok(Some(login.bearer()));
        }
        // A token that cannot be refreshed now is used until it expires.
        let last = login.is_valid(now()).then(|| login.bearer());
        if last.is_some() && login.refresh_token.is_none() {
            return Ok(last);
        }
        match self.renew(&login.access_token).await {
            Ok(bearer) => Ok(Some(bearer)),
            Err(LoginError::Unreachable { .. } | LoginError::Busy { .. }) if last.is_some() => {
                Ok(last)
            }
            Err(error) => Err(error),
        }
    }

    /// Handles a refusal of the server (`401`, `403`) with its challenge: returns another token to
    /// try once, or an error that says what the person has to do.
    pub async fn refused(
        &self,
        sent: Option<&Bearer>,
        challenge: Option<&str>,
    ) -> Result<Bearer, LoginError> {
        let server = self.server.url();
        if let Some(scopes) = challenge.and_then(|text| missing_scopes(text, server)) {
            return Err(LoginError::Scope { server: server.clone(), scopes });
        }
        let Some(sent) = sent else {
            // The person may have logged in meanwhile.
            return self.bearer().await?.ok_or_else(|| self.needed());
        };
        let retried = self.retried().clone();
        if retried.is_some_and(|(token, at)| token == *sent.token() && at.elapsed() < RETRY_WINDOW)
        {
            return Err(self.needed());
        }
        let bearer = self.renew(sent.token()).await?;
        *self.retried() = Some((bearer.token().clone(), Instant::now()));
        Ok(bearer)
    }

    fn retried(&self) -> std::sync::MutexGuard<'_, Option<(Secret, Instant)>> {
        self.retried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self) -> Result<Option<LoginFile>, LoginError> {
        Ok(self.logins.folder.at_server(&self.server)?.into_iter().next())
    }

    fn needed(&self) -> LoginError {
        LoginError::Needed { server: self.server.url().clone() }
    }

    /// The runtime shut down or the task panicked: the login on disk is unchanged.
    fn cut_short(&self) -> LoginError {
        let endpoint = self.server.url().host_str().unwrap_or_default().to_owned();
        LoginError::Unreachable { endpoint, why: "the refresh was interrupted".to_owned() }
    }

    /// Returns a token other than `stale`: one that another process received meanwhile, or a new
    /// one.
    async fn renew(&self, stale: &Secret) -> Result<Bearer, LoginError> {
        // In its own task: the caller may be cancelled, but a refresh token that was used must be
        // replaced, or the login is lost.
        let (this, stale) = (self.clone(), stale.clone());
        let task = tokio::spawn(async move { this.renew_alone(&stale).await });
        task.await.unwrap_or_else(|_| Err(self.cut_short()))
    }

    async fn renew_alone(&self, stale: &Secret) -> Result<Bearer, LoginError> {
        if self.find()?.is_none() {
            return Err(self.needed());
        }
        let locked = self.logins.folder.lock(&self.server).await?;
        // Reads again: the previous holder of the lock may have refreshed.
        let found = self.find()?.ok_or_else(|| self.needed())?;
        if found.login.access_token != *stale && found.login.is_fresh(now()) {
            return Ok(found.login.bearer());
        }
        let Some(token) = found.login.refresh_token.clone() else { return Err(self.needed()) };
        let client = self.logins.client(&found.login.server)?;
        match refresh(&client, &found.login, &token).await? {
            RefreshOutcome::Granted(granted) => {
                let login = found.login.with_tokens(granted, now());
                let bearer = login.bearer();
                // Syncing blocks on the disk.
                let written = tokio::task::spawn_blocking(move || locked.store(&login)).await;
                written.unwrap_or_else(|_| Err(self.cut_short()))?;
                Ok(bearer)
            }
            RefreshOutcome::Rejected => {
                // Deletes only the rejected login: the person may have replaced the file.
                if self.find()?.as_ref() == Some(&found) {
                    locked.remove(&found)?;
                }
                Err(self.needed())
            }
            RefreshOutcome::ClientUnknown => Err(self.needed()),
        }
    }
}

/// The outcome of a refresh.
enum RefreshOutcome {
    /// New tokens.
    Granted(TokenResponse),
    /// The refresh token is no longer valid.
    Rejected,
    /// The authorization server no longer knows this client.
    ClientUnknown,
}

/// An error response (RFC 6749, 5.2).
#[derive(Deserialize)]
struct OAuthErrorBody {
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Requests new tokens, once.
async fn refresh(
    client: &GuardedClient,
    login: &StoredLogin,
    token: &Secret,
) -> Result<RefreshOutcome, LoginError> {
    // Without `scope`: the scopes stay the same. RFC 8707 requires `resource` here too.
    let form = [
        ("grant_type", "refresh_token"),
        ("refresh_token", token.expose()),
        ("resource", &*login.resource),
    ];
    let answer = post_as_client(client, login, &login.token_endpoint, &form).await?;
    let status = answer.status();
    if status.is_success() {
        return Ok(RefreshOutcome::Granted(TokenResponse::read(answer.body())?));
    }
    let body: Option<OAuthErrorBody> = serde_json::from_slice(answer.body()).ok();
    match body.as_ref().map(|body| &*body.error) {
        Some("invalid_grant") => Ok(RefreshOutcome::Rejected),
        Some("invalid_client" | "unauthorized_client") => Ok(RefreshOutcome::ClientUnknown),
        _ => Err(unreachable_error(&login.token_endpoint, status, body)),
    }
}

/// Posts a form to an endpoint of the authorization server, with the client credentials of the
/// login.
async fn post_as_client(
    client: &GuardedClient,
    login: &StoredLogin,
    endpoint: &Url,
    fields: &[(&str, &str)],
) -> Result<http::Response<Vec<u8>>, LoginError> {
    let id = ("client_id", &*login.client_id);
    let (authorization, further) = match (&login.client_secret, login.secret_in) {
        (Some(secret), SecretIn::Header) => (Some(basic(&login.client_id, secret)?), vec![]),
        (Some(secret), SecretIn::Body) => (None, vec![id, ("client_secret", secret.expose())]),
        (None, _) => (None, vec![id]),
    };
    let form = Serializer::new(String::new()).extend_pairs(fields).extend_pairs(further).finish();
    client.post_form(endpoint, authorization, form).await
}

/// HTTP Basic credentials; both halves are form-encoded (RFC 6749, 2.3.1).
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, LoginError> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
    HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair))).map_err(|_| {
        // Base64 is ASCII, so this cannot fail; an error is still better than a panic.
        LoginError::Denied {
            message: "the client secret contains characters that are invalid in an HTTP header"
                .to_owned(),
        }
    })
}

/// The response says nothing about the token, so the login remains.
fn unreachable_error(
    endpoint: &Url,
    status: StatusCode,
    body: Option<OAuthErrorBody>,
) -> LoginError {
    let message = body.map(|body| format!(": {} {}", body.error, body.error_description));
    LoginError::Unreachable {
        endpoint: endpoint.host_str().unwrap_or_default().to_owned(),
        why: sanitize(&format!("status {}{}", status.as_u16(), message.unwrap_or_default())),
    }
}

/// Revokes a login (RFC 7009) if the authorization server supports it; returns why that failed.
async fn revoke(client: &GuardedClient, login: &StoredLogin) -> Option<String> {
    let endpoint = login.revocation_endpoint.as_ref()?;
    // Revoking the refresh token also revokes its access tokens.
    let (token, hint) = match &login.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&login.access_token, "access_token"),
    };
    let form = [("token", token.expose()), ("token_type_hint", hint)];
    match timeout(REVOKE_TIMEOUT, post_as_client(client, login, endpoint, &form)).await {
        Ok(Ok(answer)) if answer.status().is_success() => None,
        Ok(Ok(answer)) => {
            Some(format!("the authorization server returned {}", answer.status().as_u16()))
        }
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no response within {} s", REVOKE_TIMEOUT.as_secs())),
    }
}

/// The scopes that a challenge reports as missing.
fn missing_scopes(challenge: &str, server: &Url) -> Option<Vec<String>> {
    let challenge: String = challenge.chars().take(8192).collect();
    let params = WWWAuthenticateParams::parse(&challenge, server);
    params
        .is_insufficient_scope()
        .then(|| typeable_scopes(params.scope.as_deref().unwrap_or_default()))
}

/// Scopes that are safe on a command line: all of them or none, since a part would not help.
fn typeable_scopes(text: &str) -> Vec<String> {
    let scopes = scopes_in(text);
    let is_plain = |scope: &String| {
        scope.starts_with(|c: char| c.is_ascii_alphanumeric())
            && scope.chars().all(|c| c.is_ascii_alphanumeric() || "._:/*+-".contains(c))
    };
    let whole = scopes.len() == text.split_ascii_whitespace().count();
    if whole && scopes.len() <= 16 && scopes.iter().all(is_plain) { scopes } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(challenge: &str) -> Option<Vec<String>> {
        missing_scopes(challenge, &"https://mcp.example.com/mcp".parse().unwrap())
    }

    #[test]
    fn missing_rights_are_named_where_they_can_be_typed() {
        let challenge = r#"Bearer error="insufficient_scope", scope="files:read files:write""#;
        assert_eq!(missing(challenge).unwrap(), ["files:read", "files:write"]);
        for hostile in
            ["a $(touch x)", "a `id`", "-flag", "a;b", "a\\\"b", "a\u{202e}b", "a!b", "a 'b"]
        {
            let challenge = format!(r#"Bearer error="insufficient_scope", scope="{hostile}""#);
            assert_eq!(missing(&challenge).unwrap(), Vec::<String>::new(), "{hostile}");
        }
    }

    #[test]
    fn other_challenges_ask_for_nothing() {
        for other in
            ["Bearer", "", r#"Bearer error="invalid_token", scope="a""#, "Bearer error=\"", "é=\"é"]
        {
            assert_eq!(missing(other), None, "{other}");
        }
    }
}
