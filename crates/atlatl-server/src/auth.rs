//! Who may ask a server, for which tenant, and how often.
//!
//! Somebody brings an API key, of which the server keeps a [`KeyRecord`], or a token of an
//! authorization server, which [`verify`] checks with the authority's [`KeySet`]. Either gives a
//! [`Principal`]: a tenant, a subject, and the scopes that were given. Nothing here reads a file, the
//! clock, the environment or the network: randomness, keys and the time come in as arguments.
//!
//! ```
//! use atlatl_server::auth::{ApiKey, KeyRecord, Scope, Scopes, bearer};
//! use chrono::DateTime;
//!
//! // Made once, and shown to whoever asked for it. The bytes come from the system.
//! let key = ApiKey::new([7; 48]);
//! let record = KeyRecord::new(key.id(), "acme", key.digest(), Scopes::from(Scope::Read));
//!
//! // Brought with a request.
//! let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
//! let header = format!("Bearer {}", key.shown());
//! let brought = ApiKey::parse(bearer([header.as_bytes()]).unwrap()).unwrap();
//! let principal = record.admits(&brought, now).unwrap();
//! assert_eq!(principal.tenant, "acme");
//! assert!(principal.scopes.has(Scope::Read) && !principal.scopes.has(Scope::Write));
//! ```

mod api_key;
mod authenticator;
mod bearer;
mod issuer;
mod key_set;
mod principal;
mod rate_limit;
mod token;

pub use api_key::{ApiKey, KeyRecord};
pub use authenticator::{ApiKeyLookup, AuthError, Authenticator};
pub use bearer::{
    AuthorizationError, Challenge, ResourceMetadata, WELL_KNOWN, bearer, metadata_url,
};
pub use issuer::{Fetch, Issuer, JwksCache};
pub use key_set::{KeySet, KeySetError};
pub use principal::{AuthScope, Principal, PrincipalError, Scopes, is_tenant};
pub use rate_limit::{RateLimit, TokenBucket};
pub use token::{TokenError, TokenRules, verify};

// Former names, until every crate of the workspace uses the new ones.
#[doc(hidden)]
pub use {
    authenticator::ApiKeyLookup as Keys, principal::AuthScope as Scope,
    rate_limit::RateLimit as Limit,
};
