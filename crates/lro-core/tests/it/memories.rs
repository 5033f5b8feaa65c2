//! Memories as the tools return them, and the descriptors built from them.

use lro_core::records::Detected;
use lro_core::{
    CompactDescriptor, DescriptorInput, DescriptorOptions, Detail, Extraction, FullDescriptor,
    NoTokenizer, Operation, Policies, RecipeListing, RecordStats, ResultId, Rules, Threshold,
    Tokens, assess, record_lines,
};
use serde_json::Value;

pub(crate) const DETAILS: [Detail; 3] = [Detail::Light, Detail::Medium, Detail::Full];

pub(crate) fn level(detail: Detail) -> mif::DetailLevel {
    match detail {
        Detail::Light => mif::DetailLevel::Light,
        Detail::Medium => mif::DetailLevel::Medium,
        Detail::Full => mif::DetailLevel::Full,
    }
}

/// The structured content of a tool with these record lines.
pub(crate) fn payload(lines: &[String]) -> String {
    let scores: Vec<String> = (0..lines.len()).map(|i| format!("0.{:03}", i % 1000)).collect();
    format!(
        r#"{{"count":{},"total_matches":{0},"memories":[{}],"scores":[{}],"next_cursor":null}}"#,
        lines.len(),
        lines.join(","),
        scores.join(","),
    )
}

/// A result that passed all stages of the core.
pub(crate) struct Offloaded {
    pub(crate) found: Detected,
    pub(crate) lines: Vec<String>,
    pub(crate) stats: RecordStats,
    pub(crate) estimated: Tokens,
    pub(crate) text_head: String,
}

pub(crate) fn id() -> ResultId {
    ResultId::new(1_794_700_800_000, 0x0123_4567_89ab_cdef_0123)
}

impl Offloaded {
    pub(crate) fn of(payload: &str, tool: &str) -> Self {
        let policies = Policies::default();
        let rules = Rules { enabled: true, threshold: Threshold::Above(1600), policies: &policies };
        let assessment = assess(payload.as_bytes(), tool, &rules, &NoTokenizer);
        let (text, stats) =
            record_lines(payload.as_bytes(), &assessment.found, usize::MAX).unwrap();
        Self {
            lines: text.lines().map(str::to_owned).collect(),
            stats,
            estimated: assessment.estimate.tokens,
            text_head: payload.chars().take(4000).collect(),
            found: assessment.found,
        }
    }

    pub(crate) fn memories(memories: &[mif::Memory], detail: Detail) -> Self {
        let lines = testkit::corpus::lines(memories, level(detail));
        Self::of(&payload(&lines), "recall_memories")
    }

    fn stored<'a>(&'a self, path: &'a str, operation: &'a Operation) -> DescriptorInput<'a> {
        DescriptorInput {
            id: id(),
            place: lro_core::Location::File(path),
            readable_path: true,
            expires_at: "2026-11-15T12:00:00Z".parse().unwrap(),
            operation,
            found: &self.found,
            stats: &self.stats,
            text_head: &self.text_head,
            estimated: self.estimated,
            score_range: Some((0.0, 1.0)),
            total_matches: None,
            around: &[],
            further_texts: &[],
        }
    }

    pub(crate) fn full(
        &self,
        path: &str,
        detail: Detail,
        extraction: Extraction,
        preview: u64,
    ) -> FullDescriptor {
        let operation = Operation::Recall;
        let look = DescriptorOptions {
            extraction,
            preview: Tokens(preview),
            recipes: RecipeListing::Included,
        };
        self.stored(path, &operation).full_descriptor(detail, look)
    }

    /// The full descriptor with `prompt.offload.recipes = false`.
    pub(crate) fn without_recipes(
        &self,
        path: &str,
        detail: Detail,
        extraction: Extraction,
    ) -> FullDescriptor {
        let operation = Operation::Recall;
        let recipes = RecipeListing::Omitted;
        let look = DescriptorOptions { extraction, preview: Tokens(0), recipes };
        self.stored(path, &operation).full_descriptor(detail, look)
    }

    pub(crate) fn compact(
        &self,
        path: &str,
        tool: &str,
        extraction: Extraction,
        preview: u64,
    ) -> CompactDescriptor {
        let operation = Operation::from_tool(tool);
        let detail = operation.is_memory().then_some(Detail::Light);
        let look = DescriptorOptions {
            extraction,
            preview: Tokens(preview),
            recipes: RecipeListing::Included,
        };
        self.stored(path, &operation).compact_descriptor(detail, look)
    }

    /// The file as it would be written: a header line and the records.
    pub(crate) fn file(&self, detail: Detail) -> String {
        let header = lro_core::OffloadHeader::new(
            &Operation::Recall,
            Some("query".to_owned()),
            self.stats.count,
            self.estimated,
            detail,
            "2026-11-15T11:00:00Z".parse().unwrap(),
        );
        let header = serde_json::to_string(&header).unwrap();
        format!("{header}\n{}\n", self.lines.join("\n"))
    }
}

pub(crate) fn json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap()
}
