//! Refreshing: a new access token for a refresh token (RFC 6749, 6).
//!
//! Not rmcp's `refresh_token`: it discovers the metadata anew or forgets which `resource` the login
//! was made for, asks for `offline_access` where that was never granted, and turns the reason of a
//! failure into a text.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use form_urlencoded::Serializer;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use url::Url;

use crate::error::LoginError;
use crate::sanitize::shown;
use crate::secret::Secret;
use crate::ssrf_guard::Guarded;
use crate::stored_token::{Kept, SecretIn};
use crate::token::Granted;

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
