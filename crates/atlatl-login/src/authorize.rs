//! The authorization code flow: discovery, the browser, the token exchange.
//!
//! rmcp implements discovery, PKCE and the exchange; this module checks every result of discovery.

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig,
};
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use crate::callback::{Callback, Listener};
use crate::error::{LoginError, Refusal, Rule};
use crate::http_transport::Guarded;
use crate::logins::{Login, Logins};
use crate::ssrf_guard::Policy;
use crate::token::{Granted, Kept, Secret, SecretIn, now, scopes_in};
use crate::token_store::ServerKey;

/// How long a person may take in the browser.
const BROWSER_TIMEOUT: Duration = Duration::from_mins(5);
/// An authority may call a client what it likes, but not at any length.
const LONGEST_NAME: usize = 4096;
/// What the authority shows a person as the name of the client.
const CLIENT_NAME: &str = "Atlatl";

/// A login to make.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoginRequest {
    /// Where.
    pub server: Url,
    /// What for; empty for what the server asks for.
    pub scopes: Vec<String>,
    /// A client that the authority knows already.
    pub client_id: Option<String>,
    /// The secret of that client, where it has one.
    pub client_secret: Option<Secret>,
    /// Where a document about this client lies, for authorities that read it.
    pub client_metadata_url: Option<String>,
    /// The port on loopback that the browser comes back to; any, if none is given.
    pub port: Option<u16>,
}

impl LoginRequest {
    /// At `server`, with everything else left to the server.
    pub fn new(server: Url) -> Self {
        Self {
            server,
            scopes: Vec::new(),
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
            port: None,
        }
    }
}

/// Logs in: `open` gets the URL that a person has to visit, checked; then this waits until the
/// browser comes back, at most five minutes.
pub async fn login(
    logins: &Logins,
    request: &LoginRequest,
    open: impl FnOnce(&Url),
) -> Result<Login, LoginError> {
    let mut server = request.server.clone();
    server.set_query(None);
    server.set_fragment(None);
    let policy = Policy::for_server(&server)?;
    let key = ServerKey::from_url(&server);
    // Before a person goes to any trouble: is there a place to keep it?
    drop(logins.folder.lock(&key).await?);
    let listener = Listener::bind(request.port).await?;
    let client = Arc::new(logins.client(&server)?);
    let shared = Arc::clone(&client);
    let mut manager = AuthorizationManager::new_with_oauth_http_client(server.clone(), shared)
        .await
        .map_err(|error| reason(&client, &error))?;
    let authority = discover(&manager, &client, &policy).await?;
    manager.set_metadata(authority.metadata.clone());
    let scopes = scopes(request, &authority, &manager).await;
    let refs: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let redirect = listener.redirect_uri();
    let registered = identity(request, &authority, &mut manager, &client, &redirect, &refs).await?;
    manager.configure_client(registered.clone()).map_err(|error| reason(&client, &error))?;
    let url =
        manager.get_authorization_url(&refs).await.map_err(|error| reason(&client, &error))?;
    let asked = Asked::parse(&url, &policy)?;
    open(&asked.url);
    let waited = timeout(BROWSER_TIMEOUT, listener.wait(&asked.state)).await;
    let (callback, browser) =
        waited.map_err(|_| LoginError::TimedOut { minutes: BROWSER_TIMEOUT.as_secs() / 60 })?;
    let outcome = async {
        let granted = exchange(callback, &asked, &authority, &manager, &client).await?;
        let kept = Kept {
            server: key.url().clone(),
            issuer: authority.issuer.clone(),
            resource: asked.resource.clone(),
            token_endpoint: authority.token_endpoint.clone(),
            revocation_endpoint: authority.revocation_endpoint.clone(),
            client_id: registered.client_id.clone(),
            client_secret: registered.client_secret.clone().map(Secret::new),
            secret_in: authority.secret_in,
            scopes: granted.scopes().unwrap_or(scopes),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            expires_in: granted.expires_in,
            received_at: now(),
        };
        logins.folder.lock(&key).await?.keep(&kept)?;
        Ok(Login::from_stored(&kept))
    };
    let outcome: Result<Login, LoginError> = outcome.await;
    browser.tell(outcome.as_ref().err()).await;
    outcome
}

