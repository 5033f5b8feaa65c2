//! What Atlatl does with one recorded result: its size and shape, its descriptor, and whether it is
//! given back as it was.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use lro::{Delivered, IdSeed, Offloader, ResultBody, ToolCall};
use lro_core::config::Config;
use lro_core::records::{Content, Detected, RecordForm};
use lro_core::tool_result::ToolResult;
use lro_core::{Extraction, O200k};
use lro_spool::{
    Address, DirOptions, DirSpool, Quota, Spool as _, StoredResult, restore_payload, restore_text,
};
use serde::Serialize;

use super::coverage::{self, Gap};
use super::recording::RecordedResult;
use crate::tokens;

/// The path in descriptors whose tokens are counted, in place of the directory of this run.
const RESULTS_DIR: &str = "/home/user/.local/state/atlatl/results";

/// The shape of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    /// An array of records.
    Records,
    /// Lines of JSON, CSV, or a table in text.
    Rows,
    /// An object with an array of records in it.
    Envelope,
    /// An object whose members are records.
    Map,
    /// JSON without records.
    Document,
    /// JSON or a table with text before or after it.
    Wrapped,
    Text,
    /// Base64 or binary data.
    Encoded,
    /// No text at all.
    Empty,
}

impl Shape {
    pub(super) const ALL: [Self; 9] = [
        Self::Records,
        Self::Rows,
        Self::Envelope,
        Self::Map,
        Self::Document,
        Self::Wrapped,
        Self::Text,
        Self::Encoded,
        Self::Empty,
    ];

    fn new(detected: &Detected) -> Self {
        if detected.main_range.is_some() {
            return Self::Wrapped;
        }
        match &detected.content {
            Content::Records(records) => match &records.form {
                RecordForm::Array { path, .. } if !path.is_empty() => Self::Envelope,
                RecordForm::Array { .. } => Self::Records,
                RecordForm::Map { .. } => Self::Map,
                _ => Self::Rows,
            },
            Content::Document => Self::Document,
            Content::Base64(_) | Content::Binary => Self::Encoded,
            _ => Self::Text,
        }
    }

    /// The name in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Rows => "lines of JSON, CSV or a table in text",
            Self::Envelope => "records in an envelope",
            Self::Map => "map of records",
            Self::Document => "JSON without records",
            Self::Wrapped => "JSON or table in text",
            Self::Text => "text",
            Self::Encoded => "base64 or binary",
            Self::Empty => "no text",
        }
    }
}

/// Whether a stored result is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fidelity {
    /// Byte for byte.
    Exact,
    /// JSON without white space between its lexemes.
    SameLexemes,
    Different,
}

/// A measured result.
#[derive(Debug, Clone)]
pub(super) struct MeasuredResult {
    /// The o200k tokens of all its texts, by which the proxy decides.
    pub(super) tokens: u64,
    pub(super) shape: Shape,
    pub(super) is_error: bool,
    /// `None` if the result is never stored: an error, or without text.
    pub(super) stored: Option<StoredFacts>,
}

/// What is known about a stored result.
#[derive(Debug, Clone)]
pub(super) struct StoredFacts {
    pub(super) descriptor_tokens: u64,
    pub(super) fidelity: Fidelity,
    /// What the descriptor neither shows nor names.
    pub(super) gap: Option<Gap>,
}

/// Stores results and reads them again.
pub(super) struct ResultStore {
    spool: Arc<DirSpool>,
    offloader: Offloader,
    directory: String,
    now: DateTime<Utc>,
    count: u128,
}

impl ResultStore {
    /// A store in `directory`, which is created.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let options = DirOptions::private().quota(Quota::NONE);
        let spool = Arc::new(DirSpool::open(directory, options)?);
        let mut config = Config::default();
        // Every result is stored, whatever its size; the simulation applies thresholds.
        config.proxy.threshold_tokens = 1;
        let offloader = Offloader::new(spool.clone(), &config)
            .with_tokenizer(O200k)
            .with_extraction(Extraction::Native);
        let now = DateTime::from_timestamp(1_800_000_000, 0).context("a time within range")?;
        Ok(Self { spool, offloader, directory: directory.display().to_string(), now, count: 0 })
    }

    /// Measures a result. An error says why it cannot be read or stored.
    pub(super) fn measure(&mut self, recorded: &RecordedResult) -> Result<MeasuredResult> {
        let Some(result) = ToolResult::read(&recorded.json) else {
            bail!("a result that is not in the form of MCP");
        };
        let tokens = result.parts.iter().map(|part| tokens::count(&part.payload)).sum();
        let is_error = result.is_error;
        let Some(payload) = result.payload() else {
            return Ok(MeasuredResult { tokens, shape: Shape::Empty, is_error, stored: None });
        };
        let detected = Detected::detect(payload.payload.as_bytes());
        let shape = Shape::new(&detected);
        let stored = if is_error { None } else { self.store(&recorded.tool, &result, &detected)? };
        Ok(MeasuredResult { tokens, shape, is_error, stored })
    }

    fn store(
        &mut self,
        tool: &str,
        result: &ToolResult<'_>,
        detected: &Detected,
    ) -> Result<Option<StoredFacts>> {
        self.count += 1;
        let seed = IdSeed { now: self.now, random: self.count };
        let body = ResultBody::ToolResult(result);
        let offloaded = match self.offloader.deliver_result(ToolCall::new(tool), body, seed) {
            Delivered::Offloaded(offloaded) => offloaded,
            // An empty text.
            Delivered::Inline(_) => return Ok(None),
            _ => bail!("a result could not be stored"),
        };
        let address: Address = offloaded.listed.id().reference().to_string().parse()?;
        let reader = self.spool.open(&address, self.now)?;
        let fidelity = fidelity(&*reader, result)?;
        let descriptor = offloaded.descriptor.replace(&self.directory, RESULTS_DIR);
        Ok(Some(StoredFacts {
            descriptor_tokens: tokens::count(&descriptor),
            fidelity,
            gap: coverage::gap(&descriptor, result, detected),
        }))
    }
}

