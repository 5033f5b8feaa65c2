//! The words of a command line that a host's rule could be about.
//!
//! Comparing is generous: a rule that only might match counts, since a rewrite that is not made costs
//! nothing.

use super::Refusal;
use crate::hook::rewrite::syntax;

/// The simple commands of a line and all words in it.
#[derive(Debug)]
pub(super) struct LineWords {
    /// Each simple command as it was typed.
    pub(super) commands: Vec<String>,
    /// The words without quotes, split again at everything that can separate words.
    words: Vec<String>,
}

impl LineWords {
    pub(super) fn parse(line: &str) -> Result<Self, Refusal> {
        let parsed = syntax::parse(line).map_err(|_| Refusal::Line)?;
        let mut words = Vec::new();
        let mut commands = Vec::new();
        for command in parsed.commands() {
            let raw: Vec<&str> = command.words.iter().map(|word| word.raw).collect();
            commands.push(raw.join(" "));
            for word in &command.words {
                words.push(word.text.clone());
                let inner = |c: char| c.is_whitespace() || "=;|&(){}'\"`$,:".contains(c);
                words.extend(word.text.split(inner).map(str::to_owned));
            }
        }
        Ok(Self { commands, words })
    }

    /// Whether a word of the line is `name`, also as the last part of a path.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let name = base_name(name);
        self.words.iter().any(|word| base_name(word).eq_ignore_ascii_case(name))
    }

    /// Whether a word of the line, or a part of a path in it, begins with the last part of `prefix`: what
    /// follows the prefix in a rule can contain a slash.
    pub(super) fn mentions_prefix(&self, prefix: &str) -> bool {
        let prefix = base_name(prefix).to_ascii_lowercase();
        let begins = |part: &str| part.to_ascii_lowercase().starts_with(&prefix);
        self.words.iter().any(|word| word.split('/').any(begins))
    }

    /// Whether the name of every command passes.
    pub(super) fn every_program(&self, passes: impl Fn(&str) -> bool) -> bool {
        let name =
            |command: &String| passes(base_name(command.split(' ').next().unwrap_or_default()));
        self.commands.iter().all(name)
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_quotes_paths_and_wrappers() {
        let line = "env X=1 timeout 5 /usr/bin/git log --format='%H rm' | python3 -c \"os.system('curl x')\"";
        let words = LineWords::parse(line).unwrap();
        for name in ["git", "rm", "curl", "python3", "env", "timeout", "/opt/git", "GIT"] {
            assert!(words.mentions(name), "{name}");
        }
        assert!(!words.mentions("gi") && words.mentions_prefix("gi") && !words.mentions("push"));
        assert_eq!(words.commands.len(), 2);
        assert!(words.every_program(|name| ["env", "python3"].contains(&name)));
    }

    #[test]
    fn a_prefix_is_found_in_every_part_of_a_path() {
        let words = LineWords::parse("./tools/deploy/run.sh --all").unwrap();
        for prefix in ["./tools/deploy", "./tools/", "./to", "deploy", "/x/RUN", ""] {
            assert!(words.mentions_prefix(prefix), "{prefix}");
        }
        assert!(!words.mentions_prefix("./tools/x") && !words.mentions_prefix("ploy"));
        assert!(!words.mentions("deploy") && words.mentions("run.sh"));
    }

    #[test]
    fn a_line_that_is_not_understood_has_no_words() {
        assert_eq!(LineWords::parse("ls > x").unwrap_err(), Refusal::Line);
    }
}
