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
use crate::error::{LoginError, Rule, RuleViolation};
use crate::http_transport::GuardedClient;
use crate::logins::{Login, Logins};
use crate::ssrf_guard::Policy;
use crate::token::{Secret, SecretIn, StoredLogin, TokenResponse, now, scopes_in};
use crate::token_store::ServerKey;

/// How long to wait for the person in the browser.
const BROWSER_TIMEOUT: Duration = Duration::from_mins(5);
/// The longest client id or secret that an authorization server may assign.
const MAX_CLIENT_ID_LEN: usize = 4096;
/// The client name that the authorization server shows.
const CLIENT_NAME: &str = "Atlatl";

/// A request to log in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoginRequest {
    /// The MCP server.
    pub server: Url,
    /// The scopes; empty for the defaults of the server.
    pub scopes: Vec<String>,
    /// The id of a client that is already registered.
    pub client_id: Option<String>,
    /// The secret of that client, if it has one.
    pub client_secret: Option<Secret>,
    /// The URL of a client metadata document, for authorization servers that support it.
    pub client_metadata_url: Option<String>,
    /// The loopback port of the callback; any free port by default.
    pub port: Option<u16>,
}

impl LoginRequest {
    /// Creates a request for `server` with defaults for everything else.
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

/// Logs in. Passes the checked URL that the person has to visit to `open`, then waits for the
/// callback for at most five minutes.
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
    // Checks early that the login can be stored, before the person does anything.
    drop(logins.folder.lock(&key).await?);
    let listener = Listener::bind(request.port).await?;
    let client = Arc::new(logins.client(&server)?);
    let shared = Arc::clone(&client);
    let mut manager = AuthorizationManager::new_with_oauth_http_client(server.clone(), shared)
        .await
        .map_err(|error| login_error(&client, &error))?;
    let authority = discover(&manager, &client, &policy).await?;
    manager.set_metadata(authority.metadata.clone());
    let scopes = scopes(request, &authority, &manager).await;
    let refs: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let redirect = listener.redirect_uri();
    let registered = identity(request, &authority, &mut manager, &client, &redirect, &refs).await?;
    manager.configure_client(registered.clone()).map_err(|error| login_error(&client, &error))?;
    let url =
        manager.get_authorization_url(&refs).await.map_err(|error| login_error(&client, &error))?;
    let authorization = AuthorizationRequest::parse(&url, &policy)?;
    open(&authorization.url);
    let waited = timeout(BROWSER_TIMEOUT, listener.wait(&authorization.state)).await;
    let (callback, browser) =
        waited.map_err(|_| LoginError::TimedOut { minutes: BROWSER_TIMEOUT.as_secs() / 60 })?;
    let outcome = async {
        let granted = exchange(callback, &authorization, &authority, &manager, &client).await?;
        let stored = StoredLogin {
            server: key.url().clone(),
            issuer: authority.issuer.clone(),
            resource: authorization.resource.clone(),
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
        logins.folder.lock(&key).await?.store(&stored)?;
        Ok(Login::from_stored(&stored))
    };
    let outcome: Result<Login, LoginError> = outcome.await;
    browser.respond(outcome.as_ref().err()).await;
    outcome
}

/// The scopes to request: those of the person, or those that the server wants.
async fn scopes(
    request: &LoginRequest,
    authority: &Authority,
    manager: &AuthorizationManager,
) -> Vec<String> {
    if request.scopes.is_empty() {
        return scopes_in(&manager.select_initial_scopes(&[]).await.join(" "));
    }
    let mut scopes = request.scopes.clone();
    // Without it some authorization servers issue no refresh token.
    let offline = "offline_access";
    if authority.offers_offline_access && !scopes.iter().any(|scope| scope == offline) {
        scopes.push(offline.to_owned());
    }
    scopes
}

/// The client identity: a registered client, a client metadata document, or a dynamic registration,
/// in this order.
async fn identity(
    request: &LoginRequest,
    authority: &Authority,
    manager: &mut AuthorizationManager,
    client: &GuardedClient,
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
        // Its URL is the client id: only `https`, and with a path.
        return match Url::parse(document) {
            Ok(url) if url.scheme() == "https" && url.path() != "/" => {
                Ok(OAuthClientConfig::new(document, redirect))
            }
            _ => Err(RuleViolation::new(Rule::Transport, document).into()),
        };
    }
    if authority.metadata.registration_endpoint.is_none() {
        return Err(LoginError::Denied {
            message:
                "it does not support client registration: pass a registered client with --client-id"
                    .to_owned(),
        });
    }
    let registered = manager.register_client(CLIENT_NAME, redirect, scopes).await;
    let registered = registered.map_err(|error| login_error(client, &error))?;
    let secret = registered.client_secret.as_deref().unwrap_or_default();
    if registered.client_id.len().max(secret.len()) > MAX_CLIENT_ID_LEN {
        return Err(RuleViolation::new(Rule::Answer, "a client id that is too long").into());
    }
    Ok(registered)
}

