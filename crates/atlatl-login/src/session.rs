//! The login at one server: its token, refreshed when due by one process at a time.
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

use crate::error::{LoginError, shown};
use crate::http_transport::Guarded;
use crate::logins::Logins;
use crate::token::{Bearer, Granted, Kept, Secret, SecretIn, now, scopes_in};
use crate::token_store::{Found, ServerKey};

/// A token that is refused within this time was never any good.
const A_WHILE: Duration = Duration::from_mins(1);
/// Whoever logs out does not wait for long.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A person's login at one server. Copies share what was tried.
#[derive(Debug, Clone)]
pub struct ServerLogin {
    logins: Logins,
    server: ServerKey,
    /// The token that the last refusal was answered with, and when: refused at once, no further one
    /// helps. Refused much later, it has been revoked like any other.
    retried: Arc<Mutex<Option<(Secret, Instant)>>>,
}

impl ServerLogin {
    pub(crate) fn new(logins: Logins, server: ServerKey) -> Self {
        Self { logins, server, retried: Arc::default() }
    }

    /// The access token, refreshed when it has less than a minute to live; none where there is no
    /// login.
    pub async fn bearer(&self) -> Result<Option<Bearer>, LoginError> {
        let Some(Found { kept, .. }) = self.find()? else { return Ok(None) };
        if kept.is_fresh(now()) {
            return Ok(Some(kept.bearer()));
        }
        // What cannot be refreshed, or not now, is used to its last second.
        let last = kept.is_valid(now()).then(|| kept.bearer());
        if last.is_some() && kept.refresh_token.is_none() {
            return Ok(last);
        }
        match self.renew(&kept.access_token).await {
            Ok(bearer) => Ok(Some(bearer)),
            Err(LoginError::Unreachable { .. } | LoginError::Busy { .. }) if last.is_some() => {
                Ok(last)
            }
            Err(error) => Err(error),
        }
    }

    /// The server refused what was sent (`401`, `403`), with this challenge if it gave one: another
    /// token to try, once, or what a person has to do.
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
            // Somebody may have logged in meanwhile.
            return self.bearer().await?.ok_or_else(|| self.needed());
        };
        let retried = self.retried().clone();
        if retried.is_some_and(|(token, at)| token == *sent.token() && at.elapsed() < A_WHILE) {
            return Err(self.needed());
        }
        let bearer = self.renew(sent.token()).await?;
        *self.retried() = Some((bearer.token().clone(), Instant::now()));
        Ok(bearer)
    }

    fn retried(&self) -> std::sync::MutexGuard<'_, Option<(Secret, Instant)>> {
        self.retried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self) -> Result<Option<Found>, LoginError> {
        Ok(self.logins.folder.of(&self.server)?.into_iter().next())
    }

    fn needed(&self) -> LoginError {
        LoginError::Needed { server: self.server.url().clone() }
    }

    /// The runtime ends, or a task panicked: the login is as it is on disk.
    fn cut_short(&self) -> LoginError {
        let asked = self.server.url().host_str().unwrap_or_default().to_owned();
        LoginError::Unreachable { asked, why: "the refresh was cut short".to_owned() }
    }

    /// A token other than `stale`: the one that another process got meanwhile, or a new one.
    async fn renew(&self, stale: &Secret) -> Result<Bearer, LoginError> {
        // A task of its own: whoever asks may go away, but a refresh token that was used must be
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
        // Read again: whoever held the lock before has refreshed.
        let found = self.find()?.ok_or_else(|| self.needed())?;
        if found.kept.access_token != *stale && found.kept.is_fresh(now()) {
            return Ok(found.kept.bearer());
        }
        let Some(token) = found.kept.refresh_token.clone() else { return Err(self.needed()) };
        let client = self.logins.client(&found.kept.server)?;
        match refresh(&client, &found.kept, &token).await? {
            Refreshed::Granted(granted) => {
                let kept = found.kept.renewed(granted, now());
                let bearer = kept.bearer();
                // Syncing waits for the disk.
                let written = tokio::task::spawn_blocking(move || locked.keep(&kept)).await;
                written.unwrap_or_else(|_| Err(self.cut_short()))?;
                Ok(bearer)
            }
            Refreshed::Rejected => {
                // Only what was rejected: a person may have copied another file into its place.
                if self.find()?.as_ref() == Some(&found) {
                    locked.remove(&found)?;
                }
                Err(self.needed())
            }
            Refreshed::ClientUnknown => Err(self.needed()),
        }
    }
}

