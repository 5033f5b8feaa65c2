//! Lines only: a pattern changed so that no match goes over a line break.
//!
//! Then a whole chunk can be searched at once, and what is found lies in one line.

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Look, Repetition,
};

use super::PatternError;

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
