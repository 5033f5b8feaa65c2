//! Converts a BERT model to eight-bit weights: a quarter of the size, in memory too.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{Device, Tensor, safetensors};

use super::EmbedError;
use super::local_model::{
    CONFIG, GGUF_WEIGHTS, ModelDir, POOLING_CONFIG, SAFETENSORS_WEIGHTS, SENTENCE_CONFIG, TOKENIZER,
};
use super::manifest::{MANIFEST, ModelDescription, ModelManifest};

/// Converts the BERT model in the directory `from` to eight bits, and writes it with a manifest into
/// the directory `to`, which is created.
///
/// Matrices become blocks of 32 numbers with a common scale (`Q8_0`), everything else stays `f32`.
/// The same weights give the same bytes. License files are copied.
pub fn quantize(
    from: &Path,
    to: &Path,
    about: &ModelDescription,
) -> Result<ModelManifest, EmbedError> {
    let files = ModelDir::new(from)?;
    let unwritable = |error: io::Error| EmbedError::Model {
        path: to.to_owned(),
        why: "cannot write it".to_owned(),
        source: Some(error.into()),
    };
    fs::create_dir_all(to).map_err(unwritable)?;
    // A manifest of another model would be in force while this one is described.
    match fs::remove_file(to.join(MANIFEST)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(error)),
        _ => {}
    }
    convert(files.path(), to).map_err(|error| {
        files.invalid(SAFETENSORS_WEIGHTS, "cannot convert it", Some(error.into()))
    })?;
    copy_others(files.path(), to).map_err(unwritable)?;
    let manifest = ModelManifest::describe(to, about)?;
    fs::write(to.join(MANIFEST), manifest.to_json()).map_err(unwritable)?;
    Ok(manifest)
}

fn convert(from: &Path, to: &Path) -> candle_core::Result<()> {
    let mut tensors = BTreeMap::new();
    for (name, tensor) in safetensors::load(from.join(SAFETENSORS_WEIGHTS), &Device::Cpu)? {
        if let Some(name) = tensor_name(&name).filter(|_| tensor.dtype().is_float()) {
            tensors.insert(name, QTensor::quantize(&tensor, data_type(&tensor))?);
        }
    }
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (&**name, tensor)).collect();
    let mut file = BufWriter::new(File::create(to.join(GGUF_WEIGHTS))?);
    gguf_file::write(&mut file, &[], &tensors)?;
    file.flush()?;
    Ok(())
}

/// Returns the name of a tensor that the encoder needs, without the prefix and the former suffixes
/// that some files have; `None` for other tensors.
fn tensor_name(name: &str) -> Option<String> {
    let name = name.strip_prefix("bert.").unwrap_or(name);
    let is_needed = name.starts_with("embeddings.") || name.starts_with("encoder.");
    let former = [(".gamma", ".weight"), (".beta", ".bias")];
    let renamed = former
        .into_iter()
        .find_map(|(suffix, now)| Some(format!("{}{now}", name.strip_suffix(suffix)?)));
    is_needed.then(|| renamed.unwrap_or_else(|| name.to_owned()))
}

fn data_type(tensor: &Tensor) -> GgmlDType {
    match tensor.dims() {
        [_, columns] if columns.is_multiple_of(GgmlDType::Q8_0.block_size()) => GgmlDType::Q8_0,
        _ => GgmlDType::F32,
    }
}

/// Copies the other files of a model, and its licenses.
fn copy_others(from: &Path, to: &Path) -> io::Result<()> {
    for name in [CONFIG, TOKENIZER, SENTENCE_CONFIG, POOLING_CONFIG] {
        if from.join(name).is_file() {
            let target = to.join(name);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(from.join(name), target)?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_license = ["LICENSE", "NOTICE"]
            .iter()
            .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
        if is_license && entry.path().is_file() {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
