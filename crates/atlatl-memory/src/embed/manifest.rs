//! `model.json`: what a model directory says about its model.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::local_model::{self, GGUF_EXTENSION, ModelDir};
use super::{Cause, EmbedError, FusionWeights, Scripts};

/// The file name of a manifest.
pub(super) const MANIFEST: &str = "model.json";
/// The format that this program reads and writes.
const FORMAT: u64 = 1;
const MAX_MANIFEST_BYTES: u64 = 64 << 10;
const MAX_NAME_LEN: usize = 64;
const DIMENSIONS: RangeInclusive<usize> = 1..=4096;
const VECTOR_WEIGHTS: RangeInclusive<f64> = 0.0..=10.0;
const KNEES: RangeInclusive<f64> = 0.001..=10.0;

/// The manifest of a model directory: enough to name the model, to rank with it and to notice a
/// truncated file, without loading it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelManifest {
    /// The name of the model: letters, digits, `.`, `-` and `_`.
    pub name: String,
    /// The architecture.
    pub kind: ModelKind,
    /// The number of dimensions of a vector.
    pub dimensions: usize,
    /// The file name of the weights.
    pub file: String,
    /// The size of the weights file.
    pub bytes: u64,
    /// The SHA-256, in hexadecimal, of all files that determine vectors, one after the other:
    /// weights, `tokenizer.json` and, for BERT, `config.json` and `sentence_bert_config.json`.
    pub sha256: String,
    /// The SPDX identifier of the license; may be empty.
    pub license: String,
    /// Where the model comes from; may be empty.
    pub source: String,
    /// How its vectors are combined with words.
    pub fusion: FusionWeights,
}

/// The architecture of a local model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ModelKind {
    /// A BERT sentence model with mean pooling.
    Bert,
    /// A table with one row per token.
    Static,
}

/// What a manifest says about a model beyond the properties of its files.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// The name of the model.
    pub name: String,
    /// The SPDX identifier of the license; may be empty.
    pub license: String,
    /// Where the model comes from; may be empty.
    pub source: String,
    /// How its vectors are combined with words; `None` for the default of its kind.
    pub fusion: Option<FusionWeights>,
}

/// Why a text is not a manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidManifest {
    /// It is not JSON, or a field is missing or has another type.
    #[error("not a model manifest")]
    Json(#[from] serde_json::Error),
    /// A later version of the program wrote it.
    #[error("`format` is {found}; this program reads format 1")]
    Format {
        /// The format of the manifest.
        found: u64,
    },
    /// The value of a field is out of range.
    #[error("`{field}`: expected {expected}")]
    Value {
        /// The name of the field.
        field: &'static str,
        /// What is allowed.
        expected: &'static str,
    },
}

/// A manifest as it is written.
#[derive(Serialize, Deserialize)]
struct ManifestFile {
    format: u64,
    name: String,
    kind: ModelKind,
    dimensions: usize,
    file: String,
    bytes: u64,
    sha256: String,
    #[serde(default)]
    license: String,
    #[serde(default)]
    source: String,
    /// Empty if the model knows many scripts, or if it is not known which.
    #[serde(default)]
    scripts: Vec<String>,
    fusion: Option<FusionFile>,
}

#[derive(Serialize, Deserialize)]
struct FusionFile {
    vector: f64,
    knee: f64,
}

