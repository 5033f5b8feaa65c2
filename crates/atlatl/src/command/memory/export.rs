//! `atlatl memory export`: writes memories as JSON lines, JSON-LD or Markdown files.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use atlatl_memory::{Filter, ListPosition, MemoryStore, Order, StoreError};
use chrono::{DateTime, Utc};
use mif::{Memory, MemoryId};
use tempfile::NamedTempFile;

use super::query::FilterArgs;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{Output, counted};
use crate::settings::Settings;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl memory export > memories.jsonl
  atlatl memory export --form json-ld --to memories.jsonld
  atlatl memory export --form markdown --to notes --namespace _semantic";

/// The number of memories that are loaded at a time.
const PAGE_SIZE: usize = 200;

/// Arguments of `atlatl memory export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Format: jsonl, json-ld or markdown
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        default_value = "jsonl",
        hide_possible_values = true
    )]
    form: ExportFormat,
    /// Output file; for Markdown a folder, one file each
    /// [default: standard output]
    #[arg(long, value_name = "PATH", verbatim_doc_comment)]
    to: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long, requires = "to")]
    force: bool,
    #[command(flatten)]
    selection: FilterArgs,
}

/// The export formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    Jsonl,
    JsonLd,
    Markdown,
}

/// Runs `atlatl memory export`.
pub(super) async fn run(
    args: &ExportArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let export = MemoryExport {
        store: memory_config::open_existing(settings).await?,
        filter: args.selection.filter(None),
        now: memory_config::moment().now,
    };
    let count = match (args.form, &args.to) {
        (ExportFormat::Markdown, None) => {
            return Err(Error::usage("Markdown needs a folder, with one file per memory")
                .with_hint("use --to FOLDER"));
        }
        (ExportFormat::Markdown, Some(path)) => write_folder(path, args.force, &export).await?,
        (form, Some(path)) => write_file(form, path, args.force, &export).await?,
        (form, None) => {
            let mut writer = output.writer();
            let written = export
                .write(form, &mut writer)
                .await
                .and_then(|n| Ok(writer.flush().map(|()| n)?));
            drop(writer);
            written?
        }
    };
    output.note(format_args!("exported {}", counted(count, "memory", "memories")));
    Ok(Status::Success)
}

/// Memories page by page, the oldest first, without those that are expired.
pub(crate) struct MemoryPages {
    store: Arc<dyn MemoryStore>,
    filter: Filter,
    now: DateTime<Utc>,
    /// The last memory of the previous page.
    position: Option<ListPosition>,
    is_finished: bool,
}

impl MemoryPages {
    fn new(store: Arc<dyn MemoryStore>, filter: Filter, now: DateTime<Utc>) -> Self {
        Self { store, filter, now, position: None, is_finished: false }
    }

    /// The memories of every status.
    pub(crate) fn all(store: Arc<dyn MemoryStore>, now: DateTime<Utc>) -> Self {
        let mut filter = Filter::default();
        filter.status = None;
        Self::new(store, filter, now)
    }

    /// Loads the next page; `None` after the last one.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<Memory>>, StoreError> {
        if self.is_finished {
            return Ok(None);
        }
        let position = self.position.as_ref();
        let page =
            self.store.list(&self.filter, Order::Oldest, position, PAGE_SIZE, self.now).await?;
        self.position = page.memories.last().map(|memory| Order::Oldest.position(memory));
        self.is_finished = !page.more;
        Ok(Some(page.memories))
    }
}

/// A memory as a line of an export.
pub(crate) fn json_line(memory: &Memory) -> String {
    format!("{}\n", lro_core::escape_invisible_json(&memory.to_json()))
}

/// The memories to export, the oldest first.
struct MemoryExport {
    /// `None` if there is no store.
    store: Option<Arc<dyn MemoryStore>>,
    filter: Filter,
    now: DateTime<Utc>,
}

impl MemoryExport {
    /// Calls `visit` for each memory and returns their number.
    async fn for_each(
        &self,
        mut visit: impl FnMut(&Memory) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let Some(store) = &self.store else { return Ok(0) };
        let mut pages = MemoryPages::new(Arc::clone(store), self.filter.clone(), self.now);
        let mut count = 0;
        while let Some(memories) = pages.next_page().await? {
            memories.iter().try_for_each(&mut visit)?;
            count += memories.len() as u64;
        }
        Ok(count)
    }

    async fn write(&self, form: ExportFormat, to: &mut impl Write) -> Result<u64, Error> {
        if form == ExportFormat::Jsonl {
            return self.for_each(|memory| Ok(to.write_all(json_line(memory).as_bytes())?)).await;
        }
        write!(to, "{{\"@graph\":[")?;
        let mut between = "\n";
        let count = self
            .for_each(|memory| {
                let document = memory.to_json_ld_value().to_string();
                write!(to, "{between}{}", lro_core::escape_invisible_json(&document))?;
                between = ",\n";
                Ok(())
            })
            .await?;
        writeln!(to, "\n]}}")?;
        Ok(count)
    }
}

/// Writes a private file atomically.
async fn write_file(
    form: ExportFormat,
    path: &Path,
    force: bool,
    export: &MemoryExport,
) -> Result<u64, Error> {
    let unwritable = |error: io::Error| Error::failure(format!("{}: {error}", path.display()));
    let exists_error = || {
        Error::failure(format!("{} already exists", path.display()))
            .with_hint("use --force to overwrite it")
    };
    if !force && fs::symlink_metadata(path).is_ok() {
        return Err(exists_error());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(unwritable)?;
    let mut writer = io::BufWriter::new(file.as_file_mut());
    let count = export.write(form, &mut writer).await?;
    writer.flush().map_err(unwritable)?;
    drop(writer);
    file.as_file().sync_all().map_err(unwritable)?;
    let persisted = if force { file.persist(path) } else { file.persist_noclobber(path) };
    match persisted {
        Ok(_) => Ok(count),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists_error()),
        Err(error) => Err(unwritable(error.error)),
    }
}

/// Writes a Markdown file for each memory and returns their number.
async fn write_folder(folder: &Path, force: bool, export: &MemoryExport) -> Result<u64, Error> {
    let unwritable = |error: io::Error| Error::failure(format!("{}: {error}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unwritable)?;
    if !force && fs::read_dir(folder).map_err(unwritable)?.next().is_some() {
        return Err(Error::failure(format!("{} is not empty", folder.display()))
            .with_hint("use --force to write into it and overwrite files of the same memories"));
    }
    export.for_each(|memory| write_note(folder, memory, force)).await
}

fn write_note(folder: &Path, memory: &Memory, force: bool) -> Result<(), Error> {
    // The name is formatted from the number: the text of an id is untrusted.
    let name = MemoryId::from_u128(memory.id.as_u128());
    let path = folder.join(format!("{name}.memory.md"));
    let unwritable = |error: io::Error| Error::failure(format!("{}: {error}", path.display()));
    if force {
        // Removed rather than overwritten: it may be a symbolic link.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(error)),
            _ => {}
        }
    }
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    new.and_then(|mut file| file.write_all(memory.to_markdown().as_bytes())).map_err(unwritable)
}
