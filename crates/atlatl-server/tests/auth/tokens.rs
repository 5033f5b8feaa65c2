//! Access tokens, valid and modified.

use atlatl_server::auth::{AuthScope, KeySet, Scopes, TokenError, TokenRules, verify};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};

use crate::authority::{
    AUDIENCE, ISSUER, NOW, RSA_PUBLIC, TOKENS, at, claims, ed25519, encode, header, jwk, key_set,
    keys, of_claims, of_header, of_key, of_payload, other_rsa, p256, p384, read, rsa, rules, sign,
    with, without,
};

#[test]
fn a_good_token_of_each_algorithm_is_accepted() {
    let good = [
        of_key("RS256", "rsa", &rsa(), Algorithm::RS256),
        of_key("RS256", "rsa-rs256", &rsa(), Algorithm::RS256),
        of_key("RS384", "rsa", &rsa(), Algorithm::RS384),
        of_key("RS512", "rsa", &rsa(), Algorithm::RS512),
        of_key("PS256", "rsa", &rsa(), Algorithm::PS256),
        of_key("PS384", "rsa", &rsa(), Algorithm::PS384),
        of_key("PS512", "rsa", &rsa(), Algorithm::PS512),
        of_key("ES256", "p256", &p256(), Algorithm::ES256),
        of_key("ES384", "p384", &p384(), Algorithm::ES384),
        of_key("EdDSA", "ed25519", &ed25519(), Algorithm::EdDSA),
    ];
    for token in good {
        let principal = read(&token).unwrap();
        assert_eq!(principal.tenant, "acme");
        assert_eq!(principal.subject, "ann");
        assert_eq!(principal.scopes, Scopes::MEMORY);
    }
}

#[test]
fn tokens_that_another_implementation_signed_are_accepted() {
    for line in TOKENS.lines() {
        let (algorithm, token) = line.split_once(' ').unwrap();
        let principal = read(token).unwrap_or_else(|error| panic!("{algorithm}: {error}"));
        assert_eq!(principal.scopes, Scopes::MEMORY);
    }
    assert_eq!(TOKENS.lines().count(), 9);
}

#[test]
fn what_may_differ_between_authorities_is_accepted() {
    let good = [
        ("no type", of_header(&without(header(), "typ"))),
        ("a media type", of_header(&with(header(), "typ", "application/at+JWT"))),
        ("further names in the header", of_header(&with(header(), "x5t", "abc"))),
        ("several audiences", of_claims(&with(claims(), "aud", json!(["other", AUDIENCE])))),
        ("no nbf, no iat", of_claims(&without(without(claims(), "nbf"), "iat"))),
        ("our clock behind", of_claims(&with(with(claims(), "nbf", NOW + 30), "iat", NOW + 30))),
        ("our clock ahead", of_claims(&with(claims(), "exp", NOW - 29))),
        ("a nonce", of_claims(&with(claims(), "nonce", "abc"))),
        ("white space in the JSON", of_payload(&format!("{:#}\n", claims()))),
    ];
    for (name, token) in good {
        assert_eq!(read(&token).map(|principal| principal.tenant), Ok("acme".into()), "{name}");
    }
}

#[test]
fn a_token_without_a_key_id_is_taken_where_there_is_one_key() {
    let token = of_header(&without(header(), "kid"));
    let of = |keys: KeySet| verify(&token, &rules(), &keys, at(NOW)).map(|found| found.subject);
    assert_eq!(of(key_set(&[jwk("rsa")])), Ok("ann".into()));
    assert_eq!(of(key_set(&[without(jwk("rsa"), "kid")])), Ok("ann".into()));
    assert_eq!(of(key_set(&[jwk("p256")])), Err(TokenError::Algorithm));
    assert_eq!(of(key_set(&[jwk("rsa"), jwk("p256")])), Err(TokenError::UnknownKey));
    assert_eq!(of(key_set(&[])), Err(TokenError::UnknownKey));
    // The key id must be found, even if there is only one key.
    let named = of_header(&with(header(), "kid", "other"));
    let only = key_set(&[without(jwk("rsa"), "kid")]);
    assert_eq!(verify(&named, &rules(), &only, at(NOW)), Err(TokenError::UnknownKey));
}

#[test]
fn a_token_has_at_most_8_kib() {
    let padded = |spaces: usize| of_payload(&format!("{}{}", claims(), " ".repeat(spaces)));
    // Three bytes make four characters.
    let spaces = (8192 - padded(0).len()) / 4 * 3;
    let tokens = (spaces..spaces + 4).map(padded).collect::<Vec<_>>();
    assert!(tokens.iter().any(|token| token.len() == 8192));
    for token in tokens {
        assert_eq!(read(&token).is_ok(), token.len() <= 8192, "{}", token.len());
    }
}

