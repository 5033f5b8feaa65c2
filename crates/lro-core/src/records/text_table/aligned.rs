//! Columns aligned with spaces, as printed by `kubectl get`, `docker ps`, `ps` and `df`.
//!
//! Offsets are in characters, as these programs count them. There are two layouts. In the first, column
//! names are at least two spaces apart and every cell begins exactly below its name, so cells may be
//! empty or contain single spaces. In the second, every cell except the last is one word that begins or
//! ends where its name does.

use std::borrow::Cow;
use std::ops::Range;

use super::super::table::columns_from_header;
use super::{Evidence, Header, LayoutKind, MIN_ROWS, TextLayout};

/// The fewest columns of words: with fewer, prose may be aligned by chance.
const MIN_WORD_COLUMNS: usize = 4;

/// The header of a table whose cells begin below their column name.
pub(super) fn header(lines: &[&str]) -> Option<Header> {
    let line = lines.first()?.trim_end();
    if line.starts_with(' ') || !line.contains("  ") || line.contains('\t') {
        return None;
    }
    let names: Vec<&str> =
        line.split("  ").map(str::trim).filter(|name| !name.is_empty()).collect();
    let mut starts = Vec::new();
    let mut after = 0;
    for name in &names {
        let at = after + line[after..].find(name)?;
        starts.push(line[..at].chars().count());
        after = at + name.len();
    }
    let rule = lines.get(1).is_some_and(|line| is_rule(line, &starts));
    let mut header = build(LayoutKind::Aligned, &names, rule)?;
    header.layout.starts = starts;
    // Below a rule, one space separates a wide cell from the next.
    header.layout.gap = if rule { 1 } else { 2 };
    Some(header)
}

/// The header of a table of words.
pub(super) fn header_of_words(lines: &[&str]) -> Option<Header> {
    let line = lines.first()?.trim_end();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let rows: Vec<&str> = lines.iter().skip(1).take(min_rows()).copied().collect();
    if words.len() < MIN_WORD_COLUMNS || line.contains('\t') || rows.len() < min_rows() {
        return None;
    }
    // The last name may have several words, such as `Mounted on`.
    let fewest = rows.iter().map(|row| row.split_ascii_whitespace().count()).min()?;
    let width = words.len().min(fewest);
    if width < MIN_WORD_COLUMNS {
        return None;
    }
    let last = words[width - 1..].join(" ");
    if !line.ends_with(&last) {
        return None;
    }
    let names: Vec<&str> = words[..width - 1].iter().copied().chain([last.as_str()]).collect();
    build(LayoutKind::Spaced, &names, false)
}

fn min_rows() -> usize {
    usize::try_from(MIN_ROWS).unwrap_or(usize::MAX)
}

fn build(kind: LayoutKind, names: &[&str], rule: bool) -> Option<Header> {
    let columns = columns_from_header(names.iter().map(|name| name.as_bytes()))?;
    if !names.iter().all(|name| is_name(name)) {
        return None;
    }
    let is_upper = !names.iter().any(|name| name.contains(char::is_lowercase))
        && names.iter().all(|name| name.contains(char::is_uppercase) || *name == "#");
    let evidence = match (rule, is_upper) {
        (true, _) => Evidence::Certain,
        (_, true) => Evidence::OtherWords,
        _ if columns.len() >= 3 => Evidence::Figures,
        _ => return None,
    };
    let layout = TextLayout::new(kind, 1 + usize::from(rule), columns.len());
    Some(Header { layout, columns, evidence })
}

/// Whether `name` can be a column name of such a table.
fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || " _-./%()#:+&*@".contains(c);
    name.starts_with(|c: char| c.is_alphabetic() || "#%(".contains(c))
        && name.chars().all(is_allowed)
        && !name.ends_with([':', '.', '+', '-'])
}

