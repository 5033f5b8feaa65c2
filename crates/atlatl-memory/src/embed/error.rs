//! Errors of embedders, by what a caller can do about them.

use std::path::PathBuf;
use std::time::Duration;

/// The cause below one of our errors.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why there are no vectors.
///
/// No variant holds the API key: what an endpoint says is searched for it first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// Nobody answered, or somebody who is busy: the same call may succeed later.
    #[error("the embedding endpoint cannot be reached: {why}")]
    Unreachable {
        /// What happened.
        why: String,
        /// What the network said, where it did.
        source: Option<Cause>,
        /// How long the endpoint asked to be left alone (`Retry-After`), if it did.
        retry_after: Option<Duration>,
    },
    /// The endpoint will not do it: the key, the model's name or the texts have to change.
    #[error("the embedding endpoint refused with status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the endpoint said about it, shortened: text from outside, not to be trusted.
        message: String,
    },
    /// The endpoint said nonsense: it is no embedding endpoint, or it is broken.
    #[error("the embedding endpoint's answer is of no use: {why}")]
    Answer {
        /// What is wrong with it.
        why: String,
    },
    /// The local model cannot be used: the set-up has to change.
    #[error("the model in {} cannot be used: {why}", path.display())]
    Model {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What the system or the library said, where it did.
        source: Option<Cause>,
    },
    /// The model finds nothing in this text: keep it without a vector.
    #[error("text {index} has nothing in it that the model could embed")]
    Empty {
        /// Which of the texts, counted from 0.
        index: usize,
    },
    /// The key cannot go into a header: configure another.
    #[error("the API key is empty or has characters that no HTTP header can carry")]
    Key,
    /// The program was built without what the configuration asks for.
    #[error("this program was built without {what}; build it with `--features {feature}`")]
    NotBuilt {
        /// What is missing.
        what: &'static str,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
}

impl EmbedError {
    /// How long the endpoint asked to be left alone, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unreachable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same text fails again, whatever the state of the endpoint: it has nothing to embed,
    /// or the endpoint answered that the request itself is wrong (400, 413 or 422).
    pub(crate) fn is_refusal_of_text(&self) -> bool {
        matches!(self, Self::Empty { .. } | Self::Refused { status: 400 | 413 | 422, .. })
    }
}
