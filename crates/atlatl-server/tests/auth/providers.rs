//! Tokens in the shapes that identity providers issue, mapped by a configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use atlatl_server::auth::{
    Authenticator, Fetch, FetchError, Issuer, SignatureCheck, SignatureState, TokenError,
    TokenRules, verify,
};
use chrono::TimeDelta;
use jsonwebtoken::Algorithm;
use lro::IdSeed;
use lro_core::config::{Config, IssuerConfig};
use serde_json::{Value, json};

use crate::authority::{
    AUDIENCE, JWKS, NOW, at, header, keys, of_claims, p256, rsa, sign, with, without,
};

/// The configured issuers.
const ISSUERS: &str = include_str!("issuers.json");
/// A token of each shape with the principal that it is mapped to.
const SHAPES: &str = include_str!("shapes.json");

fn issuers() -> BTreeMap<String, IssuerConfig> {
    let issuers: Value = serde_json::from_str(ISSUERS).unwrap();
    Config::from_values([("server.issuers", issuers)]).unwrap().server.issuers
}

fn rules(name: &str) -> TokenRules {
    TokenRules::from_config(name, &issuers()[name], AUDIENCE)
}

/// The header of a shape; a member that is null is left out.
fn header_of(shape: &Value) -> Value {
    let mut header = header();
    for (name, value) in shape["header"].as_object().into_iter().flatten() {
        header = with(header, name, value.clone());
        if value.is_null() {
            header = without(header, name);
        }
    }
    header
}

/// The claims of a shape, with issuer and times.
fn claims_of(shape: &Value, rules: &TokenRules, now: i64) -> Value {
    let claims = with(shape["claims"].clone(), "iss", rules.issuer.as_str());
    with(with(claims, "iat", now), "exp", now + 300)
}

#[test]
fn g47_25_shapes_of_tokens_are_mapped_as_configured() {
    let shapes: Vec<Value> = serde_json::from_str(SHAPES).unwrap();
    assert_eq!(shapes.len(), 25);
    for shape in &shapes {
        let rules = rules(shape["issuer"].as_str().unwrap());
        let claims = claims_of(shape, &rules, NOW).to_string();
        let token = sign(&header_of(shape).to_string(), &claims, &rsa(), Algorithm::RS256);
        let principal = verify(&token, &rules, &keys(), at(NOW));
        let principal = principal.unwrap_or_else(|error| panic!("{}: {error}", shape["name"]));
        let found = format!("{} {} {}", principal.tenant, principal.subject, principal.scopes);
        assert_eq!(shape["principal"], found.as_str(), "{}", shape["name"]);
    }
}

#[test]
fn g47_no_shape_is_accepted_by_the_rules_of_another_issuer() {
    let shapes: Vec<Value> = serde_json::from_str(SHAPES).unwrap();
    for shape in &shapes {
        let own = shape["issuer"].as_str().unwrap();
        let claims = claims_of(shape, &rules(own), NOW).to_string();
        let key = p256();
        let header = with(with(header_of(shape), "alg", "ES256"), "kid", "p256");
        let token = sign(&header.to_string(), &claims, &key, Algorithm::ES256);
        for other in issuers().keys().filter(|name| *name != own) {
            let outcome = verify(&token, &rules(other), &keys(), at(NOW));
            assert_eq!(outcome, Err(TokenError::Issuer), "{} {other}", shape["name"]);
        }
    }
}

#[test]
fn g47_a_configured_audience_takes_the_place_of_the_servers_own() {
    let configured = |more: Value| {
        let mut issuer = json!({"url": "https://login.example", "tenant": "acme"});
        for (name, value) in more.as_object().unwrap() {
            issuer[name] = value.clone();
        }
        TokenRules::from_config("id", &serde_json::from_value(issuer).unwrap(), AUDIENCE)
    };
    let outcome = |rules: &TokenRules, name: &str, value: Value| {
        let claims = with(crate::authority::claims(), name, value);
        verify(&of_claims(&claims), rules, &keys(), at(NOW)).map(|principal| principal.tenant)
    };
    let own = configured(json!({}));
    assert_eq!(outcome(&own, "aud", json!(AUDIENCE)), Ok("acme".into()));
    assert_eq!(outcome(&own, "aud", json!("api://a")), Err(TokenError::Audience));
    let others = configured(json!({"audiences": ["api://a", "client"]}));
    assert_eq!(outcome(&others, "aud", json!(AUDIENCE)), Err(TokenError::Audience));
    assert_eq!(outcome(&others, "aud", json!(["x", "client"])), Ok("acme".into()));
    // Another claim than the configured one says nothing.
    assert_eq!(outcome(&others, "azp", json!("client")), Err(TokenError::Audience));
    for claim in ["azp", "appid", "client_id", "cid"] {
        let by_client = configured(json!({"audiences": ["client"], "audience_claim": claim}));
        assert_eq!(outcome(&by_client, claim, json!("client")), Ok("acme".into()), "{claim}");
        assert_eq!(outcome(&by_client, claim, json!("Client")), Err(TokenError::Audience));
        assert_eq!(outcome(&by_client, "aud", json!("client")), Err(TokenError::Audience));
    }
}

