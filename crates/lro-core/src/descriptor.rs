//! The descriptor that a client gets in place of an offloaded result.
//!
//! Trusted fields (guidance, recipes, labels) contain constants, numbers, our references and our
//! paths. Content of the result appears in data fields only: `top_namespaces`, `line_schema`,
//! `fields`, `lro.around`, `lro.notes` and `lro.preview`, which are bounded and have invisible characters escaped.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::around::{self, Around, Note, OuterMember};
use super::guidance::{JqRecipe, OptionalFields, recipes};
use super::operation::{Detail, saturating};
use super::reference::Location;
use super::table_note::{TableNote, tables};
use crate::field_stats::FieldStats;
use crate::guidance::{self, Extraction, RecipeListing};
use crate::operation::Operation;
use crate::preview::{Preview, PreviewExtent};
use crate::records::{Content, Detected};
use crate::reference::{Reference, ResultId};
use crate::shape::OmittedFields;
use crate::stats::RecordStats;
use crate::tokens::{Measure, Tokens};

/// The most tokens of a compact descriptor; the preview shrinks to fit.
const COMPACT_LIMIT_TOKENS: u64 = 850;
/// The token budget of the field list in a compact descriptor, and of the tables of a document with
/// several.
const FIELDS_BUDGET_TOKENS: u64 = 165;
/// The least of it that is for the field list.
const MIN_FIELDS_BUDGET_TOKENS: u64 = 80;

/// A full descriptor is used only for results that are at least this many times as long.
pub const MIN_SAVINGS_FACTOR: u64 = 4;

/// The members around memories that the summary of their descriptor has as well, or that are for
/// pages.
const SUMMARIZED_MEMBERS: [&str; 5] = ["count", "total_matches", "next_cursor", "detail", "scores"];

/// Spec G1: the compact response returned when results are offloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffloadResponse {
    /// Always true.
    pub offloaded: bool,
    /// The summary of the result set.
    pub summary: OffloadSummary,
    /// Absolute path of the JSONL file, or a link to it.
    pub file_path: String,
    /// JSON Schema of a record line.
    pub line_schema: Value,
    /// The ten recipes; none if `prompt.offload.recipes` is false.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_recipes: Vec<JqRecipe>,
    /// The instructions for the model.
    pub guidance: String,
}

/// Spec G1: the summary of an offloaded result set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffloadSummary {
    /// The number of records in the file.
    pub count: usize,
    /// The estimated tokens of the whole set.
    pub estimated_tokens: usize,
    /// The operation.
    pub operation: String,
    /// The most frequent namespaces, at most five.
    pub top_namespaces: Vec<String>,
    /// The lowest and the highest score, if there are scores.
    pub score_range: Option<(f64, f64)>,
    /// The detail level of the records.
    pub detail: String,
}

/// The extension of the specification's fields, under one key.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Lro {
    /// The reference to the result, for extraction calls.
    #[serde(rename = "ref")]
    pub reference: Reference,
    /// When the result expires.
    pub expires_at: String,
    /// The number of matches, if the set has fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_matches: Option<u64>,
    /// Whether the client is expected to be able to open `file_path`.
    pub readable_path: bool,
    /// The number of stored parts, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// The members around the records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub around: Option<Around>,
    /// The other tables of the same document.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableNote>,
    /// The other parts: short texts, and the sizes of the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The first records or characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// Whether the preview is truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_cut: Option<bool>,
}

/// The full descriptor: the extension, then the specification's response.
#[derive(Debug, Clone, Serialize)]
pub struct FullDescriptor {
    /// The extension. It comes first, so that the reference survives a client that truncates.
    pub lro: Lro,
    /// The specification's fields.
    #[serde(flatten)]
    pub response: OffloadResponse,
}

/// The compact descriptor: reference, path, summary, fields and one line of guidance.
#[derive(Debug, Clone, Serialize)]
pub struct CompactDescriptor {
    /// The extension. It comes first, so that the reference survives a client that truncates.
    pub lro: Lro,
    /// Always true.
    pub offloaded: bool,
    /// The summary of the result.
    pub summary: CompactSummary,
    /// Absolute path of the file, or a link to it.
    pub file_path: String,
    /// The fields of a record with their types.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
    /// The instructions for the model.
    pub guidance: String,
}

