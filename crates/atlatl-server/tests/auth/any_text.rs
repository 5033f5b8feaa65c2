//! Arbitrary input: nothing panics, and nothing is accepted by chance.

use atlatl_server::auth::{
    ApiKey, AuthorizationError, Challenge, KeySet, Scopes, TokenError, bearer, metadata_url, verify,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::authority::{
    JWKS, NOW, TOKENS, at, encode, header, jwk, key_set, read, rsa, rules, sign,
};

/// Text, some of which looks valid.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,200}",
        "[A-Za-z0-9_.=-]{0,300}",
        "atl_[A-Za-z0-9_]{50,70}",
        "[A-Za-z0-9_-]{0,80}\\.[A-Za-z0-9_-]{0,80}\\.[A-Za-z0-9_-]{0,80}",
        "[ -~]{0,120}".prop_map(|json| format!("{}.{}.", encode(&json), encode(json))),
    ]
}

/// JSON values as in a header, a payload or a key.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        "[A-Za-z0-9_-]{0,90}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{0,5}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn prop_any_text_is_no_token(text in text()) {
        prop_assert!(read(&text).is_err());
    }

    #[test]
    fn prop_a_token_with_any_byte_changed_is_none(line in 0..9_usize, place: prop::sample::Index, byte in 0..128_u8) {
        let token = TOKENS.lines().nth(line).unwrap().split_once(' ').unwrap().1;
        let mut changed = token.to_owned().into_bytes();
        let place = place.index(changed.len());
        prop_assume!(changed[place] != byte);
        changed[place] = byte;
        prop_assert!(read(std::str::from_utf8(&changed).unwrap()).is_err());
    }

    #[test]
    fn prop_any_header_is_read(name in "alg|typ|kid|crit|jku|[a-z]{1,4}", value in value()) {
        let mut changed = header();
        changed[name.as_str()] = value;
        // The signature is valid, so the header is the reason for the rejection.
        let token = sign(&changed.to_string(), "{}", &rsa(), jsonwebtoken::Algorithm::RS256);
        let error = read(&token).unwrap_err();
        let expected = [TokenError::Header, TokenError::Algorithm, TokenError::UnknownKey, TokenError::Signature, TokenError::Issuer];
        prop_assert!(expected.contains(&error), "{}", error);
    }

    #[test]
    fn prop_any_text_is_a_key_or_none(text in text()) {
        if let Some(key) = ApiKey::parse(&text) {
            prop_assert_eq!(key.expose(), &text);
            let printed = format!("{key:?}");
            prop_assert!(!printed.contains(&text[21..]));
        }
    }

    #[test]
    fn prop_any_random_bytes_make_a_key(random in prop::collection::vec(any::<u8>(), 48)) {
        let key = ApiKey::new(random.try_into().unwrap());
        prop_assert_eq!(ApiKey::parse(key.expose()).unwrap().digest(), key.digest());
    }

    #[test]
    fn prop_any_text_is_a_key_set_or_none(text in text(), cut: prop::sample::Index) {
        prop_assert!(KeySet::read(&text).is_err());
        prop_assert!(KeySet::read(&JWKS[..cut.index(JWKS.trim_end().len())]).is_err());
    }

    #[test]
    fn prop_a_key_with_anything_changed_that_makes_it_up_takes_no_token(
        (kid, name) in prop::sample::select(vec![
            ("rsa", "kty"), ("rsa", "kid"), ("rsa", "n"), ("rsa", "e"),
            ("p256", "kty"), ("p256", "kid"), ("p256", "crv"), ("p256", "x"), ("p256", "y"),
            ("p384", "kty"), ("p384", "kid"), ("p384", "crv"), ("p384", "x"), ("p384", "y"),
            ("ed25519", "kty"), ("ed25519", "kid"), ("ed25519", "crv"), ("ed25519", "x"),
        ]),
        value in value(),
    ) {
        let mut key = jwk(kid);
        key[name] = value;
        let keys = key_set(&[key]);
        for line in TOKENS.lines() {
            let token = line.split_once(' ').unwrap().1;
            prop_assert!(verify(token, &rules(), &keys, at(NOW)).is_err());
        }
    }

    #[test]
    fn prop_any_key_is_read(kid in "rsa|p256|p384|ed25519", name in "use|key_ops|alg|d|[a-z]{1,3}", value in value()) {
        let mut key = jwk(&kid);
        key[name.as_str()] = value;
        prop_assert!(key_set(&[key]).len() <= 1);
    }

    #[test]
    fn prop_any_headers_are_read(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..3)) {
        let found = bearer(values.iter().map(Vec::as_slice));
        match values.len() {
            0 => prop_assert_eq!(found, Err(AuthorizationError::Missing)),
            1 => prop_assert!(found.is_err() || values[0].len() > 7),
            _ => prop_assert_eq!(found, Err(AuthorizationError::Invalid)),
        }
    }

    #[test]
    fn prop_a_token_behind_the_scheme_is_found(scheme in "[bB][eE][aA][rR][eE][rR]", spaces in 1..5_usize, token in "[A-Za-z0-9._~+/-]{1,40}={0,3}") {
        let value = format!("{scheme}{}{token}", " ".repeat(spaces));
        prop_assert_eq!(bearer([value.as_bytes()]), Ok(token.as_str()));
    }

    #[test]
    fn prop_any_url_stays_within_its_quotation_marks(url in "\\PC{0,60}|[\\x00-\\x7f]{0,60}") {
        let header = Challenge::Missing.header(Some(&url));
        prop_assert!(header.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
        prop_assert_eq!(header.matches('"').count(), 4);
        prop_assert!(header.ends_with('"') && !header.contains('\\'));
        let _ = metadata_url(&url);
    }

    #[test]
    fn prop_scopes_are_read_back(text in "((memory:(read|write|admin)|[a-z:]{0,12}) ?){0,6}") {
        let scopes = Scopes::parse(&text);
        prop_assert_eq!(Scopes::parse(&scopes.to_string()), scopes);
        prop_assert!(scopes.iter().all(|scope| text.contains(scope.word())));
    }
}
