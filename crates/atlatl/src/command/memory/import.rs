//! `atlatl memory import`.

mod folder;
pub(in crate::command) mod importer;
mod lines;
mod note;
mod splitter;
mod values;

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use atlatl_memory::Clash;
use mif::{Memory, MifError};

use self::{folder::Visited, importer::Importer};
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Output, Progress},
    settings::Settings,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl memory import memories.jsonl
  atlatl memory import notes/ decisions.md
  ssh host atlatl memory export | atlatl memory import -";

/// The most bytes of one memory, in any form: the largest content with every sign of it escaped.
const MOST_BYTES: usize = 16 << 20;
/// What stands for standard input.
const STANDARD_INPUT: &str = "-";

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files and folders; - is JSON lines on standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Put a memory in the place of a different one of its id
    #[arg(long)]
    replace: bool,
    /// Stop at the first that cannot be read
    #[arg(long)]
    strict: bool,
}

/// What a file holds, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lines,
    Values,
    Markdown,
    Folder,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    // All are looked at before the first is read: a slip in a name shows at once.
    let paths: Vec<(&Path, Kind)> =
        args.paths.iter().map(|path| Ok((&**path, kind(path)?))).collect::<Result<_, Error>>()?;
    let store = memory_config::open(settings)?;
    let clash = if args.replace { Clash::Replace } else { Clash::Keep };
    let progress = Progress::new("importing", || paths.iter().map(|path| amount(*path)).sum());
    let mut importer = Importer::new(store, clash, args.strict, progress, output);
    let done = paths.iter().try_for_each(|(path, kind)| read(path, *kind, &mut importer));
    importer.finish(done)
}

fn kind(path: &Path) -> Result<Kind, Error> {
    if path == Path::new(STANDARD_INPUT) {
        return Ok(Kind::Lines);
    }
    let unreadable = |error| Error::failure(format!("{}: {error}", path.display()));
    if fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(Kind::Folder);
    }
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    match extension.to_str() {
        Some("jsonl" | "ndjson") => Ok(Kind::Lines),
        Some("json" | "jsonld") => Ok(Kind::Values),
        Some("md" | "markdown") => Ok(Kind::Markdown),
        _ => Err(Error::usage(format!("{}: what it holds is not known", path.display()))
            .with_hint("names end in .jsonl, .json, .jsonld or .md")),
    }
}

/// How many bytes there are to read.
fn amount((path, kind): (&Path, Kind)) -> u64 {
    let bytes = |path: &Path| fs::symlink_metadata(path).map_or(0, |file| file.len());
    let mut all = 0;
    if kind == Kind::Folder {
        // What cannot be visited is told when it is read.
        let _ = folder::visit(path, &mut |visited| {
            if let Visited::Note { path, .. } = visited {
                all += bytes(path);
            }
            Ok(())
        });
        return all;
    }
    fs::metadata(path).map_or(0, |file| file.len())
}

fn read(path: &Path, kind: Kind, importer: &mut Importer<'_>) -> Result<(), Error> {
    let name = path.display().to_string();
    match kind {
        Kind::Lines if path == Path::new(STANDARD_INPUT) => {
            lines::read(io::stdin().lock(), "standard input", importer)
        }
        Kind::Lines | Kind::Values => match File::open(path).map(BufReader::new) {
            Ok(reader) if kind == Kind::Lines => lines::read(reader, &name, importer),
            Ok(reader) => values::read(reader, &name, importer),
            Err(error) => importer.bad(&name, &error.to_string()),
        },
        // A file named by itself is its own folder: its name is its path.
        Kind::Markdown => {
            let relative = Path::new(path.file_name().unwrap_or_default());
            note::import(note::Links::Followed, path, relative, importer)
        }
        Kind::Folder => folder::visit(path, &mut |visited| match visited {
            Visited::Note { path, relative } => {
                note::import(note::Links::Refused, path, relative, importer)
            }
            Visited::Unreadable { path, error } => {
                importer.bad(&path.display().to_string(), &error.to_string())
            }
        }),
    }
}

/// Hands over the memory that begins at `line` of a file, or says what is wrong with it.
fn take(
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
            importer.bad(&format!("{name}:{}", line + inside), &wrong(&error))
        }
    }
}

/// What is wrong, without the place: that is a place in the file.
fn wrong(error: &MifError) -> String {
    match error {
        MifError::Syntax { expected, found, .. } => format!("expected {expected}, found {found}"),
        MifError::Field { path, expected, found, .. } => {
            format!("`{path}`: expected {expected}, found {found}")
        }
        other => other.to_string(),
    }
}
