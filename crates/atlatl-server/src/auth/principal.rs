//! The authenticated principal and its scopes.

use std::fmt;

/// The maximum length of a tenant's name, as in the store.
const MAX_TENANT_LEN: usize = 128;
/// The maximum length of a subject, which appears in logs.
const MAX_SUBJECT_LEN: usize = 200;

/// An authenticated principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Principal {
    /// The tenant whose memories it may access.
    pub tenant: String,
    /// The subject within the tenant: `key:` and the id of an API key, or the subject of a token.
    pub subject: String,
    /// The granted scopes.
    pub scopes: Scopes,
}

/// Why a tenant and a subject do not form a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalError {
    /// The tenant's name is not valid.
    #[error("invalid tenant name: expected 1 to {MAX_TENANT_LEN} bytes without control characters")]
    Tenant,
    /// The subject's name is not valid.
    #[error("invalid subject: expected 1 to {MAX_SUBJECT_LEN} bytes without control characters")]
    Subject,
}

impl Principal {
    /// Creates a principal, if both names are valid.
    pub fn new(tenant: &str, subject: &str, scopes: Scopes) -> Result<Self, PrincipalError> {
        if !is_tenant(tenant) {
            return Err(PrincipalError::Tenant);
        }
        if !is_subject(subject) {
            return Err(PrincipalError::Subject);
        }
        Ok(Self { tenant: tenant.to_owned(), subject: subject.to_owned(), scopes })
    }
}

/// Returns whether `name` is a valid tenant name.
pub fn is_tenant(name: &str) -> bool {
    is_name(name, MAX_TENANT_LEN)
}

/// Returns whether `name` is a valid subject.
pub(super) fn is_subject(name: &str) -> bool {
    is_name(name, MAX_SUBJECT_LEN)
}

fn is_name(text: &str, max_len: usize) -> bool {
    !text.is_empty() && text.len() <= max_len && !text.contains(char::is_control)
}

/// A scope. None implies another: a principal that may write and read has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AuthScope {
    /// Recall, search and list memories, and read stored results.
    Read,
    /// Capture, update and delete memories.
    Write,
    /// Read operational data such as metrics. It gives no access to memories.
    Admin,
}

impl AuthScope {
    /// All scopes, in the order in which they are written.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Returns the name of the scope in tokens and challenges.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "memory:read",
            Self::Write => "memory:write",
            Self::Admin => "memory:admin",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Admin => 4,
        }
    }
}

impl fmt::Display for AuthScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A set of scopes. The empty set allows nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

impl Scopes {
    /// The scopes of a client of the memory server.
    pub const MEMORY: Self = Self(3);

    /// Parses scopes separated by single spaces (RFC 6749, 3.3). Unknown scopes are ignored, since
    /// an authorization server may grant others.
    pub fn parse(text: &str) -> Self {
        Self::from_words(text.split(' '))
    }

    /// Collects the known scopes among `words`.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let known = |word| AuthScope::ALL.into_iter().find(|scope| scope.word() == word);
        words.into_iter().filter_map(known).collect()
    }

    /// Returns whether the set contains `scope`.
    pub fn has(self, scope: AuthScope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Iterates over the scopes in order.
    pub fn iter(self) -> impl Iterator<Item = AuthScope> {
        AuthScope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// Returns the scopes that are in both sets.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<AuthScope> for Scopes {
    fn from_iter<I: IntoIterator<Item = AuthScope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl From<AuthScope> for Scopes {
    fn from(scope: AuthScope) -> Self {
        Self(scope.bit())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, scope) in self.iter().enumerate() {
            if n > 0 {
                f.write_str(" ")?;
            }
            f.write_str(scope.word())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scopes({self})")
    }
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

    #[test]
    fn scopes_are_written_in_order_and_read_back() {
        let scopes = Scopes::from_iter([AuthScope::Admin, AuthScope::Read, AuthScope::Admin]);
        assert_eq!(scopes.to_string(), "memory:read memory:admin");
        assert_eq!(format!("{scopes:?}"), "Scopes(memory:read memory:admin)");
        assert_eq!(Scopes::parse(&scopes.to_string()), scopes);
        assert_eq!(Scopes::MEMORY.to_string(), "memory:read memory:write");
        assert_eq!(AuthScope::Admin.to_string(), "memory:admin");
    }

    #[test]
    fn other_words_say_nothing() {
        let text = "openid memory:write memory:* Memory:read memory:readonly memory:read\t";
        assert_eq!(Scopes::parse(text), Scopes::from(AuthScope::Write));
        assert!(Scopes::parse("").is_empty());
        assert!(Scopes::parse("memory: read").is_empty());
    }

    #[test]
    fn no_scope_implies_another() {
        for given in AuthScope::ALL {
            for asked in AuthScope::ALL {
                assert_eq!(Scopes::from(given).has(asked), given == asked, "{given} {asked}");
            }
        }
    }
}
