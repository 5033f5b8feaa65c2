//! The one place that prints: findings and tables on stdout, progress and errors on stderr.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Prints one line of the command's answer.
pub fn line(text: impl Display) {
    // A closed pipe (`| head`) is the reader's choice, not a failure of the check.
    let _ = writeln!(stdout(), "{text}");
}

/// Prints one line about what is going on.
pub fn progress(text: impl Display) {
    let _ = writeln!(stderr(), "{text}");
}

/// Prints why the command could not finish, with its causes.
pub fn error(error: &anyhow::Error) {
    let _ = writeln!(stderr(), "error: {error:#}");
}

/// Prints each finding and the verdict of a check called `what`; true when there is none.
pub fn verdict(what: &str, findings: &[String]) -> bool {
    for finding in findings {
        line(format_args!("error: {finding}"));
    }
    match findings.len() {
        0 => line(format_args!("ok: {what}")),
        count => line(format_args!("failed: {what} ({count})")),
    }
    findings.is_empty()
}
