//! BERT: a sentence model, computed on this machine's processor.

use std::path::Path;

use candle_core::{D, DType, Device, Tensor};
use candle_nn::ops::softmax_last_dim;
use candle_nn::{Embedding, LayerNorm, Linear, Module as _, VarBuilder};
use serde::Deserialize;
use serde_json::Value;
use tokenizers::{Encoding, PostProcessor as _, Tokenizer, TruncationParams};

use super::local_model::ModelDir;
use super::{EmbedError, Embedder, none_blank, normalize};

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

// --- Encoder: BERT's layers, from the numbers of tokens to one vector per token.
// ---
// --- Written here since candle-transformers, which has it among a hundred models, takes 100 s to
// --- compile.

/// What `config.json` says about the layers.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    pub(super) vocab_size: usize,
    pub(super) hidden_size: usize,
    pub(super) max_position_embeddings: usize,
    #[serde(default)]
    pub(super) pad_token_id: u32,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    hidden_act: Activation,
    #[serde(default)]
    #[expect(dead_code, reason = "reading it refuses models with other kinds of positions")]
    position_embedding_type: Positions,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Activation {
    Gelu,
    Relu,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Positions {
    #[default]
    Absolute,
}

impl Config {
    /// Whether the attention heads share the vector evenly, and padding is a token.
    pub(super) fn is_sound(&self) -> bool {
        self.hidden_size > 0
            && self.hidden_size.checked_rem(self.num_attention_heads) == Some(0)
            && (self.pad_token_id as usize) < self.vocab_size
    }
}

/// The layers with their weights.
pub(super) struct Encoder {
    words: Embedding,
    positions: Embedding,
    /// Added to every token: there are no pairs of texts here, so all have the first type.
    first_type: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    heads: usize,
    scale: f64,
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: LayerNorm,
    wide: Linear,
    activation: Activation,
    narrow: Linear,
    narrow_norm: LayerNorm,
}

impl Encoder {
    /// Takes the weights out of a safetensors file. The configuration has to be sound.
    pub(super) fn load(weights: Vec<u8>, config: &Config) -> candle_core::Result<Self> {
        let weights = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)?;
        // A model that was saved as a part of a larger one has its name in front.
        let bare = weights.contains_tensor("embeddings.word_embeddings.weight");
        let weights = if bare { weights } else { weights.pp("bert") };
        let size = config.hidden_size;
        let table = weights.pp("embeddings");
        let types = table.get((config.type_vocab_size, size), "token_type_embeddings.weight")?;
        Ok(Self {
            words: candle_nn::embedding(config.vocab_size, size, table.pp("word_embeddings"))?,
            positions: candle_nn::embedding(
                config.max_position_embeddings,
                size,
                table.pp("position_embeddings"),
            )?,
            first_type: types.get(0)?,
            norm: candle_nn::layer_norm(size, config.layer_norm_eps, table.pp("LayerNorm"))?,
            layers: (0..config.num_hidden_layers)
                .map(|index| Layer::load(&weights.pp(format!("encoder.layer.{index}")), config))
                .collect::<candle_core::Result<_>>()?,
        })
    }

    /// Vectors (texts × tokens × size) of the tokens (texts × tokens). The mask has 1 where there
    /// is a token and 0 where there is padding.
    pub(super) fn forward(&self, ids: &Tensor, mask: &Tensor) -> candle_core::Result<Tensor> {
        let (_, width) = ids.dims2()?;
        let width = u32::try_from(width).map_err(candle_core::Error::wrap)?;
        let positions = self.positions.forward(&Tensor::arange(0, width, ids.device())?)?;
        let sum = self.words.forward(ids)?.broadcast_add(&positions)?;
        let mut hidden = self.norm.forward(&sum.broadcast_add(&self.first_type)?)?;
        // Nothing is added to what a token sees of tokens, and a number that leaves nothing after
        // the softmax to what it sees of padding; finite, as infinity would make NaN of 0 × ∞.
        let unseen = ((1.0 - mask)? * f64::from(f32::MIN))?.unsqueeze(1)?.unsqueeze(1)?;
        for layer in &self.layers {
            hidden = layer.forward(&hidden, &unseen)?;
        }
        Ok(hidden)
    }
}

impl Layer {
    fn load(weights: &VarBuilder<'_>, config: &Config) -> candle_core::Result<Self> {
        let (size, wide) = (config.hidden_size, config.intermediate_size);
        let linear = |from, to, name: &str| candle_nn::linear(from, to, weights.pp(name));
        let norm =
            |name: &str| candle_nn::layer_norm(size, config.layer_norm_eps, weights.pp(name));
        #[expect(clippy::cast_precision_loss, reason = "sizes of vectors are small")]
        let scale = ((size / config.num_attention_heads) as f64).sqrt().recip();
        Ok(Self {
            heads: config.num_attention_heads,
            scale,
            query: linear(size, size, "attention.self.query")?,
            key: linear(size, size, "attention.self.key")?,
            value: linear(size, size, "attention.self.value")?,
            attended: linear(size, size, "attention.output.dense")?,
            attended_norm: norm("attention.output.LayerNorm")?,
            wide: linear(size, wide, "intermediate.dense")?,
            activation: config.hidden_act,
            narrow: linear(wide, size, "output.dense")?,
            narrow_norm: norm("output.LayerNorm")?,
        })
    }

    fn forward(&self, hidden: &Tensor, unseen: &Tensor) -> candle_core::Result<Tensor> {
        let (texts, tokens, size) = hidden.dims3()?;
        // Texts × heads × tokens × a head's share.
        let by_head = |linear: &Linear| {
            let shape = (texts, tokens, self.heads, size / self.heads);
            linear.forward(hidden)?.reshape(shape)?.transpose(1, 2)?.contiguous()
        };
        let (query, key, value) =
            (by_head(&self.query)?, by_head(&self.key)?, by_head(&self.value)?);
        let scores = (query.matmul(&key.t()?)? * self.scale)?.broadcast_add(unseen)?;
        let seen = softmax_last_dim(&scores)?.matmul(&value)?;
        let seen = seen.transpose(1, 2)?.contiguous()?.flatten_from(D::Minus2)?;
        let attended = self.attended_norm.forward(&(self.attended.forward(&seen)? + hidden)?)?;

        let wide = self.wide.forward(&attended)?;
        let wide = match self.activation {
            Activation::Gelu => wide.gelu_erf()?,
            Activation::Relu => wide.relu()?,
        };
        self.narrow_norm.forward(&(self.narrow.forward(&wide)? + attended)?)
    }
}