/// The summary of a compact descriptor.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CompactSummary {
    /// The number of records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The format of the payload.
    pub kind: &'static str,
    /// The form of records in text other than JSON, such as `csv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<&'static str>,
    /// The size of the payload.
    pub bytes: u64,
    /// The number of lines of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// The size of base64 data when it is decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoded_bytes: Option<u64>,
    /// The media type of base64 data, if its first bytes identify it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<&'static str>,
    /// The estimated tokens of the result.
    pub estimated_tokens: Tokens,
    /// The operation.
    pub operation: String,
    /// The detail level, for memories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// The most frequent namespaces, for memories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_namespaces: Vec<String>,
    /// The lowest and the highest score, if there are scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_range: Option<(f64, f64)>,
    /// The number of fields that are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_fields: Option<usize>,
    /// A lower bound instead, if there were too many distinct fields to track.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_fields_at_least: Option<usize>,
    /// The number of first records whose values are described in `fields`, if not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields_of_first_records: Option<u64>,
}

/// The facts about a stored result from which its descriptor is built.
#[derive(Debug, Clone)]
pub struct DescriptorInput<'a> {
    /// The id.
    pub id: ResultId,
    /// The location, as the client sees it.
    pub place: Location<'a>,
    /// Whether the client is expected to be able to open that path.
    pub readable_path: bool,
    /// When the result expires.
    pub expires_at: DateTime<Utc>,
    /// The operation.
    pub operation: &'a Operation,
    /// The format of the payload.
    pub found: &'a Detected,
    /// The statistics about the records; empty for other content.
    pub stats: &'a RecordStats,
    /// The beginning of a payload without records.
    pub text_head: &'a str,
    /// The estimated tokens of the result.
    pub estimated: Tokens,
    /// The lowest and the highest score, if there are scores.
    pub score_range: Option<(f64, f64)>,
    /// The number of matches, if the set has fewer.
    pub total_matches: Option<u64>,
    /// The members around the records.
    pub around: &'a [OuterMember<'a>],
    /// The further texts of the tool result that are stored with it.
    pub further_texts: &'a [&'a str],
}

/// Options of a descriptor.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorOptions {
    /// How the client can query the result.
    pub extraction: Extraction,
    /// The token budget of the preview; 0 for none.
    pub preview: Tokens,
    /// Whether a full descriptor lists the recipes.
    pub recipes: RecipeListing,
}

