//! Facts: what a command found out, a label and a text each.

use std::fmt::{Display, Formatter, Result};

use super::printable;

/// Every terminal has as many columns; a wider one is not asked for, since lines that fit here are
/// read well there too.
const WIDTH: usize = 80;

/// Labelled texts, wrapped under themselves.
#[derive(Default)]
pub(crate) struct Facts(Vec<Fact>);

struct Fact {
    label: &'static str,
    /// What is never broken, in order.
    pieces: Vec<String>,
}

impl Facts {
    /// Adds a sentence, which is broken between words.
    pub(crate) fn text(&mut self, label: &'static str, text: &str) {
        self.add(label, text.split(' '));
    }

    /// Adds a list, which is broken between items.
    pub(crate) fn list(&mut self, label: &'static str, items: &[String]) {
        let last = items.len().saturating_sub(1);
        let comma = |at| if at < last { "," } else { "" };
        self.add(label, items.iter().enumerate().map(|(at, item)| item.to_owned() + comma(at)));
    }

    fn add(&mut self, label: &'static str, pieces: impl IntoIterator<Item: AsRef<str>>) {
        let pieces = pieces.into_iter().map(|piece| printable(piece.as_ref()).into_owned());
        self.0.push(Fact { label, pieces: pieces.collect() });
    }
}

impl Display for Facts {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let indent = self.0.iter().map(|fact| fact.label.len() + 2).max().unwrap_or(0);
        for Fact { label, pieces } in &self.0 {
            write!(formatter, "{label:indent$}")?;
            let mut column = indent;
            for piece in pieces {
                let width = columns(piece);
                if column == indent {
                    write!(formatter, "{piece}")?;
                    column += width;
                } else if column + 1 + width <= WIDTH {
                    write!(formatter, " {piece}")?;
                    column += 1 + width;
                } else {
                    write!(formatter, "\n{:indent$}{piece}", "")?;
                    column = indent + width;
                }
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}

/// The columns that `text` takes at most: beyond U+1100 a character may be a wide one.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if c < '\u{1100}' { 1 } else { 2 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_under_themselves() {
        let mut facts = Facts::default();
        facts.text("kind", "text");
        facts.text("decision", &["word"; 20].join(" "));
        let field = |n: usize| format!("field_{n} string");
        facts.list("fields", &(0..6).map(field).collect::<Vec<_>>());
        insta::assert_snapshot!(facts, @"
        kind      text
        decision  word word word word word word word word word word word word word word
                  word word word word word word
        fields    field_0 string, field_1 string, field_2 string, field_3 string,
                  field_4 string, field_5 string
        ");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut facts = Facts::default();
        facts.list("fields", &vec!["字段名称".to_owned(); 9]);
        let lines: Vec<String> = facts.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| columns(line) <= WIDTH), "{lines:?}");
    }

    #[test]
    fn terminals_are_not_steered() {
        let mut facts = Facts::default();
        facts.text("decision", "a\u{1b}[2J\nb");
        assert_eq!(facts.to_string(), "decision  a<U+001B>[2J\\nb\n");
    }
}
