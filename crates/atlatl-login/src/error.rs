//! The one error of this crate: by what can be done about it.

use std::{io, path::PathBuf};

use thiserror::Error;
use url::Url;

use crate::metadata_rules::Refusal;
use crate::sanitize::quoted;

/// Why there is no token. No text in it holds a secret, and foreign text is neutralised.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoginError {
    /// A person has to log in.
    #[error(
        "{server} wants a login: run `atlatl login {}`, or give a key with --header",
        quoted(server.as_str())
    )]
    Needed {
        /// The server.
        server: Url,
    },
    /// A person has to log in for more.
    #[error("{server} wants further rights: run `{}`", upgrade(server, scopes))]
    Scope {
        /// The server.
        server: Url,
        /// What it asked for, where that can be typed safely.
        scopes: Vec<String>,
    },
    /// A server or its authority broke a rule.
    // It says all that there is to say: as a cause it would be said twice.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The authority, or the person there, said no.
    #[error("the authorization server said no: {said}")]
    Denied {
        /// Its words, neutralised.
        said: String,
    },
    /// A server could not be asked, or gave no clear answer. Tokens that are kept stay.
    #[error("{asked} gave no answer that helps ({why}); no login was changed, try again")]
    Unreachable {
        /// Host and path of what was asked.
        asked: String,
        /// What went wrong, neutralised.
        why: String,
    },
    /// Nobody came back from the browser in time.
    #[error("no login within {minutes} minutes")]
    TimedOut {
        /// How long was waited.
        minutes: u64,
    },
    /// Another process refreshes, for too long.
    #[error("another process has held {} for {seconds} s", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// A directory or file for tokens is not private.
    #[error("{} {why}: {mend}", path.display())]
    NotPrivate {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
        /// The command that mends it.
        mend: String,
    },
    /// A file does not hold a login.
    #[error("{} does not hold a login: remove it and log in again", path.display())]
    Damaged {
        /// Which one.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("{} cannot be used", path.display())]
    File {
        /// Which file or directory.
        path: PathBuf,
        /// How it failed.
        source: io::Error,
    },
    /// No redirect can be received.
    #[error("no address on loopback to listen on")]
    Listen {
        /// How it failed.
        source: io::Error,
    },
}

impl From<Refusal> for LoginError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn upgrade(server: &Url, scopes: &[String]) -> String {
    let login = format!("atlatl login {}", quoted(server.as_str()));
    if scopes.is_empty() { login } else { format!("{login} --scope \"{}\"", scopes.join(" ")) }
}