/// Writes the guidance for a set of memories.
type Guidance = fn(Extraction, u64, Tokens, Detail, Location<'_>, Reference) -> String;

impl DescriptorInput<'_> {
    /// Spec R1: the full descriptor of a set of memories at `detail`.
    pub fn full_descriptor(&self, detail: Detail, options: DescriptorOptions) -> FullDescriptor {
        let (count, reference) = (self.stats.count, self.id.reference());
        let (jq_recipes, guidance): (_, Guidance) = match options.recipes {
            RecipeListing::Included => {
                let optional = OptionalFields::from_shape(&self.stats.shape);
                let recipes = recipes(detail, optional);
                let commands = recipes.iter().map(|recipe| recipe.command(self.place)).collect();
                (commands, guidance::for_memories)
            }
            RecipeListing::Omitted => (Vec::new(), guidance::without_recipes),
        };
        FullDescriptor {
            lro: self.lro(options.preview, true),
            response: OffloadResponse {
                offloaded: true,
                summary: OffloadSummary {
                    count: saturating(count),
                    estimated_tokens: saturating(self.estimated.0),
                    operation: self.operation.as_str().to_owned(),
                    top_namespaces: self.stats.top_namespaces.clone(),
                    score_range: self.score_range,
                    detail: detail.as_str().to_owned(),
                },
                file_path: self.place.as_str().to_owned(),
                line_schema: self.stats.shape.line_schema(),
                jq_recipes,
                guidance: guidance(
                    options.extraction,
                    count,
                    self.estimated,
                    detail,
                    self.place,
                    reference,
                ),
            },
        }
    }

    /// Spec R11: the compact descriptor of any content; `detail` is set for memories.
    pub fn compact_descriptor(
        &self,
        detail: Option<Detail>,
        options: DescriptorOptions,
    ) -> CompactDescriptor {
        let (count, kind) =
            (self.found.records().map(|records| records.count), self.found.content.kind());
        let form = self.found.records().and_then(|records| records.form.text_form());
        let base64 = match &self.found.content {
            Content::Base64(base64) => Some(base64),
            _ => None,
        };
        let lro = self.lro(Tokens(0), detail.is_some());
        let values = self.stats.sample.field_stats();
        let (fields, left_out) = self.fields(&values, &lro.tables);
        let (more_fields, more_fields_at_least) = match left_out {
            OmittedFields::Exactly(0) => (None, None),
            OmittedFields::Exactly(more) => (Some(more), None),
            OmittedFields::AtLeast(more) => (None, Some(more)),
        };
        let mut descriptor = CompactDescriptor {
            lro,
            offloaded: true,
            summary: CompactSummary {
                count,
                kind,
                form,
                bytes: self.found.measure.bytes,
                lines: self.found.lines,
                decoded_bytes: base64.map(|base64| base64.decoded_bytes),
                media_type: base64.and_then(|base64| base64.media_type),
                estimated_tokens: self.estimated,
                operation: self.operation.as_str().to_owned(),
                detail,
                top_namespaces: self.stats.top_namespaces.clone(),
                score_range: self.score_range,
                more_fields,
                more_fields_at_least,
                fields_of_first_records: values.examined(),
            },
            file_path: self.place.as_str().to_owned(),
            fields,
            guidance: guidance::in_one_line(
                options.extraction,
                &self.found.content,
                detail,
                self.estimated,
                self.place,
                self.id.reference(),
                options.recipes,
            ),
        };
        // The preview gets what the rest leaves.
        let rest = serde_json::to_string(&descriptor).unwrap_or_default();
        let left = COMPACT_LIMIT_TOKENS.saturating_sub(Measure::from_bytes(rest.as_bytes()).cost());
        let budget = Tokens(options.preview.0.min(left));
        (descriptor.lro.preview, descriptor.lro.preview_cut) = self.preview(budget);
        descriptor
    }

    /// The preview within `budget`, and whether it is truncated.
    fn preview(&self, budget: Tokens) -> (Option<Preview>, Option<bool>) {
        let preview = match &self.found.content {
            _ if budget.0 == 0 => None,
            Content::Records(_) => Preview::from_records(&self.stats.head, budget),
            Content::Document | Content::Text => Preview::from_text(self.text_head, budget),
            // g26: a preview of base64 says nothing.
            Content::Base64(_) | Content::Binary => None,
        };
        let cut = preview.as_ref().is_some_and(|(_, cut)| *cut == PreviewExtent::Abridged);
        (preview.map(|(preview, _)| preview), cut.then_some(true))
    }

    /// The extension; `memories` is whether the records are memories.
    fn lro(&self, budget: Tokens, memories: bool) -> Lro {
        let (preview, preview_cut) = self.preview(budget);
        let is_table = |path: &String| self.stats.tables.iter().any(|table| table.path == *path);
        let is_shown = |member: &OuterMember<'_>| {
            // A list of errors is a table, and must be seen as well.
            (is_table(&member.path) && !around::is_problem(member))
                || (memories && SUMMARIZED_MEMBERS.contains(&member.path.as_str()))
        };
        let members: Vec<OuterMember<'_>> =
            self.around.iter().filter(|member| !is_shown(member)).cloned().collect();
        let (notes, notes_cost) = around::notes(self.further_texts, !members.is_empty());
        let around_budget = Tokens(around::BUDGET.0.saturating_sub(notes_cost));
        Lro {
            reference: self.id.reference(),
            expires_at: self.expires_at.to_rfc3339_opts(SecondsFormat::Secs, true),
            total_matches: self.total_matches,
            readable_path: self.readable_path,
            parts: u32::try_from(self.further_texts.len() + 1).ok().filter(|parts| *parts > 1),
            around: Around::new(&members, &self.stats.tables, around_budget),
            tables: tables(self.found.records(), &self.stats.tables),
            notes,
            preview,
            preview_cut,
        }
    }

    /// As many fields as fit the budget, and the number of omitted ones.
    fn fields(
        &self,
        values: &FieldStats,
        tables: &[TableNote],
    ) -> (Map<String, Value>, OmittedFields) {
        let tables = serde_json::to_string(tables).unwrap_or_default();
        let budget =
            FIELDS_BUDGET_TOKENS.saturating_sub(Measure::from_bytes(tables.as_bytes()).cost());
        let (listed, _) = values.describe(budget.max(MIN_FIELDS_BUDGET_TOKENS));
        let unlisted = self.stats.shape.fields().len().saturating_sub(listed.len());
        let left_out = match self.stats.shape.fields_left_out() {
            OmittedFields::Exactly(more) => OmittedFields::Exactly(more + unlisted),
            OmittedFields::AtLeast(more) => OmittedFields::AtLeast(more + unlisted),
        };
        (listed, left_out)
    }
}
