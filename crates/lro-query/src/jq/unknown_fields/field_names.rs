//! The field names that a filter mentions.

use std::collections::HashSet;

use jaq_core::load;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::Term;
use jaq_core::path::Part;

use super::super::terms;

/// Filters that build objects whose fields are in no record.
const OBJECT_BUILDERS: &[&str] = &[
    "to_entries",
    "from_entries",
    "with_entries",
    "match",
    "capture",
    "fromjson",
    "fromstream",
    "INDEX",
];

/// The names that `filter` reads, each once, in the order of the filter. Empty where the filter
/// builds objects whose names it does not write: a misspelt name could be one of theirs.
pub(super) fn fields(filter: &str) -> Vec<String> {
    let Some(term) = load::parse(filter, |parser| parser.term()) else { return Vec::new() };
    let mut names = Names::default();
    names.collect(&term);
    if names.builds_objects {
        return Vec::new();
    }
    let own = names.own;
    let mut unique = HashSet::new();
    names.read.retain(|name| !own.contains(name) && unique.insert(*name));
    names.read.into_iter().map(str::to_owned).collect()
}

#[derive(Default)]
struct Names<'f> {
    read: Vec<&'f str>,
    /// Names in objects that the filter writes itself.
    own: HashSet<&'f str>,
    builds_objects: bool,
}

impl<'f> Names<'f> {
    fn collect(&mut self, term: &Term<&'f str>) {
        match term {
            Term::Path(from, path) if !matches!(**from, Term::Var(_)) => {
                let names = path.0.iter().filter_map(|(part, _)| match part {
                    Part::Index(index) => literal(index),
                    Part::Range(..) => None,
                });
                self.read.extend(names);
            }
            Term::Obj(members) => {
                for (key, value) in members {
                    let Some(name) = literal(key) else { continue };
                    match value {
                        Some(_) => drop(self.own.insert(name)),
                        None => self.read.push(name),
                    }
                }
            }
            Term::Call(name, _) => self.builds_objects |= OBJECT_BUILDERS.contains(name),
            _ => {}
        }
        terms::below(term, &mut |term| self.collect(term));
    }
}

/// The text of a string without interpolation.
fn literal<'f>(term: &Term<&'f str>) -> Option<&'f str> {
    match term {
        Term::Str(None, parts) => match parts.as_slice() {
            [StrPart::Str(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_that_are_read() {
        for (filter, names) in [
            (".", &[][..]),
            (".a", &["a"]),
            (".a.b[0].c?", &["a", "b", "c"]),
            (".[\"a b\"] | .a", &["a b", "a"]),
            ("select(.a == \"x\") | {id, title: .b}", &["a", "id", "b"]),
            ("{n: .a} | .n", &["a"]),
            ("def f: .x; [f, .x]", &["x"]),
            ("$params.a, \"\\(.b)\"", &["b"]),
            (". as {a: $x} | $x", &[]),
            ("to_entries | .[0].key", &[]),
            ("{", &[]),
        ] {
            assert_eq!(fields(filter), names, "{filter}");
        }
    }
}
