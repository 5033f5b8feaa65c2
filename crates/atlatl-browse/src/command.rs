//! Keys that go into a screen, and commands that it asks its caller to run.

/// A command that the caller of a screen has to run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the caller of a screen handles every command")]
pub enum ScreenCommand {
    /// Quit.
    Quit,
    /// Run a statement, and pass its result to [`Screen::answered`](crate::Screen::answered).
    Ask(SqlRequest),
    /// Cancel the running statement.
    Cancel,
    /// Put a text into the clipboard.
    Copy(String),
    /// Create an [`ExportFile`](crate::ExportFile) for this path, which the person typed, and pass it to
    /// [`Screen::begin_export`](crate::Screen::begin_export). An existing file is not overwritten.
    Export(String),
}

/// A SQL statement over the table `results`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct SqlRequest {
    /// The statement.
    pub statement: String,
    /// The kind of its rows.
    pub rows: RowKind,
}

/// The kind of the rows of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else to ask for")]
pub enum RowKind {
    /// Record numbers, from 1: the person typed a condition.
    Numbers,
    /// Any rows: the person typed a whole statement.
    Any,
}

/// The result of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct SqlRows {
    /// A JSON value per line.
    pub lines: Vec<u8>,
    /// The total number of rows, if not all are included.
    pub more: Option<String>,
}

impl SqlRequest {
    /// Parses typed text: a condition or a whole statement.
    pub(crate) fn parse(typed: &str) -> Self {
        let typed = trimmed(typed);
        let word = first_word(typed);
        if word.eq_ignore_ascii_case("select") || word.eq_ignore_ascii_case("with") {
            return Self { statement: typed.to_owned(), rows: RowKind::Any };
        }
        let condition = condition(typed);
        // The bracket is on its own line, so that no comment hides it.
        let statement = format!("SELECT _n FROM results WHERE ({condition}\n)");
        Self { statement, rows: RowKind::Numbers }
    }
}

fn trimmed(typed: &str) -> &str {
    typed.trim().trim_end_matches(';').trim_end()
}

/// The first word. A column name may begin with a keyword: `with_tax`, `select.x`.
fn first_word(typed: &str) -> &str {
    let end = typed.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(typed.len());
    &typed[..end]
}

/// A typed condition without the keyword before it.
pub(crate) fn condition(typed: &str) -> &str {
    let typed = trimmed(typed);
    let word = first_word(typed);
    if word.eq_ignore_ascii_case("where") { typed[word.len()..].trim_start() } else { typed }
}

impl SqlRows {
    /// The record numbers in the result, from 0.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let number = |line: &[u8]| {
            let digits: Vec<u8> =
                line.iter().copied().filter(u8::is_ascii_digit).take(11).collect();
            str::from_utf8(&digits).ok()?.parse::<u32>().ok()?.checked_sub(1)
        };
        self.lines.split(|b| *b == b'\n').filter_map(number).collect()
    }
}

/// A key press that a screen handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPress {
    /// A character.
    Char(char),
    /// A character with Ctrl.
    Ctrl(char),
    /// Up.
    Up,
    /// Down.
    Down,
    /// Left.
    Left,
    /// Right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Deletes the character before the cursor.
    Backspace,
    /// Deletes the character after the cursor.
    Delete,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_becomes_a_statement_and_a_statement_stays() {
        let asked = |typed: &str| {
            let ask = SqlRequest::parse(typed);
            (ask.statement, ask.rows)
        };
        let condition = "SELECT _n FROM results WHERE (a > 1\n)".to_owned();
        assert_eq!(asked(" a > 1; "), (condition.clone(), RowKind::Numbers));
        assert_eq!(asked("where a > 1"), (condition, RowKind::Numbers));
        let whole = "Select a from results".to_owned();
        assert_eq!(asked("Select a from results"), (whole, RowKind::Any));
        assert_eq!(asked("WITH(x) as (select 1) select *").1, RowKind::Any);
        for condition in ["selected = 1", "with_tax > 3", "where_n > 3", "select.x = 1", "with2=1"]
        {
            let statement = format!("SELECT _n FROM results WHERE ({condition}\n)");
            assert_eq!(asked(condition), (statement, RowKind::Numbers));
        }
    }

    #[test]
    fn numbers_are_taken_out_of_rows() {
        let lines = b"{\"_n\":1}\n{\"_n\":12}\n{\"_n\":0}\n{\"_n\":99999999999}\n\n".to_vec();
        assert_eq!(SqlRows { lines, more: None }.numbers(), [0, 11]);
    }
}
