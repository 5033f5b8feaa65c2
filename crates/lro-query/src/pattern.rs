//! Regular expressions with a bounded cost per byte.
//!
//! The engine is `regex-automata`, the one below ripgrep and the `regex` crate. It is used directly
//! for two reasons:
//!
//! - `regex` falls back to simulating the NFA if the lazy DFA needs too many states. This is linear
//!   in the text, but took 58 seconds for 256 KiB with a pattern of 20 characters
//!   (`[ab]*a[ab]{9999}c`). Here, a pattern that fills the cache of states several times is
//!   rejected, so that the time is bounded by the length of the text times a constant.
//! - A line longer than the buffer is searched in windows, carrying the state of the automaton from
//!   one window to the next. The `regex` crate only searches a text that is in memory.

mod engine;
mod escaped;

use std::ops::Range;

pub(crate) use engine::{Candidate, Engine, Scratch};
pub(crate) use escaped::EscapedCandidates;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::{Anchored, Input, PatternID, meta};
use regex_syntax::ParserBuilder;
use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Look, Repetition,
};

pub(crate) use self::engine::{BackwardSearch, ForwardSearch, StreamError};

/// The maximum length of a pattern in bytes.
const MAX_PATTERN_LEN: usize = 8 * 1024;
/// The maximum nesting depth of groups.
const NEST_LIMIT: u32 = 100;

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is too long.
    #[error("the pattern has {bytes} bytes; the limit is {limit}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The pattern is not a valid regular expression.
    #[error("invalid regular expression: {reason}")]
    Syntax {
        /// The parser's message, which does not repeat the pattern.
        reason: String,
    },
    /// The pattern uses look-around.
    #[error("look-ahead and look-behind are not supported")]
    LookAround,
    /// The pattern uses a back-reference.
    #[error("back-references are not supported")]
    BackReference,
    /// The pattern requires a line break, and lines are searched one by one.
    #[error("a match cannot span lines")]
    LineBreak,
    /// The automaton is too large, mostly because of counted repetition.
    #[error("the pattern is too large")]
    TooLarge,
    /// The pattern needs too many states on this text.
    #[error("the pattern is too costly for this text")]
    TooCostly,
    /// The pattern has fewer capture groups.
    #[error("no capture group {number}: the pattern has {groups}")]
    NoGroup {
        /// The requested number.
        number: usize,
        /// The number of capture groups.
        groups: usize,
    },
}

impl PatternError {
    /// What the caller can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "use a shorter pattern, or several searches",
            Self::Syntax { .. } => {
                "put a backslash before characters meant literally: . * + ? ( ) [ ] { } ^ $ |"
            }
            Self::LookAround => {
                "match the surroundings too, or select the records by a jq or SQL filter with two conditions"
            }
            Self::BackReference => "write the alternatives out, or filter by jq or SQL",
            Self::LineBreak => r"search for one of the lines, with context",
            Self::TooLarge => {
                "use smaller counts in {n,m}, or a class like [0-9a-z] instead of \\w"
            }
            Self::TooCostly => {
                "use a simpler pattern: no counted repetition after .* and the like, (?-u:\\b) \
                 instead of \\b"
            }
            Self::NoGroup { groups: 0, .. } => {
                "put the part to count in parentheses, or set group_by=0 for the whole match"
            }
            Self::NoGroup { .. } => "groups are numbered from 1; group_by=0 is the whole match",
        }
    }
}

/// Case sensitivity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a search is case-sensitive or it is not")]
pub enum Case {
    /// Upper and lower case differ.
    Sensitive,
    /// Upper and lower case are equal.
    Ignored,
}

/// Compiles a pattern for single texts: `^` and `$` match at the ends of the text.
pub(crate) fn for_text(pattern: &str, case: Case) -> Result<Engine, PatternError> {
    Engine::new(&parse(pattern, case, false)?)
}

/// Compiles a pattern for the lines of a text: no match crosses a line break.
pub(crate) fn for_lines(pattern: &str, case: Case) -> Result<LinePattern, PatternError> {
    let hir = within_lines(&parse(pattern, case, true)?)?;
    Ok(LinePattern { engine: Engine::new(&hir)?, escaped: EscapedCandidates::new(&hir), hir })
}

/// A pattern for the lines of a text.
pub(crate) struct LinePattern {
    pub(crate) engine: Engine,
    /// Finds lines that may match only after their JSON escapes are decoded.
    pub(crate) escaped: Option<EscapedCandidates>,
    hir: Hir,
}

impl LinePattern {
    /// Compiles the capture groups. `number` must be one of them, or 0 for the whole match.
    pub(crate) fn captures(&self, number: usize) -> Result<CaptureEngine, PatternError> {
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(engine::MAX_NFA_BYTES))
            .which_captures(WhichCaptures::All);
        let built = meta::Builder::new().configure(config).build_from_hir(&self.hir);
        let regex = built.map_err(|_| PatternError::TooLarge)?;
        let groups = regex.group_info().group_len(PatternID::ZERO).saturating_sub(1);
        if number > groups {
            return Err(PatternError::NoGroup { number, groups });
        }
        Ok(CaptureEngine { regex, number, states: self.engine.states() })
    }
}

/// Finds the text of one capture group.
pub(crate) struct CaptureEngine {
    regex: meta::Regex,
    number: usize,
    states: usize,
}

impl CaptureEngine {
    /// Passes the range of every match in `line` and the text of the group to `each`: `None` if the
    /// group is not a part of the match. `engine` finds the matches; only their own bytes are searched for groups.
    pub(crate) fn for_each<'l>(
        &self,
        engine: &Engine,
        scratch: &mut Scratch,
        line: &'l [u8],
        mut each: impl FnMut(Range<usize>, Option<&'l [u8]>),
    ) -> Result<(), PatternError> {
        let mut captures = self.regex.create_captures();
        let (mut from, mut last_end) = (0, None);
        while from <= line.len()
            && let Some(matched) = engine.find_at(scratch, line, from)?
        {
            from = if matched.is_empty() { matched.end + 1 } else { matched.end };
            // An empty match right behind another one is a part of it.
            if matched.is_empty() && last_end == Some(matched.end) {
                continue;
            }
            last_end = Some(matched.end);
            if self.number == 0 {
                each(matched.clone(), Some(&line[matched]));
                continue;
            }
            // This may need a simulation of the NFA, in time proportional to both.
            if self.states.saturating_mul(matched.len()) > engine::MAX_SIMULATION_STEPS {
                return Err(PatternError::TooCostly);
            }
            let input = Input::new(line).range(matched.clone()).anchored(Anchored::Yes);
            self.regex.search_captures(&input, &mut captures);
            each(matched, captures.get_group(self.number).map(|span| &line[span.range()]));
        }
        Ok(())
    }
}

fn parse(pattern: &str, case: Case, multi_line: bool) -> Result<Hir, PatternError> {
    if pattern.len() > MAX_PATTERN_LEN {
        return Err(PatternError::TooLong { bytes: pattern.len(), limit: MAX_PATTERN_LEN });
    }
    let mut parser = ParserBuilder::new()
        .nest_limit(NEST_LIMIT)
        .case_insensitive(case == Case::Ignored)
        .multi_line(multi_line)
        // The text may be arbitrary bytes, so a pattern may match invalid UTF-8.
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
        _ => PatternError::Syntax { reason: "syntax error".to_owned() },
    })
}

/// Rewrites a pattern so that no match contains a line break, and `\A` and `\z` match at the ends of
/// a line. Then a whole chunk can be searched at once, and each match is in one line. The recursion
/// is as deep as the parser allows groups to nest.
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
