//! Stored results, and the tools that query them.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use lro::mcp::{ToolOutput, Tools};
use lro::{Delivered, Extractor, IdSeed, Offloaded, Offloader, ResultBody, Spools, ToolCall};
use lro_core::O200k;
use lro_core::config::Config;
use lro_core::tool_result::ToolResult;
use lro_query::Cancel;
use lro_query::worker::Program;
use lro_spool::{DirOptions, DirSpool, Quota, Spool};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Fixture {
    pub(crate) home: TempDir,
    pub(crate) spool: Arc<dyn Spool>,
    pub(crate) config: Config,
    pub(crate) tools: Tools,
}

pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let home = tempfile::tempdir().unwrap();
        let options = DirOptions::private().quota(Quota::NONE);
        let spool: Arc<dyn Spool> =
            Arc::new(DirSpool::open(&home.path().join("spool"), options).unwrap());
        let worker = testkit::tool::built_program("lro-worker", "lro-query");
        let extractor = Extractor::new(Spools::new(vec![spool.clone()]), &config)
            .with_tokenizer(O200k)
            .with_program(Program::at(worker));
        let tools = Tools::new(Arc::new(extractor));
        Self { home, spool, config, tools }
    }

    /// Stores a result of `tool`, whatever its size, and returns its reference.
    pub(crate) fn store(&self, tool: &str, payload: &str) -> String {
        self.deliver(tool, ResultBody::Payload(payload.as_bytes()))
    }

    /// Stores an MCP result of these texts, the first of which is its payload.
    pub(crate) fn store_texts(&self, tool: &str, texts: &[&str]) -> String {
        let blocks = texts.iter().map(|text| json!({"type": "text", "text": text}));
        let json = json!({"content": blocks.collect::<Vec<_>>()}).to_string();
        self.deliver(tool, ResultBody::ToolResult(&ToolResult::read(&json).unwrap()))
    }

    /// Stores a result of `tool`, whatever its size, and returns its descriptor.
    pub(crate) fn descriptor(&self, tool: &str, payload: &str) -> Value {
        let offloaded = self.offload(tool, ResultBody::Payload(payload.as_bytes()));
        serde_json::from_str(&offloaded.descriptor).unwrap()
    }

    /// Stores an MCP result, whatever its size, and returns its descriptor.
    pub(crate) fn descriptor_of(&self, result: &ToolResult<'_>) -> Value {
        let offloaded = self.offload("a_tool", ResultBody::ToolResult(result));
        serde_json::from_str(&offloaded.descriptor).unwrap()
    }

    fn deliver(&self, tool: &str, body: ResultBody<'_>) -> String {
        self.offload(tool, body).listed.id().reference().to_string()
    }

    fn offload(&self, tool: &str, body: ResultBody<'_>) -> Offloaded {
        let mut config = self.config.clone();
        config.prompt.offload.threshold_tokens = 1;
        config.proxy.threshold_tokens = 1;
        let offloader = Offloader::new(self.spool.clone(), &config);
        let before = self.spool.list().unwrap().len();
        let seed = IdSeed { now: now(), random: before as u128 };
        match offloader.deliver_result(ToolCall::new(tool), body, seed) {
            Delivered::Offloaded(offloaded) => *offloaded,
            other => panic!("{other:?}"),
        }
    }

    /// Stores memories at full detail.
    pub(crate) fn memories(&self, count: usize) -> String {
        let memories = testkit::recipes::with_matches(testkit::corpus::memories(count, 42));
        let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
        self.store("recall_memories", &format!(r#"{{"memories":[{}]}}"#, lines.join(",")))
    }

    /// Calls a tool a minute after everything was stored.
    pub(crate) fn call(&self, name: &str, arguments: &Value) -> ToolOutput {
        self.call_at(name, arguments, now() + TimeDelta::minutes(1))
    }

    pub(crate) fn call_at(&self, name: &str, arguments: &Value, at: DateTime<Utc>) -> ToolOutput {
        let arguments = to_raw_value(arguments).unwrap();
        self.tools.call(name, Some(&arguments), at, &Cancel::default()).unwrap()
    }

    /// The first line and the other lines of a successful call.
    pub(crate) fn ask(&self, name: &str, arguments: &Value) -> (String, Vec<String>) {
        let called = self.call(name, arguments);
        assert!(!called.is_error, "{arguments}: {}", called.text);
        let mut lines = called.text.lines().map(str::to_owned);
        (lines.next().unwrap(), lines.filter(|line| !line.starts_with("Note: ")).collect())
    }
}
