//! Text embeddings: the embedder trait, its errors, and the implementations.

mod backfill;
#[cfg(feature = "local")]
mod bert;
#[cfg(feature = "openai")]
mod circuit_breaker;
mod config;
mod fusion_weights;
#[cfg(feature = "local")]
mod lazy;
#[cfg(feature = "local")]
mod local_model;
#[cfg(feature = "local")]
mod manifest;
#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "local")]
mod quantize;
#[cfg(feature = "local")]
mod weights;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::backfill::{BackfillEvent, BackfillQueue, EmbeddingBackfill, embed_missing};
#[cfg(feature = "local")]
pub use self::bert::Bert;
pub use self::config::{EmbedderChoice, EmbeddingEndpoint, InvalidEmbedderChoice, InvalidEndpoint};
pub use self::fusion_weights::{FusionWeights, Scripts};
#[cfg(feature = "local")]
pub use self::local_model::StaticModel;
#[cfg(feature = "local")]
pub use self::manifest::{
    InstalledModel, InvalidManifest, ModelDescription, ModelKind, ModelManifest, installed_models,
};
#[cfg(feature = "openai")]
pub use self::openai::{OpenAi, OpenAiLimits};
#[cfg(feature = "local")]
pub use self::quantize::quantize;

/// A text for which every model has a vector.
const CHECK_TEXT: &str = "one short sentence";

/// Turns text into vectors.
///
/// The methods block: a model computes, and a remote call is one of many that a worker makes in turn.
/// An asynchronous caller wraps a call in its runtime's `spawn_blocking`.
///
/// # Contract
///
/// 1. **One vector per text**, in the order of the texts; no texts, no vectors. A call returns all of
///    them or an error, never some.
/// 2. **Length 1.** Every vector has [`dimensions`](Self::dimensions) finite numbers whose squares
///    sum up to 1, so that a dot product is a cosine.
/// 3. **Deterministic.** The same text gives the same vector, alone or in a batch, now or after a
///    restart, as long as [`model`](Self::model) returns the same name. Only rounding may differ, by
///    less than 0.0001 per number.
/// 4. **Real vectors only.** A vector comes from the model. A text in which the model finds nothing
///    is [`Empty`](EmbedError::Empty); white space always is. No text is hashed into a vector.
/// 5. **Long texts are truncated** to the model's input length, not refused, if the model is local. An
///    endpoint may refuse them.
/// 6. **No environment.** Addresses, keys and paths are arguments, and no key appears in an error or
///    in `Debug`.
pub trait Embedder: Send + Sync {
    /// Returns the name and version of the model. Vectors of different models are never compared.
    fn model(&self) -> &str;

    /// Returns the number of dimensions of a vector.
    fn dimensions(&self) -> usize;

    /// Returns how this model's cosines are combined with words.
    fn fusion(&self) -> FusionWeights {
        FusionWeights::default()
    }

    /// Returns whether the model has a token of its own for a lowercase word. Such a word is not a
    /// misspelling of another. Must not wait; an embedder that does not know its tokens returns
    /// `false`.
    fn knows_word(&self, _word: &str) -> bool {
        false
    }

    /// Embeds a batch: one vector of length 1 per text, in the order of the texts. Blocking and
    /// deterministic.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Checks with a short text and a short timeout whether the embedder works.
    fn check(&self) -> Result<(), EmbedError> {
        self.embed(&[CHECK_TEXT]).map(drop)
    }

    /// Embeds a search query. A user waits for the result, so an embedder that cannot answer soon
    /// fails soon.
    fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(self.embed(&[query])?.pop().unwrap_or_default())
    }
}

