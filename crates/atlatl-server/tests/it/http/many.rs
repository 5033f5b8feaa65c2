//! Many tenants on one server: a request gets the data of its own tenant only, whatever it says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use atlatl_memory::StoreError;
use atlatl_memory::contract::BlockOn;
use atlatl_server::auth::{ApiKey, KeyRecord, RateLimit, Scopes, TokenBucket, TokenRules};
use atlatl_server::auth::{ApiKeyLookup, Authenticator, Fetch, FetchError, Issuer};
use atlatl_server::event::{EventBus, ServerEventKind};
use atlatl_server::http::{HttpOptions, Tenant, Tenants};
use atlatl_server::{DatabaseTimeLimit, SignedLinks};
use chrono::TimeDelta;
use lro::{IdSeed, Spools};
use lro_spool::{
    Address, Draft, NewResult, ResultInfo, Scratch, Spool, SpoolError, StoredResult, SweepReport,
};
use mif::Memory;
use serde_json::{Value, json};
use testkit::authority::AccessTokenSigner;
use tokio::sync::Semaphore;

use super::served::{Answer, Served};
use crate::fixture::{self, Kept, Place};

const RESOURCE: &str = "https://memory.example/mcp";
const ISSUER: &str = "https://id.example";

/// Three memories, the same each time.
fn memories() -> Vec<Memory> {
    fixture::memories((0..3).map(|n| format!("The thought of number {n}.")))
}

/// Two tenants, one with three memories and one with none.
struct Team {
    places: BTreeMap<&'static str, Place>,
    tenants: BTreeMap<&'static str, Tenant>,
    keys: Arc<Known>,
    events: Arc<Kept>,
    authenticator: Authenticator,
}

/// Keys by id.
#[derive(Default)]
struct Known {
    records: Mutex<BTreeMap<String, KeyRecord>>,
    asked: AtomicUsize,
    away: AtomicBool,
}

#[async_trait]
impl ApiKeyLookup for Known {
    async fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("away".into()));
        }
        Ok(self.records.lock().unwrap().get(id).cloned())
    }
}