/// What came of it.
pub(crate) enum Refreshed {
    /// New tokens.
    Granted(Granted),
    /// The refresh token is good no longer.
    Rejected,
    /// The authority does not know this client any more.
    ClientUnknown,
}

/// An error response (RFC 6749, 5.2).
#[derive(Deserialize)]
struct Said {
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Asks for new tokens, once.
pub(crate) async fn refresh(
    client: &Guarded,
    kept: &Kept,
    token: &Secret,
) -> Result<Refreshed, LoginError> {
    // Without `scope`: as before. RFC 8707 wants `resource` here too.
    let form = [
        ("grant_type", "refresh_token"),
        ("refresh_token", token.expose()),
        ("resource", &*kept.resource),
    ];
    let answer = ask(client, kept, &kept.token_endpoint, &form).await?;
    let status = answer.status();
    if status.is_success() {
        return Ok(Refreshed::Granted(Granted::read(answer.body())?));
    }
    let said: Option<Said> = serde_json::from_slice(answer.body()).ok();
    match said.as_ref().map(|said| &*said.error) {
        Some("invalid_grant") => Ok(Refreshed::Rejected),
        Some("invalid_client" | "unauthorized_client") => Ok(Refreshed::ClientUnknown),
        _ => Err(unclear(&kept.token_endpoint, status, said)),
    }
}

/// Sends a form to an endpoint of the authority, as the client that the login was made with.
pub(crate) async fn ask(
    client: &Guarded,
    kept: &Kept,
    endpoint: &Url,
    fields: &[(&str, &str)],
) -> Result<http::Response<Vec<u8>>, LoginError> {
    let id = ("client_id", &*kept.client_id);
    let (authorization, further) = match (&kept.client_secret, kept.secret_in) {
        (Some(secret), SecretIn::Header) => (Some(basic(&kept.client_id, secret)?), vec![]),
        (Some(secret), SecretIn::Body) => (None, vec![id, ("client_secret", secret.expose())]),
        (None, _) => (None, vec![id]),
    };
    let form = Serializer::new(String::new()).extend_pairs(fields).extend_pairs(further).finish();
    client.post_form(endpoint, authorization, form).await
}

/// RFC 6749, 2.3.1: both halves are encoded as in a form.
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, LoginError> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
    HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair))).map_err(|_| {
        // Base64 is ASCII: it cannot happen, and is no reason to end the process.
        LoginError::Denied { said: "a client secret that fits no header".to_owned() }
    })
}

/// No verdict about the token: the login stays.
fn unclear(endpoint: &Url, status: StatusCode, said: Option<Said>) -> LoginError {
    let said = said.map(|said| format!(": {} {}", said.error, said.error_description));
    LoginError::Unreachable {
        asked: endpoint.host_str().unwrap_or_default().to_owned(),
        why: shown(&format!("status {}{}", status.as_u16(), said.unwrap_or_default())),
    }
}

/// Asks for it, where the authority offers it; why it did not work.
pub(crate) async fn revoke(client: &Guarded, kept: &Kept) -> Option<String> {
    let endpoint = kept.revocation_endpoint.as_ref()?;
    // The refresh token: with it go the access tokens that came of it.
    let (token, hint) = match &kept.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&kept.access_token, "access_token"),
    };
    let form = [("token", token.expose()), ("token_type_hint", hint)];
    match timeout(REVOKE_TIMEOUT, ask(client, kept, endpoint, &form)).await {
        Ok(Ok(answer)) if answer.status().is_success() => None,
        Ok(Ok(answer)) => Some(format!("the authority answered {}", answer.status().as_u16())),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {} s", REVOKE_TIMEOUT.as_secs())),
    }
}

/// The rights that a challenge asks for, where it says that they are missing.
pub(crate) fn missing_scopes(challenge: &str, server: &Url) -> Option<Vec<String>> {
    let challenge: String = challenge.chars().take(8192).collect();
    let params = WWWAuthenticateParams::parse(&challenge, server);
    params.is_insufficient_scope().then(|| typed(params.scope.as_deref().unwrap_or_default()))
}

/// Scopes for a command line: all of them or none, since half of them would not help.
fn typed(text: &str) -> Vec<String> {
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
