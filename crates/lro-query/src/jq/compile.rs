//! Compile: from a filter's text to something that runs.

use std::collections::HashSet;

use jaq_core::data::HasLut;
use jaq_core::load::parse::{Def, Term};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, DataT, Filter, Lut, Vars, load};
use jaq_json::Val;

use super::natives::Regexes;
use super::{allowlist, json, natives, terms};
use crate::error::About;
use crate::query::Params;
use crate::worker::Fault;

const PRELUDE: &str = include_str!("prelude.jq");

/// What filters run on: our values, and the regular expressions compiled so far.
pub(super) struct Kind;

/// What a running filter can reach.
#[derive(Clone, Copy)]
pub(super) struct Reach<'a> {
    lut: &'a Lut<Kind>,
    pub(super) regexes: &'a Regexes,
}

impl DataT for Kind {
    type V<'a> = Val;
    type Data<'a> = Reach<'a>;
}

impl<'a> HasLut<'a, Kind> for Reach<'a> {
    fn lut(&self) -> &'a Lut<Kind> {
        self.lut
    }
}

/// A compiled filter. Each thread has its own regular expressions and variables.
pub(super) struct Compiled {
    filter: Filter<Kind>,
    /// Variables as they were written, in the order the filter knows them.
    variables: Vec<String>,
}

impl Compiled {
    pub(super) fn new(filter: &str, params: &Params) -> Result<Self, Fault> {
        let names: Vec<String> = params.iter().map(|(name, _)| format!("${name}")).collect();
        let all = params.iter().map(|(name, value)| format!("\"{name}\":{value}"));
        let all = format!("{{{}}}", all.collect::<Vec<_>>().join(","));
        let own = params.iter().filter(|(name, _)| *name != ALL).map(|(_, value)| value.to_owned());
        let variables = std::iter::once(all).chain(own).collect();

        let ours = load::parse(PRELUDE, |parser| parser.defs());
        let ours = ours.expect("a test compiles the prelude");
        let arena = Arena::default();
        let definitions = allowlist::definitions().chain(ours).collect();
        let loader = Loader::new(prune(filter, definitions));
        let program = File { code: filter, path: () };
        let modules = loader.load(&arena, program).map_err(|errors| not_loaded(filter, &errors))?;
        // Without this an `import … as $x` panics: the compiler takes a value for granted.
        load::import(&modules, |_| Err("not offered".to_owned()))
            .map_err(|errors| not_loaded(filter, &errors))?;
        let natives = allowlist::natives().chain(natives::natives());
        let globals = std::iter::once("$params")
            .chain(names.iter().map(String::as_str).filter(|n| *n != "$params"));
        let filter = Compiler::default()
            .with_funs(natives)
            .with_global_vars(globals)
            .compile(modules)
            .map_err(|errors| not_compiled(&errors))?;
        Ok(Self { filter, variables })
    }

    /// Readies the filter for one thread.
    pub(super) fn ready(&self) -> Result<Ready<'_>, Fault> {
        let values = self.variables.iter().map(|json| {
            json::parse(&bytes::Bytes::copy_from_slice(json.as_bytes()))
                .map_err(|_| Fault::syntax("a parameter is no JSON value", About::Variable))
        });
        let variables = Vars::new(values.collect::<Result<Vec<_>, _>>()?);
        Ok(Ready { compiled: self, variables, regexes: Regexes::default() })
    }
}

/// The variable that holds all parameters.
const ALL: &str = "params";

/// A filter that runs in one thread.
pub(super) struct Ready<'a> {
    compiled: &'a Compiled,
    variables: Vars<Val>,
    regexes: Regexes,
}

impl Ready<'_> {
    /// The outputs for one input.
    pub(super) fn run(&self, input: Val) -> impl Iterator<Item = Result<Val, String>> {
        let filter = &self.compiled.filter;
        let reach = Reach { lut: &filter.lut, regexes: &self.regexes };
        let context = Ctx::<Kind>::new(reach, self.variables.clone());
        filter.id.run((context, input)).map(|output| {
            output.map_err(|exception| match exception.get_err() {
                Ok(error) => error.to_string(),
                Err(_) => "the filter broke off".to_owned(),
            })
        })
    }
}

type LoadErrors<'a> = load::Errors<&'a str, ()>;

fn not_loaded(filter: &str, errors: &LoadErrors<'_>) -> Fault {
    let place = |part: &str| {
        // A part at the end is an empty slice of something else.
        let inside = filter.as_bytes().as_ptr_range().contains(&part.as_ptr());
        if part.is_empty() || !inside {
            return "at the end".to_owned();
        }
        let at = load::span(filter, part).start;
        let line = filter[..at].matches('\n').count() + 1;
        let column = filter[..at].rsplit('\n').next().map_or(0, |text| text.chars().count()) + 1;
        format!("at line {line}, column {column}, before `{part:.40}`")
    };
    let Some((_, error)) = errors.first() else {
        return Fault::syntax("the filter is not understood", About::Text);
    };
    match error {
        load::Error::Io(_) => Fault::syntax("modules are not offered", About::Refused),
        load::Error::Lex(found) => {
            let said = found.first().map(|(expected, found)| {
                format!("expected {} {}", expected.as_str(), place(found))
            });
            Fault::syntax(said.unwrap_or_default(), About::Text)
        }
        load::Error::Parse(found) => {
            let said = found.first().map(|(expected, found)| {
                format!("expected {} {}", expected.as_str(), place(found))
            });
            Fault::syntax(said.unwrap_or_default(), About::Text)
        }
    }
}

fn not_compiled(errors: &jaq_core::compile::Errors<&str, ()>) -> Fault {
    use jaq_core::compile::Undefined;
    let first = errors.iter().flat_map(|(_, errors)| errors).next();
    let Some((name, kind)) = first else {
        return Fault::syntax("the filter is not understood", About::Text);
    };
    if allowlist::is_refused(name) {
        return Fault::syntax(format!("`{name}` is not offered"), About::Refused);
    }
    match kind {
        Undefined::Filter(arity) => {
            Fault::syntax(format!("there is no function {name}/{arity}"), About::Function)
        }
        Undefined::Var => Fault::syntax(format!("{name} has no value"), About::Variable),
        other => Fault::syntax(format!("there is no {} {name}", other.as_str()), About::Text),
    }
}

// --- Prunes the standard definitions to those that a filter needs.
// ---
// --- Compiling all of them takes longer than starting the worker, and most filters call three.

type Name = &'static str;

/// The definitions that `filter` can reach, in their order.
pub(super) fn prune(filter: &str, mut definitions: Vec<Def<Name>>) -> Vec<Def<Name>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prelude_compiles() {
        for filter in [
            "test(\"a\")",
            "tostream",
            "fromstream(tostream)",
            "@tsv",
            "INDEX(.a)",
            "gsub(\"a\";\"b\")",
        ] {
            assert!(Compiled::new(filter, &Params::default()).is_ok(), "{filter}");
        }
    }

    #[test]
    fn what_reaches_outside_is_refused_by_name() {
        for filter in ["env", "$ENV", "halt", "input", "debug", "now", "input_filename", "stderr"] {
            let fault = Compiled::new(filter, &Params::default()).err();
            assert!(
                matches!(fault, Some(Fault::Syntax { about: About::Refused, .. })),
                "{filter}: {fault:?}"
            );
        }
    }
}