struct Both(BTreeMap<&'static str, Tenant>);

#[async_trait]
impl Tenants for Both {
    fn cached(&self, name: &str) -> Option<Tenant> {
        // One of them is never cached.
        self.0.get(name).filter(|_| name == "ann").cloned()
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        if name == "away" {
            return Err(StoreError::Unavailable("away".into()));
        }
        Ok(self.0.get(name).cloned())
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Team {
    fn new() -> Self {
        Self::at(IdSeed::from_system)
    }

    fn at(clock: fn() -> IdSeed) -> Self {
        let mut places = BTreeMap::from([("ann", Place::with(&memories())), ("bob", Place::new())]);
        for place in places.values_mut() {
            place.config.prompt.offload.shared_filesystem = true;
        }
        let tenants = places.iter().map(|(name, place)| {
            let mut tenant = Tenant::new(place.server());
            tenant.spools = Some(Spools::new(vec![place.spool()]));
            let links = SignedLinks::new(place.store.clone(), name, "https://memory.example");
            tenant.links = Some(Arc::new(links));
            (*name, tenant)
        });
        let (tenants, keys, events) =
            (tenants.collect(), Arc::new(Known::default()), Arc::default());
        let authenticator = Authenticator::new(RESOURCE.to_owned(), clock).with_keys(keys.clone());
        Self { places, tenants, keys, events, authenticator }
    }

    /// A key of a tenant with its secret.
    fn key(&self, tenant: &str, scopes: &str) -> String {
        self.key_with(tenant, scopes, |_| {})
    }

    fn key_with(&self, tenant: &str, scopes: &str, with: impl FnOnce(&mut KeyRecord)) -> String {
        let mut records = self.keys.records.lock().unwrap();
        let mut random = [7; 48];
        random[0] = u8::try_from(records.len()).unwrap();
        let key = ApiKey::new(random);
        let mut record = KeyRecord::new(key.id(), tenant, key.digest(), Scopes::parse(scopes));
        with(&mut record);
        records.insert(key.id().to_owned(), record);
        format!("Bearer {}", key.expose())
    }

    fn serve(self) -> (Served, BTreeMap<&'static str, Place>, Arc<Known>, Arc<Kept>) {
        let events = EventBus::new(IdSeed::from_system).with(self.events.clone());
        let (tenants, authenticator) = (Arc::new(Both(self.tenants)), Arc::new(self.authenticator));
        let served = Served::for_many(tenants, authenticator, events, HttpOptions::default());
        (served, self.places, self.keys, self.events)
    }
}

fn get(served: &Served, path: &str, key: &str) -> Answer {
    served.ask("GET", path, &[("Authorization", key)], "")
}

fn post(served: &Served, path: &str, key: &str, body: &Value) -> Answer {
    served.ask("POST", path, &[("Authorization", key)], &body.to_string())
}

fn tool(served: &Served, key: &str, name: &str, arguments: &Value) -> Answer {
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    });
    served.message(&[("Authorization", key)], &message)
}

fn new_memory() -> Value {
    json!({"content": "A thought of a tenant.", "memory_type": "semantic"})
}

fn denied(events: &Kept) -> Vec<(&'static str, Option<String>)> {
    let events = events.0.lock().unwrap();
    let denied = events.iter().filter_map(|event| match &event.kind {
        ServerEventKind::AccessDenied { reason, tenant, .. } => Some((*reason, tenant.clone())),
        _ => None,
    });
    denied.collect()
}

fn used(events: &Kept) -> Vec<(String, String, String)> {
    let events = events.0.lock().unwrap();
    let used = events.iter().filter_map(|event| match &event.kind {
        ServerEventKind::AccessUsed { tenant, subject, action } => {
            Some((tenant.clone(), subject.clone(), action.clone()))
        }
        _ => None,
    });
    used.collect()
}

#[test]
fn a_request_gets_its_own_tenants_data_whatever_it_says() {
    let team = Team::new();
    let (ann, bob) = (team.key("ann", "memory:read"), team.key("bob", "memory:read memory:write"));
    let (served, places, ..) = team.serve();
    assert_eq!(get(&served, "/v1/memories", &ann).json()["total"], 3);
    assert_eq!(get(&served, "/v1/memories", &bob).json()["total"], 0);
    get(&served, "/v1/memories?tenant=ann", &bob).is_problem(400);
    let named = [("Authorization", &*bob), ("X-Tenant", "ann"), ("Tenant", "ann")];
    assert_eq!(served.ask("GET", "/v1/memories", &named, "").json()["total"], 0);
    assert_eq!(post(&served, "/v1/memories", &bob, &new_memory()).status, 201);
    assert_eq!(get(&served, "/v1/memories", &ann).json()["total"], 3);
    assert_eq!(get(&served, "/v1/memories", &bob).json()["total"], 1);
    let id = memories()[0].id.to_string();
    assert_eq!(get(&served, &format!("/v1/memories/{id}"), &ann).status, 200);
    get(&served, &format!("/v1/memories/{id}"), &bob).is_problem(404);
    let found = tool(&served, &bob, "list_memories", &json!({})).json();
    assert_eq!(found["result"]["structuredContent"]["total_matches"], 1);
    drop(places);
}

#[test]
fn an_unauthenticated_request_gets_a_challenge_and_no_information() {
    let team = Team::new();
    let key = team.key("ann", "memory:read");
    let revoked = team.key_with("ann", "memory:read", |record| record.revoked = true);
    let past = "2020-01-01T00:00:00Z".parse().unwrap();
    let expired = team.key_with("ann", "memory:read", |record| record.expires = Some(past));
    let nowhere = team.key("cyd", "memory:read");
    let away = team.key("away", "memory:read");
    let (served, _places, keys, events) = team.serve();
    let open = get(&served, "/v1/memories", &key);
    assert_eq!((open.status, open.header("www-authenticate")), (200, None));

    let none = served.ask("GET", "/v1/memories", &[], "");
    none.is_problem(401);
    let scope = "Bearer scope=\"memory:read memory:write\"";
    assert_eq!(none.header("www-authenticate"), Some(scope));
    let mut last = key.clone();
    let end = if last.pop() == Some('A') { 'B' } else { 'A' };
    last.push(end);
    for wrong in [&revoked, &expired, &last, "Bearer atl_x_y", "Bearer a.b.c"] {
        let answer = get(&served, "/v1/memories", wrong);
        answer.is_problem(401);
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer error=\"invalid_token\""), "{challenge}");
    }
    let twice = [("Authorization", &*key), ("Authorization", &*key)];
    for answer in [
        served.ask("GET", "/v1/memories", &twice, ""),
        get(&served, "/v1/memories?access_token=x", &key),
        get(&served, "/v1/memories?a=b&access%5Ftoken=x", &key),
        get(&served, "/v1/memories", &key.replace("Bearer", "Basic")),
    ] {
        assert!(matches!(answer.status, 400 | 401), "{answer:?}");
        assert!(answer.header("www-authenticate").is_some());
    }
    let unserved = get(&served, "/v1/memories", &nowhere);
    unserved.is_problem(403);
    assert_eq!(unserved.header("www-authenticate"), None);
    let later = get(&served, "/v1/memories", &away);
    later.is_problem(503);
    assert_eq!(later.header("retry-after"), Some("1"));
    let reasons: Vec<_> = denied(&events).into_iter().map(|(reason, _)| reason).collect();
    for reason in ["nobody", "token", "request", "tenant"] {
        assert!(reasons.contains(&reason), "{reasons:?}");
    }
    assert!(denied(&events).contains(&("tenant", Some("cyd".to_owned()))));
    assert!(used(&events).is_empty(), "who reads changes nothing");

    // Authenticated principals are cached for a while, and no others.
    let asked = keys.asked.load(Ordering::SeqCst);
    assert_eq!(get(&served, "/v1/memories", &key).status, 200);
    assert_eq!(keys.asked.load(Ordering::SeqCst), asked);
    keys.away.store(true, Ordering::SeqCst);
    assert_eq!(get(&served, "/v1/memories", &key).status, 200);
    let unknown = get(&served, "/v1/memories", &last);
    unknown.is_problem(503);
    assert_eq!(unknown.header("retry-after"), Some("1"));
    assert_eq!(unknown.header("www-authenticate"), None);
    assert_eq!(denied(&events).last().unwrap().0, "unavailable");
    for open in ["/healthz", "/readyz"] {
        assert_eq!(served.ask("GET", open, &[], "").status, 200, "{open}");
    }
    served.get("/.well-known/oauth-protected-resource").is_problem(404);
}

