//! Encoder: BERT's layers, from the numbers of tokens to one vector per token.
//!
//! Written here since candle-transformers, which has it among a hundred models, takes 100 s to
//! compile.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::softmax_last_dim;
use candle_nn::{Embedding, LayerNorm, Linear, Module as _, VarBuilder};
use serde::Deserialize;

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
    pub(super) fn load(weights: Vec<u8>, config: &Config) -> Result<Self> {
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
                .collect::<Result<_>>()?,
        })
    }

    /// Vectors (texts × tokens × size) of the tokens (texts × tokens). The mask has 1 where there
    /// is a token and 0 where there is padding.
    pub(super) fn forward(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
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
    fn load(weights: &VarBuilder<'_>, config: &Config) -> Result<Self> {
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

    fn forward(&self, hidden: &Tensor, unseen: &Tensor) -> Result<Tensor> {
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
