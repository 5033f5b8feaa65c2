//! Login errors by what can be done about them, refusals of untrusted input, and text sanitizing.

use std::path::PathBuf;
use std::{fmt, io};

use thiserror::Error;
use url::Url;

/// The most characters of an untrusted text that are shown.
const MAX_SANITIZED_CHARS: usize = 300;

/// Why there is no token. Messages contain no secrets, and untrusted text is sanitized.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoginError {
    /// A person must log in.
    #[error(
        "{server} requires a login: run `atlatl login {}`, or pass a key with --header",
        shell_quote(server.as_str())
    )]
    Needed {
        /// The server.
        server: Url,
    },
    /// A person must log in with more scopes.
    #[error("{server} requires more scopes: run `{}`", upgrade(server, scopes))]
    Scope {
        /// The server.
        server: Url,
        /// The missing scopes, if they are safe to type.
        scopes: Vec<String>,
    },
    /// A server or its authorization server violated a rule.
    // Not the source of this error: its message would be printed twice.
    #[error("refused: {0}")]
    Refused(RuleViolation),
    /// The authorization server or the person denied the request.
    #[error("the authorization server refused: {message}")]
    Denied {
        /// The error of the server, sanitized.
        message: String,
    },
    /// A server was unreachable or its response was inconclusive. Stored tokens remain.
    #[error("no usable response from {endpoint} ({why}); your logins are unchanged, try again")]
    Unreachable {
        /// Host and path of the request.
        endpoint: String,
        /// The cause, sanitized.
        why: String,
    },
    /// The callback timed out.
    #[error("login timed out after {minutes} minutes")]
    TimedOut {
        /// The time limit.
        minutes: u64,
    },
    /// Another process holds the lock for too long.
    #[error("another process has locked {} for {seconds} s", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// The time limit.
        seconds: u64,
    },
    /// A directory or file for tokens is accessible to others.
    #[error("{} {why}: {fix}", path.display())]
    NotPrivate {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
        /// The command that fixes it.
        fix: String,
    },
    /// A file does not contain a login.
    #[error("{} is not a valid login file: remove it and log in again", path.display())]
    Damaged {
        /// Its path.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("cannot access {}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The callback listener could not be bound.
    #[error("cannot listen on a loopback address")]
    Listen {
        /// The error of the operating system.
        source: io::Error,
    },
}

impl From<RuleViolation> for LoginError {
    fn from(refusal: RuleViolation) -> Self {
        Self::Refused(refusal)
    }
}

fn upgrade(server: &Url, scopes: &[String]) -> String {
    let login = format!("atlatl login {}", shell_quote(server.as_str()));
    if scopes.is_empty() { login } else { format!("{login} --scope \"{}\"", scopes.join(" ")) }
}

/// A rule for servers and authorization servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Only `https`; `http` only between loopback addresses.
    Transport,
    /// A URL from a server leads to a public address, or stays on loopback.
    Address,
    /// A URL contains neither user name nor password, and is not too long.
    Form,
    /// Authorization server metadata is published (RFC 9728, RFC 8414).
    Metadata,
    /// The issuer in metadata and callback is the expected one (RFC 8414, RFC 9207).
    Issuer,
    /// The protected resource is the server itself (RFC 9728, RFC 8707).
    Resource,
    /// The authorization server supports PKCE with `S256`.
    Pkce,
    /// A token is a bearer token in printable ASCII.
    Token,
    /// A response is limited in size and no redirect to another origin.
    Answer,
}

impl Rule {
    fn text(self) -> &'static str {
        match self {
            Self::Transport => "https is required (http only between loopback addresses)",
            Self::Address => "a URL from a server must not lead to a private address",
            Self::Form => {
                "a URL must not contain a user name or password, and has at most 4096 bytes"
            }
            Self::Metadata => "the server must publish which authorization server it trusts",
            Self::Issuer => "the issuer must be the expected one",
            Self::Resource => "the protected resource must be the server itself",
            Self::Pkce => "the authorization server must support PKCE with S256",
            Self::Token => "a token must be a bearer token in printable ASCII",
            Self::Answer => "a response must be small and must not redirect to another origin",
        }
    }
}

/// A violated rule, with the input that violated it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleViolation {
    rule: Rule,
    evidence: String,
}

impl RuleViolation {
    /// Creates a violation of `rule`; `evidence` may be untrusted.
    pub(crate) fn new(rule: Rule, evidence: &str) -> Self {
        Self { rule, evidence: sanitize(evidence) }
    }

    /// The violated rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// The input that violated the rule, sanitized and truncated.
    pub fn evidence(&self) -> &str {
        &self.evidence
    }
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; seen: {}", self.rule.text(), self.evidence)
    }
}

impl std::error::Error for RuleViolation {}

/// Returns `text` with invisible characters escaped, on one line, truncated.
pub(crate) fn sanitize(text: &str) -> String {
    lro_core::excerpt(text, MAX_SANITIZED_CHARS).replace(['\r', '\n', '\t'], " ")
}

/// Quotes `text` as one word for a shell.
pub(crate) fn shell_quote(text: &str) -> String {
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
        assert_eq!(sanitize("a\u{1b}[2J\r\nb\u{202e}"), "a<U+001B>[2J  b<U+202E>");
        assert_eq!(sanitize(&"x".repeat(9_999)).chars().count(), MAX_SANITIZED_CHARS + 1);
    }

    #[test]
    fn words_are_quoted_for_the_shell_where_it_would_read_them() {
        assert_eq!(shell_quote("https://mcp.example.com/mcp"), "https://mcp.example.com/mcp");
        assert_eq!(shell_quote("https://h/$(touch x);'"), r"'https://h/$(touch x);'\'''");
    }
}