static AHEAD: AtomicI64 = AtomicI64::new(0);

fn set_clock() -> IdSeed {
    let mut moment = IdSeed::from_system();
    moment.now += TimeDelta::seconds(AHEAD.load(Ordering::SeqCst));
    moment
}

#[test]
fn a_key_is_known_no_longer_than_it_is_good() {
    let team = Team::at(set_clock);
    let soon = chrono::Utc::now() + TimeDelta::milliseconds(1500);
    let key = team.key_with("ann", "memory:read", |record| record.expires = Some(soon));
    let (served, _places, keys, _) = team.serve();
    assert_eq!(get(&served, "/v1/memories", &key).status, 200);
    std::thread::sleep(Duration::from_millis(1600));
    get(&served, "/v1/memories", &key).is_problem(401);
    assert_eq!(keys.asked.load(Ordering::SeqCst), 2);
}

#[test]
fn each_route_and_tool_needs_its_scope_and_none_has_another_in_it() {
    let team = Team::new();
    let [reads, writes, rules] =
        ["read", "write", "admin"].map(|scope| team.key("ann", &format!("memory:{scope}")));
    let (served, _places, _, events) = team.serve();
    let id = memories()[0].id.to_string();
    let one = format!("/v1/memories/{id}");
    let offload = "/v1/offloads/01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let question = json!({"query": "x"}).to_string();
    let memory = new_memory().to_string();
    let asked = |key: &str, method: &str, path: &str, body: &str| {
        served.ask(method, path, &[("Authorization", key)], body).status
    };
    let routes = [
        ("GET", "/v1/memories", "", 200, 0),
        ("HEAD", "/v1/memories", "", 200, 0),
        ("GET", &*one, "", 200, 0),
        ("POST", "/v1/search", &*question, 200, 0),
        ("GET", offload, "", 404, 0),
        ("POST", "/v1/memories", &*memory, 201, 1),
        ("PUT", &*one, &*memory, 200, 1),
        ("DELETE", &*one, "", 204, 1),
        ("GET", "/metrics", "", 200, 2),
    ];
    let keys = [&reads, &writes, &rules];
    for (method, path, body, status, whose) in routes {
        for (number, key) in keys.iter().enumerate().filter(|(number, _)| *number != whose) {
            assert_eq!(asked(key, method, path, body), 403, "{method} {path} {number}");
        }
        assert_eq!(asked(keys[whose], method, path, body), status, "{method} {path}");
    }
    let insufficient = get(&served, "/metrics", &reads);
    let challenge = insufficient.header("www-authenticate").unwrap();
    assert_eq!(challenge, "Bearer error=\"insufficient_scope\", scope=\"memory:admin\"");
    for key in keys {
        assert_eq!(asked(key, "GET", "/openapi.json", ""), 200);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(served.message(&[("Authorization", key)], &ping).status, 200);
    }
    let tools = [
        ("list_memories", json!({}), 0),
        ("recall_memories", json!({"query": "x"}), 0),
        ("capture_memory", new_memory(), 1),
    ];
    for (name, arguments, whose) in tools {
        for (number, key) in keys.iter().enumerate() {
            let answer = tool(&served, key, name, &arguments);
            assert_eq!(answer.status, if number == whose { 200 } else { 403 }, "{name} {number}");
        }
    }
    // Each write is audited, with its principal and never with its contents.
    let used = used(&events);
    let actions: Vec<&str> = used.iter().map(|(_, _, action)| &**action).collect();
    let expected = [
        "POST /v1/memories",
        "PUT /v1/memories/{id}",
        "DELETE /v1/memories/{id}",
        "GET /metrics",
        "capture_memory",
    ];
    assert_eq!(actions, expected);
    assert!(used.iter().all(|(tenant, who, _)| tenant == "ann" && who.starts_with("key:")));
    let refused = denied(&events);
    assert!(refused.iter().all(|entry| *entry == ("scope", Some("ann".to_owned()))), "{refused:?}");
}