impl ModelManifest {
    /// Reads the manifest of a directory; `None` if it has none. A weights file of another size than
    /// the manifest says is an error.
    pub fn read(directory: &Path) -> Result<Option<Self>, EmbedError> {
        let path = directory.join(MANIFEST);
        let invalid = |why: &str, source: Option<Cause>| EmbedError::Model {
            path: path.clone(),
            why: why.to_owned(),
            source,
        };
        let file = match open_file(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(invalid("cannot read it", Some(error.into()))),
        };
        let mut content = Vec::new();
        let read = file.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut content);
        read.map_err(|error| invalid("cannot read it", Some(error.into())))?;
        if content.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(invalid("it is larger than 64 KiB", None));
        }
        let manifest = Self::parse(&content)
            .map_err(|error| invalid("invalid content", Some(error.into())))?;
        manifest.check_size(directory)?;
        Ok(Some(manifest))
    }

    /// Parses the content of a manifest.
    pub fn parse(content: &[u8]) -> Result<Self, InvalidManifest> {
        #[derive(Deserialize)]
        struct Version {
            format: u64,
        }
        // First, since other formats may have other fields.
        let Version { format: found } = serde_json::from_slice(content)?;
        if found != FORMAT {
            return Err(InvalidManifest::Format { found });
        }
        let file: ManifestFile = serde_json::from_slice(content)?;
        let scripts = match &file.scripts[..] {
            [only] if only == "latin" => Scripts::Latin,
            _ => Scripts::Any,
        };
        let fusion = match file.fusion {
            Some(FusionFile { vector, knee }) => FusionWeights { vector, knee, scripts },
            None => FusionWeights { scripts, ..file.kind.fusion() },
        };
        let manifest = Self {
            name: file.name,
            kind: file.kind,
            dimensions: file.dimensions,
            file: file.file,
            bytes: file.bytes,
            sha256: file.sha256,
            license: file.license,
            source: file.source,
            fusion,
        };
        manifest.check_values()?;
        Ok(manifest)
    }

    /// Returns the manifest as it is written to a file.
    pub fn to_json(&self) -> String {
        let FusionWeights { vector, knee, scripts } = self.fusion;
        let file = ManifestFile {
            format: FORMAT,
            name: self.name.clone(),
            kind: self.kind,
            dimensions: self.dimensions,
            file: self.file.clone(),
            bytes: self.bytes,
            sha256: self.sha256.clone(),
            license: self.license.clone(),
            source: self.source.clone(),
            scripts: match scripts {
                Scripts::Latin => vec!["latin".to_owned()],
                Scripts::Any => Vec::new(),
            },
            fusion: Some(FusionFile { vector, knee }),
        };
        // Strings and numbers can always be written.
        let mut json = serde_json::to_string_pretty(&file).unwrap_or_default();
        json.push('\n');
        json
    }

    /// Describes a model directory that has no manifest. Loads the model to check it.
    pub fn describe(directory: &Path, about: &ModelDescription) -> Result<Self, EmbedError> {
        let files = ModelDir::new(directory)?;
        let kind = files.kind()?;
        let file = files.weights_file(kind)?;
        let model = local_model::open(directory)?;
        let size = fs::metadata(files.path().join(&file)).map(|file| file.len());
        let bytes =
            size.map_err(|error| files.invalid(&file, "cannot read it", Some(error.into())))?;
        let manifest = Self {
            name: about.name.clone(),
            kind,
            dimensions: model.dimensions(),
            sha256: files.digest(kind, &file)?,
            file,
            bytes,
            license: about.license.clone(),
            source: about.source.clone(),
            fusion: about.fusion.unwrap_or_else(|| kind.fusion()),
        };
        manifest
            .check_values()
            .map_err(|error| files.invalid(MANIFEST, error.to_string(), None))?;
        Ok(manifest)
    }

    /// Returns the name that vectors are stored under: the name and the first twelve digits of the
    /// digest.
    pub fn model_name(&self) -> String {
        format!("{}@{}", self.name, &self.sha256[..12])
    }

    /// Reads all files that determine vectors, and fails unless they have the digest of the manifest.
    pub fn verify(&self, directory: &Path) -> Result<(), EmbedError> {
        let files = ModelDir::new(directory)?;
        if files.digest(self.kind, &self.file)? == self.sha256 {
            return Ok(());
        }
        Err(files.invalid("", "its files do not have the digest in model.json", None))
    }

    fn check_values(&self) -> Result<(), InvalidManifest> {
        let expect = |is_valid: bool, field, expected| {
            is_valid.then_some(()).ok_or(InvalidManifest::Value { field, expected })
        };
        let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        let sha256 = self.sha256.len() == 64 && self.sha256.chars().all(is_hex);
        expect(is_file_name(&self.name), "name", "1 to 64 letters, digits, `.`, `-` or `_`")?;
        expect(DIMENSIONS.contains(&self.dimensions), "dimensions", "1 to 4096")?;
        let is_weights = self.file.ends_with(GGUF_EXTENSION) || self.file.ends_with(".safetensors");
        let expected = "the name of a .gguf or .safetensors file";
        expect(is_file_name(&self.file) && is_weights, "file", expected)?;
        expect(self.bytes > 0, "bytes", "the size of the file")?;
        expect(sha256, "sha256", "64 hexadecimal digits in lower case")?;
        let is_printable = |text: &str| !text.contains(char::is_control);
        expect(is_printable(&self.license), "license", "text without control characters")?;
        expect(is_printable(&self.source), "source", "text without control characters")?;
        let FusionWeights { vector, knee, .. } = self.fusion;
        expect(VECTOR_WEIGHTS.contains(&vector), "fusion.vector", "a number from 0 to 10")?;
        expect(KNEES.contains(&knee), "fusion.knee", "a number from 0.001 to 10")
    }

    fn check_size(&self, directory: &Path) -> Result<(), EmbedError> {
        let path = directory.join(&self.file);
        let (why, source) = match fs::metadata(&path) {
            Ok(file) if file.is_file() && file.len() == self.bytes => return Ok(()),
            Ok(file) if file.is_file() => {
                (format!("it has {} bytes instead of {}", file.len(), self.bytes), None)
            }
            Ok(_) => ("not a regular file".to_owned(), None),
            Err(error) => ("cannot read it".to_owned(), Some(error.into())),
        };
        Err(EmbedError::Model { path, why, source })
    }
}

