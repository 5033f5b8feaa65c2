//! Which lines may match only after their JSON escapes are decoded.
//!
//! A record line spells `say "hi"` as `say \"hi\"` and `é` possibly as `\u00e9`. Decoding every line
//! would be slow, so a pattern is examined first: most patterns have no character that JSON escapes,
//! and most others contain a literal that is written the same either way.

use memchr::memchr;
use regex_automata::util::prefilter::Prefilter;
use regex_automata::{MatchKind, Span};
use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Class, Hir, HirKind};

/// Finds lines that may match only after their escapes are decoded.
pub(crate) struct EscapedCandidates {
    /// Literals without escaped characters, one of which every match contains.
    literals: Option<Prefilter>,
}

/// Characters that encoders write as they are: printable ASCII without those that JSON, HTML-safe
/// encoders or JavaScript escape.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !b"\"\\/<>&'+=`".contains(&byte)
}

impl EscapedCandidates {
    /// `None` if a line that matches decoded also matches as it is written.
    pub(super) fn new(hir: &Hir) -> Option<Self> {
        may_be_escaped(hir).then(|| Self { literals: plain_literals(hir) })
    }

    /// The offset of the first byte in a line that may match.
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        match &self.literals {
            Some(literals) => literals.find(text, Span::from(0..text.len())).map(|span| span.start),
            None => memchr(b'\\', text),
        }
    }
}

/// Whether a match may contain a character that is escaped in JSON, or depends on the character
/// beside it. The recursion is as deep as the parser allows groups to nest.
fn may_be_escaped(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty => false,
        // `\b` sees the `n` of an escaped line break, and `^` matches behind the line break.
        HirKind::Look(_) => true,
        HirKind::Literal(literal) => !literal.0.iter().copied().all(is_plain),
        HirKind::Class(Class::Unicode(class)) => class.ranges().iter().any(|range| {
            !(range.start()..=range.end()).all(|c| u8::try_from(c).is_ok_and(is_plain))
        }),
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().any(|range| !(range.start()..=range.end()).all(is_plain))
        }
        HirKind::Repetition(repetition) => may_be_escaped(&repetition.sub),
        HirKind::Capture(capture) => may_be_escaped(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(may_be_escaped),
    }
}

/// The longest run of plain characters of each literal that matches begin or end with.
fn plain_literals(hir: &Hir) -> Option<Prefilter> {
    let literals = |kind| {
        let mut extractor = Extractor::new();
        extractor.kind(kind);
        let sequence = extractor.extract(hir);
        let runs = sequence.literals()?.iter().map(|literal| {
            let runs = literal.as_bytes().split(|byte| !is_plain(*byte));
            runs.max_by_key(|run| run.len()).filter(|run| !run.is_empty()).map(<[u8]>::to_vec)
        });
        let runs: Vec<Vec<u8>> = runs.collect::<Option<_>>()?;
        (!runs.is_empty()).then_some(runs)
    };
    let shortest = |runs: &Vec<Vec<u8>>| runs.iter().map(Vec::len).min();
    let best = [ExtractKind::Prefix, ExtractKind::Suffix]
        .into_iter()
        .filter_map(literals)
        .max_by_key(shortest)?;
    Prefilter::new(MatchKind::LeftmostFirst, &best)
}

#[cfg(test)]
mod tests {
    use super::super::{Case, parse};
    use super::*;

    fn candidates(pattern: &str, case: Case) -> Option<EscapedCandidates> {
        EscapedCandidates::new(&parse(pattern, case, true).unwrap())
    }

    #[test]
    fn a_pattern_of_plain_characters_never_matches_only_decoded() {
        for pattern in ["Docker", "error|timeout|refused", "[0-9]{4}-[0-9]{2}T09"] {
            assert!(candidates(pattern, Case::Sensitive).is_none(), "{pattern}");
        }
        for pattern in
            ["say \"hi\"", r"C:\\temp", "é", "a.c", r"\bword", "^word", "https://x", "a<b"]
        {
            assert!(candidates(pattern, Case::Sensitive).is_some(), "{pattern}");
        }
    }

    #[test]
    fn only_lines_with_a_plain_literal_are_decoded() {
        let quoted = candidates("say \"hi\"", Case::Sensitive).unwrap();
        assert_eq!(quoted.find(br#"nothing \" here"#), None);
        assert_eq!(quoted.find(br#"they say \"hi\""#), Some(5));
        let accent = candidates("é", Case::Sensitive).unwrap();
        assert_eq!(accent.find(br"caf\u00e9"), Some(3));
        // U+017F equals `s` where case is ignored.
        let ignored = candidates("postgres", Case::Ignored).unwrap();
        assert_eq!(ignored.find(br"\n mysql"), None);
    }
}
