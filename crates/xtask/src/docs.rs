//! `cargo xtask docs`: the examples in README.md and docs/ print what they say.
//!
//! In a block marked `console` each `$ command` (continued by `> ` lines) is followed by what it
//! prints, both streams together. `[..]` matches any text within a line, `...` alone on a line
//! for any lines. A command that fails is an error unless the example shows its status, as in
//! `$ command; echo $?`. `console,no-run=reason` is not executed, and says why. A block marked
//! `toml,config` is handed to `atlatl config check`; one marked `json,mcp` is JSON; one marked
//! `rust,from=FILE` is a part of that file, line by line.

mod sandbox;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use sandbox::Sandbox;

use super::atlatl::{Atlatl, BinArgs};
use super::markdown::{Block, Document};
use super::output;
use super::repository::{Repository, has_extension};

/// Which documents to execute.
#[derive(Debug, clap::Args)]
pub(crate) struct DocsArgs {
    #[command(flatten)]
    bin: BinArgs,
    /// Documents to run [default: README.md and all of docs/]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What a block's info string asks for.
#[derive(Debug, PartialEq, Eq)]
enum Kind<'a> {
    /// Commands and their output.
    Console,
    /// A configuration file.
    Config,
    /// An entry of a client's file.
    Entry,
    /// Lines of this file of the checkout.
    Excerpt(&'a str),
    /// Not executed, for a stated reason.
    NoRun,
    /// Not ours to look at.
    Other,
}

/// Runs the examples of every document, or of those named.
pub(crate) fn run(repository: &Repository, args: &DocsArgs) -> Result<bool> {
    let atlatl = Atlatl::find(repository, &args.bin)?;
    let mut findings = Vec::new();
    let mut examples = 0;
    for file in documents(repository, args)? {
        let text = repository.read(&file)?;
        let sandbox = Sandbox::new(repository, &atlatl)?;
        for block in Document::parse(&text).blocks {
            let at = format!("{file}:{}", block.line);
            match check(repository, &sandbox, &block) {
                Ok((ran, wrong)) => {
                    examples += ran;
                    findings.extend(wrong.into_iter().map(|finding| format!("{at}: {finding}")));
                }
                Err(error) => findings.push(format!("{at}: {error:#}")),
            }
        }
    }
    Ok(output::verdict(&format!("{examples} examples in the documents"), &findings))
}

fn documents(repository: &Repository, args: &DocsArgs) -> Result<Vec<String>> {
    if !args.files.is_empty() {
        let names = args.files.iter().map(|file| file.to_str().map(str::to_owned));
        return names.collect::<Option<_>>().context("a file name that is not UTF-8");
    }
    let mut files = repository.files()?;
    files.retain(|file| {
        let document = file.starts_with("docs/") && !file.starts_with("docs/examples/");
        file == "README.md" || (document && has_extension(file, "md"))
    });
    Ok(files)
}

/// Runs one block: how many examples it held, and what was wrong.
fn check(
    repository: &Repository,
    sandbox: &Sandbox,
    block: &Block,
) -> Result<(usize, Vec<String>)> {
    match kind(&block.info)? {
        Kind::Console => {
            let steps = parse_console(&block.body)?;
            let wrong = steps.iter().map(|step| sandbox.run(step)).collect::<Result<Vec<_>>>()?;
            Ok((steps.len(), wrong.into_iter().flatten().collect()))
        }
        Kind::Config => {
            let wrong = sandbox.check_config(&block.body.join("\n"))?;
            Ok((1, wrong.into_iter().collect()))
        }
        Kind::Entry => {
            let read = serde_json::from_str::<serde::de::IgnoredAny>(&block.body.join("\n"));
            Ok((1, read.err().map(|error| error.to_string()).into_iter().collect()))
        }
        Kind::Excerpt(file) => {
            let wrong = check_excerpt(&repository.read(file)?, &block.body);
            Ok((1, wrong.map(|wrong| format!("{file}: {wrong}")).into_iter().collect()))
        }
        Kind::NoRun | Kind::Other => Ok((0, Vec::new())),
    }
}

fn kind(info: &str) -> Result<Kind<'_>> {
    if let Some((_, file)) = info.split_once(",from=") {
        return Ok(Kind::Excerpt(file));
    }
    match info {
        "console" => Ok(Kind::Console),
        "toml,config" => Ok(Kind::Config),
        "json,mcp" => Ok(Kind::Entry),
        _ => match info.strip_prefix("console,") {
            None => Ok(Kind::Other),
            Some(mark) => {
                let reason = mark.strip_prefix("no-run=").filter(|reason| !reason.is_empty());
                reason.map(|_| Kind::NoRun).with_context(|| {
                    format!("`{info}`: write `console`, or `console,no-run=reason`")
                })
            }
        },
    }
}

