//! The command line reference, from the program's own help.

use std::fmt::Write;

use anyhow::Result;

use crate::atlatl::Atlatl;

/// Help of the program and of each command below it.
pub(super) fn reference(atlatl: &Atlatl) -> Result<String> {
    let mut text = String::from("# Command line\n");
    append(atlatl, &[], &mut text)?;
    Ok(text)
}

fn append(atlatl: &Atlatl, command: &[&str], text: &mut String) -> Result<()> {
    let help = atlatl.stdout(&[command, &["--help"]].concat())?;
    let title = [&["atlatl"], command].concat().join(" ");
    // Trailing spaces are an accident of the help's columns; editors remove them.
    let body: Vec<&str> = help.trim().lines().map(str::trim_end).collect();
    let _ = write!(text, "\n## `{title}`\n\n```text\n{}\n```\n", body.join("\n"));
    for name in subcommands(&help) {
        append(atlatl, &[command, &[name]].concat(), text)?;
    }
    Ok(())
}

/// The names in the `Commands:` section of a help text.
fn subcommands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        // Continuation lines of a long description stand further in than the names.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_help() {
        let help = "About\n\nUsage: x\n\nCommands:\n  offload  Offload\n           more\n  \
                    config   Configure\n  help     Print\n\nOptions:\n  -h, --help  Print\n";
        assert_eq!(subcommands(help), ["offload", "config"]);
        assert!(subcommands("Usage: x\n\nOptions:\n  -h  Print\n").is_empty());
    }
}
