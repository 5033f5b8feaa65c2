//! The state of an authorization server, its faults, and the signer of access tokens.
//!
//! The private keys beside this file are for tests and public.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// The number of requests by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Registrations of clients.
    pub registrations: usize,
    /// Visits to the authorization endpoint that ended in a code.
    pub codes: usize,
    /// All requests to the token endpoint.
    pub token_requests: usize,
    /// Requests to refresh a token.
    pub refreshes: usize,
    /// Refresh tokens that were used twice, which indicates a theft.
    pub reuses: usize,
    /// Requests to revoke a token.
    pub revocations: usize,
    /// Requests that broke a rule.
    pub violations: usize,
}

/// A registered client.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) redirect_uri: String,
    pub(super) secret: Option<String>,
}

/// An issued authorization code.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scope: String,
}

/// An access token or a refresh token.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) client: String,
    pub(super) audience: String,
    pub(super) scope: String,
    /// Tokens of one login, which are revoked together if a refresh token is used twice.
    pub(super) family: usize,
    pub(super) ends: Instant,
    pub(super) used: bool,
}

/// Clients, codes, tokens, recorded requests and settings of an authorization server.
#[derive(Debug)]
pub struct AuthorityState {
    /// The number of requests by kind.
    pub counts: Counts,
    /// How long access tokens live.
    pub lifetime: Duration,
    /// The lifetime that token responses claim, if it differs from the real one.
    pub claimed_lifetime: Option<u64>,
    /// Rules that the server breaks.
    pub faults: Vec<AuthorityFault>,
    /// Every `Authorization` header at the protected endpoint; empty if there was none.
    pub seen: Vec<String>,
    /// Reasons for refused requests.
    pub refusals: Vec<String>,
    /// The scope that the protected endpoint requires.
    pub wanted_scope: Option<String>,
    /// The path of the protected resource, which may be above the endpoint's.
    pub resource_path: &'static str,
    /// Signs tokens for a resource on another server.
    pub signer: Option<AccessTokenSigner>,
    pub(super) base: String,
    pub(super) clients: BTreeMap<String, Client>,
    pub(super) codes: BTreeMap<String, Code>,
    pub(super) access: BTreeMap<String, Token>,
    pub(super) refresh: BTreeMap<String, Token>,
    serial: usize,
}

impl AuthorityState {
    pub(super) fn new(faults: &[AuthorityFault]) -> Self {
        Self {
            counts: Counts::default(),
            lifetime: Duration::from_hours(1),
            claimed_lifetime: None,
            faults: faults.to_vec(),
            seen: Vec::new(),
            refusals: Vec::new(),
            wanted_scope: None,
            resource_path: "/mcp",
            signer: None,
            base: String::new(),
            clients: BTreeMap::new(),
            codes: BTreeMap::new(),
            access: BTreeMap::new(),
            refresh: BTreeMap::new(),
            serial: 0,
        }
    }

    /// Revokes all access tokens.
    pub fn revoke_access(&mut self) {
        self.access.clear();
    }

    /// Revokes all access and refresh tokens.
    pub fn revoke_all(&mut self) {
        self.access.clear();
        self.refresh.clear();
    }

    /// All secrets that were issued so far, to check that none of them is printed.
    pub fn secrets(&self) -> Vec<String> {
        let secrets = self.clients.values().filter_map(|client| client.secret.clone());
        self.access.keys().chain(self.refresh.keys()).cloned().chain(secrets).collect()
    }

    pub(super) fn fault<T>(&self, find: impl Fn(&AuthorityFault) -> Option<T>) -> Option<T> {
        self.faults.iter().find_map(find)
    }

    pub(super) fn has(&self, fault: &AuthorityFault) -> bool {
        self.faults.contains(fault)
    }

    pub(super) fn redirect_metadata_to(&self) -> Option<String> {
        self.fault(|fault| match fault {
            AuthorityFault::RedirectMetadata(url) => Some(url.clone()),
            _ => None,
        })
    }

