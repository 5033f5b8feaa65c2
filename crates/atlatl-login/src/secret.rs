//! Secrets that never appear in debug output or messages.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A text that is never printed. The one way to its content is [`Secret::expose`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for a request or a file of mode 0600, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

/// An access token, to be sent to its server.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(Secret);

impl Bearer {
    pub(crate) fn new(token: Secret) -> Self {
        Self(token)
    }

    pub(crate) fn token(&self) -> &Secret {
        &self.0
    }

    /// The token in what the header `Authorization` held.
    pub fn of_header(value: &str) -> Option<Self> {
        value.strip_prefix("Bearer ").map(|token| Self(Secret::new(token)))
    }

    /// What the header `Authorization` holds: `Bearer …`, in printable ASCII.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0.expose())
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Bearer(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let bearer = Bearer::new(Secret::new("s3cret"));
        assert!(
            !format!("{bearer:?} {:?} {:#?}", bearer.token(), Some(&bearer)).contains("s3cret")
        );
        assert_eq!(bearer.header(), "Bearer s3cret");
    }
}
