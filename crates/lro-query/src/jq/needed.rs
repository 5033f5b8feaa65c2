//! Needed: of some two hundred definitions, those that a filter leads to.
//!
//! Compiling all of them takes longer than starting the worker, and most filters call three.

use std::collections::HashSet;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::Part;

type Name = &'static str;

/// The definitions that `filter` can reach, in their order.
pub(super) fn by(filter: &str, mut definitions: Vec<Def<Name>>) -> Vec<Def<Name>> {
    // Every word of the text, in strings and comments as well: too many do no harm.
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '@';
    let words: HashSet<&str> = filter.split(|c| !word(c)).collect();
    let mut open: Vec<Name> =
        definitions.iter().map(|def| def.name).filter(|name| words.contains(name)).collect();
    let mut needed: HashSet<Name> = open.iter().copied().collect();
    while let Some(name) = open.pop() {
        for def in definitions.iter().filter(|def| def.name == name) {
            calls(&def.body, &mut |called| {
                if needed.insert(called) {
                    open.push(called);
                }
            });
        }
    }
    definitions.retain(|def| needed.contains(def.name));
    definitions
}

/// Every name that a term calls, those of its own definitions and arguments included.
fn calls(term: &Term<Name>, each: &mut impl FnMut(Name)) {
    match term {
        Term::Id
        | Term::Recurse
        | Term::Num(_)
        | Term::Break(_)
        | Term::Var(_)
        | Term::Arr(None) => {}
        Term::Str(format, parts) => {
            if let Some(name) = format {
                each(name);
            }
            for part in parts {
                if let StrPart::Term(term) = part {
                    calls(term, each);
                }
            }
        }
        Term::Arr(Some(term)) | Term::Neg(term) | Term::Label(_, term) => calls(term, each),
        Term::Obj(members) => {
            for (key, value) in members {
                calls(key, each);
                all(value, each);
            }
        }
        Term::BinOp(left, operator, right) => {
            calls(left, each);
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                in_pattern(pattern, each);
            }
            calls(right, each);
        }
        Term::Fold(_, over, pattern, arguments) => {
            calls(over, each);
            in_pattern(pattern, each);
            all(arguments, each);
        }
        Term::TryCatch(tried, caught) => {
            calls(tried, each);
            all(caught.as_deref(), each);
        }
        Term::IfThenElse(cases, otherwise) => {
            for (condition, then) in cases {
                calls(condition, each);
                calls(then, each);
            }
            all(otherwise.as_deref(), each);
        }
        Term::Def(definitions, body) => {
            all(definitions.iter().map(|def| &def.body), each);
            calls(body, each);
        }
        Term::Call(name, arguments) => {
            each(name);
            all(arguments, each);
        }
        Term::Path(from, path) => {
            calls(from, each);
            for (part, _) in &path.0 {
                match part {
                    Part::Index(index) => calls(index, each),
                    Part::Range(from, to) => {
                        all(from.iter().chain(to), each);
                    }
                }
            }
        }
    }
}

fn all<'a>(terms: impl IntoIterator<Item = &'a Term<Name>>, each: &mut impl FnMut(Name)) {
    for term in terms {
        calls(term, each);
    }
}

fn in_pattern(pattern: &Pattern<Name>, each: &mut impl FnMut(Name)) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(parts) => {
            for part in parts {
                in_pattern(part, each);
            }
        }
        Pattern::Obj(members) => {
            for (key, part) in members {
                calls(key, each);
                in_pattern(part, each);
            }
        }
    }
}