impl ModelKind {
    /// Returns the default of how vectors of this kind are combined with words: a table ignores the
    /// order of words, so its cosines mean less.
    pub(super) fn fusion(self) -> FusionWeights {
        match self {
            Self::Bert => FusionWeights::default(),
            Self::Static => FusionWeights { vector: 0.25, ..FusionWeights::default() },
        }
    }
}

/// Returns whether a name is one that every file system and shell accepts as it is.
fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.len() <= MAX_NAME_LEN
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
}

/// Opens a regular file. Opening a pipe would wait for its writer.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(path)
}

/// A directory with a manifest, below one of the directories of installed models.
#[derive(Debug)]
#[non_exhaustive]
pub struct InstalledModel {
    /// The model's directory.
    pub directory: PathBuf,
    /// The manifest, or why the model cannot be used.
    pub manifest: Result<ModelManifest, EmbedError>,
}

/// Lists the models in the subdirectories of `directories`: in their order, and by name in each.
/// Directories that do not exist are skipped.
pub fn installed_models(directories: &[PathBuf]) -> Vec<InstalledModel> {
    let mut models = Vec::new();
    for directory in directories {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        // Names that begin with a dot belong to an installation that is not complete.
        let is_visible = |path: &PathBuf| {
            let name = path.file_name();
            name.is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")) && path.is_dir()
        };
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(is_visible).collect();
        paths.sort();
        models.extend(paths.into_iter().filter_map(|directory| {
            let manifest = ModelManifest::read(&directory).transpose()?;
            Some(InstalledModel { directory, manifest })
        }));
    }
    models
}

