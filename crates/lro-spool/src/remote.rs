//! Remote: why a storage over a network did not do what it was asked.

use lro_core::neutralise;

/// How much of a storage's own words is kept.
const TEXT_CAP: usize = 300;

/// What a storage over a network said, or that it said nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}{text}", if text.is_empty() { "" } else { ": " })]
pub struct RemoteError {
    kind: RemoteKind,
    /// From outside: short, and without characters that hide.
    text: String,
}

/// What a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteKind {
    /// No answer in time: wait, or allow for more time.
    Time,
    /// The credentials do not allow it: check them.
    Refused,
    /// What it was given cannot be right: check the URL and the options.
    Misused,
    /// Anything else: try again later.
    Failed,
}

impl std::fmt::Display for RemoteKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "no answer in time",
            Self::Refused => "the credentials do not allow it",
            Self::Misused => "the URL or an option is wrong",
            Self::Failed => "it failed",
        })
    }
}

impl RemoteError {
    /// Keeps the beginning of what the storage said.
    #[cfg_attr(not(feature = "object"), expect(dead_code, reason = "no other storage is remote"))]
    pub(crate) fn new(kind: RemoteKind, text: &str) -> Self {
        let short: String = text.chars().take(TEXT_CAP).collect();
        // One line: it stands behind a colon.
        let text = neutralise(&short).split_whitespace().collect::<Vec<_>>().join(" ");
        Self { kind, text }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> RemoteKind {
        self.kind
    }
}