#[test]
fn scopes_are_those_that_were_granted() {
    let of = |claims: &Value| read(&of_claims(claims)).unwrap().scopes;
    let plain = without(claims(), "scope");
    assert_eq!(of(&plain), Scopes::default());
    let admin = with(plain.clone(), "scope", "memory:admin profile");
    assert_eq!(of(&admin), Scopes::from(AuthScope::Admin));
    let text = with(plain.clone(), "scp", "memory:write");
    assert_eq!(of(&text), Scopes::from(AuthScope::Write));
    let list = with(plain.clone(), "scp", json!(["memory:read", 7, "memory:write x"]));
    assert_eq!(of(&list), Scopes::from(AuthScope::Read));
    // If both are present, the standard one counts.
    let both = with(with(plain.clone(), "scope", "memory:read"), "scp", "memory:admin");
    assert_eq!(of(&both), Scopes::from(AuthScope::Read));
    let odd = with(with(plain, "scope", json!(["memory:read"])), "scp", "memory:admin");
    assert_eq!(of(&odd), Scopes::from(AuthScope::Read));
    let odd = with(odd, "scope", json!({"memory:read": true}));
    assert_eq!(of(&odd), Scopes::default());
}

#[test]
fn the_tenant_is_in_the_configured_claim() {
    let token = of_claims(&with(claims(), "https://example/org", "globex"));
    let rules = TokenRules::new(ISSUER, ["other", AUDIENCE], "https://example/org");
    assert_eq!(verify(&token, &rules, &keys(), at(NOW)).unwrap().tenant, "globex");
}

#[test]
fn a_token_is_good_until_its_time_and_the_leeway_are_over() {
    let token = of_claims(&claims());
    let at_second = |second| verify(&token, &rules(), &keys(), at(NOW + second)).map(|_| ());
    assert_eq!(at_second(-31), Err(TokenError::NotYet));
    assert_eq!(at_second(-30), Ok(()));
    assert_eq!(at_second(329), Ok(()));
    assert_eq!(at_second(330), Err(TokenError::Expired));
}