/// What to ask for: what the person said, or what the server wants.
async fn scopes(
    request: &LoginRequest,
    authority: &Authority,
    manager: &AuthorizationManager,
) -> Vec<String> {
    if request.scopes.is_empty() {
        return scopes_in(&manager.select_initial_scopes(&[]).await.join(" "));
    }
    let mut scopes = request.scopes.clone();
    // Without it some authorities give no refresh token.
    let offline = "offline_access";
    if authority.offers_offline_access && !scopes.iter().any(|scope| scope == offline) {
        scopes.push(offline.to_owned());
    }
    scopes
}

/// Who we are there: a client that is known, a document about us, or a registration, in this order.
async fn identity(
    request: &LoginRequest,
    authority: &Authority,
    manager: &mut AuthorizationManager,
    client: &Guarded,
    redirect: &str,
    scopes: &[&str],
) -> Result<OAuthClientConfig, LoginError> {
    if let Some(id) = &request.client_id {
        let config = OAuthClientConfig::new(id, redirect);
        return Ok(match &request.client_secret {
            Some(secret) => config.with_client_secret(secret.expose()),
            None => config,
        });
    }
    if let Some(document) = &request.client_metadata_url
        && authority.takes_client_metadata
    {
        // Its URL is the client's name there: nothing but `https`, and more than a host.
        return match Url::parse(document) {
            Ok(url) if url.scheme() == "https" && url.path() != "/" => {
                Ok(OAuthClientConfig::new(document, redirect))
            }
            _ => Err(Refusal::new(Rule::Transport, document).into()),
        };
    }
    if authority.metadata.registration_endpoint.is_none() {
        return Err(LoginError::Denied {
            said: "it registers no clients: name one that it knows with --client-id".to_owned(),
        });
    }
    let registered = manager.register_client(CLIENT_NAME, redirect, scopes).await;
    let registered = registered.map_err(|error| reason(client, &error))?;
    let secret = registered.client_secret.as_deref().unwrap_or_default();
    if registered.client_id.len().max(secret.len()) > LONGEST_NAME {
        return Err(Refusal::new(Rule::Answer, "a client's name without end").into());
    }
    Ok(registered)
}

/// The authorization request, as it stands in the URL for the browser.
struct Asked {
    url: Url,
    state: String,
    resource: String,
}

impl Asked {
    fn parse(text: &str, policy: &Policy) -> Result<Self, LoginError> {
        let url = policy.parse(text)?;
        // An endpoint with parameters of its own could contradict ours.
        let one = |name: &str| {
            let mut values = url.query_pairs().filter(|(key, _)| key == name);
            match (values.next(), values.next()) {
                (Some((_, value)), None) => Ok(value.into_owned()),
                _ => Err(Refusal::new(Rule::Form, &format!("not one {name} in {url}"))),
            }
        };
        for name in ["client_id", "redirect_uri", "response_type", "code_challenge"] {
            one(name)?;
        }
        if one("code_challenge_method")? != "S256" {
            return Err(Refusal::new(Rule::Pkce, url.as_str()).into());
        }
        let resource = one("resource")?;
        if !policy.is_resource(&resource) {
            return Err(Refusal::new(Rule::Resource, &resource).into());
        }
        Ok(Self { state: one("state")?, resource, url })
    }
}

