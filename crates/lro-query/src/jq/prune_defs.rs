//! Prunes the standard definitions to those that a filter needs.
//!
//! Compiling all of them takes longer than starting the worker, and most filters call three.

use std::collections::HashSet;

use jaq_core::load::parse::{Def, Term};

use super::terms;

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
fn calls(term: &Term<Name>, each: &mut dyn FnMut(Name)) {
    if let Term::Str(Some(name), _) | Term::Call(name, _) = term {
        each(name);
    }
    terms::below(term, &mut |term| calls(term, each));
}
