//! Revoking: telling the authority that a login is over (RFC 7009).

use std::time::Duration;

use tokio::time::timeout;

use crate::refresh::ask;
use crate::ssrf_guard::Guarded;
use crate::stored_token::Kept;

/// Whoever logs out does not wait for long.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(10);

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