#[test]
fn an_error_holds_nothing_of_a_token() {
    let token = of_claims(&with(claims(), "tenant", "s3cret\n"));
    let error = read(&token).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

/// A valid token with one change: a name, the token, and the error.
type Mutation = (&'static str, String, TokenError);

#[test]
fn f_no_mutated_token_is_accepted() {
    assert!(read(&of_claims(&claims())).is_ok());
    let all: Vec<Mutation> = [
        claims_changed(),
        times_changed(),
        headers_changed(),
        signatures_changed(),
        forms_changed(),
    ]
    .concat();
    assert!(all.len() >= 40, "{}", all.len());
    for (name, token, error) in all {
        assert_eq!(read(&token), Err(error), "{name}");
    }
}

fn claims_changed() -> Vec<Mutation> {
    use TokenError::{Audience, Header, Issuer, Malformed, MissingClaim, Subject, Tenant};
    let set = |name: &str, value: Value| of_claims(&with(claims(), name, value));
    let unset = |name: &str| of_claims(&without(claims(), name));
    let text = claims().to_string();
    // The same name again at the end, spelled with an escape.
    let twice = |more: &str| of_payload(&text.replacen('}', &format!(",{more}}}"), 1));
    vec![
        ("another audience", set("aud", json!("https://other.example/mcp")), Audience),
        ("no audience", unset("aud"), Audience),
        (
            "an audience that ours begins with",
            set("aud", json!("https://memory.example")),
            Audience,
        ),
        ("an audience that begins with ours", set("aud", json!(format!("{AUDIENCE}/x"))), Audience),
        ("an audience in capitals", set("aud", json!(AUDIENCE.to_uppercase())), Audience),
        ("audiences without ours", set("aud", json!(["a", "b"])), Audience),
        ("no audience in the list", set("aud", json!([])), Audience),
        ("a list within the list", set("aud", json!([[AUDIENCE]])), Audience),
        ("an object as audience", set("aud", json!({ AUDIENCE: true })), Audience),
        ("null as audience", set("aud", Value::Null), Audience),
        ("another issuer", set("iss", json!("https://other.example")), Issuer),
        ("a slash behind the issuer", set("iss", json!("https://login.example/")), Issuer),
        ("no issuer", unset("iss"), Issuer),
        ("a list of issuers", set("iss", json!([ISSUER])), Issuer),
        ("white space around the issuer", set("iss", json!(format!(" {ISSUER}"))), Issuer),
        ("no tenant", unset("tenant"), MissingClaim),
        ("an empty tenant", set("tenant", json!("")), Tenant),
        ("a number as tenant", set("tenant", json!(7)), Tenant),
        ("a list of tenants", set("tenant", json!(["acme"])), Tenant),
        ("an object as tenant", set("tenant", json!({ "name": "acme" })), Tenant),
        ("a control character in the tenant", set("tenant", json!("ac\u{0}me")), Tenant),
        ("a line break behind the tenant", set("tenant", json!("acme\n")), Tenant),
        ("a tenant that is too long", set("tenant", json!("x".repeat(129))), Tenant),
        ("no subject", unset("sub"), MissingClaim),
        ("an empty subject", set("sub", json!("")), Subject),
        ("a number as subject", set("sub", json!(7)), Subject),
        ("a subject that is too long", set("sub", json!("x".repeat(201))), Subject),
        ("the subject of an API key", set("sub", json!("key:0123456789abcdef")), Subject),
        ("the subject of an administrator", set("sub", json!("admin:2")), Subject),
        ("a token that is bound to a key", set("cnf", json!({"jkt": "x"})), Header),
        ("a token that is bound to a certificate", set("cnf", json!({"x5t#S256": "x"})), Header),
        ("a logout token", set("events", json!({})), Header),
        ("an identity token of Keycloak", set("typ", json!("ID")), Header),
        ("a refresh token of Keycloak", set("typ", json!("Refresh")), Header),
        ("two tenants", twice(r#""tenant":"globex""#), Malformed),
        ("two tenants, one with an escape", twice(r#""ten\u0061nt":"globex""#), Malformed),
        ("two audiences", twice(r#""aud":"x""#), Malformed),
        ("two issuers", twice(r#""iss":"https://login.example""#), Malformed),
        ("two subjects", twice(r#""sub":"bea""#), Malformed),
        ("a nested name twice", twice(r#""a":{"b":1,"b":2}"#), Malformed),
        ("two scopes", twice(r#""scope":"memory:admin""#), Malformed),
        ("two times of expiry", twice(r#""exp":9999999999"#), Malformed),
        ("a list as payload", of_payload("[]"), Malformed),
        ("an empty payload", of_payload(""), Malformed),
        ("two payloads", of_payload(&format!("{text}{text}")), Malformed),
        ("a nested token", of_payload(&of_claims(&claims())), Malformed),
    ]
}

fn times_changed() -> Vec<Mutation> {
    use TokenError::{Expired, MissingClaim, NotYet, Times};
    let set = |name: &str, value: Value| of_claims(&with(claims(), name, value));
    vec![
        ("no expiry", of_claims(&without(claims(), "exp")), MissingClaim),
        ("expired", set("exp", json!(NOW - 30)), Expired),
        ("a text as expiry", set("exp", json!((NOW + 300).to_string())), Times),
        ("a negative expiry", set("exp", json!(-1)), Expired),
        ("the least expiry", set("exp", json!(i64::MIN)), Expired),
        ("a fraction as expiry", set("exp", json!(1_800_000_300.5)), Times),
        ("an expiry with an exponent", of_exp("1.8000003e9"), Times),
        ("an expiry beyond all numbers", of_exp("99999999999999999999"), Times),
        ("null as expiry", set("exp", Value::Null), Times),
        ("not yet good", set("nbf", json!(NOW + 31)), NotYet),
        ("never good", set("nbf", json!(i64::MAX)), NotYet),
        ("a text as nbf", set("nbf", json!("0")), Times),
        ("issued in the future", set("iat", json!(NOW + 31)), NotYet),
        ("a fraction as iat", set("iat", json!(1.5)), Times),
    ]
}

/// An expiry in this spelling.
fn of_exp(lexeme: &str) -> String {
    of_payload(&claims().to_string().replacen(&(NOW + 300).to_string(), lexeme, 1))
}

fn headers_changed() -> Vec<Mutation> {
    use TokenError::{Algorithm as Alg, Header, Malformed, UnknownKey};
    let set = |name: &str, value: Value| of_header(&with(header(), name, value));
    let twice = |more: &str| {
        let header = header().to_string().replacen('}', &format!(",{more}}}"), 1);
        sign(&header, &claims().to_string(), &rsa(), Algorithm::RS256)
    };
    let shared = |secret: &[u8]| {
        let secret = EncodingKey::from_secret(secret);
        of_key("HS256", "rsa", &secret, Algorithm::HS256)
    };
    let modulus = jwk("rsa")["n"].as_str().unwrap().to_owned();
    let certificate = STANDARD.encode("certificate");
    vec![
        ("none as algorithm", set("alg", json!("none")), Alg),
        ("None as algorithm", set("alg", json!("None")), Alg),
        ("NONE as algorithm", set("alg", json!("NONE")), Alg),
        ("an empty algorithm", set("alg", json!("")), Alg),
        ("no algorithm", of_header(&without(header(), "alg")), Alg),
        ("a list of algorithms", set("alg", json!(["RS256"])), Alg),
        ("an algorithm in small letters", set("alg", json!("rs256")), Alg),
        ("HS256 with the public key as secret", shared(RSA_PUBLIC.as_bytes()), Alg),
        ("HS256 with the trimmed public key", shared(RSA_PUBLIC.trim_end().as_bytes()), Alg),
        ("HS256 with the modulus as secret", shared(modulus.as_bytes()), Alg),
        ("HS256 for a token of RS256", set("alg", json!("HS256")), Alg),
        ("ES256 for an RSA key", of_key("ES256", "rsa", &p256(), Algorithm::ES256), Alg),
        ("EdDSA for an RSA key", of_key("EdDSA", "rsa", &ed25519(), Algorithm::EdDSA), Alg),
        ("RS256 for a key on P-256", of_key("RS256", "p256", &rsa(), Algorithm::RS256), Alg),
        ("ES384 for a key on P-256", of_key("ES384", "p256", &p384(), Algorithm::ES384), Alg),
        ("RS256 for an Ed25519 key", of_key("RS256", "ed25519", &rsa(), Algorithm::RS256), Alg),
        ("PS256 for an RS256 key", of_key("PS256", "rsa-rs256", &rsa(), Algorithm::PS256), Alg),
        ("another key id", set("kid", json!("other")), UnknownKey),
        ("no key id, several keys", of_header(&without(header(), "kid")), UnknownKey),
        ("a path as key id", set("kid", json!("../../dev/null")), UnknownKey),
        ("an empty key id", set("kid", json!("")), UnknownKey),
        ("a key id in capitals", set("kid", json!("RSA")), UnknownKey),
        ("a key id with a NUL", set("kid", json!("rsa\u{0}")), UnknownKey),
        ("a number as key id", set("kid", json!(0)), Header),
        ("null as key id", set("kid", Value::Null), Header),
        ("crit", set("crit", json!(["exp"])), Header),
        ("an empty crit", set("crit", json!([])), Header),
        ("b64", set("b64", json!(false)), Header),
        ("a URL of keys", set("jku", json!("https://evil.example/jwks.json")), Header),
        ("an embedded key", set("jwk", jwk("rsa")), Header),
        ("a URL of certificates", set("x5u", json!("https://evil.example/x")), Header),
        ("embedded certificates", set("x5c", json!([certificate])), Header),
        ("an odd type", set("typ", json!("logout+jwt")), Header),
        ("an encrypted type", set("typ", json!("JWE")), Header),
        ("a list of types", set("typ", json!(["JWT"])), Header),
        ("two algorithms", twice(r#""alg":"RS256""#), Malformed),
        ("two key ids", twice(r#""kid":"rsa""#), Malformed),
        ("a list as header", sign("[]", "{}", &rsa(), Algorithm::RS256), Malformed),
        ("no JSON as header", sign("RS256", "{}", &rsa(), Algorithm::RS256), Malformed),
    ]
}

fn signatures_changed() -> Vec<Mutation> {
    use TokenError::{Malformed, Signature};
    let good = of_claims(&claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (head, _) = message.split_once('.').unwrap();
    let admin = with(claims(), "scope", "memory:admin").to_string();
    let flipped = |at: usize| {
        let mut bytes = decoded(signature);
        bytes[at] ^= 1;
        format!("{message}.{}", encode(bytes))
    };
    let bytes = decoded(signature);
    let of = |kid, key: &EncodingKey, algorithm| of_key("RS256", kid, key, algorithm);
    let elliptic = of_key("ES256", "p256", &p256(), Algorithm::ES256);
    let (elliptic_message, elliptic_signature) = elliptic.rsplit_once('.').unwrap();
    let edwards = of_key("EdDSA", "ed25519", &ed25519(), Algorithm::EdDSA);
    let (edwards_message, _) = edwards.rsplit_once('.').unwrap();
    vec![
        ("no signature", format!("{message}."), Signature),
        ("half a signature", format!("{message}.{}", encode(&bytes[..128])), Signature),
        ("a byte less", format!("{message}.{}", encode(&bytes[1..])), Signature),
        ("a byte more", format!("{message}.{}", encode([&[0][..], &bytes].concat())), Signature),
        ("the first bit flipped", flipped(0), Signature),
        ("the last bit flipped", flipped(255), Signature),
        ("a signature of zeros", format!("{message}.{}", encode([0; 256])), Signature),
        ("a signature of ones", format!("{message}.{}", encode([255; 256])), Signature),
        ("another one's key", of("rsa", &other_rsa(), Algorithm::RS256), Signature),
        ("signed as PS256", of("rsa", &rsa(), Algorithm::PS256), Signature),
        ("signed as RS512", of("rsa", &rsa(), Algorithm::RS512), Signature),
        ("another payload", format!("{head}.{}.{signature}", encode(admin)), Signature),
        ("another header", format!("{}.{signature}", other_header(message)), Signature),
        ("a curve's signature of zeros", format!("{elliptic_message}.{}", zeros()), Signature),
        ("Ed25519's signature of zeros", format!("{edwards_message}.{}", zeros()), Signature),
        (
            "a curve's signature in DER",
            format!("{elliptic_message}.{}", encode(in_der(&decoded(elliptic_signature)))),
            Signature,
        ),
        ("a bit left over", format!("{}{}", &good[..good.len() - 1], left_over(&good)), Malformed),
        ("a letter less", good[..good.len() - 1].to_owned(), Malformed),
    ]
}

/// The last letter with an unused bit set.
fn left_over(token: &str) -> char {
    char::from(token.as_bytes()[token.len() - 1] + 1)
}

/// The part of a signature of 64 bytes.
fn zeros() -> String {
    encode([0; 64])
}

/// The message with an equivalent header in other bytes.
fn other_header(message: &str) -> String {
    let (_, payload) = message.split_once('.').unwrap();
    format!("{}.{payload}", encode(format!("{:#}", header())))
}

/// Two numbers in the form of certificates, which tokens do not use.
fn in_der(signature: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for number in signature.chunks(32) {
        body.extend([2, 33, 0]);
        body.extend(number);
    }
    [&[0x30, u8::try_from(body.len()).unwrap()][..], &body].concat()
}

fn decoded(part: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(part).unwrap()
}

fn forms_changed() -> Vec<Mutation> {
    use TokenError::Malformed;
    let good = of_claims(&claims());
    let parts: Vec<&str> = good.split('.').collect();
    let [head, payload, signature] = parts[..] else { panic!("three parts") };
    let bytes = decoded(signature);
    let mut uneven = claims().to_string();
    while uneven.len().is_multiple_of(3) {
        uneven.push(' ');
    }
    // A payload whose encoding differs between the alphabets.
    let signs = with(claims(), "sub", "???>>>~~~").to_string();
    let other = |encoded: String| {
        let message = format!("{head}.{encoded}");
        let signed = crypto::sign(message.as_bytes(), &rsa(), Algorithm::RS256);
        format!("{message}.{}", signed.unwrap())
    };
    let huge = with(claims(), "padding", "x".repeat(8192)).to_string();
    vec![
        ("empty", String::new(), Malformed),
        ("two full stops", "..".to_owned(), Malformed),
        ("a part more", format!("{good}.{signature}"), Malformed),
        ("an empty part more", format!("{good}."), Malformed),
        ("two parts", format!("{head}.{payload}"), Malformed),
        ("one part", head.to_owned(), Malformed),
        ("no payload", format!("{head}..{signature}"), TokenError::Signature),
        ("no header", format!(".{payload}.{signature}"), Malformed),
        ("padded signature", format!("{head}.{payload}.{}", URL_SAFE.encode(&bytes)), Malformed),
        ("padding within", other(format!("{payload}=")), Malformed),
        ("padded payload", other(URL_SAFE.encode(uneven)), Malformed),
        ("the other alphabet", other(STANDARD_NO_PAD.encode(&signs)), Malformed),
        ("a space before", format!(" {good}"), Malformed),
        ("a space behind", format!("{good} "), Malformed),
        ("a space within", good.replacen('.', ". ", 1), Malformed),
        ("a line break behind", format!("{good}\n"), Malformed),
        ("a line break within", good.replacen('.', ".\r\n", 1), Malformed),
        ("a NUL behind", format!("{good}\0"), Malformed),
        ("two tokens", format!("{good},{good}"), Malformed),
        ("the scheme before", format!("Bearer {good}"), Malformed),
        ("huge", of_payload(&huge), Malformed),
        ("another script", "а.б.в".to_owned(), Malformed),
    ]
}
