//! Pattern: a regular expression within bounds.
//!
//! The engine is the one below ripgrep and the `regex` crate, used directly, for one reason: both
//! fall back to simulating the automaton when it has too many states, which is linear in the text
//! and still took 58 seconds for 256 KiB with a pattern of 20 characters (`[ab]*a[ab]{9999}c`). Here
//! a pattern that needs more states than fit in the cache a few times over is refused, so the time
//! is bounded by the length of the text and a constant.

mod engine;

pub(crate) use engine::{Engine, Place, Scratch};
use regex_syntax::ParserBuilder;
use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Look, Repetition,
};

pub(crate) use self::engine::{Backward, Forward, Stop};

/// The longest pattern that is looked at.
const MOST_BYTES: usize = 8 * 1024;
/// How deep groups may nest.
const NEST_LIMIT: u32 = 100;

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It is too long.
    #[error("the pattern has {bytes} bytes, at most {most} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        most: usize,
    },
    /// It is no regular expression.
    #[error("the pattern is no regular expression: {reason}")]
    Syntax {
        /// What is wrong, from the parser; it does not repeat the pattern.
        reason: String,
    },
    /// It asks what stands before or behind the match.
    #[error("look-ahead and look-behind are not supported")]
    LookAround,
    /// It refers to what a group matched.
    #[error("back-references are not supported")]
    BackReference,
    /// It asks for a line break, and lines are looked at one by one.
    #[error("a match cannot go over a line break")]
    LineBreak,
    /// Its automaton is too large, mostly through counted repetition.
    #[error("the pattern is too large")]
    TooLarge,
    /// It needs too many states on this text.
    #[error("the pattern is too costly for this text")]
    TooCostly,
}

impl PatternError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "search for less at once, or use several searches",
            Self::Syntax { .. } => {
                "put a backslash before characters meant literally: . * + ? ( ) [ ] { } ^ $ |"
            }
            Self::LookAround => {
                "match the surroundings too, or select the records by a jq or SQL filter with two conditions"
            }
            Self::BackReference => "write the alternatives out, or filter by jq or SQL",
            Self::LineBreak => r"search for one of the lines, and ask for context",
            Self::TooLarge => {
                "use smaller counts in {n,m}, or a class like [0-9a-z] instead of \\w"
            }
            Self::TooCostly => {
                "use a plainer pattern: no counted repetition after .* and the like, (?-u:\\b) instead of \\b"
            }
        }
    }
}

/// Upper and lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Sensitive,
    Ignored,
}

/// A pattern for a text of its own, in which `^` and `$` are its ends.
pub(crate) fn for_text(pattern: &str, case: Case) -> Result<Engine, PatternError> {
    Engine::new(&parse(pattern, case, false)?)
}

/// A pattern for text of many lines, which matches within lines only.
pub(crate) fn for_lines(pattern: &str, case: Case) -> Result<Engine, PatternError> {
    Engine::new(&within_lines(&parse(pattern, case, true)?)?)
}

fn parse(pattern: &str, case: Case, multi_line: bool) -> Result<Hir, PatternError> {
    if pattern.len() > MOST_BYTES {
        return Err(PatternError::TooLong { bytes: pattern.len(), most: MOST_BYTES });
    }
    let mut parser = ParserBuilder::new()
        .nest_limit(NEST_LIMIT)
        .case_insensitive(case == Case::Ignored)
        .multi_line(multi_line)
        // The text may be anything, so a pattern may ask for bytes that are no UTF-8.
        .utf8(false)
        .build();
    parser.parse(pattern).map_err(|error| match &error {
        regex_syntax::Error::Parse(error) => match error.kind() {
            ErrorKind::UnsupportedLookAround => PatternError::LookAround,
            ErrorKind::UnsupportedBackreference => PatternError::BackReference,
            ErrorKind::NestLimitExceeded(_) => PatternError::TooLarge,
            kind => PatternError::Syntax { reason: kind.to_string() },
        },
        regex_syntax::Error::Translate(error) => {
            PatternError::Syntax { reason: error.kind().to_string() }
        }
        _ => PatternError::Syntax { reason: "it cannot be understood".to_owned() },
    })
}

// --- Lines only: a pattern changed so that no match goes over a line break.
// ---
// --- Then a whole chunk can be searched at once, and what is found lies in one line.

/// The same pattern, which cannot match a line break, and whose `\A` and `\z` are the ends of a
/// line: each line is a text of its own. Recursion goes as deep as the parser let groups nest.
pub(super) fn within_lines(hir: &Hir) -> Result<Hir, PatternError> {
    let all = |parts: &[Hir]| parts.iter().map(within_lines).collect::<Result<Vec<_>, _>>();
    Ok(match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Look(Look::Start) => Hir::look(Look::StartLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndLF),
        HirKind::Look(look) => Hir::look(*look),
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => {
            return Err(PatternError::LineBreak);
        }
        HirKind::Literal(literal) => Hir::literal(literal.0.clone()),
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(within_lines(&repetition.sub)?),
            ..repetition.clone()
        }),
        HirKind::Capture(capture) => {
            Hir::capture(Capture { sub: Box::new(within_lines(&capture.sub)?), ..capture.clone() })
        }
        HirKind::Concat(parts) => Hir::concat(all(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(pattern: &str) -> PatternError {
        for_lines(pattern, Case::Sensitive).map(|_| ()).unwrap_err()
    }

    #[test]
    fn what_is_not_linear_is_refused_by_kind() {
        assert_eq!(error("(?=a)"), PatternError::LookAround);
        assert_eq!(error("(?<!a)b"), PatternError::LookAround);
        assert_eq!(error(r"(a)\1"), PatternError::BackReference);
        assert_eq!(error(r"a\nb"), PatternError::LineBreak);
        assert_eq!(error(r"\w{500}{500}"), PatternError::TooLarge);
        assert_eq!(error(&("(".repeat(500) + &")".repeat(500))), PatternError::TooLarge);
        assert!(matches!(error("("), PatternError::Syntax { .. }));
        assert!(matches!(error(&"a".repeat(9000)), PatternError::TooLong { .. }));
    }

    #[test]
    fn every_error_has_a_hint() {
        for pattern in ["(?=a)", r"(a)\1", r"\n", r"\w{500}{500}", "("] {
            assert!(!error(pattern).hint().is_empty());
        }
    }
}
