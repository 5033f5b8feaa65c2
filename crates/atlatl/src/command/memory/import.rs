//! `atlatl memory import`: reads JSON, JSON-LD and Markdown, and stores memories in batches.

mod json;
mod notes;
/// The former path of [`Importer`].
pub(in crate::command) mod importer {
    pub(in crate::command) use super::Importer;
}

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use atlatl_memory::{CaptureService, MemoryStore, OnConflict, PutOutcome};
use mif::{Memory, MifError};
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;

use self::notes::FolderEntry;
use super::vectors;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{Mode, Output, Progress, grouped};
use crate::settings::Settings;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl memory import memories.jsonl
  atlatl memory import notes/ decisions.md
  ssh host atlatl memory export | atlatl memory import -";

/// The maximum size of one memory in any format: the longest content with every character escaped.
const MAX_MEMORY_BYTES: usize = 16 << 20;
/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// Arguments of `atlatl memory import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Files and folders; - is JSON lines on standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Replace existing memories that have the same id
    #[arg(long)]
    replace: bool,
    /// Stop at the first memory that cannot be read
    #[arg(long)]
    strict: bool,
    /// Leave the vectors to `atlatl serve`
    #[arg(long)]
    no_embed: bool,
}

/// The format of an input, by its file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputKind {
    Lines,
    Values,
    Markdown,
    Folder,
}

/// Runs `atlatl memory import`.
pub(super) async fn run(
    args: &ImportArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    // Checks all paths before reading the first, so that a mistyped name fails at once.
    let paths: Vec<(PathBuf, InputKind)> = args
        .paths
        .iter()
        .map(|path| Ok((path.clone(), input_kind(path)?)))
        .collect::<Result<_, Error>>()?;
    let store = memory_config::open(settings).await?;
    let clash = if args.replace { OnConflict::Replace } else { OnConflict::Keep };
    let total = || paths.iter().map(|(path, kind)| input_bytes((path, *kind))).sum();
    let progress = Progress::new("importing", total);
    let mut importer =
        Importer::new(Arc::clone(&store), clash, args.strict, progress, &mut *output);
    let (sender, items) = channel(MAX_QUEUED_ITEMS);
    // A thread reads while the batches are stored.
    let reading = spawn_blocking(move || {
        let mut reader = ItemSender(sender);
        paths.iter().try_for_each(|(path, kind)| read_input(path, *kind, &mut reader))
    });
    let done = match importer.receive(items).await {
        Ok(()) => reading.await.unwrap_or_else(|error| Err(Error::failure(error.to_string()))),
        // The reader may wait for more input.
        Err(error) => Err(error),
    };
    // The memories are stored and counted before anything of the embedder is read.
    let status = importer.finish(done).await?;
    if !args.no_embed {
        vectors::embed_imported(&*store, settings, output).await;
    }
    Ok(status)
}

fn input_kind(path: &Path) -> Result<InputKind, Error> {
    if path == Path::new(STANDARD_INPUT) {
        return Ok(InputKind::Lines);
    }
    let unreadable = |error| Error::failure(format!("{}: {error}", path.display()));
    if fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(InputKind::Folder);
    }
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    match extension.to_str() {
        Some("jsonl" | "ndjson") => Ok(InputKind::Lines),
        Some("json" | "jsonld") => Ok(InputKind::Values),
        Some("md" | "markdown") => Ok(InputKind::Markdown),
        _ => Err(Error::usage(format!("{}: unknown file type", path.display()))
            .with_hint("supported extensions: .jsonl, .json, .jsonld and .md")),
    }
}

/// The size of an input, for the progress bar.
fn input_bytes((path, kind): (&Path, InputKind)) -> u64 {
    let bytes = |path: &Path| fs::symlink_metadata(path).map_or(0, |file| file.len());
    let mut all = 0;
    if kind == InputKind::Folder {
        // Errors are reported when the folder is read.
        let _ = notes::visit_folder(path, &mut |entry| {
            if let FolderEntry::Note { path, .. } = entry {
                all += bytes(path);
            }
            Ok(())
        });
        return all;
    }
    fs::metadata(path).map_or(0, |file| file.len())
}

