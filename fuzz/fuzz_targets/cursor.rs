//! Cursor: what a server gave a client to keep, as it comes back.
//!
//! A cursor opens the page behind it with the arguments it was given for, and a task's id the task;
//! the same each time, and in every process on the store. Whatever else is brought is an error that
//! tells nothing of a memory.

#![no_main]

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use atlatl_fuzz::Written;
use atlatl_memory::contract::BlockOn;
use atlatl_memory::{OnConflict, MemoryStore, SqliteStore};
use atlatl_server::{MemoryServer, MemoryServerConfig, stdio};
use chrono::DateTime;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro::IdSeed;
use mif::Memory;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// As many as a list of resources has on more than one page.
const MEMORIES: usize = 120;
/// Memories on the page that a cursor was given with.
const FIRST: usize = 7;
/// What stands in every memory, and so in no error.
const CONTENT: &str = "zephyr";
const IDS: &str = "00000000-0000-7000-8000-";

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    /// Which of two processes is asked.
    process: bool,
    asks: [Option<Ask<'a>>; 3],
}

#[derive(Debug, Arbitrary)]
struct Ask<'a> {
    id: AskId<'a>,
    modern: bool,
    /// Where it is brought.
    at: At,
    /// Which of those that were given it was, and what became of it.
    given: Given,
    text: Written<'a>,
    more: Vec<More>,
}

#[derive(Debug, Arbitrary)]
enum AskId<'a> {
    Number,
    Fraction,
    Text(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Arbitrary)]
enum At {
    List,
    Recall,
    Search,
    Resources,
    TaskGet,
    TaskResult,
    TaskCancel,
    TaskUpdate,
}

/// What was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Arbitrary)]
enum Given {
    /// The one that belongs there.
    Own,
    List,
    Recall,
    Search,
    Resources,
    Task,
    /// One whose call is too long for its id: it is known where it was begun.
    LongTask,
}

/// Another argument.
#[derive(Debug, Arbitrary)]
enum More {
    Limit(u8),
    LimitText(u8),
    Null(u8),
    Order,
    Detail,
    Tag(char),
    Namespace,
    Query(char),
    Unknown,
}

/// Two processes on one store, and what they gave.
struct Place {
    _home: TempDir,
    servers: [MemoryServer; 2],
    given: HashMap<Given, String>,
    /// The memories in the order of each list.
    whole: HashMap<At, Vec<String>>,
    /// What was answered before, in short.
    answers: Mutex<HashMap<(At, bool, bool, usize, String), u64>>,
}

static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

fuzz_target!(|input: Input<'_>| {
    let asks: Vec<&Ask<'_>> = input.asks.iter().flatten().collect();
    let texts: Vec<String> = asks.iter().map(|ask| ask.text.text(PLACE.given(ask))).collect();
    let ids: Vec<Value> = asks.iter().enumerate().map(|(n, ask)| ask.id.json(n)).collect();
    let requests: Vec<Value> = asks
        .iter()
        .zip(&texts)
        .zip(&ids)
        .map(|((ask, text), id)| request(id, ask.at, ask.modern, &ask.arguments(), text))
        .collect();
    let mut answers = served(&PLACE.servers[usize::from(input.process)], &requests);
    for ((ask, text), id) in asks.iter().zip(&texts).zip(&ids) {
        let at = answers.iter().position(|answer| answer["id"] == *id).expect("an answer to each");
        let answer = answers.swap_remove(at);
        PLACE.check(ask, text, input.process, &answer);
    }
    assert!(answers.is_empty(), "no other answers: {answers:?}");
});

/// A time that stands still, and numbers that are never the same.
fn clock() -> IdSeed {
    static RANDOM: AtomicU64 = AtomicU64::new(0);
    let now = DateTime::from_timestamp(1_800_000_000, 0).expect("within range");
    IdSeed { now, random: RANDOM.fetch_add(1, Ordering::Relaxed).into() }
}

