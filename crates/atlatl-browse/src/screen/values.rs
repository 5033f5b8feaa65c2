//! The values of a column, and how often each occurs.

use super::jobs::{SEARCH_STEP_BYTES, SEARCH_STEP_LINES};
use super::{Filter, Job, Mode, Screen};
use crate::cell::{Cell, Kind};
use crate::command::{KeyPress, ScreenCommand, condition};
use crate::fields::value_of;
use crate::lines::MAX_LINE_LEN;
use crate::tally::{Tally, TallySummary, ValueCount};
use crate::text::unescape;

/// The most values shown.
const MAX_VALUES: usize = 1000;

/// A count of values in progress.
pub(super) struct ValuesJob {
    title: String,
    /// `None` for the column of records that are not objects.
    name: Option<Box<[u8]>>,
    tally: Tally,
    pub(super) done: usize,
}

/// The values of a column.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) title: String,
    name: Option<Box<[u8]>>,
    pub(crate) summary: TallySummary,
    /// The number of records that were counted.
    pub(crate) records: u64,
    pub(crate) cursor: usize,
    pub(crate) top: usize,
}

impl Screen {
    /// Begins to count the values of the column under the cursor.
    pub(super) fn count_values(&mut self) {
        if !self.has_columns() {
            return;
        }
        let columns = &self.row_set().columns;
        let Some(column) = columns.get(self.column) else { return };
        let name = (!columns.is_plain(self.column)).then(|| column.name.clone());
        let title = column.title.clone();
        self.job = Some(Job::Values(ValuesJob { title, name, tally: Tally::default(), done: 0 }));
    }

    pub(super) fn continue_values(&mut self, mut job: ValuesJob) {
        let (from, all) = (job.done, self.count());
        let to = all.min(from + SEARCH_STEP_LINES);
        let numbers: Vec<usize> = (from..to).map(|position| self.number(position)).collect();
        let mut bytes = 0;
        let read = self.row_set().each(&numbers, |place, line| {
            bytes += line.len();
            job.done = from + place + 1;
            job.tally.add(value_of(line, job.name.as_deref()));
            bytes < SEARCH_STEP_BYTES
        });
        if let Err(error) = read {
            return self.show_read_error(&error);
        }
        if job.done < all {
            self.job = Some(Job::Values(job));
            return;
        }
        // The person went on to something else.
        if !matches!(self.mode, Mode::Table) {
            return;
        }
        self.mode = Mode::Values(Values {
            title: job.title,
            name: job.name,
            summary: job.tally.finish(MAX_VALUES),
            records: all as u64,
            cursor: 0,
            top: 0,
        });
    }

    pub(super) fn values_key(&mut self, key: KeyPress) -> Option<ScreenCommand> {
        let page = self.values_height().max(1);
        let Mode::Values(values) = &mut self.mode else { return None };
        let last = values.summary.values.len().saturating_sub(1);
        match key {
            KeyPress::Char('q') => return Some(ScreenCommand::Quit),
            KeyPress::Char('?') => self.help = true,
            KeyPress::Esc | KeyPress::Backspace | KeyPress::Char('v') => self.mode = Mode::Table,
            KeyPress::Enter => return self.filter_by_value(),
            KeyPress::Up | KeyPress::Char('k') => values.cursor = values.cursor.saturating_sub(1),
            KeyPress::Down | KeyPress::Char('j') => values.cursor = (values.cursor + 1).min(last),
            KeyPress::PageUp | KeyPress::Char('b') | KeyPress::Ctrl('b') => {
                values.cursor = values.cursor.saturating_sub(page);
            }
            KeyPress::PageDown | KeyPress::Char(' ') | KeyPress::Ctrl('f') => {
                values.cursor = (values.cursor + page).min(last);
            }
            KeyPress::Home | KeyPress::Char('g') => values.cursor = 0,
            KeyPress::End | KeyPress::Char('G') => values.cursor = last,
            _ => {}
        }
        None
    }

