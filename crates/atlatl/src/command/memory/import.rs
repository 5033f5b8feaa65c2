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
pub(super) fn run(
    args: &ImportArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    // Checks all paths before reading the first, so that a mistyped name fails at once.
    let paths: Vec<(&Path, InputKind)> = args
        .paths
        .iter()
        .map(|path| Ok((&**path, input_kind(path)?)))
        .collect::<Result<_, Error>>()?;
    let store = memory_config::open(settings)?;
    let clash = if args.replace { OnConflict::Replace } else { OnConflict::Keep };
    let progress = Progress::new("importing", || paths.iter().map(|path| input_bytes(*path)).sum());
    let mut importer =
        Importer::new(Arc::clone(&store), clash, args.strict, progress, &mut *output);
    let done = paths.iter().try_for_each(|(path, kind)| read_input(path, *kind, &mut importer));
    // The memories are stored and counted before anything of the embedder is read.
    let status = importer.finish(done)?;
    if !args.no_embed {
        vectors::embed_imported(&*store, settings, output);
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

fn read_input(path: &Path, kind: InputKind, importer: &mut Importer<'_>) -> Result<(), Error> {
    let name = path.display().to_string();
    match kind {
        InputKind::Lines if path == Path::new(STANDARD_INPUT) => {
            json::read_lines(io::stdin().lock(), "standard input", importer)
        }
        InputKind::Lines | InputKind::Values => match File::open(path).map(BufReader::new) {
            Ok(reader) if kind == InputKind::Lines => json::read_lines(reader, &name, importer),
            Ok(reader) => json::read_values(reader, &name, importer),
            Err(error) => importer.reject(&name, &error.to_string()),
        },
        // The relative path of a file on the command line is its name.
        InputKind::Markdown => {
            let relative = Path::new(path.file_name().unwrap_or_default());
            notes::import_note(notes::SymlinkPolicy::Follow, path, relative, importer)
        }
        InputKind::Folder => notes::visit_folder(path, &mut |entry| match entry {
            FolderEntry::Note { path, relative } => {
                notes::import_note(notes::SymlinkPolicy::Refuse, path, relative, importer)
            }
            FolderEntry::Unreadable { path, error } => {
                importer.reject(&path.display().to_string(), &error.to_string())
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
    importer: &mut Importer<'_>,
) -> Result<(), Error> {
    match read {
        Ok(memory) => importer.memory(memory, bytes),
        Err(error) => {
            importer.skip(bytes);
            let inside = error.position().map_or(0, |at| at.line.saturating_sub(1)) as u64;
            importer.reject(&format!("{name}:{}", line + inside), &describe(&error))
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

    /// Adds a memory to the batch; `bytes` is its size in the input.
    pub(in crate::command) fn memory(&mut self, memory: Memory, bytes: u64) -> Result<(), Error> {
        self.batch.push(memory);
        self.batch_bytes += bytes;
        self.skip(bytes);
        if self.batch.len() >= MAX_BATCH_LEN || self.batch_bytes >= MAX_BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Advances the progress by `bytes`.
    pub(in crate::command) fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.progress.at(self.bytes, self.counts.imported() + self.batch.len() as u64);
    }

    /// Reports an invalid memory. Returns the error with `--strict`, otherwise the import goes on.
    pub(in crate::command) fn reject(
        &mut self,
        location: &str,
        message: &str,
    ) -> Result<(), Error> {
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
    fn flush(&mut self) -> Result<(), Error> {
        for put in self.capture.import(&self.batch, self.clash)? {
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
    pub(in crate::command) fn finish(mut self, done: Result<(), Error>) -> Result<Status, Error> {
        // The last batch is stored after an invalid memory, but not after an error of the store.
        let done = match done {
            Err(error) if self.counts.failed == 0 => Err(error),
            done => self.flush().and(done),
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
