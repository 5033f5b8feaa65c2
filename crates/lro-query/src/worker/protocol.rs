//! The protocol between parent and worker.
//!
//! The parent sends one [`Job`] as JSON together with the open descriptors of its sources, so that a
//! worker never needs a path. The worker answers with frames: a letter, a length of four bytes, and a
//! body. The parent checks every length against its own limits.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::error::{QueryError, SyntaxProblem, sanitize_message};
use crate::page::Page;
use crate::query::{Alias, FailedRecords, Query, RecordLayout, Source, UnknownField};

/// The job of a worker. The descriptors come in the order of `sources`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    #[serde(rename = "question")]
    pub(crate) query: Query,
    pub(crate) sources: Vec<SourceRef>,
    #[serde(rename = "window")]
    pub(crate) page: Page,
    pub(crate) output: u64,
    pub(crate) memory: u64,
    pub(crate) wall_ms: u64,
}

/// The contents of a source descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SourceRef {
    pub(crate) alias: Alias,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    #[serde(rename = "form")]
    pub(crate) layout: RecordLayout,
}

/// The last frame of an answer, after its lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Completion {
    #[serde(rename = "given")]
    pub(crate) returned: u64,
    pub(crate) total: Option<u64>,
    pub(crate) records_read: u64,
    pub(crate) failed: Option<FailedRecords>,
    pub(crate) kept_as_text: Vec<String>,
    pub(crate) unknown_fields: Vec<UnknownField>,
}

const MAX_TEXT_COLUMNS: usize = 20;
const MAX_UNKNOWN_FIELDS: usize = 3;

impl Completion {
    /// Escapes and truncates all texts.
    pub(super) fn sanitized(mut self) -> Self {
        if let Some(failed) = &mut self.failed {
            failed.message = sanitize_message(&failed.message);
        }
        self.kept_as_text.truncate(MAX_TEXT_COLUMNS);
        self.kept_as_text.iter_mut().for_each(|name| *name = sanitize_message(name));
        self.unknown_fields.truncate(MAX_UNKNOWN_FIELDS);
        for field in &mut self.unknown_fields {
            field.near.truncate(MAX_UNKNOWN_FIELDS);
            field.name = sanitize_message(&field.name);
            field.near.iter_mut().for_each(|name| *name = sanitize_message(name));
        }
        self
    }
}

/// The error of a query, as far as the worker can tell.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    Time,
    Memory,
    Output,
    Depth,
    Syntax { message: String, about: SyntaxProblem },
    Runtime { message: String, record: Option<u64> },
}

impl Fault {
    pub(crate) fn syntax(message: impl Into<String>, about: SyntaxProblem) -> Self {
        Self::Syntax { message: message.into(), about }
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Self {
        Self::Runtime { message: message.into(), record: None }
    }

    /// Escapes and truncates the message: an engine may quote a value of a megabyte.
    pub(super) fn sanitized(self) -> Self {
        match self {
            Self::Syntax { message, about } => {
                Self::Syntax { message: sanitize_message(&message), about }
            }
            Self::Runtime { message, record } => {
                Self::Runtime { message: sanitize_message(&message), record }
            }
            other => other,
        }
    }

    /// The worker could not read a source.
    pub(crate) fn read_failed(error: &io::Error) -> Self {
        Self::runtime(format!("the records could not be read: {error}"))
    }
}

pub(super) const FRAME_LINES: u8 = b'L';
pub(super) const FRAME_DONE: u8 = b'D';
pub(super) const FRAME_FAULT: u8 = b'F';

/// The length of a frame header: a letter and the length of the body.
pub(super) const FRAME_HEADER_LEN: usize = 5;

/// The maximum length of a body other than lines.
pub(super) const MAX_BODY_LEN: usize = 64 * 1024;

pub(super) fn write_frame(out: &mut impl Write, letter: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut head = [letter, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_be_bytes());
    out.write_all(&head)?;
    out.write_all(body)
}

/// Returns the letter and the length of the body.
pub(super) fn parse_frame_header(head: [u8; FRAME_HEADER_LEN]) -> (u8, usize) {
    let [letter, length @ ..] = head;
    (letter, u32::from_be_bytes(length) as usize)
}

/// The maximum number of sources of a query.
pub(super) const MAX_SOURCES: usize = 16;

/// The maximum length of a job in bytes.
pub(super) const MAX_JOB_LEN: usize = 256 * 1024;

const LENGTH_PREFIX_LEN: usize = 4;
const ANCILLARY_SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_SOURCES));

/// Sends a job with its descriptors.
pub(super) fn send(
    mut socket: &UnixStream,
    job: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let length = u32::try_from(job.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); ANCILLARY_SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let sent = sendmsg(socket, &[IoSlice::new(&length)], &mut control, SendFlags::empty())?;
    socket.write_all(&length[sent..])?;
    socket.write_all(job)
}

/// Receives a job with its descriptors.
pub(super) fn receive(mut socket: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut length = [0; LENGTH_PREFIX_LEN];
    let mut space = [MaybeUninit::uninit(); ANCILLARY_SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let count = recvmsg(socket, &mut [IoSliceMut::new(&mut length)], &mut control, flags)?.bytes;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    socket.read_exact(&mut length[count..])?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_JOB_LEN {
        return Err(io::Error::other("the order is too long"));
    }
    let mut job = vec![0; length];
    socket.read_exact(&mut job)?;
    Ok((job, descriptors))
}

/// The descriptor of a source: its own file, or an anonymous copy of its bytes.
pub(super) enum SourceDescriptor<'a> {
    File(BorrowedFd<'a>),
    Copy(OwnedFd),
}

impl<'a> SourceDescriptor<'a> {
    pub(super) fn open(source: &Source<'a>) -> Result<Self, QueryError> {
        match source.data.as_file() {
            Some(file) => Ok(Self::File(file)),
            None => copy(source).map(Self::Copy),
        }
    }
}

impl AsFd for SourceDescriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => *file,
            Self::Copy(file) => file.as_fd(),
        }
    }
}

#[cfg(target_os = "linux")]
fn copy(source: &Source<'_>) -> Result<OwnedFd, QueryError> {
    use std::fs::File;

    use rustix::fs::{MemfdFlags, memfd_create};

    const CHUNK_LEN: usize = 256 * 1024;
    let failed = |source| QueryError::Worker { doing: "receive the records", source };
    let memory =
        memfd_create("lro-records", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut memory = File::from(memory);
    let (mut buf, mut at) = (vec![0; CHUNK_LEN], 0);
    loop {
        let read = source.data.read_at(at, &mut buf).map_err(QueryError::Source)?;
        if read == 0 {
            return Ok(memory.into());
        }
        memory.write_all(&buf[..read]).map_err(failed)?;
        at += read as u64;
    }
}

/// Other systems have no anonymous memory files.
#[cfg(not(target_os = "linux"))]
fn copy(_: &Source<'_>) -> Result<OwnedFd, QueryError> {
    Err(QueryError::Worker {
        doing: "receive records that are not in a file",
        source: io::ErrorKind::Unsupported.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn an_order_arrives_with_its_descriptors() {
        let (parent, worker) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        send(&parent, b"order", &[file.as_fd(), file.as_fd()]).unwrap();
        let (job, descriptors) = receive(&worker).unwrap();
        assert_eq!(job, b"order");
        assert_eq!(descriptors.len(), 2);
        let mut buf = [0; 5];
        let received = File::from(descriptors.into_iter().next().unwrap());
        received.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"hello");
        drop(parent);
        assert!(receive(&worker).is_err());
    }
}
