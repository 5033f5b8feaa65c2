//! OpenAI: vectors from an endpoint that speaks OpenAI's embeddings API.
//!
//! It is the API of vLLM, llama.cpp, Ollama, text-embeddings-inference and most gateways too.

mod answer;
mod call;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::endpoint::Endpoint;
use super::{EmbedError, Embedder, none_blank};

/// How long, how often and how much an endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenAiLimits {
    /// For one request, from the connection to the last byte of the answer.
    pub timeout: Duration,
    /// How often a request is made again after a 429, a 5xx or a broken connection. Not after a
    /// timeout: who is slow once is slow again, and the caller waits.
    pub retries: u32,
    /// The wait before the first retry; it doubles.
    pub wait: Duration,
    /// The longest wait; an endpoint that asks for more with `Retry-After` is left alone at once.
    pub longest_wait: Duration,
    /// The largest answer that is read.
    pub answer_bytes: u64,
    /// The most texts in one request.
    pub batch_texts: usize,
    /// The most bytes of text in one request; a longer text is sent alone.
    pub batch_bytes: usize,
}

impl Default for OpenAiLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            retries: 2,
            wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(5),
            answer_bytes: 64 << 20,
            batch_texts: 64,
            // OpenAI takes 300,000 tokens a request, and a token has hardly less than a byte.
            batch_bytes: 256 << 10,
        }
    }
}

/// An endpoint that speaks OpenAI's embeddings API.
///
/// Its [`model`](Embedder::model) is the configured name: no endpoint tells a version. Whoever puts
/// another model behind the same name has to configure another name.
pub struct OpenAi {
    caller: call::Caller,
    model: String,
    dimensions: usize,
    limits: OpenAiLimits,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    input: &'a [&'a str],
}

impl OpenAi {
    /// Connects, and asks for one vector to learn how many dimensions the model has.
    pub fn open(
        endpoint: &Endpoint,
        model: &str,
        api_key: Option<String>,
        limits: OpenAiLimits,
    ) -> Result<Self, EmbedError> {
        let caller = call::Caller::new(endpoint, api_key, limits)?;
        let mut opened = Self { caller, model: model.to_owned(), dimensions: 0, limits };
        let probe = opened.ask(&["How many dimensions?"], None)?;
        opened.dimensions = probe.first().map_or(0, Vec::len);
        Ok(opened)
    }

    fn ask(&self, texts: &[&str], dimensions: Option<usize>) -> Result<Vec<Vec<f32>>, EmbedError> {
        let question = Question { model: &self.model, input: texts };
        let question = serde_json::to_vec(&question).expect("strings can always be written");
        answer::vectors(&self.caller.post(&question)?, texts.len(), dimensions)
    }
}

impl Embedder for OpenAi {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        none_blank(texts)?;
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(texts, self.limits) {
            vectors.extend(self.ask(&texts[batch], Some(self.dimensions))?);
        }
        Ok(vectors)
    }
}

fn batches(texts: &[&str], limits: OpenAiLimits) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (index, text) in texts.iter().enumerate() {
        bytes += text.len();
        match batches.last_mut() {
            Some(last) if last.len() < limits.batch_texts && bytes <= limits.batch_bytes => {
                last.end = index + 1;
            }
            _ => {
                batches.push(index..index + 1);
                bytes = text.len();
            }
        }
    }
    batches
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("caller", &self.caller)
            .field("model", &self.model)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_so_many_texts_and_bytes_and_leave_none_out() {
        let limits = OpenAiLimits { batch_texts: 3, batch_bytes: 10, ..Default::default() };
        let long = "a text of more than ten bytes";
        let texts = ["a", "b", "c", "d", long, "12345", "67890", "e"];
        assert_eq!(batches(&texts, limits), [0..3, 3..4, 4..5, 5..7, 7..8]);
        assert!(batches(&[], limits).is_empty());
    }
}
