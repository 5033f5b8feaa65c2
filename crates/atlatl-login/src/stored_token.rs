//! The stored form of a login.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::secret::{Bearer, Secret};
use crate::token::Granted;

/// A token with less to live is refreshed before it is used.
const MARGIN_SECONDS: u64 = 60;

/// How a client proves at the token endpoint that it is itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SecretIn {
    Header,
    Body,
}

/// A login at one server. The endpoints are those that were checked when it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) server: Url,
    pub(crate) issuer: String,
    pub(crate) resource: String,
    pub(crate) token_endpoint: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<Secret>,
    pub(crate) secret_in: SecretIn,
    pub(crate) scopes: Vec<String>,
    pub(crate) access_token: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_in: Option<u64>,
    /// Seconds since 1970.
    pub(crate) received_at: u64,
}

impl Kept {
    pub(crate) fn bearer(&self) -> Bearer {
        Bearer::new(self.access_token.clone())
    }

    pub(crate) fn expires_at(&self) -> Option<u64> {
        self.expires_in.map(|seconds| self.received_at.saturating_add(seconds))
    }

    /// Whether the token is good for a while. One of a short life is good for half of it, else it
    /// would be refreshed at every use.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        let margin = self.expires_in.map_or(0, |life| MARGIN_SECONDS.min(life / 2));
        self.lives_beyond(now.saturating_add(margin))
    }

    /// Whether the token has not expired.
    pub(crate) fn is_valid(&self, now: u64) -> bool {
        self.lives_beyond(now)
    }

    fn lives_beyond(&self, moment: u64) -> bool {
        self.expires_at().is_none_or(|end| end > moment)
    }

    /// The same login with new tokens. What the answer leaves out stays (RFC 6749, 6).
    pub(crate) fn renewed(&self, granted: Granted, now: u64) -> Self {
        let scopes = granted.scopes().unwrap_or_else(|| self.scopes.clone());
        Self {
            scopes,
            access_token: granted.access_token,
            refresh_token: granted.refresh_token.or_else(|| self.refresh_token.clone()),
            expires_in: granted.expires_in,
            received_at: now,
            ..self.clone()
        }
    }
}

/// Seconds since 1970, by the machine's clock.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
