//! The report of `atlatl offload --dry-run` as text.

use lro_core::config::DescriptorForm;
use lro_core::records::{Delimiter, RecordForm};
use lro_core::threshold::{Decision, Delivery, Reason, Threshold};
use lro_core::tokens::{Estimate, Method};
use lro_core::tool_result::Origin;
use serde_json::Value;

use super::report::{PayloadKind, PayloadLocation, Records, Report, Tool, ToolOrigin};
use super::tokens::{CountScope, TokenCounts};
use crate::output::{Facts, grouped, pluralize};

/// The characters that the list of fields may take: about five lines. The other fields are only counted.
const MAX_FIELDS_CHARS: usize = 320;

/// The report as labelled facts.
pub(super) fn facts(report: &Report) -> Facts {
    let mut facts = Facts::default();
    facts.text("recognised", &describe_kind(report));
    if let Some(location) = &report.tool_result {
        facts.text("found in", &describe_location(location));
    }
    if let Some(records) = &report.records {
        facts.list("fields", &fields(records));
    }
    facts.text("size", &size(report));
    let (first, second) = tokens(&report.tokens);
    facts.text("tokens", &first);
    if let Some(second) = second {
        facts.text("", &second);
    }
    facts.text("tool", &tool(report.tool.as_ref()));
    facts.text("decision", &decision(&report.decision.decision, report.tokens.estimated));
    if let Some(key) = &report.decision.key {
        facts.text("decided by", key);
    }
    if let Some(descriptor) = &report.descriptor {
        let form = match descriptor.form {
            DescriptorForm::Full => "full",
            _ => "compact",
        };
        let tokens = grouped(descriptor.tokens.0);
        facts.text("in its place", &format!("a {form} descriptor of about {tokens} tokens"));
    }
    facts
}

fn describe_kind(report: &Report) -> String {
    let (one, many) = match report.kind {
        PayloadKind::Memories => ("memory", "memories"),
        PayloadKind::Records => ("record", "records"),
        PayloadKind::Json => return "one JSON document".to_owned(),
        PayloadKind::Text => return "text".to_owned(),
        PayloadKind::Base64 => return "base64".to_owned(),
        PayloadKind::Binary => return "binary data".to_owned(),
        PayloadKind::Nothing => return "nothing: there is no text".to_owned(),
    };
    let Some(records) = &report.records else { return many.to_owned() };
    let place = match &records.form {
        RecordForm::Array { path, .. } if path.is_empty() => "a JSON array".to_owned(),
        RecordForm::Array { path, .. } => format!("the JSON array at {}", jq_path(path)),
        RecordForm::Map { path, .. } if path.is_empty() => {
            "the members of a JSON object".to_owned()
        }
        RecordForm::Map { path, .. } => {
            format!("the members of the JSON object at {}", jq_path(path))
        }
        RecordForm::Table { delimiter: Delimiter::Tab, .. } => "a table (TSV)".to_owned(),
        RecordForm::Table { .. } => "a table (CSV)".to_owned(),
        RecordForm::TextTable { layout, .. } => format!("a text ({})", layout.as_str()),
        _ => "JSON lines".to_owned(),
    };
    format!("{} in {place}", pluralize(records.count, one, many))
}

/// The path in the syntax of any jq version.
fn jq_path(path: &[String]) -> String {
    let mut jq = String::new();
    for name in path {
        let plain = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        if plain || jq.is_empty() {
            jq.push('.');
        }
        // Before version 1.7 jq refuses a dot in front of an inner bracket.
        let quoted = if plain { name.clone() } else { format!("[{}]", Value::from(&**name)) };
        jq.push_str(&quoted);
    }
    jq
}

fn describe_location(location: &PayloadLocation) -> String {
    let payload = match location.payload {
        Some(Origin::Structured) => "structuredContent of a tool result",
        Some(Origin::TextBlocks) => "the text blocks of a tool result",
        Some(Origin::UndecodableText) => "a text block of a tool result that cannot be decoded",
        Some(Origin::Resource) => "an embedded resource of a tool result",
        Some(_) => "a text block of a tool result",
        None => "a tool result",
    };
    let mut parts = vec![payload.to_owned()];
    if location.further_texts > 0 {
        let texts = pluralize(location.further_texts as u64, "more text", "more texts");
        parts.push(format!("{texts} beside it"));
    }
    if location.other_blocks > 0 {
        let blocks = pluralize(location.other_blocks as u64, "other block is", "other blocks are");
        parts.push(format!("{blocks} left unchanged"));
    }
    parts.join("; ")
}

