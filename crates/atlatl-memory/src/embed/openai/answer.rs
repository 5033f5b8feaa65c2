//! Answer: what an endpoint said, checked before anybody searches with it.

use serde::Deserialize;

use crate::embed::EmbedError;
use crate::embed::normalize::normalize;

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    /// As JSON has numbers; what is too large for a vector's is found below.
    embedding: Vec<f64>,
}

/// The vectors of an answer in the order of the texts, each with length 1.
pub(super) fn vectors(
    answer: &[u8],
    count: usize,
    dimensions: Option<usize>,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    // Only the place of the error: serde quotes what it found, and an endpoint may echo anything.
    let answer: Answer = serde_json::from_slice(answer).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        nonsense(format!("not a list of embeddings (line {line}, column {column})"))
    })?;
    if answer.data.len() != count {
        return Err(nonsense(format!("{} vectors for {count} texts", answer.data.len())));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    let mut expected = dimensions;
    for Item { index, embedding } in answer.data {
        let Some(place @ None) = vectors.get_mut(index) else {
            return Err(nonsense(format!("index {index} twice, or out of {count}")));
        };
        let found = embedding.len();
        let expected = *expected.get_or_insert(found);
        if found != expected {
            return Err(nonsense(format!("{found} dimensions where there were {expected}")));
        }
        #[expect(clippy::cast_possible_truncation, reason = "a vector's numbers are that precise")]
        let embedding = embedding.into_iter().map(|number| number as f32).collect();
        let Some(vector) = normalize(embedding) else {
            return Err(nonsense(format!("vector {index} is empty, all zeros or not finite")));
        };
        *place = Some(vector);
    }
    // As many items as places, no place twice: all are taken.
    Ok(vectors.into_iter().flatten().collect())
}

fn nonsense(why: String) -> EmbedError {
    EmbedError::Answer { why }
}
