//! Discovery: which authority a server trusts, checked. The way there is rmcp's.

use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata};
use serde_json::Value;
use url::Url;

use crate::error::LoginError;
use crate::metadata_rules::{Refusal, Rule};
use crate::policy::Policy;
use crate::ssrf_guard::Guarded;
use crate::stored_token::SecretIn;

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