    pub(super) fn resource(&self) -> String {
        if let Some(signer) = &self.signer {
            return signer.resource.clone();
        }
        format!("{}{}", self.base, self.resource_path)
    }

    /// A new identifier. It is predictable, so that tests can search for it in outputs.
    pub(super) fn next(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("{kind}-{:04}-s3cr3t", self.serial)
    }

    pub(super) fn next_family(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }
}

/// A rule that an authorization server breaks on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorityFault {
    /// The metadata names another issuer.
    IssuerInMetadata(String),
    /// The callback names another issuer.
    IssuerInCallback(String),
    /// The callback names no issuer, though the metadata says that it does.
    NoIssuerInCallback,
    /// The protected resource metadata is about another resource.
    Resource(String),
    /// Tokens are for another audience than the requested one.
    Audience(String),
    /// The supported PKCE methods; `None` if the metadata omits them.
    PkceMethods(Option<Vec<String>>),
    /// Tokens are of another type.
    TokenType(String),
    /// A field of the metadata has another value.
    Metadata(&'static str, String),
    /// The authorization servers of the protected resource.
    AuthorizationServers(Vec<String>),
    /// The `resource_metadata` URL in the challenge.
    ChallengePointer(String),
    /// The metadata of the authorization server redirects to another URL.
    RedirectMetadata(String),
    /// Every refresh is refused with this error.
    RefuseRefresh(&'static str),
    /// The token endpoint fails with status 503.
    TokenEndpointDown,
    /// A refresh takes this long.
    SlowRefresh(Duration),
    /// A refresh returns no new refresh token.
    NoRotation,
    /// A login returns no refresh token.
    NoRefreshToken,
    /// Registered clients get a secret and have to send it.
    ClientSecrets,
    /// Not a fault: a client id may be the URL of a metadata document, which is not fetched.
    ClientDocuments,
    /// The user denies the request.
    PersonSaysNo,
    /// The token endpoint redirects.
    RedirectToken(String),
    /// The metadata has this many bytes of padding.
    HugeMetadata(usize),
}

const KEYS: [&[u8]; 2] = [include_bytes!("keys/one.pk8"), include_bytes!("keys/two.pk8")];

/// Signs self-contained access tokens (JWT).
#[derive(Debug, Clone)]
pub struct AccessTokenSigner {
    /// The tenant that tokens name.
    pub tenant: String,
    /// The audience of tokens.
    pub resource: String,
    /// The index of the key that signs and is published.
    pub key: usize,
    /// The scope of tokens, if it differs from the requested one.
    pub scope: Option<String>,
}

impl AccessTokenSigner {
    /// A signer of tokens for `resource` and `tenant`.
    pub fn new(tenant: &str, resource: &str) -> Self {
        Self { tenant: tenant.to_owned(), resource: resource.to_owned(), key: 0, scope: None }
    }

    /// The claims of a token that is valid now.
    pub fn claims(&self, issuer: &str, scope: &str, lifetime: u64) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        json!({
            "iss": issuer,
            "aud": self.resource,
            "sub": "person@example",
            "exp": now + lifetime,
            "iat": now,
            "scope": self.scope.as_deref().unwrap_or(scope),
            "tenant": self.tenant,
        })
    }

    /// Signs these claims.
    ///
    /// # Panics
    ///
    /// Panics if the key cannot sign.
    pub fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("at+jwt".to_owned());
        header.kid = Some(self.name());
        encode(&header, claims, &self.key()).expect("a signature")
    }

    /// The published key set, which contains the current key.
    ///
    /// # Panics
    ///
    /// Panics if the key has no public half.
    pub fn key_set(&self) -> Value {
        let mut key = Jwk::from_encoding_key(&self.key(), Algorithm::ES256).expect("a public key");
        key.common.key_id = Some(self.name());
        json!({"keys": [key]})
    }

    fn name(&self) -> String {
        format!("key-{}", self.key)
    }

    fn key(&self) -> EncodingKey {
        EncodingKey::from_ec_der(KEYS[self.key % KEYS.len()])
    }
}
