//! Token: whatever somebody brings to be let in with.
//!
//! A token that the authority signed, and in which every claim is right, lets in exactly whom it
//! names; any other text lets nobody in. So do keys that somebody else wrote, headers and API keys.

#![no_main]

use atlatl_fuzz::authority::{AUTHORITY, JWKS, NOW, ann, at, read, token_by, tokens};
use atlatl_fuzz::{Odd, Token, Written};
use atlatl_server::auth::{
    ApiKey, AuthorizationError, Challenge, KeyRecord, KeySet, Scopes, bearer, metadata_url,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    /// A token of the other implementation.
    Theirs(u8, Written<'a>),
    /// A token of which every part is chosen, signed by the authority's key or another one.
    Chosen(Box<Token<'a>>, Written<'a>),
    Keys(Written<'a>),
    Key(Jwk<'a>),
    Header(Header<'a>),
    ApiKey(Written<'a>, [u8; 6]),
    Text(&'a str),
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Theirs(n, written) => theirs(n, &written),
    Input::Chosen(token, written) => chosen(&token, &written),
    Input::Keys(written) => keys(&written.text(JWKS)),
    Input::Key(jwk) => key(&jwk),
    Input::Header(header) => header.check(),
    Input::ApiKey(written, random) => api_key(&written, random),
    Input::Text(text) => any(text),
});

fn theirs(n: u8, written: &Written<'_>) {
    let tokens: Vec<&str> = tokens().map(|(_, token)| token).collect();
    let ours = tokens[usize::from(n) % tokens.len()];
    let text = written.text(ours);
    assert_eq!(read(&text, &AUTHORITY.keys), (text == ours).then(ann), "{text:?}");
}

fn chosen(token: &Token<'_>, written: &Written<'_>) {
    let (ours, named) = token.signed();
    let text = written.text(&ours);
    let only = token.only_key();
    let found = read(&text, only.as_ref().unwrap_or(&AUTHORITY.keys));
    assert_eq!(found, named.filter(|_| text == ours), "{text}");
}

/// A key set as it may come over the network.
fn keys(text: &str) {
    let Ok(keys) = KeySet::read(text) else {
        assert_ne!(text, JWKS);
        return;
    };
    let value: Option<Value> = serde_json::from_str(text).ok();
    if let Some(value) = &value {
        let listed = value.as_object().and_then(|document| document.get("keys")?.as_array());
        let listed = listed.expect("a key set is an object with a list of keys");
        assert!(keys.len() <= listed.iter().filter(|key| key.is_object()).count());
    }
    assert_eq!(keys.is_empty(), keys.len() == 0);
    for (algorithm, kid, part) in [("EdDSA", "ed25519", "x"), ("ES256", "p256", "y")] {
        match read(token_by(algorithm), &keys) {
            None => assert_ne!(text, JWKS),
            found => {
                assert_eq!(found, Some(ann()));
                let key = AUTHORITY.jwk(kid);
                let is_there = |value: &Value| {
                    value["keys"].as_array().is_some_and(|keys| {
                        keys.iter().any(|it| it["kid"] == key["kid"] && it[part] == key[part])
                    })
                };
                assert!(value.as_ref().is_none_or(is_there), "who signed is published");
            }
        }
    }
}

/// One published key in which something was changed.
#[derive(Debug, Arbitrary)]
struct Jwk<'a> {
    of: u8,
    name: u8,
    value: Changed<'a>,
}

#[derive(Debug, Arbitrary)]
enum Changed<'a> {
    Written(Written<'a>),
    Odd(Odd<'a>),
    Bytes(&'a [u8]),
    Removed,
    /// Not the members but their values alone, in the order in which they are looked for.
    Listed,
    Nothing,
}

fn key(jwk: &Jwk<'_>) {
    // What a key is, and what may only make it unfit.
    const PARTS: [&str; 7] = ["kty", "kid", "crv", "x", "y", "n", "e"];
    const USES: [&str; 4] = ["use", "key_ops", "alg", "d"];
    const OF: [(&str, &str); 4] =
        [("ed25519", "EdDSA"), ("p256", "ES256"), ("p384", "ES384"), ("rsa", "PS256")];
    let (kid, algorithm) = OF[usize::from(jwk.of) % OF.len()];
    let published = AUTHORITY.jwk(kid);
    let name = usize::from(jwk.name) % (PARTS.len() + USES.len());
    let name = PARTS.iter().chain(&USES).nth(name).expect("so many there are");
    let there = published.get(*name).cloned();
    let text = there.as_ref().and_then(Value::as_str).unwrap_or_default();
    let mut changed = published.clone();
    let members = changed.as_object_mut().expect("a key is an object");
    match &jwk.value {
        Changed::Written(written) => {
            members.insert((*name).to_owned(), written.text(text).into());
        }
        Changed::Odd(odd) => {
            let value = serde_json::from_str(&odd.json()).expect("JSON");
            members.insert((*name).to_owned(), value);
        }
        Changed::Bytes(bytes) => {
            members.insert((*name).to_owned(), URL_SAFE_NO_PAD.encode(bytes).into());
        }
        Changed::Removed => drop(members.remove(*name)),
        Changed::Listed => {
            const ORDER: [&str; 11] =
                ["kty", "use", "key_ops", "alg", "kid", "crv", "x", "y", "n", "e", "d"];
            changed = ORDER.iter().map(|name| published[*name].clone()).collect();
        }
        Changed::Nothing => {}
    }
    let keys = KeySet::read(&json!({"keys": [changed]}).to_string()).expect("a key set");
    let found = read(token_by(algorithm), &keys);
    assert!(found.is_none() || !keys.is_empty());
    let number_same =
        ["n", "e"].contains(name) && number(&changed[*name]) == number(&published[*name]);
    if changed == published {
        assert_eq!(found, Some(ann()));
    } else if changed.is_array() {
        assert!(keys.is_empty(), "a key is an object");
    } else if PARTS.contains(name) && there.is_some() && !number_same {
        assert_eq!(found, None, "{name} of {kid} makes it up: {changed}");
    } else {
        assert!(found.is_none() || found == Some(ann()));
    }
}

/// What stands for a number of an RSA key, which may have zeros before it; anything else as it is.
fn number(value: &Value) -> Value {
    let bytes = value.as_str().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    match bytes {
        Some(bytes) => bytes.into_iter().skip_while(|byte| *byte == 0).collect(),
        None => value.clone(),
    }
}

/// Headers `Authorization`.
#[derive(Debug, Arbitrary)]
enum Header<'a> {
    Bearer { cases: u8, spaces: u8, token: &'a [u8], padding: u8 },
    Any(Vec<&'a [u8]>),
}

impl Header<'_> {
    fn check(&self) {
        const SIGNS: &[u8] = b"ABCXYZabcxyz0189-._~+/";
        match self {
            Self::Bearer { cases, spaces, token, padding } => {
                let scheme = "bearer"
                    .chars()
                    .enumerate()
                    .map(|(n, c)| if cases >> n & 1 == 1 { c.to_ascii_uppercase() } else { c });
                let signs = token.iter().map(|n| char::from(SIGNS[usize::from(*n) % SIGNS.len()]));
                let token: String =
                    signs.chain(std::iter::repeat_n('=', usize::from(padding % 3))).collect();
                let spaces = usize::from(spaces % 4);
                let value: String =
                    scheme.chain(std::iter::repeat_n(' ', spaces)).chain(token.chars()).collect();
                let expected = match (spaces, token.trim_end_matches('=')) {
                    (0, "") if token.is_empty() => Err(AuthorizationError::Invalid),
                    (0, _) => Err(AuthorizationError::NoneGiven),
                    (_, "") => Err(AuthorizationError::Invalid),
                    _ => Ok(token.as_str()),
                };
                assert_eq!(bearer([value.as_bytes()]), expected, "{value:?}");
            }
            Self::Any(values) => match (bearer(values.iter().copied()), values.as_slice()) {
                (Ok(token), [value]) => {
                    let before =
                        value.strip_suffix(token.as_bytes()).expect("a part of the header");
                    let before = str::from_utf8(before).expect("a word and spaces");
                    assert!(before.trim_end_matches(' ').eq_ignore_ascii_case("bearer"));
                    assert!(before.ends_with(' ') && !token.is_empty());
                    assert!(token.bytes().all(|byte| byte.is_ascii_graphic()));
                }
                (Ok(_), _) => panic!("a token out of {} headers", values.len()),
                (Err(error), values) => {
                    assert_eq!(
                        error == AuthorizationError::Invalid,
                        values.len() > 1 || begins(values)
                    );
                }
            },
        }
    }
}

/// Whether the one header is of this scheme.
fn begins(values: &[&[u8]]) -> bool {
    values.first().is_some_and(|value| {
        value.len() >= 6
            && value[..6].eq_ignore_ascii_case(b"bearer")
            && value.get(6).is_none_or(|byte| *byte == b' ')
    })
}

/// An API key opens what its record says, as it was given.
fn api_key(written: &Written<'_>, random: [u8; 6]) {
    let mut seed = [7; 48];
    for (n, byte) in random.into_iter().enumerate() {
        seed[n * 9] = byte;
    }
    let ours = ApiKey::new(seed);
    let record = KeyRecord::new(ours.id(), "acme", ours.digest(), Scopes::MEMORY);
    let text = written.text(ours.expose());
    let Some(brought) = ApiKey::parse(&text) else {
        assert_ne!(text, ours.expose());
        return;
    };
    assert_eq!(brought.expose(), text);
    let secret = text.rsplit('_').next().expect("a last part");
    assert!(!format!("{brought:?} {record:?}").contains(secret));
    let admitted = record.admits(&brought, at(NOW)).map(|found| (found.tenant, found.scopes));
    assert_eq!(admitted, (text == ours.expose()).then(|| ("acme".to_owned(), Scopes::MEMORY)));
    assert_eq!(KeyRecord::none().admits(&brought, at(NOW)), None);
}

/// Text where anything may stand.
fn any(text: &str) {
    assert_eq!(read(text, &AUTHORITY.keys), None);
    let found = Scopes::parse(text);
    assert!(found.iter().all(|scope| text.split(' ').any(|word| word == scope.word())));
    assert_eq!(Scopes::parse(&found.to_string()), found);
    let _ = metadata_url(text);
    let header = Challenge::NoneGiven.header(Some(text));
    assert!(header.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
    assert_eq!((header.matches('"').count(), header.contains('\\')), (4, false));
}
