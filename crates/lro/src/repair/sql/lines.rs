//! Columns that the lines of a text do not have: `level` and `component` of a log.

use super::super::Repair;
use super::words::{Clause, replace_name};

/// Other names for the word that says how bad a line is.
const LEVEL_NAMES: [&str; 6] = ["level", "severity", "loglevel", "log_level", "lvl", "priority"];
const LEVELS: &str = r"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b";
/// Names for the part of a program that writes a line. It is often in brackets; what else a column could
/// mean is not guessed.
const COMPONENT_NAMES: [&str; 12] = [
    "component",
    "module",
    "logger",
    "service",
    "source",
    "subsystem",
    "category",
    "facility",
    "thread",
    "scope",
    "target",
    "tag",
];
/// A word in brackets, as in `[db] job finished`.
const IN_BRACKETS: &str = r"\[([A-Za-z][\w.:-]*)\]";
/// The first lines that are read for the format.
pub(crate) const FORMAT_LINES: usize = 100;
/// The characters of a column that may be a word of the text.
const WORD_CHARS: std::ops::RangeInclusive<usize> = 4..=40;

/// What the first lines of a text have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineFormat {
    /// Nine of ten have one word in brackets.
    has_brackets: bool,
    /// Nine of ten have a level.
    has_levels: bool,
}

impl LineFormat {
    pub(crate) fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let (mut all, mut brackets, mut levels) = (0, 0, 0);
        for line in lines.take(FORMAT_LINES) {
            all += 1;
            let words = || line.split(|c: char| !c.is_ascii_alphanumeric());
            levels += usize::from(words().any(|word| !word.is_empty() && LEVELS.contains(word)));
            let mut inner = line.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
            let is_word = inner.next().is_some_and(|(word, _)| {
                word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains(' ')
            });
            brackets += usize::from(is_word && inner.next().is_none());
        }
        let most = |count: usize| all > 0 && count * 10 >= all * 9;
        Self { has_brackets: most(brackets), has_levels: most(levels) }
    }
}

/// The statements in which `column` is a part of the line, the most likely one first. The caller runs them.
pub(crate) fn line_column(format: LineFormat, statement: &str, column: &str) -> Vec<Repair> {
    let name = column.trim_matches('"');
    let is_level = LEVEL_NAMES.iter().any(|level| name.eq_ignore_ascii_case(level));
    let is_component = COMPONENT_NAMES.iter().any(|component| name.eq_ignore_ascii_case(component));
    let is_word = WORD_CHARS.contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    let patterns = [
        (is_level && format.has_levels).then(|| LEVELS.to_owned()),
        // `IllegalStateException` for the column `exception`.
        (is_word && !is_level).then(|| format!(r"(?i)([\w.]*{name}[\w.]*)")),
        (is_component && format.has_brackets).then(|| IN_BRACKETS.to_owned()),
    ];
    let repair = |pattern: String| {
        let new = format!("regexp_capture(text, '{pattern}', 1)");
        replace_name(statement, column, &new, Clause::Replace)
    };
    patterns.into_iter().flatten().filter_map(repair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_nine_lines_in_ten() {
        let log = "2026-11-16T00:00:00Z INFO  [db] job finished\n2026 WARN [api-1] x\n";
        let format = LineFormat::read(log.lines());
        assert_eq!(format, LineFormat { has_brackets: true, has_levels: true });
        let two = "x [a] [b]\ny [1]\nz [a b]\n";
        assert_eq!(LineFormat::read(two.lines()), LineFormat::default());
        assert_eq!(LineFormat::read("".lines()), LineFormat::default());
    }

    #[test]
    fn g18_a_column_of_a_log_is_read_from_its_lines() {
        let both = LineFormat { has_brackets: true, has_levels: true };
        let texts = |format, statement: &str, column: &str| -> Vec<String> {
            line_column(format, statement, column).into_iter().map(|repair| repair.text).collect()
        };
        assert_eq!(
            texts(both, "SELECT component, count(*) FROM results GROUP BY component", "component"),
            [
                r"SELECT regexp_capture(text, '(?i)([\w.]*component[\w.]*)', 1), count(*) FROM results GROUP BY regexp_capture(text, '(?i)([\w.]*component[\w.]*)', 1)",
                r"SELECT regexp_capture(text, '\[([A-Za-z][\w.:-]*)\]', 1), count(*) FROM results GROUP BY regexp_capture(text, '\[([A-Za-z][\w.:-]*)\]', 1)",
            ]
        );
        let level = texts(both, "SELECT level FROM results", "level");
        assert_eq!(level, [format!("SELECT regexp_capture(text, '{LEVELS}', 1) FROM results")]);
        assert!(texts(LineFormat::default(), "SELECT level FROM results", "level").is_empty());
        assert!(texts(both, "SELECT a.b FROM results", "a.b").is_empty());
        assert_eq!(texts(both, "SELECT customer FROM results", "customer").len(), 1);
    }
}