fn read_input(path: &Path, kind: InputKind, reader: &mut ItemSender) -> Result<(), Error> {
    let name = path.display().to_string();
    match kind {
        InputKind::Lines if path == Path::new(STANDARD_INPUT) => {
            json::read_lines(io::stdin().lock(), "standard input", reader)
        }
        InputKind::Lines | InputKind::Values => match File::open(path).map(BufReader::new) {
            Ok(file) if kind == InputKind::Lines => json::read_lines(file, &name, reader),
            Ok(file) => json::read_values(file, &name, reader),
            Err(error) => reader.reject(&name, &error.to_string()),
        },
        // The relative path of a file on the command line is its name.
        InputKind::Markdown => {
            let relative = Path::new(path.file_name().unwrap_or_default());
            notes::import_note(notes::SymlinkPolicy::Follow, path, relative, reader)
        }
        InputKind::Folder => notes::visit_folder(path, &mut |entry| match entry {
            FolderEntry::Note { path, relative } => {
                notes::import_note(notes::SymlinkPolicy::Refuse, path, relative, reader)
            }
            FolderEntry::Unreadable { path, error } => {
                reader.reject(&path.display().to_string(), &error.to_string())
            }
        }),
    }
}

/// Imports the memory that starts at `line` of a file, or rejects it.
fn import_parsed(
    read: Result<Memory, MifError>,
    bytes: u64,
    name: &str,
    line: u64,
    reader: &mut ItemSender,
) -> Result<(), Error> {
    match read {
        Ok(memory) => reader.memory(memory, bytes),
        Err(error) => {
            reader.skip(bytes);
            let inside = error.position().map_or(0, |at| at.line.saturating_sub(1)) as u64;
            reader.reject(&format!("{name}:{}", line + inside), &describe(&error))
        }
    }
}

/// The message of an error without its position, which is reported relative to the file.
fn describe(error: &MifError) -> String {
    match error {
        MifError::Syntax { expected, found, .. } => format!("expected {expected}, found {found}"),
        MifError::Field { path, expected, found, .. } => {
            format!("`{path}`: expected {expected}, found {found}")
        }
        other => other.to_string(),
    }
}

/// The number of memories in one transaction. Each commit waits for the disk.
const MAX_BATCH_LEN: usize = 500;
/// The size of a batch in bytes, which bounds memory use.
const MAX_BATCH_BYTES: u64 = 16 << 20;
/// The number of failures that are reported individually.
const MAX_REPORTED_FAILURES: u64 = 20;

/// The maximum number of items between the reader and the store. A memory may be large.
const MAX_QUEUED_ITEMS: usize = 8;

/// What the reader of an input found.
enum ImportItem {
    /// A memory and its size in the input.
    Memory(Box<Memory>, u64),
    /// Bytes without a memory.
    Skipped(u64),
    /// An invalid memory.
    Invalid { location: String, message: String },
}

/// Sends what is read to the [`Importer`]. It fails when the import has ended.
struct ItemSender(Sender<ImportItem>);

impl ItemSender {
    fn memory(&mut self, memory: Memory, bytes: u64) -> Result<(), Error> {
        self.send(ImportItem::Memory(Box::new(memory), bytes))
    }

    fn skip(&mut self, bytes: u64) {
        // The next item reports the end.
        let _ = self.send(ImportItem::Skipped(bytes));
    }

    fn reject(&mut self, location: &str, message: &str) -> Result<(), Error> {
        let (location, message) = (location.to_owned(), message.to_owned());
        self.send(ImportItem::Invalid { location, message })
    }

    fn send(&self, item: ImportItem) -> Result<(), Error> {
        self.0.blocking_send(item).map_err(|_| Error::failure("the import has ended"))
    }
}

/// Stores memories in batches and counts the outcomes.
pub(in crate::command) struct Importer<'a> {
    capture: CaptureService,
    clash: OnConflict,
    strict: bool,
    batch: Vec<Memory>,
    batch_bytes: u64,
    bytes: u64,
    counts: ImportCounts,
    progress: Progress,
    output: &'a mut Output,
}

/// The number of memories by outcome, in JSON and as text.
#[derive(Debug, Default, Serialize)]
struct ImportCounts {
    stored: u64,
    unchanged: u64,
    kept: u64,
    replaced: u64,
    failed: u64,
}

