//! Embed: text turned into vectors by a real model.

mod backfill;
#[cfg(feature = "local")]
mod bert;
#[cfg(feature = "openai")]
mod circuit_breaker;
mod config;
mod endpoint;
mod error;
#[cfg(feature = "local")]
mod model_dir;
#[cfg(any(feature = "local", feature = "openai"))]
mod normalize;
#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "local")]
mod static_model;

use std::sync::Arc;

pub use backfill::{BackfillEvent, BackfillQueue, EmbeddingBackfill, embed_missing};
#[cfg(feature = "local")]
pub use bert::Bert;
pub use config::{EmbedderChoice, NotAChoice};
pub use endpoint::{Endpoint, NotAnEndpoint};
pub use error::EmbedError;
#[cfg(feature = "openai")]
pub use openai::{OpenAi, OpenAiLimits};
#[cfg(feature = "local")]
pub use static_model::Table;

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
        EmbedderChoice::Local { directory } => model_dir::open(directory).map(Some),
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
