//! Completion in shells: their scripts, and what they offer.

use std::path::Path;
use std::process::Command;

use crate::browse::{records, store};
use crate::program::Program;

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

/// What bash offers for the last of these words.
fn in_bash(program: &Program, words: &[&str]) -> Vec<String> {
    let script = program.run(&["completions", "bash"]).stdout;
    let path = program.path("work/completion.bash");
    let (current, last) = (words.last().unwrap(), words.len() - 1);
    let asked = format!(
        "{script}\nCOMP_WORDS=({words}); COMP_CWORD={last}; COMP_TYPE=9\n\
         _clap_complete_atlatl atlatl '{current}' ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words = words.iter().map(|word| format!("'{word}' ")).collect::<Vec<_>>().concat()
    );
    std::fs::write(&path, asked).unwrap();
    let atlatl = program.command(&[]);
    let mut bash = Command::new("bash");
    bash.arg(&path).current_dir(atlatl.get_current_dir().unwrap()).env_clear();
    for (name, value) in atlatl.get_envs() {
        bash.env(name, value.unwrap_or_default());
    }
    let folder = Path::new(atlatl.get_program()).parent().unwrap();
    bash.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let output = bash.output().unwrap();
    let offered = String::from_utf8(output.stdout).unwrap();
    offered.lines().filter(|line| !line.is_empty()).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn g77_each_shell_has_a_script() {
    let program = Program::new();
    for shell in SHELLS {
        let run = program.run(&["completions", shell]);
        assert_eq!(run.status, 0, "{run}");
        assert!(run.stdout.contains("_ATLATL_COMPLETE"), "{shell}: {run}");
    }
    assert_eq!(program.run(&["completions", "tcsh"]).status, 2);
}

#[test]
fn g77_commands_options_and_their_values_are_offered() {
    let program = Program::new();
    assert_eq!(in_bash(&program, &["atlatl", "unin"]), ["uninstall"]);
    assert_eq!(in_bash(&program, &["atlatl", "results", "pi"]), ["pin"]);
    assert_eq!(in_bash(&program, &["atlatl", "stats", "--client"]), ["--client-limit"]);
    let tools = in_bash(&program, &["atlatl", "proxy", "--tools", ""]);
    assert_eq!(tools, ["all", "separate", "none"]);
    let keys = in_bash(&program, &["atlatl", "config", "get", "proxy.thresh"]);
    assert_eq!(keys, ["proxy.threshold_tokens"]);
}

#[test]
fn g77_references_of_this_directory_are_offered_the_latest_first() {
    let program = Program::new();
    let first = store(&program, &records(40));
    let second = store(&program, &records(50));
    let bare = |reference: &str| reference.strip_prefix("lro:").unwrap().to_owned();
    let offered = in_bash(&program, &["atlatl", "results", "show", "01"]);
    assert_eq!(offered, [bare(&second), bare(&first)]);
    let all = in_bash(&program, &["atlatl", "extract", &bare(&first)[..26]]);
    assert_eq!(all, [bare(&first)]);
    // What is offered is accepted.
    assert_eq!(program.run(&["results", "show", &offered[0], "--json"]).json()["ref"], *second);
}

#[test]
fn g77_what_a_result_says_of_itself_reaches_no_shell() {
    let program = Program::new();
    let args =
        ["offload", "--set", "proxy.threshold_tokens=1", "--tool", "x$(touch pwned)`id`\u{1b}[2J"];
    assert_eq!(program.run_with_input(&args, records(40).as_bytes()).status, 0);
    let offered = in_bash(&program, &["atlatl", "results", "show", "01"]);
    assert_eq!(offered.len(), 1, "{offered:?}");
    assert!(offered[0].len() == 26, "{offered:?}");
    assert!(!program.path("work/pwned").exists());
    let mut zsh = program.command(&["--", "atlatl", "results", "show", ""]);
    zsh.env("_ATLATL_COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", "3").env("_CLAP_IFS", "\n");
    let output = zsh.output().unwrap();
    let offered = String::from_utf8(output.stdout).unwrap();
    assert!(offered.contains("40 records") && !offered.contains('\u{1b}'), "{offered:?}");
}
