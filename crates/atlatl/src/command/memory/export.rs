//! `atlatl memory export`.

mod folder;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use atlatl_memory::{Filter, MemoryStore, Order};
use chrono::{DateTime, Utc};
use mif::Memory;
use tempfile::NamedTempFile;

use super::fields::Chosen;
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Output, counted},
    settings::Settings,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl memory export > memories.jsonl
  atlatl memory export --form json-ld --to memories.jsonld
  atlatl memory export --form markdown --to notes --namespace _semantic";

/// Memories that are held at a time.
const PAGE: usize = 200;

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// jsonl, json-ld or markdown
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        default_value = "jsonl",
        hide_possible_values = true
    )]
    form: Form,
    /// The file; for Markdown the folder, a file each
    /// [default: standard output]
    #[arg(long, value_name = "PATH", verbatim_doc_comment)]
    to: Option<PathBuf>,
    /// Write over what is there
    #[arg(long, requires = "to")]
    force: bool,
    #[command(flatten)]
    chosen: Chosen,
}

/// The forms that many memories can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Jsonl,
    JsonLd,
    Markdown,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let walk = Walk {
        store: memory_config::existing(settings)?,
        filter: args.chosen.filter(None),
        now: memory_config::moment().now,
    };
    let count = match (args.form, &args.to) {
        (Form::Markdown, None) => {
            return Err(Error::usage("Markdown needs a folder: a file each")
                .with_hint("--to FOLDER names it"));
        }
        (Form::Markdown, Some(path)) => folder::write(path, args.force, &walk)?,
        (form, Some(path)) => to_file(form, path, args.force, &walk)?,
        (form, None) => {
            let mut writer = output.writer();
            let written =
                walk.write(form, &mut writer).and_then(|n| Ok(writer.flush().map(|()| n)?));
            drop(writer);
            written?
        }
    };
    output.note(format_args!("exported {}", counted(count, "memory", "memories")));
    Ok(Status::Success)
}

/// The way through all memories that are meant, the oldest first.
struct Walk {
    /// Nothing where there is no store.
    store: Option<std::sync::Arc<dyn MemoryStore>>,
    filter: Filter,
    now: DateTime<Utc>,
}

impl Walk {
    /// Visits each once, a page at a time; how many.
    fn each(&self, mut visit: impl FnMut(&Memory) -> Result<(), Error>) -> Result<u64, Error> {
        let Some(store) = &self.store else { return Ok(0) };
        let (mut count, mut position) = (0, None);
        loop {
            let page =
                store.list(&self.filter, Order::Oldest, position.as_ref(), PAGE, self.now)?;
            page.memories.iter().try_for_each(&mut visit)?;
            count += page.memories.len() as u64;
            position = page.memories.last().map(|memory| Order::Oldest.position(memory));
            if !page.more {
                return Ok(count);
            }
        }
    }

    fn write(&self, form: Form, to: &mut impl Write) -> Result<u64, Error> {
        if form == Form::Jsonl {
            return self.each(|memory| {
                Ok(writeln!(to, "{}", lro_core::escape_hidden(&memory.to_json()))?)
            });
        }
        write!(to, "{{\"@graph\":[")?;
        let mut between = "\n";
        let count = self.each(|memory| {
            let document = memory.to_json_ld_value().to_string();
            write!(to, "{between}{}", lro_core::escape_hidden(&document))?;
            between = ",\n";
            Ok(())
        })?;
        writeln!(to, "\n]}}")?;
        Ok(count)
    }
}

/// Writes a file that is there whole or not at all, and that its owner alone may read.
fn to_file(form: Form, path: &Path, force: bool, walk: &Walk) -> Result<u64, Error> {
    let unwritable = |error: io::Error| Error::failure(format!("{}: {error}", path.display()));
    let taken = || {
        Error::failure(format!("{} is there already", path.display()))
            .with_hint("--force writes over it")
    };
    if !force && fs::symlink_metadata(path).is_ok() {
        return Err(taken());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(unwritable)?;
    let mut writer = io::BufWriter::new(file.as_file_mut());
    let count = walk.write(form, &mut writer)?;
    writer.flush().map_err(unwritable)?;
    drop(writer);
    file.as_file().sync_all().map_err(unwritable)?;
    let persisted = if force { file.persist(path) } else { file.persist_noclobber(path) };
    match persisted {
        Ok(_) => Ok(count),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(taken()),
        Err(error) => Err(unwritable(error.error)),
    }
}
