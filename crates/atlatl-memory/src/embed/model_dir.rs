//! Model directory: which kind of model its files are, and what is common to all kinds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokenizers::Tokenizer;

use super::error::Cause;
use super::{Bert, EmbedError, Embedder, Table};

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";

/// Opens whatever model is there: BERT if `config.json` says so, a table otherwise.
pub(super) fn open(directory: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    #[derive(Deserialize)]
    struct Kind {
        model_type: Option<String>,
    }
    let files = ModelDir::new(directory)?;
    let kind = match files.read_if_there(CONFIG)? {
        Some(config) => files.json::<Kind>(CONFIG, &config)?.model_type,
        None => None,
    };
    match kind.as_deref() {
        Some("bert") => Ok(Arc::new(Bert::open(directory)?)),
        None | Some("model2vec") => Ok(Arc::new(Table::open(directory)?)),
        Some(other) => {
            let why = format!("`{other}` models are not supported; BERT and static tables are");
            Err(files.wrong(CONFIG, why, None))
        }
    }
}

/// A directory with the files of a model.
#[derive(Debug)]
pub(super) struct ModelDir {
    path: PathBuf,
}

impl ModelDir {
    /// The directory itself, whatever links lead to it: its name becomes the model's.
    pub(super) fn new(directory: &Path) -> Result<Self, EmbedError> {
        let unusable = |why: &str, source: Option<Cause>| EmbedError::Model {
            path: directory.to_owned(),
            why: why.to_owned(),
            source,
        };
        let path = fs::canonicalize(directory)
            .map_err(|error| unusable("it cannot be opened", Some(error.into())))?;
        if path.is_dir() { Ok(Self { path }) } else { Err(unusable("it is no directory", None)) }
    }

    /// What is wrong with the directory, or with the file of that name in it.
    pub(super) fn wrong(
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
            .map_err(|error| self.wrong(file, "it cannot be read", Some(error.into())))
    }

    pub(super) fn read_if_there(&self, file: &str) -> Result<Option<Vec<u8>>, EmbedError> {
        match fs::read(self.path.join(file)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.wrong(file, "it cannot be read", Some(error.into()))),
        }
    }

    pub(super) fn json<'a, T: Deserialize<'a>>(
        &self,
        file: &str,
        content: &'a [u8],
    ) -> Result<T, EmbedError> {
        serde_json::from_slice(content)
            .map_err(|error| self.wrong(file, "it is not what was expected", Some(error.into())))
    }

    /// The only file with weights.
    pub(super) fn only_weights(&self) -> Result<String, EmbedError> {
        let unreadable =
            |error: io::Error| self.wrong("", "it cannot be listed", Some(error.into()));
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
                Err(self.wrong("", why, None))
            }
        }
    }

    /// The tokenizer as raw JSON and ready to use, without the padding and truncation its file may
    /// ask for: both are the model's business.
    pub(super) fn tokenizer(&self) -> Result<(Vec<u8>, Tokenizer), EmbedError> {
        let content = self.read(TOKENIZER)?;
        let invalid = |error| self.wrong(TOKENIZER, "it is no tokenizer", Some(error));
        let mut tokenizer = Tokenizer::from_bytes(&content).map_err(invalid)?;
        tokenizer.with_padding(None).with_truncation(None).map_err(invalid)?;
        Ok((content, tokenizer))
    }

    /// Fails unless the model has a row for every token.
    pub(super) fn fits(&self, tokenizer: &Tokenizer, rows: usize) -> Result<(), EmbedError> {
        match tokenizer.get_vocab(true).into_values().max() {
            Some(last) if (last as usize) < rows => Ok(()),
            _ => {
                let why = format!("its tokens are not those of the model, which has {rows}");
                Err(self.wrong(TOKENIZER, why, None))
            }
        }
    }

    /// The directory's name with a digest of all files that decide about vectors, one after the
    /// other: the first twelve digits of what `cat` and `sha256sum` give.
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