impl Place {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let home = home.expect("a temporary directory");
        let file = home.path().join("memory.db");
        let open = || Arc::new(SqliteStore::open(&file).expect("a store")) as Arc<dyn MemoryStore>;
        let stores = [open(), open()];
        let memories: Vec<Memory> = (0..MEMORIES).map(memory_of).collect();
        stores[0].put(&memories, OnConflict::Keep).wait().expect("they are stored");
        let servers = stores.map(|store| {
            let estimate = Arc::new(|text: &str| text.len() as u64);
            MemoryServer::new(MemoryServerConfig::new(store, estimate, clock)).wait()
        });
        let (given, whole, answers) = Default::default();
        let mut place = Self { _home: home, servers, given, whole, answers };
        for (at, given) in
            [(At::List, Given::List), (At::Recall, Given::Recall), (At::Search, Given::Search)]
        {
            let set = |limit| {
                let arguments = json!({"limit": limit});
                let answer = place.ask(at, arguments.as_object().expect("an object"));
                answer["result"]["structuredContent"].clone()
            };
            let (first, all) = (set(FIRST), set(MEMORIES));
            assert_eq!((all["count"].as_u64(), first["count"].as_u64()), (Some(120), Some(7)));
            place.given.insert(given, text(&first["next_cursor"]));
            place.whole.insert(at, named(&all["memories"], "id"));
        }
        let first = place.ask(At::Resources, &Map::new())["result"].clone();
        let mut all = named(&first["resources"], "uri");
        place.given.insert(Given::Resources, text(&first["nextCursor"]));
        let rest =
            request(&json!(1), At::Resources, false, &Map::new(), &text(&first["nextCursor"]));
        let rest = served(&place.servers[0], &[rest]).swap_remove(0);
        all.extend(named(&rest["result"]["resources"], "uri"));
        assert_eq!(all.len(), MEMORIES);
        place.whole.insert(At::Resources, all);
        for (given, words) in [(Given::Task, 1), (Given::LongTask, 200)] {
            let query = "harbour ".repeat(words);
            let params = json!({
                "name": "recall_memories", "arguments": {"query": query}, "task": {"ttl": 3_600_000},
            });
            let begins =
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let begun = served(&place.servers[0], &[begins]).swap_remove(0);
            let id = text(&begun["result"]["task"]["taskId"]);
            // From now on it has ended, in both processes.
            let result = request(&json!(1), At::TaskResult, false, &Map::new(), &id);
            place.servers.iter().for_each(|server| drop(served(server, &[result.clone()])));
            place.given.insert(given, id);
        }
        place
    }

    /// Asks without a cursor.
    fn ask(&self, at: At, arguments: &Map<String, Value>) -> Value {
        let mut arguments = arguments.clone();
        arguments.extend(base(at));
        let mut request = request(&json!(1), at, false, &arguments, "");
        let params = &mut request["params"];
        let holder = if at == At::Resources { params } else { &mut params["arguments"] };
        holder.as_object_mut().expect("an object").remove("cursor");
        served(&self.servers[0], &[request]).swap_remove(0)
    }

    fn given(&self, ask: &Ask<'_>) -> &str {
        let own = match ask.at {
            At::List => Given::List,
            At::Recall => Given::Recall,
            At::Search => Given::Search,
            At::Resources => Given::Resources,
            _ => Given::Task,
        };
        &self.given[&if ask.given == Given::Own { own } else { ask.given }]
    }

    /// Whether what was brought opens what it should, and nothing else.
    fn check(&self, ask: &Ask<'_>, text: &str, process: bool, answer: &Value) {
        assert_eq!(answer["jsonrpc"], "2.0");
        let members = answer.as_object().expect("an object");
        assert_eq!(members.len(), 3, "an id, and a result or an error: {answer}");
        if let Some(error) = members.get("error") {
            assert!(error["code"].is_i64() && error["message"].is_string(), "{error}");
        }
        let failed = members.contains_key("error") || answer["result"]["isError"] == true;
        let is = |given: Given| text == self.given[&given];
        let known = is(Given::Task) || is(Given::LongTask) && !process;
        let limit = ask.limit();
        let opens = match ask.at {
            At::List => is(Given::List) && ask.asks_the_same() && limit > 0,
            At::Recall => is(Given::Recall) && ask.asks_the_same() && limit > 0,
            At::Search => is(Given::Search) && ask.asks_the_same() && limit > 0,
            // What else stands there does not matter.
            At::Resources => is(Given::Resources),
            At::TaskGet => known,
            At::TaskResult => known && !ask.modern,
            // What has ended cannot be cancelled; from 2026-07-28 on that is no failure.
            At::TaskCancel | At::TaskUpdate => known && ask.modern,
        };
        assert_eq!(!failed, opens, "{ask:?} with {text:?}: {answer}");
        if failed {
            let said = answer.to_string();
            assert!(!said.contains(CONTENT) && !said.contains(IDS), "{ask:?}: {said}");
            return;
        }
        let result = &answer["result"];
        match ask.at {
            At::List | At::Recall | At::Search => {
                let page = named(&result["structuredContent"]["memories"], "id");
                let whole = &self.whole[&ask.at];
                assert_eq!(page, whole[FIRST..(FIRST + limit).min(MEMORIES)]);
                let last = result["structuredContent"]["next_cursor"].is_null();
                assert_eq!(last, FIRST + limit >= MEMORIES);
            }
            At::Resources => {
                let page = named(&result["resources"], "uri");
                assert_eq!(page, self.whole[&ask.at][MEMORIES - page.len()..]);
            }
            At::TaskGet => assert_eq!(result["status"], "completed"),
            At::TaskResult => assert!(result.to_string().contains(CONTENT)),
            At::TaskCancel | At::TaskUpdate => {}
        }
        let key = (ask.at, ask.modern, process, limit, text.to_owned());
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hasher = DefaultHasher::new();
        result.to_string().hash(&mut hasher);
        let now = hasher.finish();
        assert_eq!(*answers.entry(key).or_insert(now), now, "the same each time");
    }
}

