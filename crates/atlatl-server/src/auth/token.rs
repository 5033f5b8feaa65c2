//! Token: who asks, by the word of an authorization server (RFC 7519, RFC 9068, RFC 8725).
//!
//! Signatures are checked by a library, and everything else here: a header or payload is read once,
//! by one reader, so that nothing is checked in one form and used in another; and the time comes in.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};

use crate::auth::claims;
use crate::auth::header::TokenHeader;
use crate::auth::key_set::KeySet;
use crate::auth::principal::Principal;

const MAX_TOKEN_LEN: usize = 8 * 1024;

/// What a token must say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRules {
    /// Who issued it, to the letter.
    pub issuer: String,
    /// For whom: it must name one of these, to the letter.
    pub audiences: Vec<String>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
}

impl TokenRules {
    /// Tokens of `issuer` for any of `audiences`, whose tenant stands in `tenant_claim`.
    pub fn new(
        issuer: impl Into<String>,
        audiences: impl IntoIterator<Item = impl Into<String>>,
        tenant_claim: impl Into<String>,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            audiences: audiences.into_iter().map(Into::into).collect(),
            tenant_claim: tenant_claim.into(),
        }
    }
}

/// Why a token lets nobody in. Nothing of the token is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is no token, or too long.
    #[error("this is no signed token")]
    Malformed,
    /// It is of another type, brings its own key, or wants something that is not done here.
    #[error("the header of the token asks for something that is not done here")]
    Header,
    /// Its signature is of a kind that is not taken, or not of the kind of its key.
    #[error("the token is signed with an algorithm that is not taken")]
    Algorithm,
    /// No key has its name. The authority may have a new one: fetch the keys, and ask again.
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    /// The signature is wrong.
    #[error("the signature of the token is wrong")]
    Signature,
    /// Somebody else issued it.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is for somebody else.
    #[error("the token is for another audience")]
    Audience,
    /// It does not say when it expires, or a time in it is no whole number of seconds.
    #[error("the token has no proper times")]
    Times,
    /// It was good once.
    #[error("the token has expired")]
    Expired,
    /// It will be good, or its issuer's clock is ahead of ours.
    #[error("the token is not good yet")]
    NotYet,
    /// It names nobody.
    #[error("the token has no proper subject")]
    Subject,
    /// It names no tenant.
    #[error("the token has no proper tenant")]
    Tenant,
}

/// Whom `token` lets in now, by `rules`, if one of `keys` signed it.
pub fn verify(
    token: &str,
    rules: &TokenRules,
    keys: &KeySet,
    now: DateTime<Utc>,
) -> Result<Principal, TokenError> {
    if token.len() > MAX_TOKEN_LEN {
        return Err(TokenError::Malformed);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(TokenError::Malformed)?;
    // A further full stop is in the payload then, and no sign of this alphabet.
    let [header, payload, signature] = [header, payload, signature].map(decode);
    let (header, payload, signature) = (header?, payload?, signature?);
    let header = TokenHeader::read(&header)?;
    let key = keys.find(header.kid.as_deref()).ok_or(TokenError::UnknownKey)?;
    if !key.takes(header.algorithm) {
        return Err(TokenError::Algorithm);
    }
    if !key.signed(header.algorithm, message, &signature) {
        return Err(TokenError::Signature);
    }
    claims::principal(&payload, rules, now)
}

/// One form only: no padding, no other alphabet, no bits left over.
fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}
