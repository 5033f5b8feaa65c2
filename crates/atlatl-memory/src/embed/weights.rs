//! The weights of an encoder: floats from a safetensors file, or eight-bit blocks from a GGUF file.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};

use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Result, Tensor, bail};
use candle_nn::{Embedding, LayerNorm, Linear, Module as _, VarBuilder};

/// The versions of GGUF that have counts of 64 bits.
const GGUF_VERSIONS: [u32; 2] = [2, 3];

/// The tensors of a model, by name.
pub(super) enum Weights {
    /// Floats in memory.
    Dense(VarBuilder<'static>),
    /// A file that is read tensor by tensor.
    Quantized(GgufFile),
}

/// A GGUF file, of which the header is read.
pub(super) struct GgufFile {
    file: BufReader<File>,
    content: Content,
}

/// A linear layer.
pub(super) enum Projection {
    Dense(Linear),
    Quantized { weight: QMatMul, bias: Tensor },
}

/// A table with one row per token or position.
pub(super) enum Table {
    Dense(Embedding),
    Quantized(QTensor),
}

impl Weights {
    /// Parses a safetensors file.
    pub(super) fn from_safetensors(content: Vec<u8>) -> Result<Self> {
        let weights = VarBuilder::from_buffered_safetensors(content, DType::F32, &Device::Cpu)?;
        // A model that was saved as part of a larger one has its name as a prefix.
        let bare = weights.contains_tensor("embeddings.word_embeddings.weight");
        Ok(Self::Dense(if bare { weights } else { weights.pp("bert") }))
    }

    /// Reads the header of a GGUF file.
    ///
    /// The file must be one that [`quantize`](super::quantize()) wrote, which has no metadata: other
    /// programs name the tensors differently, and the parser divides by the alignment that metadata
    /// can set to 0.
    pub(super) fn from_gguf(file: File) -> Result<Self> {
        let mut file = BufReader::new(file);
        let (mut magic, mut version) = ([0; 4], [0; 4]);
        let (mut tensors, mut metadata) = ([0; 8], [0; 8]);
        for field in [&mut magic[..], &mut version, &mut tensors, &mut metadata] {
            file.read_exact(field)?;
        }
        if &magic != b"GGUF" || !GGUF_VERSIONS.contains(&u32::from_le_bytes(version)) {
            bail!("not a GGUF file of version 2 or 3");
        }
        if u64::from_le_bytes(metadata) != 0 {
            bail!("a GGUF file with metadata, which is a model of another program");
        }
        file.rewind()?;
        let content = Content::read(&mut file)?;
        Ok(Self::Quantized(GgufFile { file, content }))
    }

    /// Reads a tensor as floats.
    pub(super) fn tensor(&mut self, shape: &[usize], name: &str) -> Result<Tensor> {
        match self {
            Self::Dense(weights) => weights.get(shape, name),
            Self::Quantized(weights) => weights.tensor(shape, name)?.dequantize(&Device::Cpu),
        }
    }

    /// Reads a linear layer from vectors of the size `from` to vectors of the size `to`.
    pub(super) fn projection(&mut self, from: usize, to: usize, name: &str) -> Result<Projection> {
        let bias = self.tensor(&[to], &format!("{name}.bias"))?;
        let (shape, name) = ([to, from], format!("{name}.weight"));
        Ok(match self {
            Self::Dense(weights) => {
                Projection::Dense(Linear::new(weights.get(&shape[..], &name)?, Some(bias)))
            }
            Self::Quantized(weights) => {
                let weight = QMatMul::from_qtensor(weights.tensor(&shape, &name)?)?;
                Projection::Quantized { weight, bias }
            }
        })
    }

    /// Reads a table of `rows` vectors.
    pub(super) fn table(&mut self, rows: usize, size: usize, name: &str) -> Result<Table> {
        let (shape, name) = ([rows, size], format!("{name}.weight"));
        Ok(match self {
            Self::Dense(weights) => {
                Table::Dense(Embedding::new(weights.get(&shape[..], &name)?, size))
            }
            Self::Quantized(weights) => Table::Quantized(weights.tensor(&shape, &name)?),
        })
    }

    /// Reads a layer normalization.
    pub(super) fn norm(&mut self, size: usize, epsilon: f64, name: &str) -> Result<LayerNorm> {
        if let Self::Dense(weights) = self {
            // Knows the former names of these tensors too.
            return candle_nn::layer_norm(size, epsilon, weights.pp(name));
        }
        let weight = self.tensor(&[size], &format!("{name}.weight"))?;
        let bias = self.tensor(&[size], &format!("{name}.bias"))?;
        Ok(LayerNorm::new(weight, bias, epsilon))
    }
}

impl GgufFile {
    /// Reads a tensor. Its shape is checked first, because it determines how much is allocated.
    fn tensor(&mut self, shape: &[usize], name: &str) -> Result<QTensor> {
        let Some(info) = self.content.tensor_infos.get(name) else {
            bail!("there is no tensor `{name}`")
        };
        let found = info.shape.dims();
        if found != shape {
            bail!("the shape of `{name}` is {found:?} instead of {shape:?}");
        }
        let bytes = shape.iter().try_fold(size_of::<f32>(), |bytes, side| bytes.checked_mul(*side));
        if bytes.is_none_or(|bytes| bytes == 0) {
            bail!("`{name}` is empty or too large");
        }
        if !matches!(info.ggml_dtype, GgmlDType::F32 | GgmlDType::Q8_0) {
            bail!("`{name}` has the type {:?}; F32 and Q8_0 are supported", info.ggml_dtype);
        }
        self.content.tensor(&mut self.file, name, &Device::Cpu)
    }
}

impl Projection {
    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(linear) => linear.forward(input),
            Self::Quantized { weight, bias } => weight.forward(input)?.broadcast_add(bias),
        }
    }
}

impl Table {
    /// Returns the rows of these numbers.
    pub(super) fn rows(&self, ids: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(table) => table.forward(ids),
            Self::Quantized(table) => table.embedding(ids),
        }
    }
}