fn size(report: &Report) -> String {
    let bytes = pluralize(report.bytes, "byte", "bytes");
    match report.characters {
        Some(characters) => {
            format!("{bytes}, {}", pluralize(characters, "character", "characters"))
        }
        None => bytes,
    }
}

fn fields(records: &Records) -> Vec<String> {
    if records.fields.is_empty() {
        return vec!["none".to_owned()];
    }
    let mut chars_left = MAX_FIELDS_CHARS;
    let mut fields: Vec<String> = records
        .fields
        .iter()
        .map(|(name, types)| format!("{name} {}", types.as_str().unwrap_or_default()))
        .take_while(|field| {
            let fits = field.chars().count() < chars_left;
            chars_left = chars_left.saturating_sub(field.chars().count() + 2);
            fits
        })
        .collect();
    let left_out = records.fields.len() - fields.len() + records.fields_left_out;
    if left_out > 0 {
        fields.push(format!("{left_out} more"));
    }
    fields
}

/// The estimate and the real count, or one of them if both are the same.
fn tokens(tokens: &TokenCounts) -> (String, Option<String>) {
    let of = match tokens.of {
        CountScope::Records => " for the records",
        CountScope::Result => "",
    };
    let estimated = grouped(tokens.estimated.tokens.0);
    if tokens.estimated.method == Method::Counted && tokens.real == Some(tokens.estimated) {
        return (format!("{estimated}{of} (counted with o200k)"), None);
    }
    let how = match tokens.estimated.method {
        Method::CharactersByFour => "characters \u{f7} 4",
        Method::Counted => "counted",
        Method::Sampled => "from a sample",
        Method::AsBase64 => "as base64",
        _ => "without a tokenizer",
    };
    let real = tokens.real.map(|real| {
        let how = match real.method {
            Method::Counted => "counted with o200k",
            Method::Sampled => "o200k, from the first 8 MiB",
            _ => "estimated: the tokenizer failed",
        };
        format!("{} real ({how})", grouped(real.tokens.0))
    });
    (format!("{estimated} estimated{of} ({how})"), real)
}

fn tool(tool: Option<&Tool>) -> String {
    match tool {
        Some(Tool { name, origin: ToolOrigin::Flag }) => name.clone(),
        Some(Tool { name, origin: ToolOrigin::Assumed }) => {
            format!("{name}, assumed since these are memories (see --tool)")
        }
        None => "not given (name it with --tool to apply its policy)".to_owned(),
    }
}

fn decision(decision: &Decision, estimated: Estimate) -> String {
    let delivery = match decision.delivery {
        Delivery::Inline => "inline",
        Delivery::Offload => "offload",
    };
    let why = match &decision.reason {
        Reason::Disabled => "offloading is switched off".to_owned(),
        Reason::ToolFailed => "the tool reported an error, which the model has to see".to_owned(),
        Reason::Unfinished => "the result is not the final one".to_owned(),
        Reason::NoText => "there is no text to store".to_owned(),
        Reason::Policy { .. } => "a policy says so, whatever the size".to_owned(),
        Reason::Bytes { bytes, threshold } => {
            let over = match threshold {
                Threshold::Above(_) => "more than ",
                _ => "",
            };
            let bytes = pluralize(*bytes, "byte is", "bytes are");
            format!("{bytes} too few for {over}{} tokens", grouped(threshold.tokens().0))
        }
        Reason::Estimate { threshold } => {
            let are = match (decision.delivery, threshold) {
                (Delivery::Offload, Threshold::Above(_)) => "more than",
                (Delivery::Offload, _) => "at least",
                (Delivery::Inline, Threshold::Above(_)) => "not more than",
                (Delivery::Inline, _) => "less than",
            };
            let tokens = grouped(estimated.tokens.0);
            format!("{tokens} tokens are {are} {}", grouped(threshold.tokens().0))
        }
        // A reason that is newer than this function.
        reason => format!("{reason:?}"),
    };
    format!("{delivery}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_jq_takes_them() {
        let path =
            |names: &[&str]| jq_path(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(path(&["data", "rows_2"]), ".data.rows_2");
        assert_eq!(path(&["a b", "2x", "\"", ""]), r#".["a b"]["2x"]["\""][""]"#);
    }
}
