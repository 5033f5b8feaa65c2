//! Key sets of authorization servers, and forged ones.

use atlatl_server::auth::{KeySet, KeySetError, TokenError, verify};
use serde_json::{Value, json};

use crate::authority::{
    JWKS, NOW, at, claims, encode, jwk, key_set, of_claims, of_key, p256, rules, with, without,
};

#[test]
fn every_kind_of_key_is_read() {
    let keys = KeySet::read(JWKS).unwrap();
    assert_eq!(keys.len(), 5);
    assert!(!keys.is_empty());
    // Other members of a document or a key are ignored.
    let more = json!({ "keys": [with(jwk("rsa"), "x5t", "abc"), null, 7], "more": [] });
    assert_eq!(KeySet::read(&more.to_string()).unwrap().len(), 1);
    assert!(KeySet::read(r#"{"keys":[]}"#).unwrap().is_empty());
}

#[test]
fn keys_that_are_not_for_this_are_left_out() {
    let modulus = |bytes: usize| json!(encode([&[0x80][..], &vec![1; bytes - 1]].concat()));
    let point = jwk("p256")["x"].clone();
    let unusable = [
        ("for encryption", with(jwk("rsa"), "use", "enc")),
        ("for signing", with(jwk("rsa"), "key_ops", json!(["sign"]))),
        ("for nothing", with(jwk("rsa"), "key_ops", json!([]))),
        ("a list of uses", with(jwk("rsa"), "use", json!(["sig"]))),
        ("a shared secret", json!({ "kty": "oct", "kid": "a", "alg": "HS256", "k": "c2VjcmV0" })),
        ("a shared secret, RS256", json!({ "kty": "oct", "alg": "RS256", "k": "c2VjcmV0" })),
        ("for HS256", with(jwk("rsa"), "alg", "HS256")),
        ("for encryption by its algorithm", with(jwk("rsa"), "alg", "RSA-OAEP")),
        ("for a curve's algorithm", with(jwk("rsa"), "alg", "ES256")),
        ("for another curve's", with(jwk("p256"), "alg", "ES384")),
        ("of another type", with(jwk("rsa"), "kty", "rsa")),
        ("of no type", without(jwk("rsa"), "kty")),
        ("with its private half", with(jwk("rsa"), "d", "AQAB")),
        ("without a modulus", without(jwk("rsa"), "n")),
        ("a modulus of 1024 bits", with(jwk("rsa"), "n", modulus(128))),
        (
            "a modulus of 2047 bits",
            with(jwk("rsa"), "n", encode([&[127][..], &[255; 255]].concat())),
        ),
        ("a modulus of 2040 bits", with(jwk("rsa"), "n", modulus(255))),
        (
            "2048 bits with zeros",
            with(jwk("rsa"), "n", encode([&[0; 128][..], &[255; 128]].concat())),
        ),
        ("a modulus of 4104 bits", with(jwk("rsa"), "n", modulus(513))),
        ("an even modulus", with(jwk("rsa"), "n", encode([254; 256]))),
        ("an empty modulus", with(jwk("rsa"), "n", "")),
        (
            "a padded modulus",
            with(jwk("rsa"), "n", format!("{}==", jwk("rsa")["n"].as_str().unwrap())),
        ),
        ("an exponent of 1", with(jwk("rsa"), "e", "AQ")),
        ("an exponent of 1 with zeros", with(jwk("rsa"), "e", "AAAB")),
        ("an exponent of 0", with(jwk("rsa"), "e", "AA")),
        ("an even exponent", with(jwk("rsa"), "e", "AQAA")),
        ("a huge exponent", with(jwk("rsa"), "e", encode([1; 5]))),
        ("a point beside the curve", with(jwk("p256"), "y", point)),
        ("half a point", without(jwk("p256"), "y")),
        ("a coordinate too long", with(jwk("p256"), "x", encode([0; 33]))),
        ("a coordinate too short", with(jwk("p256"), "x", encode([1; 31]))),
        ("a curve in capitals", with(jwk("p256"), "crv", "p-256")),
        ("another curve", with(jwk("p256"), "crv", "secp256k1")),
        ("P-384 with a point of P-256", with(jwk("p256"), "crv", "P-384")),
        ("Ed25519 too short", with(jwk("ed25519"), "x", encode([1; 31]))),
        ("Ed25519 too long", with(jwk("ed25519"), "x", encode([1; 33]))),
        ("Ed25519 that is empty", with(jwk("ed25519"), "x", "")),
        ("a key to agree on keys", with(jwk("ed25519"), "crv", "X25519")),
        ("Ed25519 as a curve", with(jwk("ed25519"), "kty", "EC")),
        ("P-256 as a pair", with(jwk("p256"), "kty", "OKP")),
        ("a number as name", with(jwk("rsa"), "kid", 7)),
    ];
    for (name, key) in unusable {
        assert!(key_set(&[key]).is_empty(), "{name}");
    }
    let twice = jwk("rsa").to_string().replacen('}', r#","n":"AQAB"}"#, 1);
    assert!(KeySet::read(&format!(r#"{{"keys":[{twice}]}}"#)).unwrap().is_empty());
    for bytes in [256, 384, 512] {
        assert_eq!(key_set(&[with(jwk("rsa"), "n", modulus(bytes))]).len(), 1, "{bytes}");
    }
}

/// Found by the fuzz target `token`: serde would parse the elements as the members in their order.
#[test]
fn an_array_is_no_key() {
    let names = ["kty", "use", "key_ops", "alg", "kid", "crv", "x", "y", "n", "e", "d"];
    for kid in ["rsa", "p256", "ed25519"] {
        let key = jwk(kid);
        assert_eq!(key_set(std::slice::from_ref(&key)).len(), 1);
        let elements: Value = names.into_iter().map(|name| key[name].clone()).collect();
        assert!(key_set(&[elements]).is_empty(), "{kid}");
    }
}

#[test]
fn of_keys_with_one_name_none_is_taken() {
    let token = of_claims(&claims());
    let named = |kid: &str, other: &str| with(jwk(kid), "kid", other);
    let twice = [jwk("rsa"), jwk("p256"), named("rsa", "rsa")];
    let keys = key_set(&twice);
    assert_eq!(keys.len(), 1);
    assert_eq!(verify(&token, &rules(), &keys, at(NOW)), Err(TokenError::UnknownKey));
    let other = of_key("ES256", "p256", &p256(), jsonwebtoken::Algorithm::ES256);
    assert!(verify(&other, &rules(), &keys, at(NOW)).is_ok());
    // A key with the same id for another use is no conflict.
    let encryption = with(jwk("rsa"), "use", "enc");
    assert!(verify(&token, &rules(), &key_set(&[jwk("rsa"), encryption]), at(NOW)).is_ok());
}

#[test]
fn a_document_is_bounded() {
    let many = |count: usize| json!({ "keys": vec![Value::Null; count] }).to_string();
    assert!(KeySet::read(&many(64)).is_ok());
    assert_eq!(KeySet::read(&many(65)).err(), Some(KeySetError::TooMany));
    let long = |bytes: usize| format!("{}{}", r#"{"keys":[]}"#, " ".repeat(bytes - 11));
    assert!(KeySet::read(&long(64 * 1024)).is_ok());
    assert_eq!(KeySet::read(&long(64 * 1024 + 1)).err(), Some(KeySetError::TooLong));
    let deep = format!(r#"{{"keys":[{}]}}"#, "[".repeat(60_000));
    let others = ["", "{}", "[]", "[[]]", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#, &deep];
    for other in others {
        assert_eq!(KeySet::read(other).err(), Some(KeySetError::Malformed));
    }
}