impl<'a> Importer<'a> {
    pub(in crate::command) fn new(
        store: Arc<dyn MemoryStore>,
        clash: OnConflict,
        strict: bool,
        progress: Progress,
        output: &'a mut Output,
    ) -> Self {
        Self {
            capture: CaptureService::new(store),
            clash,
            strict,
            batch: Vec::with_capacity(MAX_BATCH_LEN),
            batch_bytes: 0,
            bytes: 0,
            counts: ImportCounts::default(),
            progress,
            output,
        }
    }

    /// Imports everything that a reader sends.
    async fn receive(&mut self, mut items: Receiver<ImportItem>) -> Result<(), Error> {
        while let Some(item) = items.recv().await {
            match item {
                ImportItem::Memory(memory, bytes) => self.memory(*memory, bytes).await?,
                ImportItem::Skipped(bytes) => self.skip(bytes),
                ImportItem::Invalid { location, message } => self.reject(&location, &message)?,
            }
        }
        Ok(())
    }

    /// Adds a memory to the batch; `bytes` is its size in the input.
    pub(in crate::command) async fn memory(
        &mut self,
        memory: Memory,
        bytes: u64,
    ) -> Result<(), Error> {
        self.batch.push(memory);
        self.batch_bytes += bytes;
        self.skip(bytes);
        if self.batch.len() >= MAX_BATCH_LEN || self.batch_bytes >= MAX_BATCH_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Advances the progress by `bytes`.
    fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.progress.at(self.bytes, self.counts.imported() + self.batch.len() as u64);
    }

    /// Reports an invalid memory. Returns the error with `--strict`, otherwise the import goes on.
    fn reject(&mut self, location: &str, message: &str) -> Result<(), Error> {
        self.counts.failed += 1;
        let error = Error::failure(format!("{location}: {message}"));
        if self.strict {
            return Err(error);
        }
        if self.counts.failed <= MAX_REPORTED_FAILURES {
            self.progress.clear();
            self.output.error(&error);
        }
        Ok(())
    }

    /// Stores the batch durably.
    async fn flush(&mut self) -> Result<(), Error> {
        for put in self.capture.import(&self.batch, self.clash).await? {
            match put {
                PutOutcome::Stored => self.counts.stored += 1,
                PutOutcome::Replaced => self.counts.replaced += 1,
                PutOutcome::Unchanged => self.counts.unchanged += 1,
                _ => self.counts.kept += 1,
            }
        }
        self.batch.clear();
        self.batch_bytes = 0;
        Ok(())
    }

    /// Stores the last batch and prints the counts, also if reading failed.
    pub(in crate::command) async fn finish(
        mut self,
        done: Result<(), Error>,
    ) -> Result<Status, Error> {
        // The last batch is stored after an invalid memory, but not after an error of the store.
        let done = match done {
            Err(error) if self.counts.failed == 0 => Err(error),
            done => self.flush().await.and(done),
        };
        self.progress.clear();
        let Self { counts, output, .. } = self;
        if counts.failed > MAX_REPORTED_FAILURES {
            output.note(format_args!(
                "{} more cannot be read",
                grouped(counts.failed - MAX_REPORTED_FAILURES)
            ));
        }
        match output.mode() {
            Mode::Json => output.json(&counts)?,
            Mode::Human => output.line(&counts)?,
        }
        if counts.kept > 0 {
            output.note(
                "a different memory with the same id was kept; use --replace to overwrite it",
            );
        }
        done?;
        Ok(if counts.failed == 0 { Status::Success } else { Status::Failure })
    }
}

impl ImportCounts {
    /// The number of valid memories.
    fn imported(&self) -> u64 {
        self.stored + self.unchanged + self.kept + self.replaced
    }
}

impl std::fmt::Display for ImportCounts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stored, unchanged, kept, replaced, failed } = self;
        let named = [
            ("stored", stored),
            ("unchanged", unchanged),
            ("kept", kept),
            ("replaced", replaced),
            ("failed", failed),
        ];
        let texts: Vec<String> =
            named.iter().map(|(name, count)| format!("{name} {}", grouped(**count))).collect();
        formatter.write_str(&texts.join(", "))
    }
}