const PROMPT: &str = "$ ";
const CONTINUATION: &str = "> ";

/// One command of a console block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The command, continuation lines included.
    pub(super) command: String,
    /// The lines it is said to print.
    pub(super) expected: Vec<String>,
}

/// Splits the lines of a block into its commands.
pub(super) fn parse_console(lines: &[impl AsRef<str>]) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines.iter().map(AsRef::as_ref) {
        if let Some(command) = line.strip_prefix(PROMPT) {
            steps.push(Step { command: command.to_owned(), expected: Vec::new() });
            continue;
        }
        let Some(step) = steps.last_mut() else {
            bail!("a console block begins with `$ command`, not with `{line}`");
        };
        match line.strip_prefix(CONTINUATION).filter(|_| step.expected.is_empty()) {
            Some(more) => {
                step.command.push('\n');
                step.command.push_str(more);
            }
            None => step.expected.push(line.to_owned()),
        }
    }
    if steps.is_empty() {
        bail!("a console block without a command");
    }
    Ok(steps)
}

/// Reports an error if `lines` are not consecutive lines of `file`; common indentation is ignored.
pub(super) fn check_excerpt(file: &str, lines: &[impl AsRef<str>]) -> Option<String> {
    let lines = unindented(lines);
    if lines.iter().all(String::is_empty) {
        return Some("an excerpt without a line".to_owned());
    }
    let source: Vec<&str> = file.lines().collect();
    let found = source.windows(lines.len()).any(|part| unindented(part) == lines);
    (!found).then(|| format!("no such lines:\n    {}", lines.join("\n    ")))
}

/// The lines without the indentation that all of them have.
fn unindented(lines: &[impl AsRef<str>]) -> Vec<String> {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    let depth = |line: &&str| line.len() - line.trim_start().len();
    let written = lines.iter().filter(|line| !line.trim().is_empty());
    let common = written.map(depth).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or("").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_strings_say_what_to_do() {
        assert_eq!(kind("console").unwrap(), Kind::Console);
        assert_eq!(kind("toml,config").unwrap(), Kind::Config);
        assert_eq!(kind("console,no-run=needs-network").unwrap(), Kind::NoRun);
        assert_eq!(kind("json,mcp").unwrap(), Kind::Entry);
        assert_eq!(kind("rust,from=a/b.rs").unwrap(), Kind::Excerpt("a/b.rs"));
        assert_eq!(kind("toml").unwrap(), Kind::Other);
        assert_eq!(kind("").unwrap(), Kind::Other);
    }

    #[test]
    fn a_block_that_is_not_run_needs_a_reason() {
        assert!(kind("console,no-run").is_err());
        assert!(kind("console,no-run=").is_err());
        assert!(kind("console,norun=x").is_err());
    }

    fn step(command: &str, expected: &[&str]) -> Step {
        let expected = expected.iter().map(|&line| line.to_owned()).collect();
        Step { command: command.to_owned(), expected }
    }

    #[test]
    fn commands_are_split_from_their_output() {
        let steps =
            parse_console(&["$ echo a", "a", "$ true", "$ printf 'x\\n\\ny'", "x", "", "y"]);
        assert_eq!(
            steps.unwrap(),
            [step("echo a", &["a"]), step("true", &[]), step("printf 'x\\n\\ny'", &["x", "", "y"])]
        );
    }

    #[test]
    fn a_command_may_go_on_over_lines() {
        let steps =
            parse_console(&["$ cat <<'END'", "> one", "> END", "one", "> not a continuation"]);
        assert_eq!(
            steps.unwrap(),
            [step("cat <<'END'\none\nEND", &["one", "> not a continuation"])]
        );
    }

    #[test]
    fn output_before_a_command_is_an_error() {
        assert!(parse_console(&["a", "$ echo a"]).is_err());
        assert!(parse_console(&[""; 0]).is_err());
    }

    const FILE: &str = "fn a() {\n    if b {\n        c();\n\n        d();\n    }\n}\n";

    #[test]
    fn a_part_of_a_file_may_be_indented_otherwise() {
        assert_eq!(check_excerpt(FILE, &["if b {", "    c();", "", "    d();", "}"]), None);
        assert_eq!(check_excerpt(FILE, &["fn a() {", "    if b {"]), None);
    }

    #[test]
    fn other_lines_another_order_and_gaps_are_found() {
        assert!(check_excerpt(FILE, &["e();"]).is_some());
        assert!(check_excerpt(FILE, &["c();", "d();"]).is_some());
        assert!(
            check_excerpt(FILE, &["if b {", "c();"]).is_some(),
            "indentation within the part counts"
        );
        assert!(check_excerpt(FILE, &[""; 0]).is_some());
    }
}
