//! A BERT sentence model that runs on the CPU.
//!
//! The encoder is implemented here because candle-transformers, which has it among a hundred
//! models, takes 100 s to compile.

use std::path::Path;

use candle_core::{D, Device, Tensor};
use candle_nn::ops::softmax_last_dim;
use candle_nn::{LayerNorm, Module as _};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use tokenizers::{Encoding, PostProcessor as _, Tokenizer, TruncationParams};

use super::local_model::{
    CONFIG, GGUF_EXTENSION, ModelDir, POOLING_CONFIG, SENTENCE_CONFIG, single_token,
};
use super::manifest::ModelKind;
use super::weights::{Projection, Table, Weights};
use super::{EmbedError, Embedder, FusionWeights, normalize, reject_blank};

/// The maximum number of tokens in one batch, including padding. It bounds memory: two texts of 256
/// tokens take 15 MB, mostly for the scores of attention.
const MAX_BATCH_TOKENS: usize = 512;

/// A BERT sentence model: `config.json`, `tokenizer.json`, and `model.gguf` with eight-bit weights or
/// `model.safetensors` with floats.
///
/// The vector of a text is the mean over its tokens. A directory in the format of
/// sentence-transformers may set the maximum input length. One that sets another kind of pooling is
/// refused, since its vectors would be wrong.
pub struct Bert {
    name: String,
    files: ModelDir,
    /// The file name of the weights, for errors.
    weights_file: String,
    tokenizer: Tokenizer,
    encoder: Encoder,
    pad: u32,
    dimensions: usize,
    fusion: FusionWeights,
}

impl Bert {
    /// Reads the model into memory.
    pub fn open(directory: &Path) -> Result<Self, EmbedError> {
        let files = ModelDir::new(directory)?;
        let config: Config = files.json(CONFIG, &files.read(CONFIG)?)?;
        if !config.is_valid() {
            return Err(files.invalid(CONFIG, "inconsistent sizes", None));
        }
        mean_pooling(&files)?;
        let max_tokens = max_tokens(&files, &config)?;

        let (_, mut tokenizer) = files.tokenizer()?;
        files.check_rows(&tokenizer, config.vocab_size)?;
        // Checked here, because the library subtracts without a check.
        let added = tokenizer.get_post_processor().map_or(0, |p| p.added_tokens(false));
        if max_tokens <= added {
            return Err(files.invalid(CONFIG, "the maximum length leaves no room for text", None));
        }
        let truncation = TruncationParams { max_length: max_tokens, ..Default::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| {
            files.invalid(CONFIG, "cannot set the truncation of texts", Some(error))
        })?;

        let weights_file = files.weights_file(ModelKind::Bert)?;
        let dimensions = config.hidden_size;
        let (name, fusion) = files.identity(ModelKind::Bert, &weights_file, dimensions)?;
        let encoder = load_encoder(&files, &weights_file, &config)?;
        let pad = config.pad_token_id;
        Ok(Self { name, files, weights_file, tokenizer, encoder, pad, dimensions, fusion })
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
        // The sum has the same direction as the mean, and the vector is normalized afterwards.
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

    fn fusion(&self) -> FusionWeights {
        self.fusion
    }

    fn knows_word(&self, word: &str) -> bool {
        // Not the token for unknown words.
        let token = single_token(&self.tokenizer, word);
        let token = token.and_then(|id| self.tokenizer.id_to_token(id));
        token.is_some_and(|token| token.eq_ignore_ascii_case(word))
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        reject_blank(texts)?;
        let encodings = texts
            .iter()
            .map(|text| self.tokenizer.encode_fast(*text, true))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| {
                self.files.invalid("tokenizer.json", "cannot tokenize a text", Some(error))
            })?;
        // Texts of similar length are batched together to keep padding small.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&index| encodings[index].len());
        // Batches are small, and the matrices of one do not keep several processors busy.
        let computed = batches(&order, &encodings)
            .into_par_iter()
            .map(|batch| {
                let texts: Vec<&Encoding> = batch.iter().map(|&index| &encodings[index]).collect();
                self.forward(&texts)
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| {
                self.files.invalid(&self.weights_file, "inference failed", Some(error.into()))
            })?;
        let mut vectors = vec![Vec::new(); texts.len()];
        for (&index, vector) in order.iter().zip(computed.into_iter().flatten()) {
            vectors[index] = normalize(vector).ok_or_else(|| {
                let why = "the computed vector is zero or not finite";
                self.files.invalid(&self.weights_file, why, None)
            })?;
        }
        Ok(vectors)
    }
}

/// Splits texts in the order of their lengths into batches.
fn batches<'a>(order: &'a [usize], encodings: &[Encoding]) -> Vec<&'a [usize]> {
    let mut batches = Vec::new();
    let mut rest = order;
    while !rest.is_empty() {
        // The last text is the longest.
        let fits = |&(before, &index): &(usize, &usize)| {
            (before + 1) * encodings[index].len() <= MAX_BATCH_TOKENS
        };
        let fitting = rest.iter().enumerate().take_while(fits).count().max(1);
        let (batch, later) = rest.split_at(fitting);
        batches.push(batch);
        rest = later;
    }
    batches
}