impl Ask<'_> {
    fn arguments(&self) -> Map<String, Value> {
        let mut arguments = base(self.at);
        for more in &self.more {
            let (name, value) = match more {
                More::Limit(limit) => ("limit", json!(limit)),
                More::LimitText(limit) => ("limit", json!(format!(" {limit}"))),
                More::Null(n) => (["tags", "since", "status"][usize::from(n % 3)], Value::Null),
                More::Order => ("order", json!("oldest")),
                More::Detail => ("detail", json!("full")),
                More::Tag(c) => ("tags", json!([c])),
                More::Namespace => ("namespace", json!("_semantic")),
                More::Query(c) => ("query", json!(c)),
                More::Unknown => ("offset", json!(7)),
            };
            arguments.insert(name.to_owned(), value);
        }
        arguments
    }

    /// Whether the question is the one that the cursor was given for: how many are wanted, and what
    /// is null, do not change it.
    fn asks_the_same(&self) -> bool {
        let mut arguments = self.arguments();
        arguments.retain(|name, value| name != "limit" && !value.is_null());
        arguments == base(self.at)
    }

    /// How many are wanted: fifty, where nobody says.
    fn limit(&self) -> usize {
        let limit = |more: &More| match more {
            More::Limit(limit) | More::LimitText(limit) => Some(usize::from(*limit)),
            _ => None,
        };
        self.more.iter().filter_map(limit).next_back().unwrap_or(50)
    }
}

impl AskId<'_> {
    /// The id of the request `n`, which differs from those of the others.
    fn json(&self, n: usize) -> Value {
        match self {
            Self::Number => json!(n),
            Self::Fraction => json!(n as f64 + 0.5),
            Self::Text(text) => json!(format!("{text}{n}")),
        }
    }
}

/// The arguments that each was given for.
fn base(at: At) -> Map<String, Value> {
    let query = match at {
        At::Recall | At::Search => json!({"query": "harbour register"}),
        _ => json!({}),
    };
    query.as_object().cloned().unwrap_or_default()
}

fn request(id: &Value, at: At, modern: bool, arguments: &Map<String, Value>, text: &str) -> Value {
    let mut arguments = arguments.clone();
    let (method, held) = match at {
        At::List | At::Recall | At::Search => ("tools/call", "cursor"),
        At::Resources => ("resources/list", "cursor"),
        At::TaskGet => ("tasks/get", "taskId"),
        At::TaskResult => ("tasks/result", "taskId"),
        At::TaskCancel => ("tasks/cancel", "taskId"),
        At::TaskUpdate => ("tasks/update", "taskId"),
    };
    arguments.insert(held.to_owned(), text.into());
    let tool = match at {
        At::List => Some("list_memories"),
        At::Recall => Some("recall_memories"),
        At::Search => Some("search_memories"),
        _ => None,
    };
    let mut params = match tool {
        Some(tool) => json!({"name": tool, "arguments": arguments}),
        None => Value::Object(arguments),
    };
    if modern {
        // Whoever calls a tool wants its answer, however long it takes.
        let extensions =
            if tool.is_some() { json!({}) } else { json!({"io.modelcontextprotocol/tasks": {}}) };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
        });
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// What a server writes.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answers to requests, each of which is JSON.
fn served(server: &MemoryServer, requests: &[Value]) -> Vec<Value> {
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let output = Output::default();
    stdio::serve(server, std::io::Cursor::new(lines), output.clone()).wait();
    let written = output.0.lock().unwrap_or_else(PoisonError::into_inner);
    let answers = serde_json::Deserializer::from_slice(&written).into_iter();
    answers.map(|answer| answer.expect("every answer is JSON")).collect()
}

/// The members `name` of what a list holds.
fn named(list: &Value, name: &str) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|one| text(&one[name])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn memory_of(n: usize) -> Memory {
    let json = json!({
        "id": format!("{IDS}{n:012x}"),
        "memory_type": "semantic",
        "title": format!("{CONTENT} {n}"),
        "namespace": "_semantic/knowledge",
        "tags": [CONTENT],
        "created": format!("2026-01-01T{:02}:{:02}:00Z", n / 60, n % 60),
        "status": "active",
        "content": format!("Row {n} of the harbour register, {CONTENT}."),
    });
    Memory::from_json(&json.to_string()).expect("a memory")
}