/// Returns the model that `auto` selects: the first usable one, otherwise the first.
pub(super) fn selected_model(models: Vec<InstalledModel>) -> Option<InstalledModel> {
    let usable = models.iter().position(|model| model.manifest.is_ok()).unwrap_or(0);
    models.into_iter().nth(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"format": 1, "name": "all-MiniLM-L6-v2", "kind": "bert",
        "dimensions": 384, "file": "model.gguf", "bytes": 5,
        "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "license": "Apache-2.0", "scripts": ["latin"], "fusion": {"vector": 0.4, "knee": 0.05},
        "a later field": {}}"#;

    #[test]
    fn a_manifest_is_read_and_written_alike() {
        let manifest = ModelManifest::parse(GOOD.as_bytes()).expect("a manifest");
        assert_eq!(manifest.model_name(), "all-MiniLM-L6-v2@0123456789ab");
        let weights = FusionWeights { vector: 0.4, knee: 0.05, scripts: Scripts::Latin };
        assert_eq!(manifest.fusion, weights);
        let again = ModelManifest::parse(manifest.to_json().as_bytes()).expect("a manifest");
        assert_eq!(again, manifest);
    }

    #[test]
    fn the_kind_decides_what_a_manifest_leaves_out() {
        let text = GOOD
            .replace("bert", "static")
            .replace(r#", "scripts": ["latin"], "fusion": {"vector": 0.4, "knee": 0.05}"#, "");
        let manifest = ModelManifest::parse(text.as_bytes()).expect("a manifest");
        let weights = FusionWeights { vector: 0.25, knee: 0.05, scripts: Scripts::Any };
        assert_eq!(manifest.fusion, weights);
    }

    #[test]
    fn what_is_no_manifest_says_which_field_is_wrong() {
        for (from, to, expected) in [
            ("\"format\": 1", "\"format\": 2", "`format` is 2; this program reads format 1"),
            ("\"format\": 1,", "", "not a model manifest"),
            ("bert", "gpt", "not a model manifest"),
            ("all-Mini", "../Mini", "`name`: expected 1 to 64 letters, digits, `.`, `-` or `_`"),
            ("384", "0", "`dimensions`: expected 1 to 4096"),
            ("384", "4097", "`dimensions`: expected 1 to 4096"),
            (
                "model.gguf",
                "../model.gguf",
                "`file`: expected the name of a .gguf or .safetensors file",
            ),
            ("model.gguf", "model", "`file`: expected the name of a .gguf or .safetensors file"),
            ("\"bytes\": 5", "\"bytes\": 0", "`bytes`: expected the size of the file"),
            ("0123", "", "`sha256`: expected 64 hexadecimal digits in lower case"),
            ("Apache", "\\u001b", "`license`: expected text without control characters"),
            ("0.4", "-1", "`fusion.vector`: expected a number from 0 to 10"),
            ("0.05", "0", "`fusion.knee`: expected a number from 0.001 to 10"),
        ] {
            assert!(GOOD.contains(from));
            let text = GOOD.replace(from, to);
            let error = ModelManifest::parse(text.as_bytes()).expect_err(to);
            assert_eq!(error.to_string(), expected, "{to}");
        }
    }

    #[test]
    fn a_truncated_weights_file_is_found_without_reading_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        assert_eq!(ModelManifest::read(path).expect("no manifest is no error"), None);
        fs::write(path.join(MANIFEST), GOOD).expect("written");
        let why = |path: &Path| match ModelManifest::read(path) {
            Err(EmbedError::Model { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(path), "cannot read it");
        fs::write(path.join("model.gguf"), "1234").expect("written");
        assert_eq!(why(path), "it has 4 bytes instead of 5");
        fs::write(path.join("model.gguf"), "12345").expect("written");
        assert!(ModelManifest::read(path).expect("a manifest").is_some());
        fs::write(path.join(MANIFEST), vec![b' '; 70_000]).expect("written");
        assert_eq!(why(path), "it is larger than 64 KiB");
    }

    #[test]
    fn the_first_usable_model_is_selected() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        for (name, weights) in [("a/broken", "1"), ("a/.staged", "12345"), ("b/x", "12345")] {
            fs::create_dir_all(root.join(name)).expect("created");
            fs::write(root.join(name).join(MANIFEST), GOOD).expect("written");
            fs::write(root.join(name).join("model.gguf"), weights).expect("written");
        }
        fs::create_dir(root.join("a/not-a-model")).expect("created");
        let directories = [root.join("nowhere"), root.join("a"), root.join("b")];
        let models = installed_models(&directories);
        let names: Vec<_> = models.iter().map(|model| model.directory.clone()).collect();
        assert_eq!(names, [root.join("a/broken"), root.join("b/x")]);
        let selected = selected_model(models).expect("a model");
        assert_eq!(selected.directory, root.join("b/x"));
        let selected = selected_model(installed_models(&directories[..2])).expect("a model");
        assert_eq!(selected.directory, root.join("a/broken"));
        assert!(selected_model(installed_models(&directories[..1])).is_none());
    }
}
