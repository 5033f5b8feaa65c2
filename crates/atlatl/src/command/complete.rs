//! Completion of arguments in a shell: references of stored results and keys of the configuration. Options
//! and their fixed values come from the definition of the command line.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory as _;
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, CompletionCandidate, Shell};
use lro::IdSeed;
use lro_core::config::KEYS;

use super::Args;
use super::results::latest_entries;
use crate::output::printable;
use crate::settings::{Settings, Sources, completion_directory};
use crate::spool_config::{Reach, Stores};

/// The variable with the name of the shell, in which the scripts call this program. Other programs that
/// complete themselves use `COMPLETE`, which a user may have exported.
const VARIABLE: &str = "_ATLATL_COMPLETE";
/// What a reference begins with.
const SCHEME: &str = "lro:";
/// The most references that are offered.
const MAX_REFERENCES: usize = 50;

/// Answers a shell that asks for completions. Returns whether this process was started for that.
pub(super) fn answer(command_line: &[OsString]) -> bool {
    let Some(directory) = completion_directory(VARIABLE) else { return false };
    let environment = CompleteEnv::with_factory(Args::command).var(VARIABLE);
    // A failure leaves the line as it is.
    environment.try_complete(command_line, Some(&directory)).unwrap_or(true)
}

/// The script that registers the completion in a shell.
pub(super) fn registration(shell: Shell) -> std::io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    if let Some(completer) = shells.completer(&shell.to_string()) {
        completer.write_registration(VARIABLE, "atlatl", "atlatl", "atlatl", &mut script)?;
    }
    Ok(script)
}

/// The latest results of this directory, with what they hold.
pub(crate) fn references(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = current.to_str() else { return Vec::new() };
    let found = || {
        // Prints nothing: a prompt is there.
        let (settings, _) = Settings::read_valid(&Sources::from_process(None, &[])).ok()?;
        let stores = Stores::from_settings(&settings, None).ok()?;
        Some(latest_entries(&stores, Reach::Here, IdSeed::from_system().now))
    };
    let entries = found().unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| {
            // Without the scheme if none was typed: for bash, a colon begins a new word.
            let bare = entry.reference.strip_prefix(SCHEME).unwrap_or(&entry.reference);
            let names = [bare, &entry.reference];
            let name = names.into_iter().find(|name| name.starts_with(typed))?;
            // Untrusted text: a shell prints it.
            let about = printable(&entry.about()).into_owned();
            Some(CompletionCandidate::new(name).help(Some(about.into())))
        })
        .take(MAX_REFERENCES)
        .collect()
}

/// The keys of the configuration.
pub(crate) fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = current.to_str() else { return Vec::new() };
    let keys = KEYS.iter().filter(|key| key.name.starts_with(typed));
    keys.map(|key| CompletionCandidate::new(key.name)).collect()
}
