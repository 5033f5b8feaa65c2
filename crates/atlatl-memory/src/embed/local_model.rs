//! Local embedding models: the model directory, and static models (model2vec).

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use candle_core::{DType, Device, Tensor, safetensors};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokenizers::Tokenizer;

use super::manifest::{MANIFEST, ModelKind, ModelManifest, open_file};
use super::{Bert, Cause, EmbedError, Embedder, FusionWeights, normalize, reject_blank};

pub(super) const CONFIG: &str = "config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const SENTENCE_CONFIG: &str = "sentence_bert_config.json";
pub(super) const POOLING_CONFIG: &str = "1_Pooling/config.json";
pub(super) const GGUF_WEIGHTS: &str = "model.gguf";
pub(super) const SAFETENSORS_WEIGHTS: &str = "model.safetensors";
pub(super) const GGUF_EXTENSION: &str = ".gguf";
/// How much of a file is read at a time for its digest.
const DIGEST_CHUNK_LEN: usize = 1 << 16;

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
    fusion: FusionWeights,
    /// Whether a token is used, by token id.
    is_significant: Vec<bool>,
}

impl StaticModel {
    /// Reads the model into memory.
    pub fn open(directory: &Path) -> Result<Self, EmbedError> {
        let files = ModelDir::new(directory)?;
        let (raw, tokenizer) = files.tokenizer()?;
        let file = files.weights_file(ModelKind::Static)?;
        let content = files.read(&file)?;
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
        let (name, fusion) = files.identity(ModelKind::Static, &file, dimensions)?;
        Ok(Self { name, files, tokenizer, rows, dimensions, fusion, is_significant })
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

    fn fusion(&self) -> FusionWeights {
        self.fusion
    }

    fn knows_word(&self, word: &str) -> bool {
        single_token(&self.tokenizer, word).is_some_and(|id| self.is_significant[id as usize])
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        reject_blank(texts)?;
        texts.iter().enumerate().map(|(index, text)| self.vector(index, text)).collect()
    }
}

/// Returns the token of a word that has one of its own.
pub(super) fn single_token(tokenizer: &Tokenizer, word: &str) -> Option<u32> {
    let encoding = tokenizer.encode_fast(word, false).ok()?;
    let [only] = encoding.get_ids() else { return None };
    Some(*only)
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

/// Opens the model in a directory.
pub(super) fn open(directory: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    match ModelDir::new(directory)?.kind()? {
        ModelKind::Bert => Ok(Arc::new(Bert::open(directory)?)),
        ModelKind::Static => Ok(Arc::new(StaticModel::open(directory)?)),
    }
}

/// A directory with the files of a model.
#[derive(Debug)]
pub(super) struct ModelDir {
    path: PathBuf,
    manifest: Option<ModelManifest>,
}

impl ModelDir {
    /// Resolves symbolic links, since the directory's name becomes the model's name, and reads the
    /// manifest, if there is one.
    pub(super) fn new(directory: &Path) -> Result<Self, EmbedError> {
        let unusable = |why: &str, source: Option<Cause>| EmbedError::Model {
            path: directory.to_owned(),
            why: why.to_owned(),
            source,
        };
        let path = fs::canonicalize(directory)
            .map_err(|error| unusable("cannot open it", Some(error.into())))?;
        if !path.is_dir() {
            return Err(unusable("not a directory", None));
        }
        let manifest = ModelManifest::read(&path)?;
        Ok(Self { path, manifest })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the architecture: of the manifest; without one, BERT if `config.json` says so,
    /// otherwise a static model.
    pub(super) fn kind(&self) -> Result<ModelKind, EmbedError> {
        #[derive(Deserialize)]
        struct Kind {
            model_type: Option<String>,
        }
        if let Some(manifest) = &self.manifest {
            return Ok(manifest.kind);
        }
        let kind = match self.read_optional(CONFIG)? {
            Some(config) => self.json::<Kind>(CONFIG, &config)?.model_type,
            None => None,
        };
        match kind.as_deref() {
            Some("bert") => Ok(ModelKind::Bert),
            None | Some("model2vec") => Ok(ModelKind::Static),
            Some(other) => {
                let why = format!("`{other}` models are not supported; BERT and static tables are");
                Err(self.invalid(CONFIG, why, None))
            }
        }
    }

    /// Returns the file name of the weights: of the manifest; without one, of the usual file.
    pub(super) fn weights_file(&self, kind: ModelKind) -> Result<String, EmbedError> {
        match (&self.manifest, kind) {
            (Some(manifest), _) => Ok(manifest.file.clone()),
            (None, ModelKind::Bert) if self.path.join(GGUF_WEIGHTS).exists() => {
                Ok(GGUF_WEIGHTS.to_owned())
            }
            (None, ModelKind::Bert) => Ok(SAFETENSORS_WEIGHTS.to_owned()),
            (None, ModelKind::Static) => self.single_weights_file(),
        }
    }

    /// Returns the name that the model's vectors are stored under, and how they are combined with
    /// words. With a manifest, no file is read for it.
    pub(super) fn identity(
        &self,
        kind: ModelKind,
        weights_file: &str,
        dimensions: usize,
    ) -> Result<(String, FusionWeights), EmbedError> {
        if let Some(manifest) = &self.manifest {
            if manifest.dimensions != dimensions {
                let why = format!(
                    "`dimensions` is {}, but the model has {dimensions}",
                    manifest.dimensions
                );
                return Err(self.invalid(MANIFEST, why, None));
            }
            return Ok((manifest.model_name(), manifest.fusion));
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let digest = self.digest(kind, weights_file)?;
        Ok((format!("{name}@{}", &digest[..12]), kind.fusion()))
    }

    /// Returns the SHA-256, in hexadecimal, of all files that determine vectors, one after the other.
    /// Those that do not exist are left out.
    pub(super) fn digest(&self, kind: ModelKind, weights_file: &str) -> Result<String, EmbedError> {
        let all = [weights_file, TOKENIZER, CONFIG, SENTENCE_CONFIG];
        let files = match kind {
            ModelKind::Bert => &all[..],
            ModelKind::Static => &all[..2],
        };
        let mut digest = Sha256::new();
        let mut chunk = vec![0; DIGEST_CHUNK_LEN];
        for name in files {
            let unreadable =
                |error: io::Error| self.invalid(name, "cannot read it", Some(error.into()));
            let mut file = match open_file(&self.path.join(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(error)),
            };
            loop {
                match file.read(&mut chunk).map_err(unreadable)? {
                    0 => break,
                    length => digest.update(&chunk[..length]),
                }
            }
        }
        let mut hex = String::with_capacity(64);
        for byte in digest.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Ok(hex)
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

    pub(super) fn open(&self, file: &str) -> Result<File, EmbedError> {
        open_file(&self.path.join(file))
            .map_err(|error| self.invalid(file, "cannot read it", Some(error.into())))
    }

    pub(super) fn read(&self, file: &str) -> Result<Vec<u8>, EmbedError> {
        let mut content = Vec::new();
        self.open(file)?
            .read_to_end(&mut content)
            .map_err(|error| self.invalid(file, "cannot read it", Some(error.into())))?;
        Ok(content)
    }

    pub(super) fn read_optional(&self, file: &str) -> Result<Option<Vec<u8>>, EmbedError> {
        if fs::metadata(self.path.join(file))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            return Ok(None);
        }
        self.read(file).map(Some)
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
    fn single_weights_file(&self) -> Result<String, EmbedError> {
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
}