/// Whether `line` has dashes below each column name.
fn is_rule(line: &str, starts: &[usize]) -> bool {
    let line = line.trim_end();
    let runs = line.split(' ').filter(|run| !run.is_empty()).count();
    line.bytes().all(|b| matches!(b, b'-' | b'=' | b' '))
        && runs == starts.len()
        && starts.iter().all(|start| {
            let before = start.checked_sub(1).and_then(|before| line.as_bytes().get(before));
            before.is_none_or(|b| *b == b' ')
                && line.as_bytes().get(*start).is_some_and(|b| *b != b' ')
        })
}

/// The cells of a row whose columns begin at `starts`, with at least `gap` spaces before each.
pub(super) fn cells<'a>(line: &'a str, starts: &[usize], gap: usize) -> Option<Vec<Cow<'a, str>>> {
    let line = line.trim_end();
    if line.contains('\t') {
        return None;
    }
    let offsets = byte_offsets(line, starts);
    let mut cells = Vec::with_capacity(starts.len());
    for (i, at) in offsets.iter().enumerate() {
        let last = i + 1 == offsets.len();
        let end = if last { line.len() } else { offsets[i + 1] };
        let cell = &line[*at..end];
        let text = cell.trim_end();
        let fits = last
            || text.is_empty()
            || (starts[i] + text.chars().count() + gap <= starts[i + 1] && !text.contains("  "));
        if !fits || text.starts_with(' ') {
            return None;
        }
        cells.push(Cow::Borrowed(text));
    }
    let filled = cells.iter().filter(|cell| !cell.is_empty()).count();
    (filled >= 2 && !cells[0].is_empty()).then_some(cells)
}

/// The byte offsets of characters; the length of the line for those after its end.
fn byte_offsets(line: &str, starts: &[usize]) -> Vec<usize> {
    if line.is_ascii() {
        return starts.iter().map(|start| (*start).min(line.len())).collect();
    }
    let mut indices = line.char_indices().map(|(at, _)| at).enumerate();
    let mut after = |start: usize| {
        indices.find(|(number, _)| *number == start).map_or(line.len(), |(_, at)| at)
    };
    starts.iter().map(|start| after(*start)).collect()
}

/// The words of a row; the last cell is the rest of the line.
pub(super) fn words(line: &str, width: usize) -> Option<Vec<Cow<'_, str>>> {
    let mut rest = line.trim();
    let mut cells = Vec::with_capacity(width);
    while cells.len() + 1 < width {
        let end = rest.find(' ')?;
        cells.push(Cow::Borrowed(&rest[..end]));
        rest = rest[end..].trim_start();
    }
    let filled = !rest.is_empty() && !line.contains('\t');
    cells.push(Cow::Borrowed(rest));
    filled.then_some(cells)
}

/// The ranges of the column names of a table of words.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    names: Vec<Range<usize>>,
}

impl Alignment {
    pub(super) fn new(header: &str, width: usize) -> Self {
        Self { names: word_ranges(header, width) }
    }

    /// Whether the words of a row are below their names. If `exact`, each begins or ends where its name
    /// does; otherwise a wide value may move the words after it a little.
    pub(super) fn fits(&self, line: &str, exact: bool) -> bool {
        let words = word_ranges(line, self.names.len());
        words.len() == self.names.len()
            && words.iter().zip(&self.names).enumerate().all(|(i, (word, name))| {
                if word.start == name.start || word.end == name.end {
                    return true;
                }
                let after = i.checked_sub(1).map_or(0, |before| self.names[before].end);
                let before = self.names.get(i + 1).map_or(usize::MAX, |next| next.start);
                !exact && word.end > after && word.start < before
            })
    }
}

/// The ranges of the first `width` words in characters; the last one is the rest of the line.
fn word_ranges(line: &str, width: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::with_capacity(width);
    let (mut start, mut end) = (None, 0);
    for (at, c) in line.trim_end().chars().enumerate() {
        end = at + 1;
        match (c == ' ', start) {
            (false, None) => start = Some(at),
            (true, Some(from)) if ranges.len() + 1 < width => {
                ranges.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    ranges.extend(start.map(|from| from..end));
    ranges
}
