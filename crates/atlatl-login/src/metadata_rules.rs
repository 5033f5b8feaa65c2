//! Validation rules for the metadata of an authorization server.

use std::fmt;

use crate::sanitize::shown;

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
