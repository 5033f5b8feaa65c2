//! API keys, unchanged and slightly changed.

use atlatl_server::auth::{ApiKey, AuthScope, KeyRecord, Scopes};
use chrono::{DateTime, TimeDelta, Utc};

use crate::authority::{NOW, at};

fn random(seed: u8) -> [u8; 48] {
    std::array::from_fn(|n| u8::try_from(n).unwrap().wrapping_mul(37).wrapping_add(seed))
}

fn record(key: &ApiKey) -> KeyRecord {
    KeyRecord::new(key.id(), "acme", key.digest(), Scopes::MEMORY)
}

fn now() -> DateTime<Utc> {
    at(NOW)
}

#[test]
fn a_key_comes_back_as_it_was_shown() {
    for seed in 0..=255 {
        let key = ApiKey::new(random(seed));
        let text = key.expose();
        assert_eq!(text.len(), 4 + 16 + 1 + 43);
        assert_eq!(text.matches('_').count(), 2);
        let read = ApiKey::parse(text).unwrap();
        assert_eq!(read.id(), key.id());
        assert_eq!(read.expose(), text);
        assert_eq!(read.digest(), key.digest());
    }
    let edges = [ApiKey::new([0; 48]), ApiKey::new([255; 48])];
    assert!(edges.iter().all(|key| ApiKey::parse(key.expose()).is_some()));
}

#[test]
fn only_a_key_to_the_letter_is_one() {
    let key = ApiKey::new(random(1));
    let good = key.expose();
    let (id, secret) = good[4..].split_once('_').unwrap();
    let odd = [
        String::new(),
        "atl_".into(),
        format!(" {good}"),
        format!("{good}\n"),
        format!("{good}="),
        format!("{good}_"),
        good.to_uppercase(),
        good[1..].into(),
        good[..good.len() - 1].into(),
        format!("atl_{id}{secret}"),
        format!("atl_{id}__{}", &secret[1..]),
        format!("atl_{secret}_{id}"),
        format!("atl_{}-_{secret}", &id[1..]),
        format!("atl_{id}_-{}", &secret[1..]),
        format!("atl_{id}_é{}", &secret[2..]),
        format!("ATL_{id}_{secret}"),
    ];
    for odd in odd {
        assert!(ApiKey::parse(&odd).is_none(), "{odd}");
    }
}

#[test]
fn a_key_lets_in_whom_its_record_says() {
    let key = ApiKey::new(random(1));
    let principal = record(&key).admits(&key, now()).unwrap();
    assert_eq!(principal.tenant, "acme");
    assert_eq!(principal.subject, format!("key:{}", key.id()));
    assert!(principal.scopes.has(AuthScope::Write) && !principal.scopes.has(AuthScope::Admin));
}

#[test]
fn every_letter_of_a_key_counts() {
    let key = ApiKey::new(random(1));
    let record = record(&key);
    for at in 4..key.expose().len() {
        let mut changed = key.expose().to_owned().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = ApiKey::parse(&String::from_utf8(changed).unwrap());
        let admitted = changed.and_then(|changed| record.admits(&changed, now()));
        assert_eq!(admitted, None, "{at}");
    }
}

#[test]
fn expired_revoked_and_foreign_keys_are_rejected() {
    let key = ApiKey::new(random(1));
    let good = record(&key);
    let mut expiring = good.clone();
    expiring.expires = Some(now());
    assert!(expiring.admits(&key, now() - TimeDelta::milliseconds(1)).is_some());
    assert_eq!(expiring.admits(&key, now()), None);
    let mut revoked = good.clone();
    revoked.revoked = true;
    assert_eq!(revoked.admits(&key, now()), None);
    let other = ApiKey::new(random(2));
    assert_eq!(good.admits(&other, now()), None);
    // A record with another key's id or digest accepts no key.
    let mixed = KeyRecord::new(key.id(), "acme", other.digest(), Scopes::MEMORY);
    assert_eq!(mixed.admits(&key, now()), None);
    assert_eq!(mixed.admits(&other, now()), None);
    let without_id = KeyRecord::new(key.id(), "", key.digest(), Scopes::MEMORY);
    assert_eq!(without_id.admits(&key, now()), None);
    assert_eq!(KeyRecord::none().admits(&key, now()), None);
}

#[test]
fn nothing_printed_tells_a_secret() {
    let key = ApiKey::new(random(1));
    let secret = key.expose().rsplit('_').next().unwrap();
    let record = record(&key);
    let printed = format!("{key:?} {key:#?} {record:?} {record:#?}");
    assert_eq!(format!("{key:?}"), format!("ApiKey({})", key.id()));
    assert!(format!("{record:?}").contains(key.id()));
    assert!(!printed.contains(secret) && !printed.contains("digest"));
}

#[test]
fn a_digest_stays_what_it_is() {
    // Records outlive a release: a changed digest would invalidate every key.
    let digest = format!("{:02x?}", ApiKey::new(random(1)).digest());
    let digest: String = digest.chars().filter(char::is_ascii_alphanumeric).collect();
    assert_eq!(digest, "74da5660bf79085603c68c350350f970e24c3e1aef6bd2a5b6217fd682d107e3");
    assert_eq!(
        ApiKey::new(random(1)).expose(),
        "atl_oVGxX0c72XeuzjW4_WavkIjEVDLMCPyUTZr4tChQNJFOzkJnUm6EEndnJgJJ"
    );
}
