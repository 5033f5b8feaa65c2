//! Local embedding models: the model directory, and static models (model2vec).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use candle_core::{DType, Device, Tensor, safetensors};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokenizers::Tokenizer;

use super::{Bert, Cause, EmbedError, Embedder, normalize, reject_blank};

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";

/// A static model: `tokenizer.json` and one safetensors file with one tensor, which has a row per
/// token. The vector of a text is the mean of its tokens' rows.
///
/// It embeds thousands of documents a second, but ignores word order: "dog bites man" equals "man
/// bites dog". Special and unknown tokens have meaningless rows and are skipped; a text of nothing
/// else is [`Empty`](EmbedError::Empty).
pub struct StaticModel {
    name: String,
    files: ModelDir,
    tokenizer: Tokenizer,
    /// The rows, one after the other.
    rows: Vec<f32>,
    dimensions: usize,
    /// Whether a token is used, by token id.
    is_significant: Vec<bool>,
}

impl StaticModel {
    /// Reads the model into memory.
    pub fn open(directory: &Path) -> Result<Self, EmbedError> {
        let files = ModelDir::new(directory)?;
        let (raw, tokenizer) = files.tokenizer()?;
        let file = files.single_weights_file()?;
        let content = files.read(&file)?;
        let name = files.model_name(&[&content, &raw]);

        let table = single_tensor(&files, &file, &content)?;
        let (tokens, dimensions) = table.dims2().map_err(|error| {
            files.invalid(&file, "the tensor is not a table", Some(error.into()))
        })?;
        let rows = table
            .to_dtype(DType::F32)
            .and_then(|table| table.flatten_all()?.to_vec1::<f32>())
            .map_err(|error| {
                files.invalid(&file, "cannot convert the tensor", Some(error.into()))
            })?;
        if dimensions == 0 || !rows.iter().all(|x| x.is_finite()) {
            return Err(files.invalid(
                &file,
                "the table has no columns or values that are not finite",
                None,
            ));
        }
        files.check_rows(&tokenizer, tokens)?;
        let is_significant = is_significant(&files, &raw, &tokenizer, tokens)?;
        Ok(Self { name, files, tokenizer, rows, dimensions, is_significant })
    }

    fn vector(&self, index: usize, text: &str) -> Result<Vec<f32>, EmbedError> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|error| {
            self.files.invalid("tokenizer.json", "cannot tokenize a text", Some(error))
        })?;
        // The sum has the same direction as the mean, and the vector is normalized afterwards.
        let mut sum = vec![0.0_f32; self.dimensions];
        for id in
            encoding.get_ids().iter().map(|&id| id as usize).filter(|&id| self.is_significant[id])
        {
            let row = &self.rows[id * self.dimensions..][..self.dimensions];
            for (total, x) in sum.iter_mut().zip(row) {
                *total += x;
            }
        }
        normalize(sum).ok_or(EmbedError::Empty { index })
    }
}

impl Embedder for StaticModel {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        reject_blank(texts)?;
        texts.iter().enumerate().map(|(index, text)| self.vector(index, text)).collect()
    }
}

fn single_tensor(files: &ModelDir, file: &str, content: &[u8]) -> Result<Tensor, EmbedError> {
    let tensors = safetensors::load_buffer(content, &Device::Cpu)
        .map_err(|error| files.invalid(file, "not a safetensors file", Some(error.into())))?;
    match <[Tensor; 1]>::try_from(tensors.into_values().collect::<Vec<_>>()) {
        Ok([only]) => Ok(only),
        Err(found) => {
            let why = format!("{} tensors where a static table has one", found.len());
            Err(files.invalid(file, why, None))
        }
    }
}

/// Returns which tokens are used: not the special ones, and not the unknown token, which some
/// tokenizers mark as special and others only name in their model.
fn is_significant(
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
    let mut is_significant = vec![true; tokens];
    let unknown = files.json::<File>("tokenizer.json", raw)?.model;
    let unknown =
        [unknown.unk_id, unknown.unk_token.and_then(|token| tokenizer.token_to_id(&token))];
    let special = tokenizer.get_added_tokens_decoder();
    let special = special.iter().filter(|(_, token)| token.special).map(|(id, _)| *id);
    for id in special.chain(unknown.into_iter().flatten()) {
        if let Some(is_significant) = is_significant.get_mut(id as usize) {
            *is_significant = false;
        }
    }
    Ok(is_significant)
}

