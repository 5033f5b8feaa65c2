//! Commands and edits that fix a finding.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
};

use crate::settings::{Origin, Settings};

/// A path as one word of a shell command.
pub(super) fn word(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

/// A text as one word of a shell command.
pub(super) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// How to give `key` the value `to`: where it is set now, or else in the user's file.
pub(super) fn set(settings: &Settings, key: &str, to: impl Display) -> String {
    let entry = settings.entries().iter().find(|entry| entry.key.name == key);
    let last = key.rsplit('.').next().unwrap_or(key);
    match entry.map(|entry| &entry.origin) {
        Some(Origin::File { path, line: Some(line), .. }) => {
            format!("in {path}, line {line}, write {last} = {to}")
        }
        Some(Origin::File { path, line: None, .. }) => format!("in {path}, write {last} = {to}"),
        Some(Origin::Environment { variable }) => {
            format!("export {variable}={}", shell_word(to.to_string().trim_matches('"')))
        }
        Some(Origin::Flag) => format!("--set {key}={to}"),
        Some(Origin::Default) | None => {
            let file = user_file(settings);
            format!("at the top of {}, write {key} = {to}", file.display())
        }
    }
}

/// The user's file of configuration; the last that is looked for where there is no home.
fn user_file(settings: &Settings) -> PathBuf {
    let files = settings.files();
    let user = files
        .iter()
        .find(|(path, _)| path.ends_with("/atlatl/config.toml") && !path.starts_with("/etc/"));
    user.or(files.last()).map_or_else(|| PathBuf::from("atlatl.toml"), |(path, _)| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_word("/a/b-c.json"), "/a/b-c.json");
        assert_eq!(shell_word("/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!((&*shell_word("-rf"), &*shell_word("")), ("'-rf'", "''"));
    }
}