#[test]
fn a_tenant_asks_no_more_often_and_no_more_at_once_than_it_may() {
    let mut team = Team::new();
    let two = std::num::NonZeroU32::new(2).unwrap();
    let bucket = TokenBucket::new(RateLimit::per_minute(two, two));
    team.tenants.get_mut("ann").unwrap().rate = Some(Arc::new(Mutex::new(bucket)));
    team.tenants.get_mut("bob").unwrap().busy = Some(Arc::new(Semaphore::new(1)));
    let busy = team.tenants["bob"].busy.clone().unwrap();
    let (ann, bob) = (team.key("ann", "memory:read"), team.key("bob", "memory:read"));
    let (served, _places, _, events) = team.serve();
    for _ in 0..2 {
        assert_eq!(get(&served, "/v1/memories", &ann).status, 200);
    }
    let often = get(&served, "/v1/memories", &ann);
    often.is_problem(429);
    let wait: u64 = often.header("retry-after").unwrap().parse().unwrap();
    assert!((25..=31).contains(&wait), "{wait}");
    // The permit is released with each response.
    for _ in 0..3 {
        assert_eq!(get(&served, "/v1/memories", &bob).status, 200);
    }
    let taken = busy.try_acquire().unwrap();
    let full = get(&served, "/v1/memories", &bob);
    full.is_problem(429);
    assert_eq!(full.header("retry-after"), Some("1"));
    drop(taken);
    assert_eq!(get(&served, "/v1/memories", &bob).status, 200);
    let who = |name: &str| ("rate", Some(name.to_owned()));
    assert_eq!(denied(&events), [who("ann"), who("bob")]);
}

#[test]
fn g42_a_tenant_that_used_its_database_time_is_rejected_and_others_are_not() {
    let mut team = Team::new();
    let limit = Arc::new(DatabaseTimeLimit::new(std::num::NonZeroU32::new(100).unwrap()));
    team.tenants.get_mut("ann").unwrap().database_time = Some(limit.clone());
    let (ann, bob) = (team.key("ann", "memory:read"), team.key("bob", "memory:read"));
    let (served, _places, _, events) = team.serve();
    limit.spend(Duration::from_secs(5));
    assert_eq!(get(&served, "/v1/memories", &ann).status, 200);
    limit.spend(Duration::from_secs(3));
    let over = get(&served, "/v1/memories", &ann);
    over.is_problem(429);
    assert!(over.json()["detail"].to_string().contains("database time"), "{over:?}");
    let wait: u64 = over.header("retry-after").unwrap().parse().unwrap();
    assert!((15..=21).contains(&wait), "{wait}");
    assert_eq!(get(&served, "/v1/memories", &bob).status, 200);
    assert_eq!(denied(&events), [("rate", Some("ann".to_owned()))]);
}