fn mean_pooling(files: &ModelDir) -> Result<(), EmbedError> {
    const MODE: &str = "pooling_mode_";
    let Some(pooling) = files.read_optional(POOLING_CONFIG)? else { return Ok(()) };
    let pooling: serde_json::Map<String, Value> = files.json(POOLING_CONFIG, &pooling)?;
    let on: Vec<&str> = pooling
        .iter()
        .filter(|(_, value)| **value == Value::Bool(true))
        .filter_map(|(key, _)| key.strip_prefix(MODE))
        .collect();
    if on != ["mean_tokens"] {
        return Err(files.invalid(POOLING_CONFIG, "only mean pooling is supported", None));
    }
    Ok(())
}

/// Reads the weights. Eight-bit weights are read tensor by tensor, so that they are in memory once.
fn load_encoder(files: &ModelDir, file: &str, config: &Config) -> Result<Encoder, EmbedError> {
    let weights = if file.ends_with(GGUF_EXTENSION) {
        Weights::from_gguf(files.open(file)?)
    } else {
        Weights::from_safetensors(files.read(file)?)
    };
    weights.and_then(|mut weights| Encoder::load(&mut weights, config)).map_err(|error| {
        files.invalid(file, "the weights do not match the configuration", Some(error.into()))
    })
}

/// Returns the maximum number of tokens of a text: a sentence model is trained for fewer tokens than
/// it has positions.
fn max_tokens(files: &ModelDir, config: &Config) -> Result<usize, EmbedError> {
    #[derive(Deserialize)]
    struct SentenceConfig {
        max_seq_length: Option<usize>,
    }
    let positions = config.max_position_embeddings;
    let Some(content) = files.read_optional(SENTENCE_CONFIG)? else { return Ok(positions) };
    let asked = files.json::<SentenceConfig>(SENTENCE_CONFIG, &content)?.max_seq_length;
    Ok(asked.map_or(positions, |asked| asked.min(positions)))
}

/// The layer sizes from `config.json`.
#[derive(Debug, Deserialize)]
struct Config {
    vocab_size: usize,
    hidden_size: usize,
    max_position_embeddings: usize,
    #[serde(default)]
    pad_token_id: u32,
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
    /// Returns whether the attention heads divide the vector evenly, and padding is a token.
    fn is_valid(&self) -> bool {
        self.hidden_size > 0
            && self.hidden_size.checked_rem(self.num_attention_heads) == Some(0)
            && (self.pad_token_id as usize) < self.vocab_size
    }
}

/// The layers with their weights.
struct Encoder {
    words: Table,
    positions: Table,
    /// Added to every token. There are no text pairs here, so all tokens have the first type.
    first_type: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    heads: usize,
    scale: f64,
    query: Projection,
    key: Projection,
    value: Projection,
    attended: Projection,
    attended_norm: LayerNorm,
    wide: Projection,
    activation: Activation,
    narrow: Projection,
    narrow_norm: LayerNorm,
}