    /// The number of visible values: one line is the heading.
    pub(crate) fn values_height(&self) -> usize {
        self.record_height().saturating_sub(1)
    }

    /// Keeps the cursor on the screen.
    pub(super) fn settle_values(&mut self) {
        let height = self.values_height();
        if let Mode::Values(values) = &mut self.mode {
            let last_top = values.cursor.saturating_sub(height.saturating_sub(1));
            values.top = values.top.min(values.cursor).max(last_top);
        }
    }

    /// Shows only the records with the value under the cursor, of those that are shown now.
    fn filter_by_value(&mut self) -> Option<ScreenCommand> {
        let Mode::Values(values) = &self.mode else { return None };
        let value = values.summary.values.get(values.cursor)?;
        let equals = match (&self.filter, values.name.as_deref()) {
            (Some(Filter::Query { .. }), _) => {
                Err("a value filters stored records: press Esc twice for them")
            }
            (_, None) => Err("these records have no members to filter by"),
            (_, Some(name)) => equals(name, value),
        };
        let equals = match equals {
            Ok(equals) => equals,
            Err(why) => {
                self.message = Some(why.to_owned());
                return None;
            }
        };
        let query = match &self.filter {
            Some(filter) =>
            // A comment at the end of the condition ends with its line.
            {
                format!("({}\n) and {equals}", condition(filter.query()))
            }
            None => equals,
        };
        self.mode = Mode::Table;
        Some(self.ask(query))
    }
}

/// The SQL condition that a member has a value.
fn equals(name: &[u8], value: &ValueCount) -> Result<String, &'static str> {
    let quoted = |text: &str, quote: char| {
        format!("{quote}{}{quote}", text.replace(quote, &format!("{quote}{quote}")))
    };
    let name = quoted(&unescape(name, MAX_LINE_LEN), '"');
    let json = &*value.value;
    let literal = match Cell::from_json(json).kind {
        _ if value.is_cut() => {
            return Err("the value is too long to filter by: type : and a condition");
        }
        Kind::Nested => {
            return Err("arrays and objects cannot be filtered by: type : and a condition");
        }
        Kind::Text => {
            let inner = json.strip_prefix(b"\"").and_then(|json| json.strip_suffix(b"\""));
            quoted(&unescape(inner.unwrap_or_default(), MAX_LINE_LEN), '\'')
        }
        Kind::Number | Kind::Word => String::from_utf8_lossy(json).into_owned(),
    };
    Ok(format!("{name} = {literal}"))
}

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ValueLine {
    pub(crate) text: String,
    pub(crate) is_number: bool,
    pub(crate) count: u64,
}

impl Values {
    /// The values from `top` on.
    pub(crate) fn lines(&self, height: usize) -> impl Iterator<Item = ValueLine> + '_ {
        self.summary.values.iter().skip(self.top).take(height).map(|value| {
            let Cell { kind, mut text } = Cell::from_json(&value.value);
            if value.is_cut() {
                text.push_str(crate::text::CUT);
            }
            ValueLine { text, is_number: kind == Kind::Number, count: value.count }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_becomes_a_condition_and_nothing_else() {
        let sql = |name: &str, value: &str| {
            let value = ValueCount { value: value.as_bytes().into(), count: 1 };
            equals(name.as_bytes(), &value)
        };
        assert_eq!(sql("state", r#""open""#), Ok("\"state\" = 'open'".to_owned()));
        assert_eq!(sql("n", "1.50"), Ok("\"n\" = 1.50".to_owned()));
        assert_eq!(sql("n", "true"), Ok("\"n\" = true".to_owned()));
        assert_eq!(
            sql(r#"a\"b"#, r#""it's\" OR 1=1 --""#),
            Ok("\"a\"\"b\" = 'it''s\" OR 1=1 --'".to_owned())
        );
        assert!(sql("a", "[1]").is_err() && sql("a", &"9".repeat(300)).is_err());
    }
}