/// The tokens for what the browser brought.
async fn exchange(
    callback: Callback,
    asked: &Asked,
    authority: &Authority,
    manager: &AuthorizationManager,
    client: &Guarded,
) -> Result<Granted, LoginError> {
    let (code, issuer) = match callback {
        Callback::Granted { code, issuer } => (code, issuer),
        // Also a no has to come from whom we asked.
        Callback::Denied { issuer: Some(other), .. } if other != authority.issuer => {
            return Err(Refusal::new(Rule::Issuer, &other).into());
        }
        Callback::Denied { said, .. } => return Err(LoginError::Denied { said }),
        Callback::NotOurs { .. } => return Err(LoginError::Denied { said: String::new() }),
    };
    let token = manager
        .exchange_code_for_token_with_issuer(code.expose(), &asked.state, issuer.as_deref())
        .await
        .map_err(|error| reason(client, &error))?;
    let json = serde_json::to_vec(&token)
        .map_err(|_| Refusal::new(Rule::Token, "an answer that is no token response"))?;
    Ok(Granted::read(&json)?)
}

/// An authorization server that keeps to the rules.
pub(crate) struct Authority {
    pub(crate) issuer: String,
    pub(crate) token_endpoint: Url,
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) secret_in: SecretIn,
    pub(crate) offers_offline_access: bool,
    pub(crate) takes_client_metadata: bool,
    pub(crate) metadata: AuthorizationMetadata,
}

/// Finds the authority of the manager's server.
pub(crate) async fn discover(
    manager: &AuthorizationManager,
    client: &Guarded,
    policy: &Policy,
) -> Result<Authority, LoginError> {
    let found = manager.resolve_metadata().await.map_err(|error| reason(client, &error))?;
    // rmcp would go on with endpoints that it made up.
    if !found.source.is_discovered() {
        return Err(Refusal::new(Rule::Metadata, "no metadata at any well-known place").into());
    }
    Ok(check(found.metadata, policy)?)
}

fn check(metadata: AuthorizationMetadata, policy: &Policy) -> Result<Authority, Refusal> {
    let issuer = metadata.issuer.clone().ok_or_else(|| Refusal::new(Rule::Issuer, "none"))?;
    policy.parse(&issuer)?;
    // A server that does not say so is tolerated by rmcp, and refused by the protocol's text.
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return Err(Refusal::new(Rule::Pkce, &format!("{methods:?}")));
    }
    policy.parse(&metadata.authorization_endpoint)?;
    let token_endpoint = policy.parse(&metadata.token_endpoint)?;
    if let Some(endpoint) = &metadata.registration_endpoint {
        policy.parse(endpoint)?;
    }
    let further = |name: &str| metadata.additional_fields.get(name);
    let revocation = further("revocation_endpoint").and_then(Value::as_str);
    let revocation_endpoint = revocation.map(|endpoint| policy.parse(endpoint)).transpose()?;
    let ways = further("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let has = |way| ways.is_some_and(|ways| ways.iter().any(|known| known == way));
    let secret_in = match (has("client_secret_post"), has("client_secret_basic")) {
        (true, false) => SecretIn::Body,
        _ => SecretIn::Header,
    };
    let scopes = metadata.scopes_supported.as_deref().unwrap_or_default();
    Ok(Authority {
        issuer,
        token_endpoint,
        revocation_endpoint,
        secret_in,
        offers_offline_access: scopes.iter().any(|scope| scope == "offline_access"),
        takes_client_metadata: further("client_id_metadata_document_supported")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        metadata,
    })
}

/// What a failure of rmcp comes down to. A text of its is shown only where it cannot quote an
/// answer that holds tokens.
pub(crate) fn reason(client: &Guarded, error: &AuthError) -> LoginError {
    if let Some(failure) = client.failure() {
        return failure;
    }
    let (rule, seen) = match error {
        AuthError::AuthorizationServerMismatch { received_issuer, .. } => {
            (Rule::Issuer, received_issuer.clone())
        }
        AuthError::AuthorizationServerMissingIssuer { .. } => (Rule::Issuer, "none".to_owned()),
        AuthError::PkceUnsupported => (Rule::Pkce, "other methods".to_owned()),
        AuthError::TokenExchangeFailed(_) => {
            (Rule::Token, "an answer that is no token response".to_owned())
        }
        AuthError::RegistrationFailed(_) => {
            (Rule::Metadata, "an answer that is no registration".to_owned())
        }
        error => (Rule::Metadata, error.to_string()),
    };
    Refusal::new(rule, &seen).into()
}
