//! BERT: a sentence model, computed on this machine's processor.

mod encoder;

use std::path::Path;

use candle_core::{Device, Tensor};
use serde::Deserialize;
use serde_json::Value;
use tokenizers::{Encoding, PostProcessor as _, Tokenizer, TruncationParams};

use self::encoder::{Config, Encoder};
use super::model_dir::ModelDir;
use super::normalize::normalize;
use super::{EmbedError, Embedder, none_blank};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const SENTENCES: &str = "sentence_bert_config.json";
const POOLING: &str = "1_Pooling/config.json";
/// The most tokens in one batch, padding included: it bounds memory, which grows with them.
const BATCH_TOKENS: usize = 4096;

/// A BERT sentence model: `config.json`, `tokenizer.json` and `model.safetensors`.
///
/// A text's vector is the mean over its tokens. A directory in the form of sentence-transformers
/// may say where a text is cut; one that says to pool otherwise is refused, since its vectors would
/// be real numbers and wrong.
pub struct Bert {
    name: String,
    files: ModelDir,
    tokenizer: Tokenizer,
    encoder: Encoder,
    pad: u32,
    dimensions: usize,
}

impl Bert {
    /// Reads the model into memory.
    pub fn open(directory: &Path) -> Result<Self, EmbedError> {
        let files = ModelDir::new(directory)?;
        let raw_config = files.read(CONFIG)?;
        let config: Config = files.json(CONFIG, &raw_config)?;
        if !config.is_sound() {
            return Err(files.wrong(CONFIG, "its sizes contradict each other", None));
        }
        mean_pooling(&files)?;
        let (longest, raw_sentences) = longest(&files, &config)?;

        let (raw_tokenizer, mut tokenizer) = files.tokenizer()?;
        files.fits(&tokenizer, config.vocab_size)?;
        // Checked here: the library subtracts without looking.
        let added = tokenizer.get_post_processor().map_or(0, |p| p.added_tokens(false));
        if longest <= added {
            return Err(files.wrong(CONFIG, "it leaves no room for text", None));
        }
        let truncation = TruncationParams { max_length: longest, ..Default::default() };
        tokenizer
            .with_truncation(Some(truncation))
            .map_err(|error| files.wrong(CONFIG, "texts cannot be cut", Some(error)))?;

        let weights = files.read(WEIGHTS)?;
        let name =
            files.model_name(&[&weights, &raw_tokenizer, &raw_config, raw_sentences.as_slice()]);
        let encoder = Encoder::load(weights, &config).map_err(|error| {
            files.wrong(WEIGHTS, "not a model as configured", Some(error.into()))
        })?;
        let (pad, dimensions) = (config.pad_token_id, config.hidden_size);
        Ok(Self { name, files, tokenizer, encoder, pad, dimensions })
    }

    fn forward(&self, batch: &[&Encoding]) -> candle_core::Result<Vec<Vec<f32>>> {
        let width = batch.iter().map(|encoding| encoding.len()).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(batch.len() * width);
        let mut mask = Vec::with_capacity(batch.len() * width);
        for encoding in batch {
            let padding = width - encoding.len();
            ids.extend_from_slice(encoding.get_ids());
            ids.extend(std::iter::repeat_n(self.pad, padding));
            mask.extend(std::iter::repeat_n(1.0_f32, encoding.len()));
            mask.extend(std::iter::repeat_n(0.0, padding));
        }
        let shape = (batch.len(), width);
        let ids = Tensor::from_vec(ids, shape, &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
        let hidden = self.encoder.forward(&ids, &mask)?;
        // The sum has the direction of the mean, and only the direction is left in the end.
        hidden.broadcast_mul(&mask.unsqueeze(2)?)?.sum(1)?.to_vec2()
    }
}

impl Embedder for Bert {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        none_blank(texts)?;
        let encodings = texts
            .iter()
            .map(|text| self.tokenizer.encode_fast(*text, true))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| {
                self.files.wrong("tokenizer.json", "it failed on a text", Some(error))
            })?;
        // Texts of like length together, so that little is padded.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&index| encodings[index].len());
        let mut vectors = vec![Vec::new(); texts.len()];
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(batch(rest, &encodings));
            rest = later;
            let batch: Vec<&Encoding> = now.iter().map(|&index| &encodings[index]).collect();
            let computed = self
                .forward(&batch)
                .map_err(|error| self.files.wrong(WEIGHTS, "it failed", Some(error.into())))?;
            for (&index, vector) in now.iter().zip(computed) {
                vectors[index] = normalize(vector).ok_or_else(|| {
                    self.files.wrong(WEIGHTS, "it computes zeros or numbers that are none", None)
                })?;
            }
        }
        Ok(vectors)
    }
}

/// How many texts of that order, at least one, fit into a batch; the last is the longest.
fn batch(order: &[usize], encodings: &[Encoding]) -> usize {
    let fitting = order
        .iter()
        .enumerate()
        .take_while(|&(before, &index)| (before + 1) * encodings[index].len() <= BATCH_TOKENS)
        .count();
    fitting.max(1)
}

fn mean_pooling(files: &ModelDir) -> Result<(), EmbedError> {
    const MODE: &str = "pooling_mode_";
    let Some(pooling) = files.read_if_there(POOLING)? else { return Ok(()) };
    let pooling: serde_json::Map<String, Value> = files.json(POOLING, &pooling)?;
    let on: Vec<&str> = pooling
        .iter()
        .filter(|(_, value)| **value == Value::Bool(true))
        .filter_map(|(key, _)| key.strip_prefix(MODE))
        .collect();
    if on != ["mean_tokens"] {
        return Err(files.wrong(POOLING, "only the mean of tokens is supported", None));
    }
    Ok(())
}

/// How many tokens a text may have, and the file that says so, if there is one: a sentence model
/// is trained for fewer than it has positions.
fn longest(files: &ModelDir, config: &Config) -> Result<(usize, Vec<u8>), EmbedError> {
    #[derive(Deserialize)]
    struct Sentences {
        max_seq_length: Option<usize>,
    }
    let positions = config.max_position_embeddings;
    let Some(content) = files.read_if_there(SENTENCES)? else {
        return Ok((positions, Vec::new()));
    };
    let asked = files.json::<Sentences>(SENTENCES, &content)?.max_seq_length;
    Ok((asked.map_or(positions, |asked| asked.min(positions)), content))
}
