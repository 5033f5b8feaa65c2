//! Server: how one proxied server is told from another.

use std::ffi::OsString;
use std::path::Path;

use lro_spool::Scope;

/// Programs that run others: what they run says more than they do.
const RUNNERS: [&str; 7] = ["npx", "uvx", "bunx", "node", "bun", "python", "python3"];

/// What may stand between a runner and what it runs. Behind anything else a value may follow, and
/// that may be a secret.
const HARMLESS: [&str; 5] = ["-y", "--yes", "-u", "-m", "--"];

/// The longest name shown.
const NAME_CAP: usize = 40;

/// A name for a person, and what keeps two servers of that name apart. The arguments themselves are
/// not kept: they may hold secrets.
pub(super) fn label(command: &[OsString]) -> String {
    let file_name = |text: &OsString| {
        let name = Path::new(text).file_name().unwrap_or(text.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let program = command.first().map(file_name).unwrap_or_default();
    let mut behind =
        command.iter().skip(1).skip_while(|argument| HARMLESS.iter().any(|flag| *argument == flag));
    let run = behind.next().filter(|argument| {
        let bytes = argument.as_encoded_bytes();
        !bytes.starts_with(b"-") && !bytes.iter().any(|byte| *byte == b'=' || *byte == b' ')
    });
    let name = match run {
        Some(run) if RUNNERS.contains(&program.as_str()) => file_name(run),
        _ => program,
    };
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name.chars().filter(plain).take(NAME_CAP).collect();
    let which = Scope::from_fields(command.iter().map(|argument| argument.as_encoded_bytes()));
    format!("{name}:{which}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &[&str]) -> String {
        label(&command.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_server_is_named_by_what_runs() {
        let name = |command: &[&str]| of(command).split(':').next().unwrap().to_owned();
        assert_eq!(name(&["npx", "-y", "@modelcontextprotocol/server-memory"]), "server-memory");
        assert_eq!(name(&["/opt/bin/my server", "--token", "x"]), "myserver");
        assert_eq!(name(&["python3", "-u", "serve.py"]), "serve.py");
        assert_eq!(name(&["npx", "--token", "SECRET", "pkg"]), "npx");
        assert_eq!(name(&["sh", "-c", "API_KEY=sk-1 exec srv"]), "sh");
    }

    #[test]
    fn other_arguments_make_another_server_and_do_not_show() {
        let (one, other) = (of(&["s", "--token", "secret"]), of(&["s", "--token", "other"]));
        assert_ne!(one, other);
        assert!(!one.contains("secret"));
        assert_eq!(one, of(&["s", "--token", "secret"]));
    }
}
