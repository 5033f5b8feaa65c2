//! Input: a result from a file or a pipe, in memory where it is small and wherever it lies where not.

use std::{
    fs::{File, Metadata},
    io::{self, IsTerminal, Read, Seek as _},
    os::{
        fd::AsFd as _,
        unix::fs::{FileExt as _, MetadataExt as _},
    },
    path::Path,
};

use lro::SpillBuffer;
use lro_core::{
    Operation,
    payload::{self, Payload, Unreadable},
};
use lro_wire::LINE_IN_MEMORY;

use crate::{error::Error, output::ByteProgress, spool_config::Stores};

/// A larger input does not lie in memory: the same size from which the proxy treats one so.
const IN_MEMORY: usize = LINE_IN_MEMORY;
/// How much is read at a time.
const PIECE: usize = 1 << 20;

/// What was read.
pub(super) enum Input {
    /// A small one.
    Memory(Vec<u8>),
    /// A large one.
    Large(Large),
}

/// An input that does not lie in memory.
pub(super) struct Large {
    name: String,
    bytes: Bytes,
}

enum Bytes {
    /// A regular file, read where it is.
    File { file: File, length: u64, opened: (i64, i64, u64) },
    /// What came through a pipe, in an unnamed file of the spool's directory.
    SpillBuffer(SpillBuffer),
}

/// Reads `file`, or standard input.
pub(super) fn read(file: Option<&Path>, stores: &Stores) -> Result<Input, Error> {
    if let Some(path) = file.filter(|file| *file != Path::new("-")) {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
        return input(name, file, stores);
    }
    if io::stdin().is_terminal() {
        return Err(Error::usage("no result given: standard input is a terminal")
            .with_hint("atlatl offload FILE"));
    }
    let name = "standard input".to_owned();
    let file = io::stdin().as_fd().try_clone_to_owned();
    let file = file.map_err(|error| unreadable(&name, &error))?;
    input(name, File::from(file), stores)
}

fn input(name: String, mut file: File, stores: &Stores) -> Result<Input, Error> {
    let failed = |error| unreadable(&name, &error);
    let metadata = file.metadata().map_err(failed)?;
    let length = metadata.len();
    if metadata.is_file()
        && length > IN_MEMORY as u64
        && file.stream_position().is_ok_and(|position| position == 0)
    {
        let bytes = Bytes::File { file, length, opened: changed(&metadata) };
        return Ok(Input::Large(Large { name, bytes }));
    }
    let mut progress = ByteProgress::new("reading", metadata.is_file().then_some(length));
    let mut held = SpillBuffer::new(IN_MEMORY);
    let spool = stores.of_operation(&Operation::of_tool(""));
    let mut piece = vec![0; PIECE];
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(failed)?,
        };
        if read == 0 {
            break;
        }
        held.append(&piece[..read], &*spool);
        progress.at(held.bytes());
    }
    drop(progress);
    Ok(match held.into_memory() {
        Ok(input) => Input::Memory(input),
        Err(held) => Input::Large(Large { name, bytes: Bytes::SpillBuffer(held) }),
    })
}

impl Large {
    /// All of it, in memory.
    pub(super) fn whole(&self) -> Result<Vec<u8>, Error> {
        payload::part(self, 0..self.bytes()).map_err(|error| self.unreadable(&error))
    }

    /// Why it could not be read to its end.
    pub(super) fn unreadable(&self, error: &Unreadable) -> Error {
        Error::failure(format!("{}: cannot be read: {}", self.name, error.0))
    }

    /// Whether somebody wrote to it since it was opened, so that what was read may be of two ages.
    pub(super) fn has_changed(&self) -> bool {
        match &self.bytes {
            Bytes::File { file, opened, .. } => {
                file.metadata().is_ok_and(|metadata| changed(&metadata) != *opened)
            }
            Bytes::SpillBuffer(_) => false,
        }
    }

    /// Its name, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// When the bytes of a file changed last, and how many there are.
fn changed(metadata: &Metadata) -> (i64, i64, u64) {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.len())
}

impl Payload for Large {
    fn bytes(&self) -> u64 {
        match &self.bytes {
            Bytes::File { length, .. } => *length,
            Bytes::SpillBuffer(held) => held.bytes(),
        }
    }

    fn whole(&self) -> Option<&[u8]> {
        None
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let (file, length) = match &self.bytes {
            Bytes::File { file, length, .. } => (file, *length),
            Bytes::SpillBuffer(held) => return held.chunk_at(at, space),
        };
        let wanted = usize::try_from(length.saturating_sub(at)).unwrap_or(usize::MAX).min(PIECE);
        space.resize(wanted, 0);
        let mut read = 0;
        while read == 0 && wanted > 0 {
            match file.read_at(space, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The file is shorter than it was.
                Ok(0) => {
                    return Err(Unreadable(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
                }
                other => read = other.map_err(|error| Unreadable(error.into()))?,
            }
        }
        Ok(&space[..read])
    }
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::failure(format!("{name}: cannot be read: {error}"))
}
