//! Compiles the text of a filter.

use std::collections::HashSet;

use jaq_core::load::parse::{Def, Term};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars, load};
use jaq_json::Val;

use super::natives::{FilterData, JaqTypes, RegexCache};
use super::{allowlist, json, natives, terms};
use crate::engine::Fault;
use crate::error::SyntaxProblem;
use crate::query::QueryParams;

const PRELUDE: &str = include_str!("prelude.jq");

/// A compiled filter. Each thread has its own regular expressions and variables.
pub(super) struct CompiledFilter {
    filter: Filter<JaqTypes>,
    /// The variables as JSON, in the order of the compiled filter.
    variables: Vec<String>,
}

impl CompiledFilter {
    pub(super) fn new(filter: &str, params: &QueryParams) -> Result<Self, Fault> {
        let names: Vec<String> = params.iter().map(|(name, _)| format!("${name}")).collect();
        let all = params.iter().map(|(name, value)| format!("\"{name}\":{value}"));
        let all = format!("{{{}}}", all.collect::<Vec<_>>().join(","));
        let single = params
            .iter()
            .filter(|(name, _)| *name != PARAMS_VARIABLE)
            .map(|(_, value)| value.to_owned());
        let variables = std::iter::once(all).chain(single).collect();

        let prelude = load::parse(PRELUDE, |parser| parser.defs());
        let prelude = prelude.expect("a test compiles the prelude");
        let arena = Arena::default();
        let definitions = allowlist::definitions().chain(prelude).collect();
        let loader = Loader::new(prune(filter, definitions));
        let program = File { code: filter, path: () };
        let modules = loader.load(&arena, program).map_err(|errors| load_fault(filter, &errors))?;
        // Without this, `import … as $x` panics: the compiler expects a value.
        load::import(&modules, |_| Err("not offered".to_owned()))
            .map_err(|errors| load_fault(filter, &errors))?;
        let natives = allowlist::natives().chain(natives::natives());
        let globals = std::iter::once("$params")
            .chain(names.iter().map(String::as_str).filter(|n| *n != "$params"));
        let filter = Compiler::default()
            .with_funs(natives)
            .with_global_vars(globals)
            .compile(modules)
            .map_err(|errors| compile_fault(&errors))?;
        Ok(Self { filter, variables })
    }

    /// Prepares the filter for one thread.
    pub(super) fn for_thread(&self) -> Result<ThreadFilter<'_>, Fault> {
        let values = self.variables.iter().map(|json| {
            json::parse(&bytes::Bytes::copy_from_slice(json.as_bytes())).map_err(|_| {
                Fault::syntax("a parameter is not valid JSON", SyntaxProblem::Variable)
            })
        });
        let variables = Vars::new(values.collect::<Result<Vec<_>, _>>()?);
        Ok(ThreadFilter { compiled: self, variables, regexes: RegexCache::default() })
    }
}

/// The name of the variable that holds all parameters.
const PARAMS_VARIABLE: &str = "params";

/// A compiled filter with the variables and the regex cache of one thread.
pub(super) struct ThreadFilter<'a> {
    compiled: &'a CompiledFilter,
    variables: Vars<Val>,
    regexes: RegexCache,
}

impl ThreadFilter<'_> {
    /// Returns the outputs for one input.
    pub(super) fn run(&self, input: Val) -> impl Iterator<Item = Result<Val, String>> {
        let filter = &self.compiled.filter;
        let data = FilterData { lut: &filter.lut, regexes: &self.regexes };
        let context = Ctx::<JaqTypes>::new(data, self.variables.clone());
        filter.id.run((context, input)).map(|output| {
            output.map_err(|exception| match exception.get_err() {
                Ok(error) => error.to_string(),
                Err(_) => "the filter was aborted".to_owned(),
            })
        })
    }
}

type LoadErrors<'a> = load::Errors<&'a str, ()>;

fn load_fault(filter: &str, errors: &LoadErrors<'_>) -> Fault {
    let place = |part: &str| {
        // At the end of the text, the part is an empty slice of another string.
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
        return Fault::syntax("syntax error in the filter", SyntaxProblem::Text);
    };
    match error {
        load::Error::Io(_) => Fault::syntax("modules are not supported", SyntaxProblem::Refused),
        load::Error::Lex(found) => {
            let message = found.first().map(|(expected, found)| {
                format!("expected {} {}", expected.as_str(), place(found))
            });
            Fault::syntax(message.unwrap_or_default(), SyntaxProblem::Text)
        }
        load::Error::Parse(found) => {
            let message = found.first().map(|(expected, found)| {
                format!("expected {} {}", expected.as_str(), place(found))
            });
            Fault::syntax(message.unwrap_or_default(), SyntaxProblem::Text)
        }
    }
}

fn compile_fault(errors: &jaq_core::compile::Errors<&str, ()>) -> Fault {
    use jaq_core::compile::Undefined;
    let first = errors.iter().flat_map(|(_, errors)| errors).next();
    let Some((name, kind)) = first else {
        return Fault::syntax("syntax error in the filter", SyntaxProblem::Text);
    };
    if allowlist::is_refused(name) {
        return Fault::syntax(format!("`{name}` is not allowed"), SyntaxProblem::Refused);
    }
    match kind {
        Undefined::Filter(arity) => {
            Fault::syntax(format!("unknown function {name}/{arity}"), SyntaxProblem::Function)
        }
        Undefined::Var => Fault::syntax(format!("{name} is not defined"), SyntaxProblem::Variable),
        other => Fault::syntax(format!("unknown {} {name}", other.as_str()), SyntaxProblem::Text),
    }
}

type Name = &'static str;

/// Prunes the definitions to those that `filter` can reach, and keeps their order. Compiling all of
/// them takes longer than starting the worker, and most filters call three.
pub(super) fn prune(filter: &str, mut definitions: Vec<Def<Name>>) -> Vec<Def<Name>> {
    // Words in strings and comments count, too: extra definitions are harmless.
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

/// Passes every name that a term calls to `each`, including those in its definitions and arguments.
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
            assert!(CompiledFilter::new(filter, &QueryParams::default()).is_ok(), "{filter}");
        }
    }

    #[test]
    fn what_reaches_outside_is_refused_by_name() {
        for filter in ["env", "$ENV", "halt", "input", "debug", "now", "input_filename", "stderr"] {
            let fault = CompiledFilter::new(filter, &QueryParams::default()).err();
            assert!(
                matches!(fault, Some(Fault::Syntax { about: SyntaxProblem::Refused, .. })),
                "{filter}: {fault:?}"
            );
        }
    }
}
