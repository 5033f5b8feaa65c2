//! A JSON value as an SQLite value.

use std::ops::Range;

use lro_json::LexemeKind;
use rusqlite::types::ValueRef;

pub(super) use lro_json::append_lossy as unescape;

/// A value. Text is a range of the chunk, or of the buffer for decoded strings.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Null,
    Int(i64),
    Real(f64),
    /// As the record spells it.
    Text(Range<usize>),
    /// With its escapes resolved.
    Decoded(Range<usize>),
}

impl Cell {
    pub(super) fn value<'a>(&self, text: &'a [u8], decoded: &'a [u8]) -> ValueRef<'a> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Int(int) => ValueRef::Integer(*int),
            Self::Real(real) => ValueRef::Real(*real),
            Self::Text(range) => ValueRef::Text(&text[range.clone()]),
            Self::Decoded(range) => ValueRef::Text(&decoded[range.clone()]),
        }
    }
}

/// The JSON kinds of the values in a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
pub(super) struct Kinds {
    pub(super) strings: bool,
    pub(super) nested: bool,
    pub(super) booleans: bool,
    pub(super) integers: bool,
    /// Numbers that had to stay text.
    pub(super) long_numbers: bool,
}

impl Kinds {
    pub(super) fn and(&mut self, other: Self) {
        self.strings |= other.strings;
        self.nested |= other.nested;
        self.booleans |= other.booleans;
        self.integers |= other.integers;
        self.long_numbers |= other.long_numbers;
    }

    /// Whether all text in the column is JSON as it was written.
    pub(super) fn text_is_json(self) -> bool {
        !self.strings && (self.nested || self.long_numbers)
    }

    /// Whether all integers in the column are booleans.
    pub(super) fn integers_are_booleans(self) -> bool {
        self.booleans && !self.integers
    }
}

/// The value of the lexeme at `range` of `text`.
pub(super) fn cell(
    text: &[u8],
    range: Range<usize>,
    decoded: &mut Vec<u8>,
    kinds: &mut Kinds,
) -> Cell {
    let lexeme = &text[range.clone()];
    match LexemeKind::from_first_byte(lexeme) {
        Some(LexemeKind::String) => {
            kinds.strings = true;
            let inside = range.start + 1..range.end - 1;
            if memchr::memchr(b'\\', &text[inside.clone()]).is_none() {
                return Cell::Text(inside);
            }
            let start = decoded.len();
            unescape(&text[inside], decoded);
            Cell::Decoded(start..decoded.len())
        }
        Some(LexemeKind::Object | LexemeKind::Array) => {
            kinds.nested = true;
            Cell::Text(range)
        }
        Some(LexemeKind::True) => {
            kinds.booleans = true;
            Cell::Int(1)
        }
        Some(LexemeKind::False) => {
            kinds.booleans = true;
            Cell::Int(0)
        }
        Some(LexemeKind::Number) => {
            let number = number(lexeme);
            kinds.integers |= matches!(number, Some(Cell::Int(_)));
            kinds.long_numbers |= number.is_none();
            number.unwrap_or(Cell::Text(range))
        }
        Some(LexemeKind::Null) | None => Cell::Null,
    }
}

/// The number, where SQLite's integer or real holds it exactly.
pub(super) fn number(lexeme: &[u8]) -> Option<Cell> {
    let text = std::str::from_utf8(lexeme).ok()?;
    if text != "-0"
        && let Ok(int) = text.parse::<i64>()
    {
        return Some(Cell::Int(int));
    }
    let real: f64 = text.parse().ok()?;
    (real.is_finite() && is_exact(text, real)).then_some(Cell::Real(real))
}

/// A double distinguishes all decimals of so many digits.
const CERTAIN_DIGITS: usize = 15;

/// Whether writing `real` gives the digits of `lexeme` again, in any spelling.
fn is_exact(lexeme: &str, real: f64) -> bool {
    let digits = lexeme.bytes().take_while(|b| !matches!(b, b'e' | b'E'));
    let few = digits.filter(u8::is_ascii_digit).count() <= CERTAIN_DIGITS;
    if few && (real == 0.0 || real.is_normal()) {
        return real != 0.0 || !lexeme.bytes().any(|b| matches!(b, b'1'..=b'9'));
    }
    normal(lexeme) == normal(&format!("{real:e}"))
}

/// Sign, digits and exponent of a decimal, without zeros at both ends.
fn normal(decimal: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = decimal.split_once(['e', 'E']).unwrap_or((decimal, "0"));
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent: i64 = exponent.parse().ok()?;
    exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    exponent = exponent.checked_add(i64::try_from(digits.len() - significant.len()).ok()?)?;
    let significant = significant.trim_start_matches('0');
    Some(if significant.is_empty() {
        (negative, String::new(), 0)
    } else {
        (negative, significant.to_owned(), exponent)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_text() {
        for (lexeme, int) in [("0", 0), ("-7", -7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(number(lexeme.as_bytes()), Some(Cell::Int(int)));
        }
        for lexeme in [
            "0.1",
            "0.10",
            "1e5",
            "-2.50E-3",
            "0.30000000000000004",
            "1e300",
            "0.0",
            "-0",
            "123456789012345680000",
        ] {
            let real = lexeme.parse().unwrap();
            assert_eq!(number(lexeme.as_bytes()), Some(Cell::Real(real)), "{lexeme}");
        }
        for lexeme in [
            "9223372036854775808",
            "123456789012345678901234567890",
            "3.14159265358979323846",
            "0.1000000000000000055511151231257827",
            "1e400",
            "1e-400",
            "1.7976931348623157e309",
        ] {
            assert_eq!(number(lexeme.as_bytes()), None, "{lexeme}");
        }
    }
}
