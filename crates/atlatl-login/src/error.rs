//! Login errors by what can be done about them, refusals of untrusted input, and text sanitizing.

use std::path::PathBuf;
use std::{fmt, io};

use thiserror::Error;
use url::Url;

/// What is shown of a text at most.
const LIMIT: usize = 300;

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

/// A rule that a server or authority broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Only `https`, and `http` between loopback addresses.
    Transport,
    /// A URL that a server gave leads to a public address, or stays on loopback.
    Address,
    /// A URL holds no user name, no password, and is not absurdly long.
    Form,
    /// Authorization server metadata is published (RFC 9728, RFC 8414).
    Metadata,
    /// The issuer in metadata and callback is the one that was asked for (RFC 8414, RFC 9207).
    Issuer,
    /// The protected resource is the server itself (RFC 9728, RFC 8707).
    Resource,
    /// The authority supports PKCE with `S256`.
    Pkce,
    /// A token is a bearer token in printable ASCII.
    Token,
    /// An answer is of a bounded size and no redirect to another origin.
    Answer,
}

impl Rule {
    fn text(self) -> &'static str {
        match self {
            Self::Transport => "https is needed (http only between loopback addresses)",
            Self::Address => "a URL that a server gives may not lead to a private address",
            Self::Form => {
                "a URL may hold neither user name nor password, and no more than 4096 bytes"
            }
            Self::Metadata => "the server must publish which authorization server it trusts",
            Self::Issuer => "the issuer must be the one that was asked",
            Self::Resource => "the protected resource must be the server itself",
            Self::Pkce => "the authorization server must support PKCE with S256",
            Self::Token => "a token must be a bearer token in printable ASCII",
            Self::Answer => "an answer must be small and may not lead to another origin",
        }
    }
}

/// A broken rule, with what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    rule: Rule,
    seen: String,
}

impl Refusal {
    /// `rule` was broken by `seen`, which may be anybody's text.
    pub(crate) fn new(rule: Rule, seen: &str) -> Self {
        Self { rule, seen: shown(seen) }
    }

    /// The rule that was broken.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// What was seen, made harmless for the eye and cut.
    pub fn seen(&self) -> &str {
        &self.seen
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; seen: {}", self.rule.text(), self.seen)
    }
}

impl std::error::Error for Refusal {}

/// `text` with hidden characters made visible, on one line, cut where it is long.
pub(crate) fn shown(text: &str) -> String {
    lro_core::excerpt(text, LIMIT).replace(['\r', '\n', '\t'], " ")
}

/// `text` as one word of a shell's command line.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:._~%-+=,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_neither_steers_nor_floods() {
        assert_eq!(shown("a\u{1b}[2J\r\nb\u{202e}"), "a<U+001B>[2J  b<U+202E>");
        assert_eq!(shown(&"x".repeat(9_999)).chars().count(), LIMIT + 1);
    }

    #[test]
    fn words_are_quoted_for_the_shell_where_it_would_read_them() {
        assert_eq!(quoted("https://mcp.example.com/mcp"), "https://mcp.example.com/mcp");
        assert_eq!(quoted("https://h/$(touch x);'"), r"'https://h/$(touch x);'\'''");
    }
}
