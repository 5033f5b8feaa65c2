//! Advisories: every exception in `deny.toml` has a reason and a condition that ends it.

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::repository::Repository;

const CONFIG: &str = "deny.toml";

/// The words that begin the end condition within a reason.
const END: &str = "Ends when ";

/// Reads the list of exceptions.
pub(super) fn check(repository: &Repository) -> Result<Vec<String>> {
    findings(&repository.read(CONFIG)?)
}

fn findings(config: &str) -> Result<Vec<String>> {
    let config: Table = config.parse().context(CONFIG)?;
    let ignored = config.get("advisories").and_then(|advisories| advisories.get("ignore"));
    let ignored = ignored.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let open_ended = ignored.iter().filter(|entry| {
        let reason = entry.get("reason").and_then(Value::as_str).unwrap_or_default();
        reason.split_once(END).is_none_or(|(why, end)| why.is_empty() || end.is_empty())
    });
    Ok(open_ended
        .map(|entry| {
            let id = entry.get("id").unwrap_or(entry);
            format!("{CONFIG}: {id} needs a reason and `{END}…`")
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn g09_an_exception_needs_a_reason_and_an_end() {
        let config = "[advisories]\nignore = [\n\"A-1\",\n\
            { id = \"A-2\", reason = \"It is not reachable.\" },\n\
            { id = \"A-3\", reason = \"Ends when it is fixed.\" },\n\
            { id = \"A-4\", reason = \"It is not reachable. Ends when it is fixed.\" },\n]\n";
        let found = findings(config).unwrap();
        assert_eq!(
            found,
            ["\"A-1\"", "\"A-2\"", "\"A-3\""]
                .map(|id| format!("deny.toml: {id} needs a reason and `Ends when …`"))
        );
        assert!(findings("[bans]\n").unwrap().is_empty());
    }

    /// Runs the script of the gate with the exceptions of `deny.toml` reduced to `ignore`.
    fn run(ignore: &[Value]) -> (bool, String) {
        let repository = Repository::open().unwrap();
        let mut config: Table = repository.read(CONFIG).unwrap().parse().unwrap();
        config["advisories"]["ignore"] = ignore.to_vec().into();
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), config.to_string()).unwrap();
        let output = Command::new(repository.path(".ci/advisories")).arg(file.path()).output();
        let output = output.expect(".ci/advisories starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn g09_every_advisory_without_an_exception_fails() {
        let repository = Repository::open().unwrap();
        let config: Table = repository.read(CONFIG).unwrap().parse().unwrap();
        let exceptions = config["advisories"]["ignore"].as_array().unwrap();
        let (passed, text) = run(exceptions);
        assert!(passed && text.contains("advisory database of "), "{text}");

        let (passed, text) = run(&[]);
        assert!(!passed, "{text}");
        for exception in exceptions {
            let id = exception["id"].as_str().unwrap();
            assert!(text.contains(id), "{id} is not reported: {text}");
        }

        // An exception that nothing needs fails as well, so that none outlives its reason.
        let unused: Table = "id = \"RUSTSEC-2016-0001\"\nreason = \"x\"".parse().unwrap();
        let (passed, text) = run(&[exceptions.as_slice(), &[unused.into()]].concat());
        assert!(!passed && text.contains("RUSTSEC-2016-0001"), "{text}");
    }
}