#[test]
fn a_tenant_keeps_no_more_memories_than_it_may() {
    let team = Team::new();
    let ann = team.key("ann", "memory:write memory:read");
    team.tenants["ann"].server.bound(Some(4));
    let (served, _places, ..) = team.serve();
    assert_eq!(post(&served, "/v1/memories", &ann, &new_memory()).status, 201);
    let full = post(&served, "/v1/memories", &ann, &new_memory());
    full.is_problem(507);
    assert!(full.json()["detail"].to_string().contains("at most 4 memories"), "{full:?}");
    let full = tool(&served, &ann, "capture_memory", &new_memory()).json()["result"].clone();
    assert_eq!(full["isError"], true, "{full}");
    assert!(full["content"][0]["text"].to_string().contains("4 memories"), "{full}");
    assert_eq!(get(&served, "/v1/memories", &ann).json()["total"], 4);
}

/// A spool that does not respond.
struct Away;

fn away<T>() -> Result<T, SpoolError> {
    let source = std::io::ErrorKind::TimedOut.into();
    Err(SpoolError::Io { op: "read", path: "/away".into(), source })
}

impl Spool for Away {
    fn create(&self, _: NewResult) -> Result<Box<dyn Draft>, SpoolError> {
        away()
    }

    fn open(
        &self,
        _: &Address,
        _: chrono::DateTime<chrono::Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        away()
    }

    fn list(&self) -> Result<Vec<ResultInfo>, SpoolError> {
        away()
    }

    fn remove(&self, _: &Address) -> Result<ResultInfo, SpoolError> {
        away()
    }

    fn sweep(&self, _: chrono::DateTime<chrono::Utc>) -> Result<SweepReport, SpoolError> {
        away()
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        away()
    }
}

#[test]
fn where_results_are_not_to_be_had_one_is_asked_to_come_back() {
    let mut team = Team::new();
    let ann = team.key("ann", "memory:read");
    team.tenants.get_mut("ann").unwrap().spools = Some(Spools::new(vec![Arc::new(Away)]));
    let (served, _places, ..) = team.serve();
    let answer = get(&served, "/v1/offloads/01ARZ3NDEKTSV4RRFFQ69G5FAV", &ann);
    answer.is_problem(503);
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn a_link_works_without_a_token_and_only_as_it_was_signed() {
    let team = Team::new();
    let ann = team.key("ann", "memory:read");
    let links = team.tenants["ann"].links.clone().unwrap();
    links.load_key().wait().unwrap();
    let (mut many, place) = (memories(), &team.places["ann"]);
    for memory in &mut many {
        memory.content = memory.content.repeat(4000);
    }
    place.store.put(&many, atlatl_memory::OnConflict::Replace).wait().unwrap();
    let (served, places, ..) = team.serve();
    let stored = tool(&served, &ann, "list_memories", &json!({"detail": "full"})).json();
    assert_eq!(stored["result"]["structuredContent"]["offloaded"], true);
    let name = places["ann"].files()[0].file_name().unwrap().to_string_lossy().into_owned();
    let id = name.trim_end_matches(".jsonl").rsplit('-').next().unwrap().to_owned();
    let link = lro::LinkProvider::link(&*links, id.parse().unwrap(), chrono::Utc::now()).unwrap();
    let path = link.strip_prefix("https://memory.example").unwrap();
    let answer = served.get(path);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    let whole = format!("/v1/offloads/{id}");
    assert_eq!(get(&served, &whole, &ann).body, answer.body);
    served.get(&whole).is_problem(401);
    // Another tenant's name in it, another result, or none.
    let (front, part) = path.rsplit_once('/').unwrap();
    let (_, signed) = part.split_once('.').unwrap();
    for other in [
        format!("{front}/Ym9i.{signed}"),
        format!("{front}/Y3lk.{signed}"),
        format!("{front}x/{part}"),
        format!("/v1/offloads/01ARZ3NDEKTSV4RRFFQ69G5FAV/{part}"),
        format!("{front}/{part}A"),
        format!("{front}/x"),
    ] {
        served.get(&other).is_problem(404);
    }
    let past = chrono::Utc::now() - TimeDelta::minutes(6);
    let over = lro::LinkProvider::link(&*links, id.parse().unwrap(), past).unwrap();
    served.get(over.strip_prefix("https://memory.example").unwrap()).is_problem(410);
}

/// An authorization server with configurable responses.
#[derive(Default)]
struct Authority {
    documents: Mutex<BTreeMap<String, String>>,
    asked: AtomicUsize,
}

impl Fetch for Authority {
    fn fetch(&self, url: &str) -> Result<String, FetchError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.documents.lock().unwrap().get(url).cloned().ok_or(FetchError::NotFound)
    }
}