impl Encoder {
    /// Reads the weights. The configuration must be valid.
    fn load(weights: &mut Weights, config: &Config) -> candle_core::Result<Self> {
        let (size, positions) = (config.hidden_size, config.max_position_embeddings);
        let types = [config.type_vocab_size, size];
        Ok(Self {
            words: weights.table(config.vocab_size, size, "embeddings.word_embeddings")?,
            positions: weights.table(positions, size, "embeddings.position_embeddings")?,
            first_type: weights
                .tensor(&types, "embeddings.token_type_embeddings.weight")?
                .get(0)?,
            norm: weights.norm(size, config.layer_norm_eps, "embeddings.LayerNorm")?,
            layers: (0..config.num_hidden_layers)
                .map(|index| Layer::load(weights, &format!("encoder.layer.{index}"), config))
                .collect::<candle_core::Result<_>>()?,
        })
    }

    /// Returns the vectors (texts × tokens × size) of the tokens (texts × tokens). The mask is 1
    /// for tokens and 0 for padding.
    fn forward(&self, ids: &Tensor, mask: &Tensor) -> candle_core::Result<Tensor> {
        let (_, width) = ids.dims2()?;
        let width = u32::try_from(width).map_err(candle_core::Error::wrap)?;
        let positions = self.positions.rows(&Tensor::arange(0, width, ids.device())?)?;
        let sum = self.words.rows(ids)?.broadcast_add(&positions)?;
        let mut hidden = self.norm.forward(&sum.broadcast_add(&self.first_type)?)?;
        // Added to the attention scores: 0 for tokens, and for padding a number that the softmax
        // turns into 0. It is finite, because 0 × ∞ would be NaN.
        let padding_bias = ((1.0 - mask)? * f64::from(f32::MIN))?.unsqueeze(1)?.unsqueeze(1)?;
        for layer in &self.layers {
            hidden = layer.forward(&hidden, &padding_bias)?;
        }
        Ok(hidden)
    }
}

impl Layer {
    fn load(weights: &mut Weights, prefix: &str, config: &Config) -> candle_core::Result<Self> {
        let (size, wide) = (config.hidden_size, config.intermediate_size);
        let epsilon = config.layer_norm_eps;
        let path = |name: &str| format!("{prefix}.{name}");
        #[expect(clippy::cast_precision_loss, reason = "sizes of vectors are small")]
        let scale = ((size / config.num_attention_heads) as f64).sqrt().recip();
        Ok(Self {
            heads: config.num_attention_heads,
            scale,
            query: weights.projection(size, size, &path("attention.self.query"))?,
            key: weights.projection(size, size, &path("attention.self.key"))?,
            value: weights.projection(size, size, &path("attention.self.value"))?,
            attended: weights.projection(size, size, &path("attention.output.dense"))?,
            attended_norm: weights.norm(size, epsilon, &path("attention.output.LayerNorm"))?,
            wide: weights.projection(size, wide, &path("intermediate.dense"))?,
            activation: config.hidden_act,
            narrow: weights.projection(wide, size, &path("output.dense"))?,
            narrow_norm: weights.norm(size, epsilon, &path("output.LayerNorm"))?,
        })
    }

    fn forward(&self, hidden: &Tensor, padding_bias: &Tensor) -> candle_core::Result<Tensor> {
        let (texts, tokens, size) = hidden.dims3()?;
        // Texts × heads × tokens × size per head.
        let by_head = |linear: &Projection| {
            let shape = (texts, tokens, self.heads, size / self.heads);
            linear.forward(hidden)?.reshape(shape)?.transpose(1, 2)?.contiguous()
        };
        let (query, key, value) =
            (by_head(&self.query)?, by_head(&self.key)?, by_head(&self.value)?);
        let scores = (query.matmul(&key.t()?)? * self.scale)?.broadcast_add(padding_bias)?;
        let context = softmax_last_dim(&scores)?.matmul(&value)?;
        let context = context.transpose(1, 2)?.contiguous()?.flatten_from(D::Minus2)?;
        let attended = self.attended_norm.forward(&(self.attended.forward(&context)? + hidden)?)?;

        let wide = self.wide.forward(&attended)?;
        let wide = match self.activation {
            Activation::Gelu => wide.gelu_erf()?,
            Activation::Relu => wide.relu()?,
        };
        self.narrow_norm.forward(&(self.narrow.forward(&wide)? + attended)?)
    }
}
