//! The authenticated principal: tenant, subject and scopes.

use crate::auth::scope::Scopes;

/// As the store has it: a longer name would be refused there.
const LONGEST_TENANT: usize = 128;
/// Authorities name people by a few dozen bytes; what is longer would only fill logs.
const LONGEST_SUBJECT: usize = 200;

/// Whoever was let in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Principal {
    /// Whose memories are asked for.
    pub tenant: String,
    /// Who it is within the tenant: `key:` and the id of an API key, or the subject of a token.
    pub subject: String,
    /// What may be done.
    pub scopes: Scopes,
}

/// Why somebody cannot be a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalError {
    /// The tenant has no name that a store takes.
    #[error("a tenant's name has 1 to {LONGEST_TENANT} bytes and no control characters")]
    Tenant,
    /// The subject has no name.
    #[error("a subject has 1 to {LONGEST_SUBJECT} bytes and no control characters")]
    Subject,
}

impl Principal {
    /// `subject` of `tenant`, if both have names.
    pub fn new(tenant: &str, subject: &str, scopes: Scopes) -> Result<Self, PrincipalError> {
        if !is_tenant(tenant) {
            return Err(PrincipalError::Tenant);
        }
        if !is_name(subject, LONGEST_SUBJECT) {
            return Err(PrincipalError::Subject);
        }
        Ok(Self { tenant: tenant.to_owned(), subject: subject.to_owned(), scopes })
    }
}

/// Whether a tenant may be called so.
pub fn is_tenant(name: &str) -> bool {
    is_name(name, LONGEST_TENANT)
}

fn is_name(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_printable() {
        let tenant = |name: &str| Principal::new(name, "ann", Scopes::default()).map(|p| p.tenant);
        for good in ["a", "Ärzte & Söhne", &"x".repeat(128), "a b", ".."] {
            assert_eq!(tenant(good).as_deref(), Ok(good));
        }
        for bad in ["", &"x".repeat(129), "a\n", "\0", "a\u{85}b", &"é".repeat(65)] {
            assert_eq!(tenant(bad), Err(PrincipalError::Tenant), "{bad:?}");
        }
        let subject = |name: &str| Principal::new("a", name, Scopes::default()).map(|p| p.subject);
        assert!(subject(&"x".repeat(200)).is_ok());
        for bad in ["", &"x".repeat(201), "a\u{7f}"] {
            assert_eq!(subject(bad), Err(PrincipalError::Subject), "{bad:?}");
        }
    }
}
