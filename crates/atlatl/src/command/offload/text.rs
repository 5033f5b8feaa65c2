//! The report as a person reads it.

use lro_core::{
    config::DescriptorForm,
    records::{Delimiter, RecordForm},
    threshold::{Delivery, Reason, Threshold},
    tokens::Method,
    tool_result::Origin,
};

use super::report::{Kind, Records, Report, Source};
use crate::output::Table;

/// Fields shown in a line; the rest is counted.
const FIELDS_SHOWN: usize = 12;

/// One row a fact.
pub(super) fn table(report: &Report) -> Table {
    let mut table = Table::new(["", ""]);
    let mut row = |label: &str, text: String| table.row([label.to_owned(), text]);
    row("recognised", recognised(report));
    if let Some(source) = source(report.source) {
        row("found in", source);
    }
    row(
        "size",
        format!("{} bytes, {} characters", grouped(report.bytes), grouped(report.characters)),
    );
    if let Some(records) = &report.records {
        row("fields", fields(records));
    }
    let tokens = &report.tokens;
    row("tokens", format!("{} estimated ({})", grouped(tokens.estimated.0), method(tokens.method)));
    row("", format!("{} real (o200k, {})", grouped(tokens.real.0), method(tokens.real_method)));
    row("decision", decision(report));
    if let Some(descriptor) = &report.descriptor {
        let form = match descriptor.form {
            DescriptorForm::Full => "full",
            _ => "compact",
        };
        let size = grouped(descriptor.tokens.0);
        row("in its place", format!("a {form} descriptor of about {size} tokens"));
    }
    table
}

fn recognised(report: &Report) -> String {
    let what = match (report.kind, &report.records) {
        (Kind::Json, _) => return "one JSON document".to_owned(),
        (Kind::Text, _) | (_, None) if report.kind != Kind::Binary => return "text".to_owned(),
        (Kind::Memories, _) => "memories",
        (Kind::Binary, _) => return "binary data".to_owned(),
        _ => "records",
    };
    let Some(records) = &report.records else { return what.to_owned() };
    let form = match &records.form {
        RecordForm::Array { path, .. } if path.is_empty() => "a JSON array".to_owned(),
        RecordForm::Array { path, .. } => format!("the JSON array at .{}", path.join(".")),
        RecordForm::Table { delimiter: Delimiter::Tab, .. } => "a table (TSV)".to_owned(),
        RecordForm::Table { .. } => "a table (CSV)".to_owned(),
        _ => "JSON lines".to_owned(),
    };
    format!("{} {what} in {form}", grouped(records.count))
}

fn source(source: Source) -> Option<String> {
    let Source::ToolResult { origin, further_parts, other_blocks } = source else { return None };
    let place = match origin {
        Some(Origin::Structured) => "structuredContent",
        Some(Origin::TextBlocks) => "its text blocks",
        Some(Origin::UndecodableText) => "a text block that is no UTF-8",
        Some(_) => "its text block",
        None => "no text",
    };
    let further = match further_parts {
        0 => String::new(),
        1 => ", 1 further text".to_owned(),
        more => format!(", {more} further texts"),
    };
    let other = match other_blocks {
        0 => String::new(),
        1 => ", 1 other block that stays as it is".to_owned(),
        more => format!(", {more} other blocks that stay as they are"),
    };
    Some(format!("a tool result: {place}{further}{other}"))
}

fn fields(records: &Records) -> String {
    let shown: Vec<String> = records
        .fields
        .iter()
        .take(FIELDS_SHOWN)
        .map(|(name, types)| format!("{name} {}", types.as_str().unwrap_or_default()))
        .collect();
    let left = records.fields.len().saturating_sub(FIELDS_SHOWN);
    let more = if left > 0 { format!(", {left} more") } else { String::new() };
    shown.join(", ") + &more
}

fn method(method: Method) -> &'static str {
    match method {
        Method::CharactersByFour => "characters \u{f7} 4",
        Method::Counted => "counted",
        Method::Sampled => "from a sample",
        _ => "bound from above",
    }
}

fn decision(report: &Report) -> String {
    let delivery = match report.decision.delivery {
        Delivery::Inline => "inline",
        Delivery::Offload => "offload",
    };
    let estimated = grouped(report.tokens.estimated.0);
    let why = match &report.decision.reason {
        Reason::Disabled => "prompt.offload.enabled is false".to_owned(),
        Reason::ToolFailed => "the tool said that it failed".to_owned(),
        Reason::Unfinished => "the result is not final".to_owned(),
        Reason::Policy { glob } => format!("proxy.policy.\"{glob}\" says so"),
        Reason::Bytes { bytes, threshold } => {
            format!("{} bytes cannot be more than {} tokens", grouped(*bytes), limit(*threshold))
        }
        Reason::Estimate { threshold } => {
            let relation = match (report.decision.delivery, threshold) {
                (Delivery::Offload, Threshold::Above(_)) => "more than",
                (Delivery::Offload, _) => "at least",
                (Delivery::Inline, Threshold::Above(_)) => "not more than",
                (Delivery::Inline, _) => "less than",
            };
            format!("{estimated} tokens are {relation} {}", limit(*threshold))
        }
        _ => String::new(),
    };
    format!("{delivery}: {why}, for {}", report.tool)
}

fn limit(threshold: Threshold) -> String {
    grouped(threshold.tokens().0)
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
