//! Console blocks: commands and the output each is said to print.

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
pub(super) fn parse(lines: &[impl AsRef<str>]) -> Result<Vec<Step>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(command: &str, expected: &[&str]) -> Step {
        let expected = expected.iter().map(|&line| line.to_owned()).collect();
        Step { command: command.to_owned(), expected }
    }

    #[test]
    fn commands_are_split_from_their_output() {
        let steps = parse(&["$ echo a", "a", "$ true", "$ printf 'x\\n\\ny'", "x", "", "y"]);
        assert_eq!(
            steps.unwrap(),
            [step("echo a", &["a"]), step("true", &[]), step("printf 'x\\n\\ny'", &["x", "", "y"])]
        );
    }

    #[test]
    fn a_command_may_go_on_over_lines() {
        let steps = parse(&["$ cat <<'END'", "> one", "> END", "one", "> not a continuation"]);
        assert_eq!(
            steps.unwrap(),
            [step("cat <<'END'\none\nEND", &["one", "> not a continuation"])]
        );
    }

    #[test]
    fn output_before_a_command_is_an_error() {
        assert!(parse(&["a", "$ echo a"]).is_err());
        assert!(parse(&[""; 0]).is_err());
    }
}
