//! Walkthroughs in docs/architecture.md: chains of functions, each of which calls the next.

use anyhow::Result;

use crate::markdown::code_spans;
use crate::repository::Repository;

const DOCUMENT: &str = "docs/architecture.md";
const HEADING: &str = "### Walkthrough: ";
const MAX_STEPS: usize = 12;

/// One step: a function and the file that defines it.
struct Step<'a> {
    function: &'a str,
    file: &'a str,
}

/// Reads every walkthrough; each step is a list item that begins with `` `function` (`file`) ``.
pub(super) fn check(repository: &Repository) -> Result<Vec<String>> {
    let document = repository.read(DOCUMENT)?;
    let walkthroughs: Vec<&str> = document.split(HEADING).skip(1).collect();
    let mut findings = Vec::new();
    if walkthroughs.len() < 3 {
        findings.push(format!("{DOCUMENT}: {} of 3 walkthroughs", walkthroughs.len()));
    }
    for walkthrough in walkthroughs {
        let title = walkthrough.lines().next().unwrap_or_default();
        let chain = findings_in(&steps(walkthrough), |file| repository.read(file));
        findings.extend(chain.into_iter().map(|finding| format!("{title}: {finding}")));
    }
    Ok(findings)
}

fn steps(walkthrough: &str) -> Vec<Step<'_>> {
    let section = walkthrough.split("\n#").next().unwrap_or_default();
    let items = section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let step = |item| match code_spans(item)[..] {
        [function, file, ..] => Some(Step { function, file }),
        _ => None,
    };
    items.filter_map(step).collect()
}

fn findings_in(steps: &[Step<'_>], read: impl Fn(&str) -> Result<String>) -> Vec<String> {
    let mut findings = Vec::new();
    if steps.is_empty() || steps.len() > MAX_STEPS {
        findings.push(format!("{} steps, 1 to {MAX_STEPS} are allowed", steps.len()));
    }
    for (step, next) in steps.iter().zip(steps.iter().skip(1).map(Some).chain([None])) {
        let Step { function, file } = step;
        let Ok(code) = read(file) else {
            findings.push(format!("no file {file}"));
            continue;
        };
        let bodies = bodies(&code, function);
        if bodies.is_empty() {
            findings.push(format!("{file} has no function {function}"));
        } else if let Some(next) =
            next.filter(|next| !bodies.iter().any(|b| b.contains(name(next.function))))
        {
            findings.push(format!("{function} ({file}) does not call {}", next.function));
        }
    }
    findings
}

/// The name of a function without the type before it.
fn name(function: &str) -> &str {
    function.rsplit("::").next().unwrap_or(function)
}

/// The text of every function with this name, up to the brace at its own indentation.
fn bodies<'a>(code: &'a str, function: &str) -> Vec<&'a str> {
    let definition = format!("fn {}", name(function));
    let starts = code
        .match_indices(&definition)
        .map(|(at, _)| at)
        .filter(|at| code[at + definition.len()..].starts_with(['(', '<']));
    let body = |at: usize| {
        let line = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let indent = code[line..].len() - code[line..].trim_start().len();
        let end = code[at..].find(&format!("\n{}}}\n", " ".repeat(indent)));
        &code[at + definition.len()..end.map_or(code.len(), |end| at + end)]
    };
    starts.map(body).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walkthroughs_follow_the_code() {
        assert_eq!(check(&Repository::open().unwrap()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_step_that_does_not_exist_or_does_not_lead_on_is_found() {
        let text = "A result\n\n1. `A::first` (`a.rs`): starts.\n2. `second` (`a.rs`)\n3. `third` (`a.rs`)\n\
                    4. `x` (`b.rs`)\n\n## Next\n1. `no` (`c.rs`)\n";
        let code =
            "impl A {\n    fn first(&self) {\n        second();\n    }\n}\n\nfn second() {\n}\n";
        let steps = steps(text);
        assert_eq!(steps.len(), 4);
        let read = |file: &str| {
            anyhow::ensure!(file == "a.rs", "no file");
            Ok(code.to_owned())
        };
        assert_eq!(
            findings_in(&steps, read),
            ["second (a.rs) does not call third", "a.rs has no function third", "no file b.rs"]
        );
    }
}
