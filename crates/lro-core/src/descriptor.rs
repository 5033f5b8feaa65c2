//! Descriptor: what the client gets in place of a result that was offloaded.
//!
//! Trusted fields (guidance, recipes, labels) hold constants, numbers, our references and our
//! paths. What came from the result stands in data fields alone: `top_namespaces`, `line_schema`,
//! `fields` and `preview`, capped and with hidden characters made visible.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::detail::Detail;
use crate::guidance::{self, Extraction};
use crate::header::saturating;
use crate::location::Place;
use crate::operation::Operation;
use crate::preview::{Cut, Preview};
use crate::recipe::{JqRecipe, Optional, recipes};
use crate::records::{Content, Found};
use crate::reference::{Reference, ResultId};
use crate::shape::LeftOut;
use crate::stats::Survey;
use crate::tokens::{Measure, Tokens};

/// What the field list of a compact descriptor may cost, in tokens.
const FIELDS_COST: u64 = 190;

/// Spec G1: the compact response returned when results are offloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffloadResponse {
    /// Always true.
    pub offloaded: bool,
    /// What the result set is.
    pub summary: OffloadSummary,
    /// Absolute path of the JSONL file, or a link to it.
    pub file_path: String,
    /// JSON Schema of a record line.
    pub line_schema: Value,
    /// The ten recipes.
    pub jq_recipes: Vec<JqRecipe>,
    /// What to do next.
    pub guidance: String,
}

/// Spec G1: the summary of an offloaded result set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffloadSummary {
    /// The number of records in the file.
    pub count: usize,
    /// The estimated tokens of the whole set.
    pub estimated_tokens: usize,
    /// The operation that was performed.
    pub operation: String,
    /// The most frequent namespaces, at most five.
    pub top_namespaces: Vec<String>,
    /// The lowest and the highest score, where there were any.
    pub score_range: Option<(f64, f64)>,
    /// The detail level of the records.
    pub detail: String,
}

/// Ours beyond the specification's fields, under one key.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Lro {
    /// Stands for the result in any extraction call.
    #[serde(rename = "ref")]
    pub reference: Reference,
    /// When it is gone.
    pub expires_at: String,
    /// How many matches there were, where the set holds fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_matches: Option<u64>,
    /// Whether the client is expected to be able to open `file_path`.
    pub readable_path: bool,
    /// How many parts the result was stored in, where it is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// The first records or characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// Whether the preview shows less than whole records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_cut: Option<bool>,
}

/// The full descriptor: the specification's response, and ours before it.
#[derive(Debug, Clone, Serialize)]
pub struct FullDescriptor {
    /// The reference comes first, so that it survives a client that cuts.
    pub lro: Lro,
    /// The specification's fields.
    #[serde(flatten)]
    pub response: OffloadResponse,
}

/// The compact descriptor: reference, path, summary, fields and one line of guidance.
#[derive(Debug, Clone, Serialize)]
pub struct CompactDescriptor {
    /// The reference comes first, so that it survives a client that cuts.
    pub lro: Lro,
    /// Always true.
    pub offloaded: bool,
    /// What the result is.
    pub summary: CompactSummary,
    /// Absolute path of the file, or a link to it.
    pub file_path: String,
    /// The fields of a record with their types.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
    /// What to do next.
    pub guidance: String,
}

/// The summary of a compact descriptor.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CompactSummary {
    /// The number of records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What was stored.
    pub kind: &'static str,
    /// The size of the payload.
    pub bytes: u64,
    /// The tokens it would have taken.
    pub estimated_tokens: Tokens,
    /// The operation that was performed.
    pub operation: String,
    /// The detail level, for memories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// The most frequent namespaces, for memories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_namespaces: Vec<String>,
    /// The lowest and the highest score, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_range: Option<(f64, f64)>,
    /// Fields that are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_fields: Option<usize>,
    /// In place of it where there are too many different ones to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_fields_at_least: Option<usize>,
}

/// What is known of a result once it is stored.
#[derive(Debug, Clone)]
pub struct Stored<'a> {
    /// Its identity.
    pub id: ResultId,
    /// Where its bytes are, for the client.
    pub place: Place<'a>,
    /// Whether the client is expected to be able to open that path.
    pub readable_path: bool,
    /// When it is gone.
    pub expires_at: DateTime<Utc>,
    /// What was called.
    pub operation: &'a Operation,
    /// What was found in the payload.
    pub found: &'a Found,
    /// What the records are like; empty for anything else.
    pub survey: &'a Survey,
    /// The beginning of a payload without records.
    pub text_head: &'a str,
    /// The tokens it would have taken.
    pub estimated: Tokens,
    /// The lowest and the highest score, where there were any.
    pub score_range: Option<(f64, f64)>,
    /// How many matches there were, where the set holds fewer.
    pub total_matches: Option<u64>,
    /// How many texts of the same tool result are stored with it.
    pub further_texts: u32,
}

