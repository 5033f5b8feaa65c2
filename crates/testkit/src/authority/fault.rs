//! Faults: single rules that an authority breaks on purpose.

use std::time::Duration;

/// One way to be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The metadata names another issuer.
    IssuerInMetadata(String),
    /// The callback names another issuer.
    IssuerInCallback(String),
    /// The callback names no issuer, though the metadata says that it does.
    NoIssuerInCallback,
    /// The protected resource metadata is about another resource.
    Resource(String),
    /// Tokens are for another audience than was asked for.
    Audience(String),
    /// These PKCE methods are supported; none: the metadata does not say.
    PkceMethods(Option<Vec<String>>),
    /// Tokens are of another type.
    TokenType(String),
    /// A field of the metadata has another value.
    Metadata(&'static str, String),
    /// The authorization servers of the protected resource.
    AuthorizationServers(Vec<String>),
    /// The pointer in the challenge.
    ChallengePointer(String),
    /// The metadata of the authority lies elsewhere.
    RedirectMetadata(String),
    /// Every refresh is refused with this error.
    RefuseRefresh(&'static str),
    /// The token endpoint fails with status 503.
    TokenEndpointDown,
    /// A refresh takes its time.
    SlowRefresh(Duration),
    /// A refresh brings no new refresh token.
    NoRotation,
    /// A login brings no refresh token.
    NoRefreshToken,
    /// Registered clients get a secret, which they have to bring.
    ClientSecrets,
    /// No fault: a client may be the URL of a document about it, which is not fetched here.
    ClientDocuments,
    /// The person says no.
    PersonSaysNo,
    /// The token endpoint redirects.
    RedirectToken(String),
    /// The metadata is of this many bytes.
    HugeMetadata(usize),
}
