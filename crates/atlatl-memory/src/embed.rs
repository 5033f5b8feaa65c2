//! Embed: text turned into vectors by a real model.

mod backfill;
#[cfg(feature = "local")]
mod bert;
#[cfg(feature = "openai")]
mod circuit_breaker;
mod config;
#[cfg(feature = "local")]
mod local_model;
#[cfg(feature = "openai")]
mod openai;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::backfill::{BackfillEvent, BackfillQueue, EmbeddingBackfill, embed_missing};
#[cfg(feature = "local")]
pub use self::bert::Bert;
pub use self::config::{EmbedderChoice, Endpoint, NotAChoice, NotAnEndpoint};
#[cfg(feature = "local")]
pub use self::local_model::Table;
#[cfg(feature = "openai")]
pub use self::openai::{OpenAi, OpenAiLimits};

/// What every model has a vector for.
const CHECKED_TEXT: &str = "one short sentence";

/// Turns text into vectors.
///
/// Blocking on purpose: a model computes, and a call over a network is one of many that a worker
/// makes in turn. A caller in an asynchronous runtime wraps a call in its `spawn_blocking`.
///
/// # Contract
///
/// 1. **One vector per text**, in the order of the texts; no texts, no vectors. A call gives all of
///    them or an error, never some.
/// 2. **Length 1.** Every vector has [`dimensions`](Self::dimensions) finite numbers whose squares
///    sum up to 1, so that a dot product is a cosine.
/// 3. **Same text, same vector**, alone or among others, today or after a restart, as long as
///    [`model`](Self::model) says the same. Only rounding may differ: less than 0.0001 a number.
/// 4. **Nothing made up.** A vector comes out of the model. A text in which the model finds nothing
///    is [`Empty`](EmbedError::Empty); white space alone always is. No text is hashed into a vector.
/// 5. **Long texts are cut** where the model's input ends, not refused, if the model is local. An
///    endpoint may refuse them.
/// 6. **No environment.** Addresses, keys and paths came in as arguments, and no key goes out again
///    in an error or in `Debug`.
pub trait Embedder: Send + Sync {
    /// Which model, and which version of it: vectors of different models never meet.
    fn model(&self) -> &str;

    /// How many numbers a vector has.
    fn dimensions(&self) -> usize;

    /// One vector of length 1 per text, in their order. Blocking. Same text → same vector.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Whether it works at all, found out with a short text and soon.
    fn check(&self) -> Result<(), EmbedError> {
        self.embed(&[CHECKED_TEXT]).map(drop)
    }

    /// The vector of a question, whose asker waits: who cannot answer soon fails soon.
    fn embed_question(&self, question: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(self.embed(&[question])?.pop().unwrap_or_default())
    }
}

/// Opens the embedder of that choice; [`EmbedderChoice::None`] opens none.
///
/// An endpoint is asked once, since only its answer says how many dimensions there are; one that is
/// away is asked again later. A local model is read into memory. The key is for endpoints alone.
pub fn open(
    choice: &EmbedderChoice,
    api_key: Option<String>,
) -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    match choice {
        EmbedderChoice::None => Ok(None),
        #[cfg(feature = "openai")]
        EmbedderChoice::OpenAi { endpoint, model } => {
            Ok(Some(Arc::new(circuit_breaker::Remote::open(endpoint, model, api_key)?)))
        }
        #[cfg(not(feature = "openai"))]
        EmbedderChoice::OpenAi { .. } => {
            drop(api_key);
            Err(EmbedError::NotBuilt { what: "endpoints", feature: "openai" })
        }
        #[cfg(feature = "local")]
        EmbedderChoice::Local { directory } => local_model::open(directory).map(Some),
        #[cfg(not(feature = "local"))]
        EmbedderChoice::Local { .. } => {
            Err(EmbedError::NotBuilt { what: "local models", feature: "local" })
        }
    }
}

/// White space is no text in any model, and endpoints differ in what they make of it.
#[cfg(any(feature = "local", feature = "openai"))]
fn none_blank(texts: &[&str]) -> Result<(), EmbedError> {
    match texts.iter().position(|text| text.trim().is_empty()) {
        Some(index) => Err(EmbedError::Empty { index }),
        None => Ok(()),
    }
}

// --- Errors of embedders, by what a caller can do about them.

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

// --- Normalizes vectors to length 1.

/// The vector with length 1, or `None` if it has no direction: empty, all zeros, or not finite.
#[cfg(any(feature = "local", feature = "openai"))]
pub(crate) fn normalize(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    // In f64, where the square of no f32 overflows.
    let squares: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let length = squares.sqrt();
    if !length.is_finite() || length == 0.0 {
        return None;
    }
    for x in &mut vector {
        #[expect(clippy::cast_possible_truncation, reason = "a number between -1 and 1")]
        {
            *x = (f64::from(*x) / length) as f32;
        }
    }
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::normalize;

    #[test]
    fn brings_small_and_huge_vectors_to_length_1() {
        assert_eq!(normalize(vec![3.0, 4.0]), Some(vec![0.6, 0.8]));
        assert_eq!(normalize(vec![0.0, 3.0e38, 0.0]), Some(vec![0.0, 1.0, 0.0]));
        assert_eq!(normalize(vec![1.0e-45]), Some(vec![1.0]));
    }

    #[test]
    fn gives_no_direction_to_what_has_none() {
        for none in [vec![], vec![0.0, -0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY]] {
            assert_eq!(normalize(none), None);
        }
    }
}
