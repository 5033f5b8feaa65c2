//! Authentication: who sends a request, by what `server.auth` names.

use std::sync::Arc;

use crate::auth::{Principal, Scope};
use axum::http::header;
use axum::http::request::Parts;
use lro_http::header::one;
use lro_http::{BearerTokens, user_id};

use crate::auth::{AuthError, Authenticator};

/// How requests prove who sends them.
#[derive(Clone)]
pub(super) enum Authentication {
    /// By a key or a token that names a tenant.
    Principals(Arc<Authenticator>),
    /// By a token of a file. All of them are one tenant, whose name this is.
    Tokens(BearerTokens, String),
    /// By their connection: the listener accepts those of one user alone. The name is the tenant's.
    SameUser(String),
}

impl Authentication {
    /// Who sends `request`.
    pub(super) async fn principal(&self, request: &Parts) -> Result<Principal, AuthError> {
        match self {
            Self::Principals(authenticator) => {
                authenticator.admit(&request.headers, request.uri.query()).await
            }
            Self::Tokens(tokens, tenant) => {
                let authorization = one(&request.headers, &header::AUTHORIZATION);
                let Some(line) = tokens.verify(authorization) else {
                    let sent = request.headers.contains_key(header::AUTHORIZATION);
                    return Err(if sent { AuthError::Invalid } else { AuthError::Missing });
                };
                owner(tenant, &format!("token:{line}"))
            }
            Self::SameUser(tenant) => owner(tenant, &format!("uid:{}", user_id())),
        }
    }

    /// What tells a client how to authenticate.
    pub(super) fn challenge(&self, denied: &AuthError) -> Option<String> {
        match self {
            Self::Principals(authenticator) => authenticator.challenge(denied),
            Self::Tokens(..) => matches!(denied, AuthError::Missing | AuthError::Invalid)
                .then(|| "Bearer".to_owned()),
            Self::SameUser(_) => None,
        }
    }

    /// Who issues tokens for this server (RFC 9728).
    pub(super) fn metadata(&self) -> Option<String> {
        match self {
            Self::Principals(authenticator) => authenticator.metadata(),
            Self::Tokens(..) | Self::SameUser(_) => None,
        }
    }
}

/// Someone who may do everything.
fn owner(tenant: &str, subject: &str) -> Result<Principal, AuthError> {
    Principal::new(tenant, subject, Scope::ALL.into_iter().collect())
        .map_err(|_| AuthError::UnknownTenant)
}
