//! Link: what stands in the place of a signed link to a stored result.
//!
//! A link opens one result of one tenant of one store for five minutes, as it was given. Everything
//! else opens nothing, and says of nothing that it once did.

#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use atlatl_server::auth::is_tenant;
use atlatl_fuzz::Written;
use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore, SqliteStore};
use atlatl_server::{SignedUrl, SignedLinks};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro::LinkProvider;
use lro_core::ResultId;
use tempfile::TempDir;

const BASE: &str = "https://memory.example";
const NOW: i64 = 1_800_000_000;
/// For how long a link is good.
const SECONDS: i64 = 300;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    /// Whose link it is: the store, the tenant, the result.
    store: bool,
    tenant: &'a str,
    id: (u64, u128),
    /// When it was given, in milliseconds.
    given: i64,
    /// With whom it is tried.
    other_store: bool,
    other_tenant: Other<'a>,
    other_id: Option<(u64, u128)>,
    /// When it is tried, counted from its end.
    tried: Time,
    part: Written<'a>,
}

#[derive(Debug, Arbitrary)]
enum Other<'a> {
    Same,
    Another(&'a str),
    /// One whose name begins with the tenant's.
    Longer(&'a str),
}

#[derive(Debug, Arbitrary)]
enum Time {
    Near(i8),
    Far(i32),
}

/// Two stores, each with a secret of its own.
struct Stores {
    _home: TempDir,
    stores: [Arc<dyn MemoryStore>; 2],
}

static STORES: LazyLock<Stores> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let home = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    let home = home.expect("a temporary directory");
    let stores = ["one.db", "other.db"].map(|name| {
        let store = SqliteStore::open(&home.path().join(name)).expect("a store");
        Arc::new(store) as Arc<dyn MemoryStore>
    });
    Stores { _home: home, stores }
});

fuzz_target!(|input: Input<'_>| {
    let links = |store: bool, tenant: &str, base: &str| {
        let links = SignedLinks::new(STORES.stores[usize::from(store)].clone(), tenant, base);
        links.load_key().wait().expect("a store that answers");
        links
    };
    let id = ResultId::new(input.id.0, input.id.1);
    // Some hundred years around now: no clock says anything else.
    let given = at(NOW * 1000 + input.given % (1 << 42));
    let end = given.timestamp() + SECONDS;
    let link = links(input.store, input.tenant, BASE).link(id, given).expect("a link");
    let part = link.strip_prefix(&format!("{BASE}/v1/offloads/{id}/")).expect("its place");
    assert!(!part.contains('/') && part.bytes().all(|byte| byte.is_ascii_graphic()));
    let named = is_tenant(input.tenant).then(|| input.tenant.to_owned());
    assert_eq!(SignedLinks::claimed_tenant(part), named, "a link says whose it is");

    let tenant = match input.other_tenant {
        Other::Same => input.tenant.to_owned(),
        Other::Another(tenant) => tenant.to_owned(),
        Other::Longer(more) => format!("{}{more}", input.tenant),
    };
    let asked = input.other_id.map_or(id, |(ms, random)| ResultId::new(ms, random));
    let now = match input.tried {
        Time::Near(seconds) => at((end + i64::from(seconds)) * 1000),
        Time::Far(ms) => at(end * 1000 + i64::from(ms)),
    };
    let text = input.part.text(part);
    let ours = links(input.other_store, &tenant, "http://other.example/");
    let brought = ours.verify(asked, &text, now).wait().expect("a store that answers");
    let its_own =
        text == part && tenant == input.tenant && input.other_store == input.store && asked == id;
    let expected = match its_own {
        true if now.timestamp() < end => SignedUrl::Valid,
        true => SignedUrl::Expired,
        false => SignedUrl::Invalid,
    };
    assert_eq!(brought, expected, "{text:?} for {tenant:?} and {asked}, given as {part:?}");

    if let Some(name) = SignedLinks::claimed_tenant(&text) {
        assert!(is_tenant(&name));
        assert_eq!(text.split('.').next(), Some(URL_SAFE_NO_PAD.encode(&name).as_str()));
    }
});

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).expect("a time within range")
}
