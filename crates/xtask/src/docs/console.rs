//! Blocks of a document: console commands with their expected output, and excerpts of files.

use anyhow::{Result, bail};

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
