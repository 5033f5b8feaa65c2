//! Tables with pipes between cells and a rule below the header: Markdown, `psql` and `MySQL`.

use std::borrow::Cow;

use super::super::table::columns_from_header;
use super::{Evidence, Header, LayoutKind, TextLayout};

/// The header at the beginning of `lines`.
pub(super) fn header(lines: &[&str]) -> Option<Header> {
    let (kind, at) = match lines {
        [border, ..] if is_border(border) => (LayoutKind::Bordered, 1),
        [names, rule, ..] if names.contains('|') => (rule_layout(rule)?, 0),
        _ => return None,
    };
    let (names, rule) = (lines.get(at)?, lines.get(at + 1)?);
    let names: Vec<String> = (1..)
        .zip(cells(names, kind)?)
        .map(|(number, name)| match name.trim_matches(['*', '`', ' ']) {
            // The first column of a Markdown table often has no name.
            "" if kind == LayoutKind::Markdown => format!("column_{number}"),
            name if kind == LayoutKind::Markdown => name.to_owned(),
            _ => name.into_owned(),
        })
        .collect();
    let columns = columns_from_header(names.iter().map(String::as_bytes))?;
    (rule_width(rule, kind)? == columns.len()).then(|| Header {
        layout: TextLayout::new(kind, at + 2, columns.len()),
        columns,
        evidence: Evidence::Certain,
    })
}

/// Whether `line` is `+----+----+`.
pub(super) fn is_border(line: &str) -> bool {
    let line = line.trim_end();
    line.starts_with("+-") && line.ends_with("-+") && line.bytes().all(|b| matches!(b, b'+' | b'-'))
}

/// The layout whose rule below the header `line` is.
fn rule_layout(line: &str) -> Option<LayoutKind> {
    let line = line.trim();
    let is = |allowed: &[u8]| line.bytes().all(|b| allowed.contains(&b)) && line.contains('-');
    match line {
        _ if line.contains('|') && is(b"|-: ") => Some(LayoutKind::Markdown),
        _ if line.starts_with('-') && line.contains('+') && is(b"-+") => Some(LayoutKind::Ruled),
        _ => None,
    }
}

/// The number of columns of a rule.
fn rule_width(line: &str, kind: LayoutKind) -> Option<usize> {
    let line = line.trim();
    if kind == LayoutKind::Markdown {
        let cells = cells(line, kind)?;
        let is_rule = |cell: &str| {
            let dashes = cell.strip_prefix(':').unwrap_or(cell);
            let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
            !dashes.is_empty() && dashes.bytes().all(|b| b == b'-')
        };
        return cells.iter().all(|cell| is_rule(cell)).then_some(cells.len());
    }
    if kind == LayoutKind::Bordered && !is_border(line) {
        return None;
    }
    let runs = line.trim_matches('+').split('+');
    runs.clone().all(|run| !run.is_empty()).then(|| runs.count())
}

/// The trimmed cells of a row.
pub(super) fn cells(line: &str, kind: LayoutKind) -> Option<Vec<Cow<'_, str>>> {
    let trimmed = line.trim();
    let framed = trimmed.strip_prefix('|');
    let inside = match (kind, framed) {
        (LayoutKind::Bordered, framed) => framed?.strip_suffix('|')?,
        (LayoutKind::Markdown, Some(inside)) => {
            inside.strip_suffix('|').filter(|inside| !ends_escaped(inside)).unwrap_or(inside)
        }
        // Without a frame, an empty first or last cell is spaces only.
        _ => line,
    };
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in inside.match_indices('|') {
        if kind == LayoutKind::Markdown && ends_escaped(&inside[..at]) {
            continue;
        }
        cells.push(cell(&inside[start..at], kind)?);
        start = at + 1;
    }
    cells.push(cell(&inside[start..], kind)?);
    (cells.len() >= 2).then_some(cells)
}

fn cell(text: &str, kind: LayoutKind) -> Option<Cow<'_, str>> {
    // psql continues a value with line breaks on the next line, and marks it by a plus sign.
    if kind == LayoutKind::Ruled && text.ends_with(" +") {
        return None;
    }
    let text = text.trim();
    let is_escaped = kind == LayoutKind::Markdown && text.contains("\\|");
    Some(if is_escaped { Cow::Owned(text.replace("\\|", "|")) } else { Cow::Borrowed(text) })
}

/// Whether a pipe after `text` is escaped.
fn ends_escaped(text: &str) -> bool {
    text.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}