/// Compares everything that is stored with the result.
fn fidelity(reader: &dyn StoredResult, result: &ToolResult<'_>) -> Result<Fidelity> {
    let mut payload = Vec::new();
    restore_payload(reader, &mut payload)?;
    let mut texts = Vec::new();
    loop {
        let mut text = Vec::new();
        if !restore_text(reader, texts.len() as u64 + 1, &mut text)? {
            break;
        }
        texts.push(text);
    }
    let mut parts = result.parts.iter().map(|part| part.payload.as_bytes());
    let main = parts.next().unwrap_or_default();
    let further = parts.all(|part| texts.iter().any(|text| text.as_slice() == part));
    Ok(if !further {
        Fidelity::Different
    } else if payload == main {
        Fidelity::Exact
    } else if lro_json::same_lexemes(&payload, main) {
        Fidelity::SameLexemes
    } else {
        Fidelity::Different
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn measure(result: &Value) -> MeasuredResult {
        let directory = tempfile::tempdir().unwrap();
        let mut store = ResultStore::open(&directory.path().join("results")).unwrap();
        let recorded = RecordedResult { tool: "get".to_owned(), json: result.to_string() };
        store.measure(&recorded).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({"content": [{"type": "text", "text": text}], "isError": false})
    }

    #[test]
    fn shapes_are_told_apart() {
        let records: Vec<Value> =
            (0..40).map(|n| json!({"id": n, "name": format!("name {n}")})).collect();
        let map: serde_json::Map<String, Value> =
            (0..40).map(|n| (format!("key-{n}"), json!({"n": n, "m": "x"}))).collect();
        let lines: Vec<String> = records.iter().map(|record| format!("{record}\n")).collect();
        let records = Value::from(records);
        let cases = [
            (records.to_string(), Shape::Records),
            (lines.concat(), Shape::Rows),
            (json!({"total": 40, "items": records}).to_string(), Shape::Envelope),
            (Value::from(map).to_string(), Shape::Map),
            (json!({"id": 1, "body": "words"}).to_string(), Shape::Document),
            (format!("Found these:\n{records}"), Shape::Wrapped),
            ("Some words.".to_owned(), Shape::Text),
        ];
        for (payload, shape) in cases {
            let measured = measure(&text(&payload));
            assert_eq!(measured.shape, shape, "{payload}");
            let stored = measured.stored.unwrap();
            assert_eq!((stored.fidelity, stored.gap), (Fidelity::Exact, None), "{payload}");
            assert!(stored.descriptor_tokens > 50);
        }
    }

    #[test]
    fn every_part_is_given_back() {
        let result = json!({"content": [
            {"type": "text", "text": "downloaded"},
            {"type": "resource", "resource": {"uri": "x://y", "text": "line\n".repeat(400)}},
        ]});
        let measured = measure(&result);
        assert_eq!(measured.stored.unwrap().fidelity, Fidelity::Exact);
        assert_eq!(
            measured.tokens,
            tokens::count("downloaded") + tokens::count(&"line\n".repeat(400))
        );
        let spaced = json!({"content": [], "structuredContent": {"a": [1, 2, 3]}}).to_string();
        let spaced = spaced.replace("[1,2,3]", "[1, 2, 3]");
        let recorded = RecordedResult { tool: "get".to_owned(), json: spaced };
        let directory = tempfile::tempdir().unwrap();
        let mut store = ResultStore::open(&directory.path().join("results")).unwrap();
        let measured = store.measure(&recorded).unwrap();
        assert_ne!(measured.stored.unwrap().fidelity, Fidelity::Different);
    }

    #[test]
    fn what_is_not_a_result_is_an_error_that_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = ResultStore::open(&directory.path().join("results")).unwrap();
        let recorded = RecordedResult { tool: "get".to_owned(), json: "{}".to_owned() };
        let error = store.measure(&recorded).unwrap_err().to_string();
        assert!(error.contains("not in the form of MCP"), "{error}");
    }

    #[test]
    fn errors_and_results_without_text_are_not_stored() {
        let mut failed = text("no such file");
        failed["isError"] = true.into();
        let measured = measure(&failed);
        assert!(measured.is_error && measured.stored.is_none());
        let picture = json!({"content": [{"type": "image", "data": "", "mimeType": "image/png"}]});
        let measured = measure(&picture);
        assert_eq!((measured.shape, measured.tokens), (Shape::Empty, 0));
    }
}
