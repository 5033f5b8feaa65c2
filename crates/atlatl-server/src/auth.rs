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
mod authorization;
mod challenge;
mod claims;
mod header;
mod issuer;
mod jwks_refresh;
mod key_record;
mod key_set;
mod metadata;
mod principal;
mod principal_cache;
mod public_key;
mod rate_limit;
mod scope;
mod strict_json;
mod token;

pub use api_key::ApiKey;
pub use authenticator::{AuthError, Authenticator, Keys};
pub use authorization::{AuthorizationError, bearer};
pub use challenge::Challenge;
pub use issuer::{Fetch, Issuer};
pub use jwks_refresh::JwksRefresh;
pub use key_record::KeyRecord;
pub use key_set::{KeySet, KeySetError};
pub use metadata::{ResourceMetadata, WELL_KNOWN, metadata_url};
pub use principal::{Principal, PrincipalError, is_tenant};
pub use rate_limit::{Limit, TokenBucket};
pub use scope::{Scope, Scopes};
pub use token::{TokenError, TokenRules, verify};
