//! A relay with a spool, and helpers that send messages through it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use lro::mcp::{AppHost, AppView, Interceptor, PAGE, SHOW, ToolOutput, Tools};
use lro::{Event, EventKind, EventSink, Extractor, IdSeed, Offloader, Spools};
use lro_core::config::{Config, References};
use lro_core::{Extraction, O200k};
use lro_proxy::{Forward, ReferencePassing, Relay};
use lro_query::Cancel;
use lro_query::worker::Program;
use lro_spool::{Address, DirOptions, DirSpool, Quota, Spool, restore_payload};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Fixture {
    /// The directory of the spool; dropping it removes all results.
    home: TempDir,
    pub(crate) spool: Arc<dyn Spool>,
    pub(crate) relay: Relay,
    pub(crate) events: Arc<Events>,
}

#[derive(Default)]
pub(crate) struct Events(Mutex<Vec<Event>>);

impl EventSink for Events {
    fn publish(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Events {
    /// The number of events with this name.
    pub(crate) fn names(&self, name: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|event| event.kind.name() == name).count()
    }

    /// The tool and the number of bytes of each passed reference.
    pub(crate) fn passed(&self) -> Vec<(String, u64)> {
        let events = self.0.lock().unwrap();
        let passed = |event: &Event| match &event.kind {
            EventKind::ResultPassed { tool, bytes, .. } => Some((tool.clone(), *bytes)),
            _ => None,
        };
        events.iter().filter_map(passed).collect()
    }
}

/// A page with its two tools, which answer every call.
pub(crate) struct TestView;

impl AppView for TestView {
    fn definitions(&self, _host: AppHost) -> Vec<Value> {
        let tool = |name: &str, party: &str| {
            let meta = json!({"ui": {"visibility": [party]}});
            json!({"name": name, "inputSchema": {"type": "object"}, "_meta": meta})
        };
        vec![tool(SHOW, "model"), tool(PAGE, "app")]
    }

    fn has(&self, name: &str) -> bool {
        name == SHOW || name == PAGE
    }

    fn call(&self, name: &str, _: &str, _: DateTime<Utc>, _: &Cancel) -> ToolOutput {
        ToolOutput::success(format!("answer of {name}"))
    }

    fn resource(&self, uri: &str) -> Option<Value> {
        (uri == VIEW_URI).then(|| json!({"contents": [{"uri": VIEW_URI, "text": "page"}]}))
    }
}

/// The URI of the page of [`TestView`].
pub(crate) const VIEW_URI: &str = "ui://atlatl/test.html";

/// The capabilities of a client that shows pages.
pub(crate) fn page_capabilities() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}})
}

pub(crate) const NOW: i64 = 1_800_000_000;

