//! A server over a real store and a real directory, and a client of either protocol generation.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Embedder, MemoryStore, OnConflict, SqliteStore};
use atlatl_server::event::{EventBus, ServerEvent, ServerEventSink};
use atlatl_server::{MemoryServer, MemoryServerConfig, stdio};
use lro::mcp::{Interceptor, Tools};
use lro::{Extractor, IdSeed, Offloader, Spools};
use lro_core::config::Config;
use lro_core::{Extraction, O200k};
use lro_spool::{DirOptions, DirSpool, Spool};
use mif::Memory;
use serde_json::{Value, json};

/// The protocol generation of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

pub(crate) struct Place {
    home: tempfile::TempDir,
    pub(crate) store: Arc<dyn MemoryStore>,
    pub(crate) config: Config,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) events: Arc<Kept>,
    pub(crate) clock: fn() -> IdSeed,
}

/// Records events.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Vec<ServerEvent>>);

impl ServerEventSink for Kept {
    fn publish(&self, event: &ServerEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&home.path().join("memory.db")).unwrap());
        let (config, events) = (Config::default(), Arc::default());
        Self { home, store, config, embedder: None, events, clock: IdSeed::from_system }
    }

    /// A fixture with these memories.
    pub(crate) fn with(memories: &[Memory]) -> Self {
        let place = Self::new();
        place.put(memories);
        place
    }

    pub(crate) fn put(&self, memories: &[Memory]) {
        self.store.put(memories, OnConflict::Keep).wait().unwrap();
    }

    pub(crate) fn output_dir(&self) -> PathBuf {
        self.home.path().join("out")
    }

    /// Returns the files of stored results.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.output_dir()) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect();
        files.sort();
        files
    }

    /// Where results are stored.
    pub(crate) fn spool(&self) -> Arc<dyn Spool> {
        std::fs::create_dir_all(self.output_dir()).unwrap();
        Arc::new(DirSpool::open(&self.output_dir(), DirOptions::flat()).unwrap())
    }

    pub(crate) fn server(&self) -> MemoryServer {
        let spool = self.spool();
        let events = EventBus::new(self.clock).with(self.events.clone());
        let offloader = || {
            Offloader::new(spool.clone(), &self.config)
                .with_tokenizer(O200k)
                .with_extraction(Extraction::Native)
                .with_events(Arc::new(events.clone()))
        };
        let estimate = Arc::new(|text: &str| text.chars().count().div_ceil(4) as u64);
        let mut parts = MemoryServerConfig::new(self.store.clone(), estimate, self.clock);
        parts.embedder.clone_from(&self.embedder);
        parts.threshold_tokens = self.config.prompt.offload.threshold_tokens;
        if self.config.prompt.offload.enabled {
            parts.interceptor = Some(Interceptor::new(offloader(), offloader()));
            let extractor = Extractor::new(Spools::new(vec![spool.clone()]), &self.config);
            parts.extraction = Some(Tools::new(Arc::new(extractor.with_tokenizer(O200k))));
        }
        parts.shared_filesystem = self.config.prompt.offload.shared_filesystem;
        parts.events = events;
        MemoryServer::new(parts).wait()
    }

    pub(crate) fn client(&self, era: Era) -> Connected {
        Connected::to(&self.server(), era, &json!({"name": "test", "version": "1"}))
    }

    /// A client that declares itself a proxy.
    pub(crate) fn proxy(&self, era: Era) -> Connected {
        let info = json!({"name": "test", "version": "1", "proxy": true});
        Connected::to(&self.server(), era, &info)
    }
}

/// The client side.
pub(crate) struct Connected {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
    era: Era,
    info: Value,
    pub(crate) capabilities: Value,
    next: u64,
    pub(crate) greeting: Value,
}

impl Connected {
    pub(crate) fn to(server: &MemoryServer, era: Era, info: &Value) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // A missing response fails the test.
        ours.set_read_timeout(Some(std::time::Duration::from_mins(1))).unwrap();
        let server = server.clone();
        thread::spawn(move || stdio::serve(&server, theirs.try_clone().unwrap(), theirs).wait());
        let mut client = Self {
            lines: BufReader::new(ours.try_clone().unwrap()),
            stream: ours,
            era,
            info: info.clone(),
            capabilities: json!({}),
            next: 0,
            greeting: Value::Null,
        };
        client.greeting = match era {
            Era::Legacy => client.request(
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}),
            ),
            Era::Modern => client.request("server/discover", json!({})),
        };
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.stream, "{message}").unwrap();
    }

    pub(crate) fn send_raw(&mut self, line: &str) {
        writeln!(self.stream, "{line}").unwrap();
    }

    /// Sends a request, and returns its id.
    pub(crate) fn ask(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                "io.modelcontextprotocol/clientInfo": self.info,
            });
        }
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Returns the next response, which must be to `id`.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let line = self.line();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Sends a request, and returns the whole response.
    pub(crate) fn response(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Sends a request, and returns the result.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.response(method, params);
        let result = answer.get("result").unwrap_or_else(|| panic!("{method}: {answer}"));
        if self.era == Era::Modern {
            assert!(result["resultType"].is_string(), "{result}");
        }
        result.clone()
    }

    /// Calls a tool, and returns its result.
    pub(crate) fn result(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool, and returns its structured content.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert!(result["isError"].is_null(), "{result}");
        let structured = &result["structuredContent"];
        assert!(structured.is_object(), "{result}");
        structured.clone()
    }

    /// Calls a tool that fails, and returns the message.
    pub(crate) fn error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

/// Memories with this content, a minute apart.
pub(crate) fn memories(contents: impl IntoIterator<Item = String>) -> Vec<Memory> {
    let memory = |(n, content): (usize, String)| {
        let json = json!({
            "id": format!("00000000-0000-7000-8000-{n:012x}"),
            "memory_type": "semantic",
            "title": content.chars().take(40).collect::<String>(),
            "namespace": "_semantic/knowledge",
            "tags": [],
            "created": format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + n / 1440, n / 60 % 24, n % 60),
            "status": "active",
            "content": content,
        });
        Memory::from_json(&json.to_string()).unwrap()
    };
    contents.into_iter().enumerate().map(memory).collect()
}