/// The issuer of [`crate::authority`], whose keys can be fetched.
struct Published;

impl Fetch for Published {
    fn fetch(&self, url: &str) -> Result<String, FetchError> {
        if url.ends_with("/keys") {
            return Ok(JWKS.to_owned());
        }
        // Only OpenID Connect's document is there.
        let issuer = url.strip_suffix("/.well-known/openid-configuration");
        let issuer = issuer.ok_or(FetchError::NotFound)?;
        // The slash at the end belongs to the name of Auth0's issuers.
        let slash = if issuer.contains("auth0") { "/" } else { "" };
        let issuer = format!("{issuer}{slash}");
        Ok(json!({"issuer": issuer, "jwks_uri": "https://id.example/keys"}).to_string())
    }
}

fn clock() -> IdSeed {
    let mut seed = IdSeed::from_system();
    seed.now = at(NOW) + TimeDelta::seconds(1);
    seed
}

#[test]
fn g47_a_token_is_explained_step_by_step() {
    let authenticator = ["keycloak", "okta", "auth0"].into_iter().fold(
        Authenticator::new(AUDIENCE.to_owned(), clock),
        |authenticator, name| {
            authenticator.with_issuer(Issuer::new(rules(name), Arc::new(Published)))
        },
    );
    let shapes: Vec<Value> = serde_json::from_str(SHAPES).unwrap();
    let token = |name: &str, change: &dyn Fn(&mut Value)| {
        let shape = shapes.iter().find(|shape| shape["name"] == name).unwrap();
        let mut claims = claims_of(shape, &rules(shape["issuer"].as_str().unwrap()), NOW);
        change(&mut claims);
        sign(&header().to_string(), &claims.to_string(), &rsa(), Algorithm::RS256)
    };
    let two_roles = "Keycloak: two realm roles";
    let good = token(two_roles, &|_| {});
    let report = authenticator.examine(&good, SignatureCheck::Verify);
    assert_eq!(report.signature, SignatureState::Valid);
    assert_eq!(report.issuer_name.as_deref(), Some("keycloak"));
    assert_eq!(report.audience.as_deref(), Some("atlatl"));
    assert_eq!(report.subject.as_deref(), Some("keycloak:ann"));
    assert_eq!(report.rules, [0, 1]);
    assert_eq!(report.tenant.as_deref(), Some("acme"));
    assert_eq!(report.scopes.to_string(), "memory:read memory:write");
    assert!(report.outcome.is_ok());

    // The slash at the end belongs to the issuer.
    let auth0 = token("Auth0: a machine", &|_| {});
    assert!(authenticator.examine(&auth0, SignatureCheck::Verify).outcome.is_ok());

    let unsigned = format!("{}.", good.rsplit_once('.').unwrap().0);
    let report = authenticator.examine(&unsigned, SignatureCheck::Verify);
    assert_eq!(report.outcome, Err(TokenError::Signature));
    assert_eq!((report.signature, report.subject), (SignatureState::Unverified, None));
    let report = authenticator.examine(&unsigned, SignatureCheck::Skip);
    assert_eq!(report.signature, SignatureState::Unverified);
    assert!(report.outcome.is_ok());

    let expired = token(two_roles, &|claims| claims["exp"] = json!(NOW - 60));
    let report = authenticator.examine(&expired, SignatureCheck::Verify);
    assert_eq!(report.outcome, Err(TokenError::Expired));
    assert_eq!(report.audience.as_deref(), Some("atlatl"));
    let both = |claims: &mut Value| claims["groups"] = json!(["Atlatl Acme", "Atlatl Globex"]);
    let report =
        authenticator.examine(&token("Okta: a user in a group", &both), SignatureCheck::Verify);
    assert_eq!(report.outcome, Err(TokenError::AmbiguousTenant));
    assert_eq!((report.rules, report.tenant), (vec![0, 1], None));
    let other = token(two_roles, &|claims| claims["iss"] = json!("https://other.example"));
    let report = authenticator.examine(&other, SignatureCheck::Verify);
    assert_eq!((report.issuer, report.outcome), (None, Err(TokenError::Issuer)));
    let text = authenticator.examine("not a token", SignatureCheck::Verify);
    assert_eq!(text.outcome, Err(TokenError::Malformed));
}