/// A fixed time with a different random part on each call.
fn clock() -> IdSeed {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    let tick = TICKS.fetch_add(1, Ordering::Relaxed);
    IdSeed { now: DateTime::from_timestamp(NOW, 0).unwrap(), random: u128::from(tick) }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(&Config::default())
    }

    pub(crate) fn with(config: &Config) -> Self {
        Self::for_server(config, "server:1", None)
    }

    /// A fixture whose spool has the quota of the configuration.
    pub(crate) fn with_quota(config: &Config) -> Self {
        let home = tempfile::tempdir().unwrap();
        let options = DirOptions::private().quota(Quota::from(&config.spool));
        let spool = Arc::new(DirSpool::open(&home.path().join("spool"), options).unwrap());
        let other = Self::new();
        Self::for_server(config, "server:1", Some(&Self { home, spool, ..other }))
    }

    /// A fixture whose relay offers no extraction tools.
    pub(crate) fn without_tools() -> Self {
        let with = Self::new();
        let offloader = || Offloader::new(with.spool.clone(), &Config::default());
        let relay = Relay::new(Interceptor::new(offloader(), offloader()), "server:1", clock);
        Self { relay, ..with }
    }

    /// A fixture whose relay offers the extraction tools without an engine, and what `add` adds to them.
    pub(crate) fn with_tools(add: impl FnOnce(Tools) -> Tools) -> Self {
        let with = Self::new();
        let config = Config::default();
        let offloader = || Offloader::new(with.spool.clone(), &config);
        let extractor = Extractor::new(Spools::new(vec![with.spool.clone()]), &config);
        let relay = Relay::new(Interceptor::new(offloader(), offloader()), "server:1", clock)
            .with_tools(add(Tools::new(Arc::new(extractor))));
        Self { relay, ..with }
    }

    /// A fixture whose relay offers [`TestView`].
    pub(crate) fn with_view() -> Self {
        Self::with_tools(|tools| tools.with_view(Arc::new(TestView)))
    }

    /// A relay in front of `server` that shares the spool of `beside`.
    pub(crate) fn for_server(config: &Config, server: &str, beside: Option<&Self>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let spool: Arc<dyn Spool> = if let Some(beside) = beside {
            beside.spool.clone()
        } else {
            let options = DirOptions::private().quota(Quota::NONE);
            Arc::new(DirSpool::open(&home.path().join("spool"), options).unwrap())
        };
        let events = Arc::new(Events::default());
        let offloader = || {
            Offloader::new(spool.clone(), config)
                .with_tokenizer(O200k)
                .with_events(events.clone())
                .with_extraction(Extraction::Native)
        };
        let extractor = || {
            let worker = testkit::tool::built_program("lro-worker", "lro-query");
            Extractor::new(Spools::new(vec![spool.clone()]), config)
                .with_events(events.clone())
                .with_program(Program::at(worker))
        };
        let mut relay = Relay::new(Interceptor::new(offloader(), offloader()), server, clock)
            .with_tools(Tools::new(Arc::new(extractor().with_tokenizer(O200k))));
        if config.proxy.references != References::Off {
            let unbounded = extractor().with_reply(lro_core::Tokens(u64::MAX));
            let spools = Spools::new(vec![spool.clone()]);
            relay = relay.with_passing(ReferencePassing::new(
                config.proxy.references,
                spools,
                Arc::new(unbounded),
                events.clone(),
            ));
        }
        Self { home, spool, relay, events }
    }

    /// The relay, and a guard that keeps its spool alive.
    pub(crate) fn into_relay(self) -> (Relay, impl Sized) {
        (self.relay, self.home)
    }

    /// Calls `tool`; returns the line that the server receives.
    pub(crate) fn call(&self, id: u64, tool: &str, arguments: &Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            .to_string();
        match self.relay.from_client(line.as_bytes()).forward {
            Forward::Unchanged => line,
            Forward::Changed(changed) => changed,
            Forward::Dropped => panic!("nothing goes on"),
        }
    }

    /// Responds to the request `id`; returns the result that the client receives, or `None` if it is unchanged.
    pub(crate) fn respond(&self, id: u64, result: &str) -> Option<Value> {
        let line = format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#);
        match self.relay.from_server(line.as_bytes()) {
            Forward::Unchanged => None,
            Forward::Changed(changed) => {
                let message: Value = serde_json::from_str(&changed).unwrap();
                assert_eq!((&message["id"], &message["jsonrpc"]), (&json!(id), &json!("2.0")));
                Some(message["result"].clone())
            }
            Forward::Dropped => panic!("nothing goes on"),
        }
    }

    /// Calls `tool` and responds with `result`.
    pub(crate) fn call_and_respond(&self, tool: &str, result: &str) -> Option<Value> {
        self.call(1, tool, &json!({}));
        self.respond(1, result)
    }

    /// The payload of a reference, as its server sent it.
    pub(crate) fn payload(&self, reference: &str) -> String {
        let address: Address = reference.parse().unwrap();
        let stored = self.spool.open(&address, DateTime::from_timestamp(NOW, 0).unwrap()).unwrap();
        let mut payload = Vec::new();
        restore_payload(&*stored, &mut payload).unwrap();
        String::from_utf8(payload).unwrap()
    }

    /// Answers the call of an extraction tool in `line`.
    pub(crate) fn call_local(&self, line: &str) -> Vec<Value> {
        let mut outcome = self.relay.from_client(line.as_bytes());
        assert_eq!(outcome.forward, Forward::Dropped);
        let call = outcome.calls.pop().expect("a call of ours");
        let messages = Mutex::new(Vec::new());
        self.relay.answer(&call, &|message| {
            messages.lock().unwrap().push(serde_json::from_str(message).unwrap());
        });
        messages.into_inner().unwrap()
    }
}

/// Text without records, of more than 10 000 tokens.
pub(crate) fn long_text() -> String {
    let paragraphs: Vec<String> =
        (0..4000).map(|n| format!("paragraph {n} says: nothing much.\n\n")).collect();
    paragraphs.concat()
}

/// A tool result with one text block.
pub(crate) fn text_result(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// The descriptor in a replaced result, as a client reads it: `structuredContent`, or the text if there
/// is none.
pub(crate) fn descriptor(result: &Value) -> Value {
    match result.get("structuredContent") {
        Some(structured) if !structured.is_null() => structured.clone(),
        _ => {
            let blocks = result["content"].as_array().expect("blocks");
            let text = blocks.iter().find(|block| block["type"] == "text").expect("a text");
            serde_json::from_str(text["text"].as_str().unwrap()).expect("a descriptor")
        }
    }
}

/// The reference in a replaced result.
pub(crate) fn reference(result: &Value) -> String {
    descriptor(result)["lro"]["ref"].as_str().expect("a reference").to_owned()
}