/// How a descriptor is to look.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// How the client can get at the result.
    pub extraction: Extraction,
    /// The tokens a preview may take; 0 for none.
    pub preview: Tokens,
}

impl Stored<'_> {
    /// Spec R1: the full descriptor of a set of memories at `detail`.
    pub fn full_descriptor(&self, detail: Detail, look: Look) -> FullDescriptor {
        let (count, reference) = (self.survey.count, self.id.reference());
        let optional = Optional::from_shape(&self.survey.shape);
        FullDescriptor {
            lro: self.lro(look.preview),
            response: OffloadResponse {
                offloaded: true,
                summary: OffloadSummary {
                    count: saturating(count),
                    estimated_tokens: saturating(self.estimated.0),
                    operation: self.operation.as_str().to_owned(),
                    top_namespaces: self.survey.top_namespaces.clone(),
                    score_range: self.score_range,
                    detail: detail.as_str().to_owned(),
                },
                file_path: self.place.as_str().to_owned(),
                line_schema: self.survey.shape.line_schema(),
                jq_recipes: recipes(detail, optional)
                    .iter()
                    .map(|r| r.command(self.place))
                    .collect(),
                guidance: guidance::for_memories(
                    look.extraction,
                    count,
                    self.estimated,
                    detail,
                    self.place,
                    reference,
                ),
            },
        }
    }

    /// Spec R11: the compact descriptor of anything; `detail` where it is a set of memories.
    pub fn compact_descriptor(&self, detail: Option<Detail>, look: Look) -> CompactDescriptor {
        let (count, kind) = match &self.found.content {
            Content::Records(records) => (Some(records.count), "records"),
            Content::Document => (None, "json"),
            Content::Text => (None, "text"),
            Content::Binary => (None, "binary"),
        };
        let (fields, left_out) = self.fields();
        let (more_fields, more_fields_at_least) = match left_out {
            LeftOut::Exactly(0) => (None, None),
            LeftOut::Exactly(more) => (Some(more), None),
            LeftOut::AtLeast(more) => (None, Some(more)),
        };
        CompactDescriptor {
            lro: self.lro(look.preview),
            offloaded: true,
            summary: CompactSummary {
                count,
                kind,
                bytes: self.found.measure.bytes,
                estimated_tokens: self.estimated,
                operation: self.operation.as_str().to_owned(),
                detail,
                top_namespaces: self.survey.top_namespaces.clone(),
                score_range: self.score_range,
                more_fields,
                more_fields_at_least,
            },
            file_path: self.place.as_str().to_owned(),
            fields,
            guidance: guidance::in_one_line(
                look.extraction,
                &self.found.content,
                detail,
                self.estimated,
                self.place,
                self.id.reference(),
            ),
        }
    }

    fn lro(&self, budget: Tokens) -> Lro {
        let preview = match &self.found.content {
            _ if budget.0 == 0 => None,
            Content::Records(_) => Preview::of_records(&self.survey.head, budget),
            Content::Document | Content::Text => Preview::of_text(self.text_head, budget),
            Content::Binary => None,
        };
        let cut = preview.as_ref().is_some_and(|(_, cut)| *cut == Cut::Abridged);
        Lro {
            reference: self.id.reference(),
            expires_at: self.expires_at.to_rfc3339_opts(SecondsFormat::Secs, true),
            total_matches: self.total_matches,
            readable_path: self.readable_path,
            parts: (self.further_texts > 0).then_some(self.further_texts + 1),
            preview: preview.map(|(preview, _)| preview),
            preview_cut: cut.then_some(true),
        }
    }

    /// As many fields as the descriptor has room for, and how many are left out.
    fn fields(&self) -> (Map<String, Value>, LeftOut) {
        let all = self.survey.shape.fields();
        let mut room = FIELDS_COST;
        let mut listed = Map::new();
        for (name, types) in &all {
            let cost = Measure::from_bytes(name.as_bytes()).cost()
                + Measure::from_bytes(types.as_bytes()).cost()
                + 2;
            if cost > room {
                break;
            }
            room -= cost;
            listed.insert(name.clone(), Value::String(types.clone()));
        }
        let unlisted = all.len() - listed.len();
        let left_out = match self.survey.shape.fields_left_out() {
            LeftOut::Exactly(more) => LeftOut::Exactly(more + unlisted),
            LeftOut::AtLeast(more) => LeftOut::AtLeast(more + unlisted),
        };
        (listed, left_out)
    }
}
