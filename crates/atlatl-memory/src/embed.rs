//! Embed: text turned into vectors by a real model.

/// Turns text into vectors.
pub trait Embedder: Send + Sync {
    /// Which model, and which version of it: vectors of different models never meet.
    fn model(&self) -> &str;
    /// How many numbers a vector has.
    fn dimensions(&self) -> usize;
    /// One vector of length 1 per text, in their order. Blocking.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Why there is no vector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// Nobody answers; trying again may help.
    #[error("the embedder cannot be reached: {why}")]
    Unreachable {
        /// What happened.
        why: String,
    },
}