impl Authority {
    fn says(&self, path: &str, document: &Value) {
        self.documents.lock().unwrap().insert(format!("{ISSUER}{path}"), document.to_string());
    }
}

static LATER: AtomicI64 = AtomicI64::new(0);

fn later() -> IdSeed {
    let mut moment = IdSeed::from_system();
    moment.now += TimeDelta::seconds(LATER.load(Ordering::SeqCst));
    moment
}

#[test]
fn tokens_are_taken_with_the_keys_that_their_issuer_has_now() {
    let mut team = Team::at(later);
    let authority = Arc::new(Authority::default());
    let rules = TokenRules::new(ISSUER, [RESOURCE], "tenant");
    let issuer = Issuer::new(rules, authority.clone());
    team.authenticator = team.authenticator.with_issuer(issuer);
    let key = team.key("bob", "memory:read");
    let (served, ..) = team.serve();
    let mut signer = AccessTokenSigner::new("ann", RESOURCE);
    let token = |signer: &AccessTokenSigner, subject: u64| {
        let mut claims = signer.claims(ISSUER, "memory:read", 3600 * 24);
        claims["jti"] = subject.into();
        format!("Bearer {}", signer.sign(&claims))
    };
    // API keys keep working without the issuer; tokens do not.
    get(&served, "/v1/memories", &token(&signer, 0)).is_problem(503);
    assert_eq!(get(&served, "/v1/memories", &key).status, 200);
    let metadata = |issuer: &str| json!({"issuer": issuer, "jwks_uri": format!("{ISSUER}/keys")});
    let well_known = "/.well-known/openid-configuration";
    authority.says("/keys", &signer.key_set());
    // A document that names another issuer is rejected.
    authority.says(well_known, &metadata("https://other.example"));
    LATER.fetch_add(120, Ordering::SeqCst);
    get(&served, "/v1/memories", &token(&signer, 1)).is_problem(503);
    authority.says(well_known, &metadata(ISSUER));
    LATER.fetch_add(120, Ordering::SeqCst);
    let answer = get(&served, "/v1/memories", &token(&signer, 2));
    assert_eq!((answer.status, answer.json()["total"].clone()), (200, json!(3)));
    // The same keys serve the next token.
    let asked = authority.asked.load(Ordering::SeqCst);
    assert_eq!(get(&served, "/v1/memories", &token(&signer, 3)).status, 200);
    assert_eq!(authority.asked.load(Ordering::SeqCst), asked);
    // An unknown key causes a fetch, but not again at once.
    signer.key = 1;
    LATER.fetch_add(60, Ordering::SeqCst);
    get(&served, "/v1/memories", &token(&signer, 4)).is_problem(401);
    let asked = authority.asked.load(Ordering::SeqCst);
    get(&served, "/v1/memories", &token(&signer, 5)).is_problem(401);
    assert_eq!(authority.asked.load(Ordering::SeqCst), asked);
    authority.says("/keys", &signer.key_set());
    LATER.fetch_add(60, Ordering::SeqCst);
    assert_eq!(get(&served, "/v1/memories", &token(&signer, 6)).status, 200);
    let challenged = served.ask("GET", "/v1/memories", &[], "");
    let challenge = challenged.header("www-authenticate").unwrap();
    let named =
        "resource_metadata=\"https://memory.example/.well-known/oauth-protected-resource/mcp\"";
    assert!(challenge.ends_with(named), "{challenge}");
    for path in ["", "/mcp"] {
        let metadata = served.get(&format!("/.well-known/oauth-protected-resource{path}")).json();
        assert_eq!(metadata["resource"], RESOURCE);
        assert_eq!(metadata["authorization_servers"], json!([ISSUER]));
    }
}