/// The authorization request, parsed from the URL for the browser.
struct AuthorizationRequest {
    url: Url,
    state: String,
    resource: String,
}

impl AuthorizationRequest {
    fn parse(text: &str, policy: &Policy) -> Result<Self, LoginError> {
        let url = policy.parse(text)?;
        // An endpoint with its own parameters could contradict ours.
        let one = |name: &str| {
            let mut values = url.query_pairs().filter(|(key, _)| key == name);
            match (values.next(), values.next()) {
                (Some((_, value)), None) => Ok(value.into_owned()),
                _ => Err(RuleViolation::new(
                    Rule::Form,
                    &format!("missing or repeated {name} in {url}"),
                )),
            }
        };
        for name in ["client_id", "redirect_uri", "response_type", "code_challenge"] {
            one(name)?;
        }
        if one("code_challenge_method")? != "S256" {
            return Err(RuleViolation::new(Rule::Pkce, url.as_str()).into());
        }
        let resource = one("resource")?;
        if !policy.is_resource(&resource) {
            return Err(RuleViolation::new(Rule::Resource, &resource).into());
        }
        Ok(Self { state: one("state")?, resource, url })
    }
}

/// Exchanges the code of the callback for tokens.
async fn exchange(
    callback: Callback,
    authorization: &AuthorizationRequest,
    authority: &Authority,
    manager: &AuthorizationManager,
    client: &GuardedClient,
) -> Result<TokenResponse, LoginError> {
    let (code, issuer) = match callback {
        Callback::Granted { code, issuer } => (code, issuer),
        // A denial must also come from the expected issuer.
        Callback::Denied { issuer: Some(other), .. } if other != authority.issuer => {
            return Err(RuleViolation::new(Rule::Issuer, &other).into());
        }
        Callback::Denied { message, .. } => return Err(LoginError::Denied { message }),
        Callback::NotOurs { .. } => return Err(LoginError::Denied { message: String::new() }),
    };
    let token = manager
        .exchange_code_for_token_with_issuer(code.expose(), &authorization.state, issuer.as_deref())
        .await
        .map_err(|error| login_error(client, &error))?;
    let json = serde_json::to_vec(&token)
        .map_err(|_| RuleViolation::new(Rule::Token, "an invalid token response"))?;
    Ok(TokenResponse::read(&json)?)
}

/// An authorization server that passed all checks.
pub(crate) struct Authority {
    pub(crate) issuer: String,
    pub(crate) token_endpoint: Url,
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) secret_in: SecretIn,
    pub(crate) offers_offline_access: bool,
    pub(crate) takes_client_metadata: bool,
    pub(crate) metadata: AuthorizationMetadata,
}

/// Discovers the authorization server of the manager's server.
pub(crate) async fn discover(
    manager: &AuthorizationManager,
    client: &GuardedClient,
    policy: &Policy,
) -> Result<Authority, LoginError> {
    let found = manager.resolve_metadata().await.map_err(|error| login_error(client, &error))?;
    // rmcp would continue with default endpoints.
    if !found.source.is_discovered() {
        return Err(RuleViolation::new(Rule::Metadata, "no metadata at any well-known URL").into());
    }
    Ok(check(found.metadata, policy)?)
}

fn check(metadata: AuthorizationMetadata, policy: &Policy) -> Result<Authority, RuleViolation> {
    let issuer = metadata.issuer.clone().ok_or_else(|| RuleViolation::new(Rule::Issuer, "none"))?;
    policy.parse(&issuer)?;
    // rmcp tolerates a server that does not announce PKCE; the specification refuses it.
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return Err(RuleViolation::new(Rule::Pkce, &format!("{methods:?}")));
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

/// Converts an error of rmcp. Its text is used only if it cannot quote a response with tokens.
pub(crate) fn login_error(client: &GuardedClient, error: &AuthError) -> LoginError {
    if let Some(failure) = client.take_failure() {
        return failure;
    }
    let (rule, seen) = match error {
        AuthError::AuthorizationServerMismatch { received_issuer, .. } => {
            (Rule::Issuer, received_issuer.clone())
        }
        AuthError::AuthorizationServerMissingIssuer { .. } => (Rule::Issuer, "none".to_owned()),
        AuthError::PkceUnsupported => (Rule::Pkce, "other methods".to_owned()),
        AuthError::TokenExchangeFailed(_) => (Rule::Token, "an invalid token response".to_owned()),
        AuthError::RegistrationFailed(_) => {
            (Rule::Metadata, "an invalid registration response".to_owned())
        }
        error => (Rule::Metadata, error.to_string()),
    };
    RuleViolation::new(rule, &seen).into()
}