/// Opens the model in a directory: BERT if `config.json` says so, otherwise a static model.
pub(super) fn open(directory: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    #[derive(Deserialize)]
    struct Kind {
        model_type: Option<String>,
    }
    let files = ModelDir::new(directory)?;
    let kind = match files.read_optional(CONFIG)? {
        Some(config) => files.json::<Kind>(CONFIG, &config)?.model_type,
        None => None,
    };
    match kind.as_deref() {
        Some("bert") => Ok(Arc::new(Bert::open(directory)?)),
        None | Some("model2vec") => Ok(Arc::new(StaticModel::open(directory)?)),
        Some(other) => {
            let why = format!("`{other}` models are not supported; BERT and static tables are");
            Err(files.invalid(CONFIG, why, None))
        }
    }
}

/// A directory with the files of a model.
#[derive(Debug)]
pub(super) struct ModelDir {
    path: PathBuf,
}

impl ModelDir {
    /// Resolves symbolic links, since the directory's name becomes the model's name.
    pub(super) fn new(directory: &Path) -> Result<Self, EmbedError> {
        let unusable = |why: &str, source: Option<Cause>| EmbedError::Model {
            path: directory.to_owned(),
            why: why.to_owned(),
            source,
        };
        let path = fs::canonicalize(directory)
            .map_err(|error| unusable("cannot open it", Some(error.into())))?;
        if path.is_dir() { Ok(Self { path }) } else { Err(unusable("not a directory", None)) }
    }

    /// Creates an error about the directory or about a file in it.
    pub(super) fn invalid(
        &self,
        file: &str,
        why: impl Into<String>,
        source: Option<Cause>,
    ) -> EmbedError {
        // Joining "" would add a slash.
        let path = if file.is_empty() { self.path.clone() } else { self.path.join(file) };
        EmbedError::Model { path, why: why.into(), source }
    }

    pub(super) fn read(&self, file: &str) -> Result<Vec<u8>, EmbedError> {
        fs::read(self.path.join(file))
            .map_err(|error| self.invalid(file, "cannot read it", Some(error.into())))
    }

    pub(super) fn read_optional(&self, file: &str) -> Result<Option<Vec<u8>>, EmbedError> {
        match fs::read(self.path.join(file)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.invalid(file, "cannot read it", Some(error.into()))),
        }
    }

    pub(super) fn json<'a, T: Deserialize<'a>>(
        &self,
        file: &str,
        content: &'a [u8],
    ) -> Result<T, EmbedError> {
        serde_json::from_slice(content)
            .map_err(|error| self.invalid(file, "invalid content", Some(error.into())))
    }

    /// Returns the name of the single weights file.
    pub(super) fn single_weights_file(&self) -> Result<String, EmbedError> {
        let unreadable =
            |error: io::Error| self.invalid("", "cannot list its files", Some(error.into()));
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if Path::new(name).extension().is_some_and(|extension| extension == "safetensors") {
                found.push(name.to_owned());
            }
        }
        match <[String; 1]>::try_from(found) {
            Ok([only]) => Ok(only),
            Err(found) => {
                let why = format!("{} safetensors files where one is expected", found.len());
                Err(self.invalid("", why, None))
            }
        }
    }

    /// Returns the tokenizer as raw JSON and parsed, without the padding and truncation of its
    /// file, which the model handles itself.
    pub(super) fn tokenizer(&self) -> Result<(Vec<u8>, Tokenizer), EmbedError> {
        let content = self.read(TOKENIZER)?;
        let invalid = |error| self.invalid(TOKENIZER, "not a tokenizer", Some(error));
        let mut tokenizer = Tokenizer::from_bytes(&content).map_err(invalid)?;
        tokenizer.with_padding(None).with_truncation(None).map_err(invalid)?;
        Ok((content, tokenizer))
    }

    /// Fails unless the model has a row for every token.
    pub(super) fn check_rows(&self, tokenizer: &Tokenizer, rows: usize) -> Result<(), EmbedError> {
        match tokenizer.get_vocab(true).into_values().max() {
            Some(last) if (last as usize) < rows => Ok(()),
            _ => {
                let why = format!("the tokens do not match the model, which has {rows}");
                Err(self.invalid(TOKENIZER, why, None))
            }
        }
    }

    /// Returns the directory's name with a digest of all files that determine vectors: the first
    /// twelve digits of the SHA-256 of their concatenation.
    pub(super) fn model_name(&self, files: &[&[u8]]) -> String {
        let mut digest = Sha256::new();
        for file in files {
            digest.update(file);
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let digest = digest.finalize();
        let short = digest.iter().take(6).fold(0_u64, |short, &byte| short << 8 | u64::from(byte));
        format!("{name}@{short:012x}")
    }
}
