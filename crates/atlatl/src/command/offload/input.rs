//! Reads the input of `atlatl offload`: small inputs into memory, large ones from the file or from a spill
//! buffer.

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
use lro_wire::MAX_IN_MEMORY_LINE_LEN;

use crate::{error::Error, output::ByteProgress, spool_config::Stores};

/// The largest input in bytes that is read into memory: the same limit as the proxy's.
const MAX_INPUT_IN_MEMORY: usize = MAX_IN_MEMORY_LINE_LEN;
/// The bytes that are read at a time.
const CHUNK_LEN: usize = 1 << 20;

/// An input.
pub(super) enum Input {
    /// A small input.
    Memory(Vec<u8>),
    /// A large input.
    Large(LargeInput),
}

/// An input that is not in memory.
pub(super) struct LargeInput {
    name: String,
    bytes: InputBytes,
}

enum InputBytes {
    /// A regular file, read where it is.
    File { file: File, length: u64, version: (i64, i64, u64) },
    /// The input of a pipe, in an unnamed file of the spool's directory.
    SpillBuffer(SpillBuffer),
}

/// Reads `file`, or standard input.
pub(super) fn read(file: Option<&Path>, stores: &Stores) -> Result<Input, Error> {
    if let Some(path) = file.filter(|file| *file != Path::new("-")) {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
        return read_file(name, file, stores);
    }
    if io::stdin().is_terminal() {
        return Err(
            Error::usage("no input: standard input is a terminal").with_hint("atlatl offload FILE")
        );
    }
    let name = "standard input".to_owned();
    let file = io::stdin().as_fd().try_clone_to_owned();
    let file = file.map_err(|error| unreadable(&name, &error))?;
    read_file(name, File::from(file), stores)
}

fn read_file(name: String, mut file: File, stores: &Stores) -> Result<Input, Error> {
    let failed = |error| unreadable(&name, &error);
    let metadata = file.metadata().map_err(failed)?;
    let length = metadata.len();
    if metadata.is_file()
        && length > MAX_INPUT_IN_MEMORY as u64
        && file.stream_position().is_ok_and(|position| position == 0)
    {
        let bytes = InputBytes::File { file, length, version: file_version(&metadata) };
        return Ok(Input::Large(LargeInput { name, bytes }));
    }
    let mut progress = ByteProgress::new("reading", metadata.is_file().then_some(length));
    let mut buffer = SpillBuffer::new(MAX_INPUT_IN_MEMORY);
    let spool = stores.spool_for(&Operation::from_tool(""));
    let mut piece = vec![0; CHUNK_LEN];
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(failed)?,
        };
        if read == 0 {
            break;
        }
        buffer.append(&piece[..read], &*spool);
        progress.at(buffer.bytes());
    }
    drop(progress);
    Ok(match buffer.into_memory() {
        Ok(input) => Input::Memory(input),
        Err(buffer) => Input::Large(LargeInput { name, bytes: InputBytes::SpillBuffer(buffer) }),
    })
}

impl LargeInput {
    /// Reads all of it into memory.
    pub(super) fn whole(&self) -> Result<Vec<u8>, Error> {
        payload::part(self, 0..self.bytes()).map_err(|error| self.unreadable(&error))
    }

    /// The error for an input that cannot be read.
    pub(super) fn unreadable(&self, error: &Unreadable) -> Error {
        Error::failure(format!("{}: cannot be read: {}", self.name, error.0))
    }

    /// Whether the file was modified since it was opened, so that the bytes read may be inconsistent.
    pub(super) fn has_changed(&self) -> bool {
        match &self.bytes {
            InputBytes::File { file, version, .. } => {
                file.metadata().is_ok_and(|metadata| file_version(&metadata) != *version)
            }
            InputBytes::SpillBuffer(_) => false,
        }
    }

    /// The name for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The modification time and length of a file.
fn file_version(metadata: &Metadata) -> (i64, i64, u64) {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.len())
}

impl Payload for LargeInput {
    fn bytes(&self) -> u64 {
        match &self.bytes {
            InputBytes::File { length, .. } => *length,
            InputBytes::SpillBuffer(buffer) => buffer.bytes(),
        }
    }

    fn whole(&self) -> Option<&[u8]> {
        None
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let (file, length) = match &self.bytes {
            InputBytes::File { file, length, .. } => (file, *length),
            InputBytes::SpillBuffer(buffer) => return buffer.chunk_at(at, space),
        };
        let chunk_len =
            usize::try_from(length.saturating_sub(at)).unwrap_or(usize::MAX).min(CHUNK_LEN);
        space.resize(chunk_len, 0);
        let mut read = 0;
        while read == 0 && chunk_len > 0 {
            match file.read_at(space, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The file was truncated.
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
