//! Authentication and authorization: principals, scopes, API keys, access tokens and rate limits.
//!
//! A client sends an API key, of which the server stores a [`KeyRecord`], or an access token of an
//! authorization server, which [`verify`] checks with the server's [`KeySet`] and maps by its
//! [`TokenRules`]. Either yields a [`Principal`]: a tenant, a subject and the granted scopes. Nothing
//! in this module reads a file, the clock, the environment or the network: randomness, keys and the
//! time are arguments.
//!
//! ```
//! use atlatl_server::auth::{ApiKey, AuthScope, KeyRecord, Scopes, bearer};
//! use chrono::DateTime;
//!
//! // Created once and shown to the administrator. The bytes come from the operating system.
//! let key = ApiKey::new([7; 48]);
//! let record = KeyRecord::new(key.id(), "acme", key.digest(), Scopes::from(AuthScope::Read));
//!
//! // Sent with a request.
//! let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
//! let header = format!("Bearer {}", key.expose());
//! let sent = ApiKey::parse(bearer([header.as_bytes()]).unwrap()).unwrap();
//! let principal = record.admits(&sent, now).unwrap();
//! assert_eq!(principal.tenant, "acme");
//! assert!(principal.scopes.has(AuthScope::Read) && !principal.scopes.has(AuthScope::Write));
//! ```

mod api_key;
mod authenticator;
mod bearer;
mod claims;
mod issuer;
mod key_set;
mod mapping;
mod principal;
mod rate_limit;
mod refusal;
mod token;

pub use api_key::{ApiKey, KeyRecord};
pub use authenticator::{ApiKeyLookup, AuthError, Authenticator};
pub use bearer::{
    AuthorizationError, Challenge, ResourceMetadata, WELL_KNOWN, bearer, metadata_url,
};
pub use issuer::{Fetch, FetchError, Issuer, JwksCache};
pub use key_set::{KeySet, KeySetError};
pub use principal::{AuthScope, Principal, PrincipalError, Scopes, is_tenant};
pub use rate_limit::{RateLimit, TokenBucket};
pub use refusal::{TokenError, TokenRefusal};
pub use token::{LoginHint, SignatureCheck, SignatureState, TokenReport, TokenRules, verify};
