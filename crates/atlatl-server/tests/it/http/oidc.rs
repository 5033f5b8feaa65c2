//! Access tokens of several issuers over HTTP: what the audit log and metrics say of refused ones, and
//! what the client is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use atlatl_memory::StoreError;
use atlatl_server::auth::{Authenticator, Fetch, FetchError, Issuer, TokenError, TokenRules};
use atlatl_server::event::{EventBus, ServerEventKind};
use atlatl_server::http::{HttpOptions, Metrics, Tenant, Tenants};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use lro::IdSeed;
use lro_core::config::{Config, IssuerConfig};
use serde_json::{Value, json};

use super::served::{Answer, Served};
use crate::fixture::{Kept, Place};

const RESOURCE: &str = "https://memory.example/mcp";
const ISSUERS: &str = include_str!("../../auth/issuers.json");
const SHAPES: &str = include_str!("../../auth/shapes.json");
const JWKS: &str = include_str!("../../auth/keys/jwks.json");
const KEYS_URL: &str = "https://keys.example/jwks.json";

fn der(pem: &str) -> Vec<u8> {
    let lines = pem.lines().skip_while(|line| !line.starts_with("-----")).skip(1);
    let text: String = lines.take_while(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(text).unwrap()
}

fn p256() -> EncodingKey {
    EncodingKey::from_ec_der(&der(include_str!("../../auth/keys/p256.pem")))
}

fn p384() -> EncodingKey {
    EncodingKey::from_ec_der(&der(include_str!("../../auth/keys/p384.pem")))
}

fn rsa() -> EncodingKey {
    EncodingKey::from_rsa_der(&der(include_str!("../../auth/keys/rsa.pem")))
}

fn other_rsa() -> EncodingKey {
    EncodingKey::from_rsa_der(&der(include_str!("../../auth/keys/rsa-other.pem")))
}

fn issuers() -> BTreeMap<String, IssuerConfig> {
    let issuers: Value = serde_json::from_str(ISSUERS).unwrap();
    Config::from_values([("server.issuers", issuers)]).unwrap().server.issuers
}

/// All issuers but the one that is called "away". They publish the same keys.
struct Published;

impl Fetch for Published {
    fn fetch(&self, url: &str) -> Result<String, FetchError> {
        if url == KEYS_URL {
            return Ok(JWKS.to_owned());
        }
        let (issuer, _) =
            url.split_once("/.well-known/openid-configuration").ok_or(FetchError::NotFound)?;
        let issuers = issuers();
        let is_it = |config: &&IssuerConfig| config.url.trim_end_matches('/') == issuer;
        let config = issuers.values().find(is_it).ok_or(FetchError::NotFound)?;
        if config.url.contains("away") {
            return Err(FetchError::Failed);
        }
        Ok(json!({"issuer": config.url, "jwks_uri": KEYS_URL}).to_string())
    }
}

/// Tenants that share a server: here only the way to them matters.
struct Known(Tenant);

#[async_trait]
impl Tenants for Known {
    fn cached(&self, name: &str) -> Option<Tenant> {
        matches!(name, "acme" | "globex" | "team-7").then(|| self.0.clone())
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        Ok(self.cached(name))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A server that accepts the tokens of all issuers.
struct Team {
    served: Served,
    events: Arc<Kept>,
    _place: Place,
}

/// A denial: the reason, the issuer and the subject.
type Denial = (&'static str, Option<String>, Option<String>);

impl Team {
    fn start() -> Self {
        let fetch: Arc<dyn Fetch> = Arc::new(Published);
        let authenticator = issuers().iter().fold(
            Authenticator::new(RESOURCE.to_owned(), IdSeed::from_system),
            |authenticator, (name, config)| {
                let rules = TokenRules::from_config(name, config, RESOURCE);
                authenticator.with_issuer(Issuer::new(rules, Arc::clone(&fetch)))
            },
        );
        let place = Place::new();
        let tenants = Arc::new(Known(Tenant::new(place.server())));
        let (events, metrics) = (Arc::<Kept>::default(), Arc::<Metrics>::default());
        let bus =
            EventBus::new(IdSeed::from_system).with(events.clone()).with(Arc::clone(&metrics) as _);
        let mut options = HttpOptions::default();
        options.metrics = metrics;
        let served = Served::for_many(tenants, Arc::new(authenticator), bus, options);
        Self { served, events, _place: place }
    }

    fn get(&self, path: &str, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.served.ask("GET", path, &[("Authorization", bearer.as_str())], "")
    }

    fn last_denial(&self) -> Option<Denial> {
        let events = self.events.0.lock().unwrap();
        events.iter().rev().find_map(|event| match &event.kind {
            ServerEventKind::AccessDenied { reason, issuer, subject, .. } => {
                Some((*reason, issuer.clone(), subject.clone()))
            }
            _ => None,
        })
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    IdSeed::from_system().now.timestamp()
}

/// The claims of a shape, with the issuer and times.
fn claims(name: &str) -> Value {
    let shapes: Vec<Value> = serde_json::from_str(SHAPES).unwrap();
    let shape = shapes.iter().find(|shape| shape["name"] == name).unwrap();
    claims_of(shape)
}

fn claims_of(shape: &Value) -> Value {
    let mut claims = shape["claims"].clone();
    claims["iss"] = json!(issuers()[shape["issuer"].as_str().unwrap()].url);
    claims["iat"] = json!(now());
    claims["exp"] = json!(now() + 300);
    claims
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "JWT", "kid": "p256"})
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of any two texts, signed with this key.
fn sign(header: &str, payload: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", encode(header), encode(payload));
    let signature = crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

fn signed(claims: &Value) -> String {
    sign(&header().to_string(), &claims.to_string(), &p256(), Algorithm::ES256)
}

#[test]
fn g47_tokens_of_every_shape_are_accepted_over_http() {
    let team = Team::start();
    let shapes: Vec<Value> = serde_json::from_str(SHAPES).unwrap();
    for shape in &shapes {
        let name = &shape["name"];
        let can_read = shape["principal"].as_str().unwrap().contains("memory:read");
        let answer = team.get("/v1/memories", &signed(&claims_of(shape)));
        assert_eq!(answer.status, if can_read { 200 } else { 403 }, "{name}: {answer:?}");
        if !can_read {
            assert_eq!(team.last_denial().unwrap().0, "scope", "{name}");
        }
    }
    // Workloads have their tokens from elsewhere, so their issuer is not for logins.
    let metadata = team.served.get("/.well-known/oauth-protected-resource").json();
    let urls: Vec<&str> = metadata["authorization_servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|url| url.as_str().unwrap())
        .collect();
    assert!(urls.contains(&"https://id.example/realms/team"), "{urls:?}");
    assert!(!urls.iter().any(|url| url.contains("github")), "{urls:?}");
    assert_eq!(urls.len(), issuers().len() - 1);
}

/// A token that is not accepted: what is wrong, the token, the reason, and the issuer that it names.
struct Wrong {
    name: String,
    token: String,
    reason: TokenError,
    issuer: Option<&'static str>,
}

/// Collects tokens of one issuer, each with one change of a good one.
struct Mutations {
    issuer: &'static str,
    good: Value,
    all: Vec<Wrong>,
}

impl Mutations {
    fn new(issuer: &'static str, shape: &str) -> Self {
        Self { issuer, good: claims(shape), all: Vec::new() }
    }

    fn token(&mut self, name: &str, token: String, reason: TokenError) {
        // Without a payload that can be parsed there is no issuer.
        let is_named = !matches!(reason, TokenError::Issuer | TokenError::Malformed);
        let issuer = is_named.then_some(self.issuer);
        let name = format!("{}: {name}", self.issuer);
        self.all.push(Wrong { name, token, reason, issuer });
    }

    /// A good signature over other claims.
    fn claim(&mut self, claim: &str, value: Value, reason: TokenError) {
        let mut claims = self.good.clone();
        let name = format!("{claim} = {value}");
        claims[claim] = value;
        self.token(&name, signed(&claims), reason);
    }

    fn without(&mut self, claim: &str, reason: TokenError) {
        let mut claims = self.good.clone();
        claims.as_object_mut().unwrap().remove(claim).unwrap();
        self.token(&format!("no {claim}"), signed(&claims), reason);
    }

    /// A good signature over another header.
    fn header(&mut self, member: &str, value: Value, reason: TokenError) {
        let mut header = header();
        let name = format!("header {member} = {value}");
        header[member] = value;
        let token = sign(&header.to_string(), &self.good.to_string(), &p256(), Algorithm::ES256);
        self.token(&name, token, reason);
    }

    /// Another key or algorithm than the header says.
    fn key(
        &mut self,
        name: &str,
        alg: &str,
        kid: &str,
        key: &EncodingKey,
        algorithm: Algorithm,
        reason: TokenError,
    ) {
        let header = json!({"alg": alg, "typ": "JWT", "kid": kid}).to_string();
        let token = sign(&header, &self.good.to_string(), key, algorithm);
        self.token(name, token, reason);
    }
}

fn wrong_forms() -> Vec<Wrong> {
    use TokenError::{Malformed, Signature};
    let mut wrong = Mutations::new("keycloak", "Keycloak: two realm roles");
    let good = signed(&wrong.good);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (head, payload) = message.split_once('.').unwrap();
    let text = wrong.good.to_string();
    let of = |payload: &str| sign(&header().to_string(), payload, &p256(), Algorithm::ES256);
    let twice = text.replacen('}', r#","roles":["memory-writer"]}"#, 1);
    for (name, token) in [
        ("one part", head.to_owned()),
        ("two parts", message.to_owned()),
        ("four parts", format!("{good}.{signature}")),
        ("five parts", format!("{good}.{signature}.{signature}")),
        ("empty parts", "..".to_owned()),
        ("no payload", format!("{head}..{signature}")),
        ("a list as payload", of("[]")),
        ("a text as payload", of("iss")),
        ("a claim twice", of(&text.replacen('{', r#"{"iss":"https://other.example","#, 1))),
        ("a nested claim twice", of(&twice)),
        ("a token in a token", of(&good)),
    ] {
        wrong.token(name, token, Malformed);
    }
    assert!(twice.contains(r#"],"roles":["#), "{twice}");
    let admin = text.replace("memory-reader", "memory-admin");
    let mut flipped = URL_SAFE_NO_PAD.decode(signature).unwrap();
    flipped[9] ^= 1;
    for (name, token) in [
        ("no signature", format!("{message}.")),
        ("zeros as signature", format!("{message}.{}", encode([0; 64]))),
        ("a bit flipped", format!("{message}.{}", encode(flipped))),
        ("another payload", format!("{head}.{}.{signature}", encode(admin))),
        ("the same header in other bytes", {
            let header = format!("{:#}", header());
            format!("{}.{payload}.{signature}", encode(header))
        }),
    ] {
        wrong.token(name, token, Signature);
    }
    wrong.all
}

fn wrong_headers() -> Vec<Wrong> {
    use TokenError::{Algorithm as Alg, Header, Signature, UnknownKey};
    let mut wrong = Mutations::new("keycloak", "Keycloak: two realm roles");
    for (member, value, reason) in [
        ("alg", json!("none"), Alg),
        ("alg", json!("None"), Alg),
        ("alg", json!("HS256"), Alg),
        ("alg", json!(["ES256"]), Alg),
        ("alg", json!(null), Alg),
        ("typ", json!("logout+jwt"), Header),
        ("typ", json!("JWE"), Header),
        ("typ", json!(["JWT"]), Header),
        ("crit", json!(["exp"]), Header),
        ("b64", json!(false), Header),
        ("jku", json!("https://evil.example/jwks.json"), Header),
        ("jwk", json!({"kty": "EC"}), Header),
        ("x5u", json!("https://evil.example/x"), Header),
        ("x5c", json!(["Y2VydA=="]), Header),
        ("kid", json!(7), Header),
        ("kid", json!(null), Header),
        ("kid", json!("other"), UnknownKey),
        ("kid", json!(""), UnknownKey),
        ("kid", json!("../../dev/null"), UnknownKey),
    ] {
        wrong.header(member, value, reason);
    }
    let secret = EncodingKey::from_secret(include_bytes!("../../auth/keys/rsa-public.pem"));
    wrong.key("the public key as secret", "HS256", "rsa", &secret, Algorithm::HS256, Alg);
    wrong.key("ES384 with P-256", "ES384", "p256", &p384(), Algorithm::ES384, Alg);
    wrong.key("RS256 with P-256", "RS256", "p256", &rsa(), Algorithm::RS256, Alg);
    wrong.key("another's key", "RS256", "rsa", &other_rsa(), Algorithm::RS256, Signature);
    wrong.key("PS256 said, RS256 done", "PS256", "rsa", &rsa(), Algorithm::RS256, Signature);
    wrong.all
}

fn wrong_claims() -> Vec<Wrong> {
    use TokenError::{
        Audience, Expired, Issuer as OtherIssuer, MissingClaim, NotYet, Subject, Times,
    };
    let mut wrong = Mutations::new("keycloak", "Keycloak: two realm roles");
    let url = wrong.good["iss"].as_str().unwrap().to_owned();
    wrong.claim("iss", json!("https://other.example"), OtherIssuer);
    wrong.claim("iss", json!(format!("{url}/")), OtherIssuer);
    wrong.claim("iss", json!(url.to_uppercase()), OtherIssuer);
    wrong.claim("iss", json!([url]), OtherIssuer);
    wrong.without("iss", OtherIssuer);
    wrong.claim("aud", json!(RESOURCE), Audience);
    wrong.claim("aud", json!("atlatl2"), Audience);
    wrong.claim("aud", json!("Atlatl"), Audience);
    wrong.claim("aud", json!([]), Audience);
    wrong.claim("aud", json!({"atlatl": true}), Audience);
    wrong.without("aud", Audience);
    wrong.claim("exp", json!(now() - 31), Expired);
    wrong.claim("exp", json!(1), Expired);
    wrong.claim("nbf", json!(now() + 100), NotYet);
    wrong.claim("iat", json!(now() + 100), NotYet);
    wrong.claim("exp", json!((now() + 300).to_string()), Times);
    wrong.claim("exp", json!(1.5e12), Times);
    wrong.claim("exp", json!(null), Times);
    wrong.claim("nbf", json!("0"), Times);
    wrong.without("exp", MissingClaim);
    wrong.without("preferred_username", MissingClaim);
    wrong.claim("preferred_username", json!(7), Subject);
    wrong.claim("preferred_username", json!(""), Subject);
    wrong.claim("preferred_username", json!("a\nb"), Subject);
    wrong.claim("preferred_username", json!("x".repeat(200)), Subject);
    wrong.all
}

fn wrong_access() -> Vec<Wrong> {
    use TokenError::{
        AmbiguousTenant, Audience, GroupsOverage, IssuerUnavailable, MissingClaim, NoRule,
        Tenant as InvalidTenant, TenantNotAllowed,
    };
    let mut all = Vec::new();
    let mut wrong = Mutations::new("keycloak", "Keycloak: two realm roles");
    wrong.without("realm_access", NoRule);
    wrong.claim("realm_access", json!({"roles": ["Memory-Reader", "memory"]}), NoRule);
    wrong.claim("realm_access", json!({"roles": {"memory-reader": true}}), NoRule);
    wrong.claim("realm_access", json!(["memory-reader"]), NoRule);
    all.append(&mut wrong.all);
    let shape = "Keycloak: no audience of the server, the organization as tenant";
    let mut wrong = Mutations::new("organizations", shape);
    wrong.claim("azp", json!("other"), Audience);
    wrong.claim("organization", json!({"name": "acme"}), TenantNotAllowed);
    wrong.claim("organization", json!({"name": ["team-7"]}), InvalidTenant);
    wrong.claim("organization", json!({"name": ""}), InvalidTenant);
    wrong.without("organization", MissingClaim);
    all.append(&mut wrong.all);
    let mut wrong = Mutations::new("entra", "Entra ID v2: a user in a group");
    wrong.claim("groups", json!(["ffff"]), NoRule);
    wrong.good.as_object_mut().unwrap().remove("groups");
    wrong.claim("_claim_names", json!({"groups": "src1"}), GroupsOverage);
    wrong.claim("hasgroups", json!(true), GroupsOverage);
    // The role is for applications only.
    wrong.claim("roles", json!(["Memory.Write.All"]), NoRule);
    all.append(&mut wrong.all);
    let mut wrong = Mutations::new("okta", "Okta: a user in a group");
    wrong.claim("groups", json!(["Atlatl Acme", "Atlatl Globex"]), AmbiguousTenant);
    all.append(&mut wrong.all);
    let mut wrong = Mutations::new("google", "Google: a user of a Workspace domain");
    wrong.claim("email_verified", json!(false), NoRule);
    wrong.claim("hd", json!("example.com.evil.example"), NoRule);
    all.append(&mut wrong.all);
    let mut wrong = Mutations::new("github", "GitHub Actions: a job of an environment");
    wrong.claim("repository", json!("evil/octo-repo"), NoRule);
    wrong.without("environment", NoRule);
    all.append(&mut wrong.all);
    let mut wrong = Mutations::new("away", "Keycloak: two realm roles");
    wrong.claim("iss", json!("https://away.example"), IssuerUnavailable);
    all.append(&mut wrong.all);
    all
}

#[test]
fn g47_invalid_tokens_are_refused_with_their_reason_in_the_audit_log_and_metrics() {
    let team = Team::start();
    let all = [wrong_forms(), wrong_headers(), wrong_claims(), wrong_access()];
    let all: Vec<Wrong> = all.into_iter().flatten().collect();
    assert!(all.len() >= 60, "{}", all.len());
    let mut told = BTreeSet::new();
    let mut counted: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for Wrong { name, token, reason, issuer } in &all {
        let answer = team.get("/v1/memories", token);
        let (audited, named, subject) = team.last_denial().unwrap();
        assert_eq!(audited, reason.name(), "{name}");
        assert_eq!(named.as_deref(), *issuer, "{name}");
        let status = match reason {
            TokenError::NoRule
            | TokenError::GroupsOverage
            | TokenError::TenantNotAllowed
            | TokenError::AmbiguousTenant => 403,
            TokenError::IssuerUnavailable => 503,
            _ => 401,
        };
        answer.is_problem(status);
        // Who was refused is in the audit log once the token itself is valid. These two are found
        // before and after that.
        if !matches!(reason, TokenError::MissingClaim | TokenError::Tenant) {
            assert_eq!(subject.is_some(), status == 403, "{name}: {subject:?}");
        }
        told.insert((status, answer.json()["detail"].to_string()));
        *counted.entry((reason.name(), issuer.unwrap_or_default())).or_default() += 1;
    }
    // A client cannot tell one reason from another.
    assert_eq!(told.len(), 3, "{told:?}");
    let tested: BTreeSet<&str> = all.iter().map(|wrong| wrong.reason.name()).collect();
    assert_eq!(tested.len(), TokenError::ALL.len(), "{tested:?}");

    let admin = signed(&claims("Keycloak: a role of a client whose name has a dot"));
    let metrics = team.get("/metrics", &admin);
    assert_eq!(metrics.status, 200, "{metrics:?}");
    let metrics = metrics.text();
    for ((reason, issuer), count) in counted {
        let labels = format!("reason=\"{reason}\",issuer=\"{issuer}\"");
        let line = format!("atlatl_access_denied_total{{{labels}}} {count}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    for secret in ["preferred_username", "ann@example.com", "memory-reader", "octo"] {
        assert!(!metrics.contains(secret), "{secret}");
    }
}
