//! Keys that go into a screen, and commands that it asks its caller to run.

/// What a screen wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever runs a screen has to do all of it")]
pub enum Effect {
    /// It is over.
    Quit,
    /// A statement is to be answered, with [`Screen::answered`](crate::Screen::answered).
    Ask(Ask),
    /// Nobody waits for the answer any more.
    Cancel,
}

/// A statement over the table `results`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct Ask {
    /// The statement.
    pub statement: String,
    /// What its rows are.
    pub rows: Rows,
}

/// What the rows of an answer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else to ask for")]
pub enum Rows {
    /// Numbers of records, from 1: a condition was typed.
    Numbers,
    /// Whatever the statement makes: a whole one was typed.
    Any,
}

/// What a statement gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct Answer {
    /// A JSON value per line.
    pub lines: Vec<u8>,
    /// How many rows there are in all, where more were made than given.
    pub more: Option<String>,
}

impl Ask {
    /// What a person typed: a condition, or a whole statement.
    pub(crate) fn parse(typed: &str) -> Self {
        let typed = typed.trim().trim_end_matches(';').trim_end();
        // A column may begin with a keyword: `with_tax`, `select.x`.
        let end = typed.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(typed.len());
        let word = &typed[..end];
        if word.eq_ignore_ascii_case("select") || word.eq_ignore_ascii_case("with") {
            return Self { statement: typed.to_owned(), rows: Rows::Any };
        }
        let lower = word.eq_ignore_ascii_case("where");
        let condition = if lower { typed[word.len()..].trim_start() } else { typed };
        // The bracket stands on a line of its own, where no comment hides it.
        let statement = format!("SELECT _n FROM results WHERE ({condition}\n)");
        Self { statement, rows: Rows::Numbers }
    }
}

impl Answer {
    /// The numbers of records in it, made to begin at 0.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let number = |line: &[u8]| {
            let digits: Vec<u8> =
                line.iter().copied().filter(u8::is_ascii_digit).take(11).collect();
            str::from_utf8(&digits).ok()?.parse::<u32>().ok()?.checked_sub(1)
        };
        self.lines.split(|b| *b == b'\n').filter_map(number).collect()
    }
}

/// A key, as far as it means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// A character.
    Char(char),
    /// A character with Ctrl held down.
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
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Removes what stands before the cursor.
    Backspace,
    /// Removes what stands behind the cursor.
    Delete,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_becomes_a_statement_and_a_statement_stays() {
        let asked = |typed: &str| {
            let ask = Ask::parse(typed);
            (ask.statement, ask.rows)
        };
        let condition = "SELECT _n FROM results WHERE (a > 1\n)".to_owned();
        assert_eq!(asked(" a > 1; "), (condition.clone(), Rows::Numbers));
        assert_eq!(asked("where a > 1"), (condition, Rows::Numbers));
        let whole = "Select a from results".to_owned();
        assert_eq!(asked("Select a from results"), (whole, Rows::Any));
        assert_eq!(asked("WITH(x) as (select 1) select *").1, Rows::Any);
        for condition in ["selected = 1", "with_tax > 3", "where_n > 3", "select.x = 1", "with2=1"]
        {
            let statement = format!("SELECT _n FROM results WHERE ({condition}\n)");
            assert_eq!(asked(condition), (statement, Rows::Numbers));
        }
    }

    #[test]
    fn numbers_are_taken_out_of_rows() {
        let lines = b"{\"_n\":1}\n{\"_n\":12}\n{\"_n\":0}\n{\"_n\":99999999999}\n\n".to_vec();
        assert_eq!(Answer { lines, more: None }.numbers(), [0, 11]);
    }
}
