//! Why a token is refused: a closed list of reasons for the log, the audit log and metrics.
//!
//! A client gets one of three texts, whatever the reason: details would help an attacker.

use std::fmt;

/// Why a token gives no access. The reason contains nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is not a JWT, or too long.
    #[error("not a signed token")]
    Malformed,
    /// It has another type, contains a key, or requires an unsupported extension.
    #[error("unsupported token header")]
    Header,
    /// The signature algorithm is not supported, or does not match the key.
    #[error("unsupported signature algorithm")]
    Algorithm,
    /// No key has its id. The authorization server may have rotated its keys: fetch them and verify
    /// again.
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    /// The signature is not valid.
    #[error("invalid token signature")]
    Signature,
    /// It has another issuer.
    #[error("the token is from another issuer")]
    Issuer,
    /// The keys of its issuer cannot be fetched.
    #[error("the keys of the issuer are unavailable")]
    IssuerUnavailable,
    /// It has another audience.
    #[error("the token is for another audience")]
    Audience,
    /// A time is not a whole number of seconds.
    #[error("invalid time claims in the token")]
    Times,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet, or the issuer's clock is ahead.
    #[error("the token is not valid yet")]
    NotYet,
    /// It lacks its expiry, or the claim with the subject or the tenant.
    #[error("a required claim is missing in the token")]
    MissingClaim,
    /// Its subject is not valid.
    #[error("invalid subject in the token")]
    Subject,
    /// Its tenant is not valid.
    #[error("invalid tenant in the token")]
    Tenant,
    /// It names a tenant that its issuer may not name.
    #[error("the issuer may not name this tenant")]
    TenantNotAllowed,
    /// No rule of the issuer matches it.
    #[error("no rule of the issuer matches the token")]
    NoRule,
    /// No rule matches, and the issuer left out a claim of the rules because it has too many values.
    #[error("the issuer left out groups because the caller has too many")]
    GroupsOverage,
    /// Rules for several tenants match it.
    #[error("the rules of the issuer give the token several tenants")]
    AmbiguousTenant,
}

/// How a client is answered if its token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// The token proves nothing.
    Invalid,
    /// The token is valid, and gives access to no tenant.
    NoAccess,
    /// The token cannot be verified at the moment.
    Unavailable,
}

impl TokenError {
    /// All reasons.
    pub const ALL: [Self; 18] = [
        Self::Malformed,
        Self::Header,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Issuer,
        Self::IssuerUnavailable,
        Self::Audience,
        Self::Times,
        Self::Expired,
        Self::NotYet,
        Self::MissingClaim,
        Self::Subject,
        Self::Tenant,
        Self::TenantNotAllowed,
        Self::NoRule,
        Self::GroupsOverage,
        Self::AmbiguousTenant,
    ];

    /// Returns the name in the log, the audit log and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Header => "header_not_allowed",
            Self::Algorithm => "algorithm_not_allowed",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "bad_signature",
            Self::Issuer => "unknown_issuer",
            Self::IssuerUnavailable => "issuer_unavailable",
            Self::Audience => "wrong_audience",
            Self::Times => "invalid_time",
            Self::Expired => "expired",
            Self::NotYet => "not_yet_valid",
            Self::MissingClaim => "missing_claim",
            Self::Subject => "invalid_subject",
            Self::Tenant => "invalid_tenant",
            Self::TenantNotAllowed => "tenant_not_allowed",
            Self::NoRule => "no_rule",
            Self::GroupsOverage => "groups_overage",
            Self::AmbiguousTenant => "ambiguous_tenant",
        }
    }

    /// Returns whether the configuration of the server or of the issuer may be the cause, so that an
    /// administrator has to look at it.
    pub fn needs_attention(self) -> bool {
        matches!(
            self,
            Self::IssuerUnavailable
                | Self::Audience
                | Self::MissingClaim
                | Self::Subject
                | Self::Tenant
                | Self::TenantNotAllowed
                | Self::NoRule
                | Self::GroupsOverage
                | Self::AmbiguousTenant
        )
    }

    pub(crate) fn kind(self) -> RefusalKind {
        match self {
            Self::IssuerUnavailable => RefusalKind::Unavailable,
            Self::TenantNotAllowed | Self::NoRule | Self::GroupsOverage | Self::AmbiguousTenant => {
                RefusalKind::NoAccess
            }
            _ => RefusalKind::Invalid,
        }
    }
}

/// A refused token: the reason, and what is known of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRefusal {
    /// The reason.
    pub reason: TokenError,
    /// The configured name of the issuer. The signature may not be verified.
    pub issuer: Option<String>,
    /// The subject, if the token itself is valid.
    pub subject: Option<String>,
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason.kind() {
            RefusalKind::Invalid => "invalid or expired token",
            RefusalKind::NoAccess => "the token gives access to no tenant of this server",
            RefusalKind::Unavailable => "authentication is temporarily unavailable",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn g47_reasons_have_names_of_their_own_and_clients_are_told_three_texts() {
        let names: BTreeSet<&str> = TokenError::ALL.into_iter().map(TokenError::name).collect();
        assert_eq!(names.len(), TokenError::ALL.len());
        let is_label = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(names.iter().all(is_label), "{names:?}");
        let text = |reason| TokenRefusal { reason, issuer: None, subject: None }.to_string();
        let texts: BTreeSet<String> = TokenError::ALL.into_iter().map(text).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
    }
}
