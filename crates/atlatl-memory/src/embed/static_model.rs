//! A static embedding model: a text is the mean of its tokens' rows.

use std::path::Path;

use candle_core::{DType, Device, Tensor, safetensors};
use serde::Deserialize;
use tokenizers::Tokenizer;

use super::model_dir::ModelDir;
use super::normalize::normalize;
use super::{EmbedError, Embedder, none_blank};

/// A static table of token vectors: `tokenizer.json` and one safetensors file with one tensor.
///
/// Thousands of documents a second, for the price of word order: "dog bites man" is "man bites
/// dog". Tokens that are special or unknown have rows of no meaning and do not count; a text of
/// nothing else is [`Empty`](EmbedError::Empty).
pub struct Table {
    name: String,
    files: ModelDir,
    tokenizer: Tokenizer,
    /// Row after row.
    rows: Vec<f32>,
    dimensions: usize,
    /// Whether a token counts, by its number.
    counts: Vec<bool>,
}

impl Table {
    /// Reads the model into memory.
    pub fn open(directory: &Path) -> Result<Self, EmbedError> {
        let files = ModelDir::new(directory)?;
        let (raw, tokenizer) = files.tokenizer()?;
        let file = files.only_weights()?;
        let content = files.read(&file)?;
        let name = files.model_name(&[&content, &raw]);

        let table = only_tensor(&files, &file, &content)?;
        let (tokens, dimensions) = table
            .dims2()
            .map_err(|error| files.wrong(&file, "its tensor is no table", Some(error.into())))?;
        let rows = table
            .to_dtype(DType::F32)
            .and_then(|table| table.flatten_all()?.to_vec1::<f32>())
            .map_err(|error| {
                files.wrong(&file, "it cannot be computed with", Some(error.into()))
            })?;
        if dimensions == 0 || !rows.iter().all(|x| x.is_finite()) {
            return Err(files.wrong(&file, "it has no columns, or numbers that are none", None));
        }
        files.fits(&tokenizer, tokens)?;
        let counts = counts(&files, &raw, &tokenizer, tokens)?;
        Ok(Self { name, files, tokenizer, rows, dimensions, counts })
    }

    fn vector(&self, index: usize, text: &str) -> Result<Vec<f32>, EmbedError> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|error| {
            self.files.wrong("tokenizer.json", "it failed on a text", Some(error))
        })?;
        // The sum has the direction of the mean, and only the direction is left in the end.
        let mut sum = vec![0.0_f32; self.dimensions];
        for id in encoding.get_ids().iter().map(|&id| id as usize).filter(|&id| self.counts[id]) {
            let row = &self.rows[id * self.dimensions..][..self.dimensions];
            for (total, x) in sum.iter_mut().zip(row) {
                *total += x;
            }
        }
        normalize(sum).ok_or(EmbedError::Empty { index })
    }
}

impl Embedder for Table {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        none_blank(texts)?;
        texts.iter().enumerate().map(|(index, text)| self.vector(index, text)).collect()
    }
}

fn only_tensor(files: &ModelDir, file: &str, content: &[u8]) -> Result<Tensor, EmbedError> {
    let tensors = safetensors::load_buffer(content, &Device::Cpu)
        .map_err(|error| files.wrong(file, "it is no safetensors file", Some(error.into())))?;
    match <[Tensor; 1]>::try_from(tensors.into_values().collect::<Vec<_>>()) {
        Ok([only]) => Ok(only),
        Err(found) => {
            let why = format!("{} tensors where a static table has one", found.len());
            Err(files.wrong(file, why, None))
        }
    }
}

/// Which tokens count: not the special ones, and not the one that stands for unknown text, which
/// some tokenizers call special and others only name in their model.
fn counts(
    files: &ModelDir,
    raw: &[u8],
    tokenizer: &Tokenizer,
    tokens: usize,
) -> Result<Vec<bool>, EmbedError> {
    #[derive(Deserialize)]
    struct File {
        model: Unknown,
    }
    #[derive(Deserialize)]
    struct Unknown {
        unk_token: Option<String>,
        unk_id: Option<u32>,
    }
    let mut counts = vec![true; tokens];
    let unknown = files.json::<File>("tokenizer.json", raw)?.model;
    let unknown =
        [unknown.unk_id, unknown.unk_token.and_then(|token| tokenizer.token_to_id(&token))];
    let special = tokenizer.get_added_tokens_decoder();
    let special = special.iter().filter(|(_, token)| token.special).map(|(id, _)| *id);
    for id in special.chain(unknown.into_iter().flatten()) {
        if let Some(counts) = counts.get_mut(id as usize) {
            *counts = false;
        }
    }
    Ok(counts)
}
