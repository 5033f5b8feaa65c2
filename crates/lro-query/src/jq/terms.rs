//! Traverses the syntax tree of a filter.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::path::Part;

/// Passes the direct subterms of a term to `each`, including those in definitions and patterns.
pub(super) fn below<'t, S>(term: &'t Term<S>, each: &mut dyn FnMut(&'t Term<S>)) {
    match term {
        Term::Id
        | Term::Recurse
        | Term::Num(_)
        | Term::Break(_)
        | Term::Var(_)
        | Term::Arr(None) => {}
        Term::Str(_, parts) => {
            for part in parts {
                if let StrPart::Term(term) = part {
                    each(term);
                }
            }
        }
        Term::Arr(Some(term)) | Term::Neg(term) | Term::Label(_, term) => each(term),
        Term::Obj(members) => {
            for (key, value) in members {
                each(key);
                value.iter().for_each(&mut *each);
            }
        }
        Term::BinOp(left, operator, right) => {
            each(left);
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                in_pattern(pattern, each);
            }
            each(right);
        }
        Term::Fold(_, over, pattern, arguments) => {
            each(over);
            in_pattern(pattern, each);
            arguments.iter().for_each(each);
        }
        Term::TryCatch(tried, caught) => {
            each(tried);
            if let Some(caught) = caught {
                each(caught);
            }
        }
        Term::IfThenElse(cases, otherwise) => {
            for (condition, then) in cases {
                each(condition);
                each(then);
            }
            if let Some(otherwise) = otherwise {
                each(otherwise);
            }
        }
        Term::Def(definitions, body) => {
            for definition in definitions {
                each(&definition.body);
            }
            each(body);
        }
        Term::Call(_, arguments) => arguments.iter().for_each(each),
        Term::Path(from, path) => {
            each(from);
            for (part, _) in &path.0 {
                match part {
                    Part::Index(index) => each(index),
                    Part::Range(from, to) => from.iter().chain(to).for_each(&mut *each),
                }
            }
        }
    }
}

fn in_pattern<'t, S>(pattern: &'t Pattern<S>, each: &mut dyn FnMut(&'t Term<S>)) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(parts) => parts.iter().for_each(|part| in_pattern(part, each)),
        Pattern::Obj(members) => {
            for (key, part) in members {
                each(key);
                in_pattern(part, each);
            }
        }
    }
}