/// Opens the configured embedder; [`EmbedderChoice::None`] opens none, and neither does
/// [`EmbedderChoice::Auto`], which has to be [resolved](EmbedderChoice::resolve) first.
///
/// An endpoint is called once, since only its response reveals the number of dimensions; one that
/// is unreachable is called again later. A local model is read into memory. The key is used for
/// endpoints only.
pub fn open(
    choice: &EmbedderChoice,
    api_key: Option<String>,
) -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    match choice {
        EmbedderChoice::None | EmbedderChoice::Auto => Ok(None),
        #[cfg(feature = "openai")]
        EmbedderChoice::OpenAi { endpoint, model } => {
            Ok(Some(Arc::new(circuit_breaker::RemoteEmbedder::open(endpoint, model, api_key)?)))
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

/// Opens the configured embedder like [`open`], but loads a local model by its first use, in the
/// background: a query waits for it at most `query_timeout` and then fails with
/// [`EmbedError::Loading`], a batch waits as long as it takes. A local model that cannot be used
/// fails when it is used.
pub fn open_lazily(
    choice: &EmbedderChoice,
    api_key: Option<String>,
    #[cfg_attr(not(feature = "local"), expect(unused_variables, reason = "for local models"))]
    query_timeout: Duration,
) -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    #[cfg(feature = "local")]
    if let EmbedderChoice::Local { directory } = choice {
        return Ok(Some(Arc::new(lazy::LazyModel::new(directory, query_timeout))));
    }
    open(choice, api_key)
}

/// Checks a local model without loading it: that its directory exists, and that the manifest is
/// valid and states the size of the weights.
#[cfg(feature = "local")]
pub fn check_directory(directory: &std::path::Path) -> Result<(), EmbedError> {
    local_model::ModelDir::new(directory).map(drop)
}

/// Rejects texts of white space only, which endpoints treat differently.
#[cfg(any(feature = "local", feature = "openai"))]
fn reject_blank(texts: &[&str]) -> Result<(), EmbedError> {
    match texts.iter().position(|text| text.trim().is_empty()) {
        Some(index) => Err(EmbedError::Empty { index }),
        None => Ok(()),
    }
}

/// The underlying error of a library.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a text could not be embedded.
///
/// No variant contains the API key: it is removed from messages of an endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The endpoint cannot be reached or is busy. The same call may succeed later.
    #[error("cannot reach the embedding endpoint: {why}")]
    Unreachable {
        /// What happened.
        why: String,
        /// The error of the network, or the shortened message of the endpoint. It is untrusted text, and
        /// may quote the texts that it was sent.
        source: Option<Cause>,
        /// The delay that the endpoint asked for (`Retry-After`), if it did.
        retry_after: Option<Duration>,
    },
    /// The endpoint refused the request: the key, the model's name or the texts have to change.
    #[error("the embedding endpoint returned status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The shortened message of the endpoint. It is untrusted text.
        message: String,
    },
    /// The response is not valid: the address is no embedding endpoint, or the endpoint is broken.
    #[error("invalid response from the embedding endpoint: {why}")]
    InvalidResponse {
        /// What is wrong with it.
        why: String,
    },
    /// The local model cannot be used: the configuration has to change.
    #[error("cannot use the embedding model in {}: {why}", path.display())]
    Model {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// The error of the system or the library, if there is one.
        source: Option<Cause>,
    },
    /// The endpoint failed a moment ago and is not called. The same call may succeed later.
    #[error("the embedding endpoint failed recently and is not called for a while")]
    CircuitOpen,
    /// The local model is still being loaded. The same call may succeed later.
    #[error("the embedding model is still loading")]
    Loading,
    /// The model has no vector for this text. Store the memory without one.
    #[error("text {index} contains nothing that the model can embed")]
    Empty {
        /// The index of the text, from 0.
        index: usize,
    },
    /// The key cannot be sent in a header. Configure another.
    #[error("the API key is empty or contains characters that are invalid in an HTTP header")]
    InvalidKey,
    /// The program was built without a feature that the configuration needs.
    #[error("this program was built without {what}; build it with `--features {feature}`")]
    NotBuilt {
        /// What is missing.
        what: &'static str,
        /// The cargo feature that enables it.
        feature: &'static str,
    },
}

impl EmbedError {
    /// Returns the delay that the endpoint asked for, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unreachable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns whether the same text fails again regardless of the endpoint's state: there is
    /// nothing to embed, or the endpoint rejected the request itself (400, 413 or 422).
    pub(crate) fn is_refusal_of_text(&self) -> bool {
        matches!(self, Self::Empty { .. } | Self::Refused { status: 400 | 413 | 422, .. })
    }
}

/// Scales a vector to length 1. Returns `None` if it has no direction: empty, all zeros, or not
/// finite.
#[cfg(any(feature = "local", feature = "openai"))]
pub(crate) fn normalize(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    // In `f64`, since the square of an `f32` can overflow.
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

#[cfg(all(test, any(feature = "local", feature = "openai")))]
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
