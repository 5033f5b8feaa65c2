//! The protocol between parent and worker.
//!
//! The parent sends one order with the descriptors of its sources; the worker answers with frames:
//! a letter, a length in four bytes, a body. The parent believes no number in them.

use std::io;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::error::{About, QueryError, shown};
use crate::query::{Alias, Failed, Form, Source, UnknownField, Window};

/// The query.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    #[cfg(feature = "jq")]
    Jq(crate::jq::Query),
    #[cfg(feature = "sql")]
    Sql(crate::sql::Query),
}

/// All that a worker is told. The descriptors come in the order of `sources`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) question: Question,
    pub(crate) sources: Vec<Handed>,
    pub(crate) window: Window,
    pub(crate) output: u64,
    pub(crate) memory: u64,
    pub(crate) wall_ms: u64,
}

/// What is in a descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handed {
    pub(crate) alias: Alias,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) form: Form,
}

/// The end of an answer, behind its lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) given: u64,
    pub(crate) total: Option<u64>,
    pub(crate) records_read: u64,
    pub(crate) failed: Option<Failed>,
    pub(crate) kept_as_text: Vec<String>,
    pub(crate) unknown_fields: Vec<UnknownField>,
}

/// More would be a list that nobody reads.
const NAMES: usize = 20;
const UNKNOWN: usize = 3;

impl Done {
    /// With its texts cut.
    pub(super) fn cut(mut self) -> Self {
        if let Some(failed) = &mut self.failed {
            failed.message = shown(&failed.message);
        }
        self.kept_as_text.truncate(NAMES);
        self.kept_as_text.iter_mut().for_each(|name| *name = shown(name));
        self.unknown_fields.truncate(UNKNOWN);
        for field in &mut self.unknown_fields {
            field.near.truncate(UNKNOWN);
            field.name = shown(&field.name);
            field.near.iter_mut().for_each(|name| *name = shown(name));
        }
        self
    }
}

/// Why there is no answer, as far as the worker could tell.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    Time,
    Memory,
    Output,
    Depth,
    Syntax { message: String, about: About },
    Runtime { message: String, record: Option<u64> },
}

impl Fault {
    pub(crate) fn syntax(message: impl Into<String>, about: About) -> Self {
        Self::Syntax { message: message.into(), about }
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Self {
        Self::Runtime { message: message.into(), record: None }
    }

    /// With its message cut: an engine may quote a value of a megabyte, and a frame is short.
    pub(super) fn cut(self) -> Self {
        match self {
            Self::Syntax { message, about } => Self::Syntax { message: shown(&message), about },
            Self::Runtime { message, record } => Self::Runtime { message: shown(&message), record },
            other => other,
        }
    }

    /// The worker could not read what it was handed.
    pub(crate) fn reading(error: &io::Error) -> Self {
        Self::runtime(format!("the records could not be read: {error}"))
    }
}

pub(super) const LINES: u8 = b'L';
pub(super) const DONE: u8 = b'D';
pub(super) const FAULT: u8 = b'F';

/// Letter and length.
pub(super) const HEAD: usize = 5;

/// Bodies other than lines are small.
pub(super) const BODY_AT_MOST: usize = 64 * 1024;

pub(super) fn write_frame(out: &mut impl Write, letter: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut head = [letter, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_be_bytes());
    out.write_all(&head)?;
    out.write_all(body)
}

/// The letter and the body's length.
pub(super) fn read_head(head: [u8; HEAD]) -> (u8, usize) {
    let [letter, length @ ..] = head;
    (letter, u32::from_be_bytes(length) as usize)
}

// --- Descriptors: data reaches a worker as something open, never as a name.

/// The most sources of one query.
pub(super) const AT_MOST: usize = 16;

/// The longest order; the worker takes no longer one.
pub(super) const ORDER_AT_MOST: usize = 256 * 1024;

const LENGTH: usize = 4;
const SPACE: usize = rustix::cmsg_space!(ScmRights(AT_MOST));

/// Sends an order with its descriptors.
pub(super) fn send(
    mut socket: &UnixStream,
    order: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let length = u32::try_from(order.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let sent = sendmsg(socket, &[IoSlice::new(&length)], &mut control, SendFlags::empty())?;
    socket.write_all(&length[sent..])?;
    socket.write_all(order)
}

/// Receives an order with its descriptors.
pub(super) fn receive(mut socket: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut length = [0; LENGTH];
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut length)], &mut control, flags)?.bytes;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    socket.read_exact(&mut length[got..])?;
    let length = u32::from_be_bytes(length) as usize;
    if length > ORDER_AT_MOST {
        return Err(io::Error::other("the order is too long"));
    }
    let mut order = vec![0; length];
    socket.read_exact(&mut order)?;
    Ok((order, descriptors))
}

/// A descriptor of a source: its own file, or a copy of its bytes that has no name.
pub(super) enum SourceDescriptor<'a> {
    Its(BorrowedFd<'a>),
    Copy(OwnedFd),
}

impl<'a> SourceDescriptor<'a> {
    pub(super) fn open(source: &Source<'a>) -> Result<Self, QueryError> {
        match source.data.as_file() {
            Some(file) => Ok(Self::Its(file)),
            None => copy(source).map(Self::Copy),
        }
    }
}

impl AsFd for SourceDescriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Its(file) => *file,
            Self::Copy(file) => file.as_fd(),
        }
    }
}

#[cfg(target_os = "linux")]
fn copy(source: &Source<'_>) -> Result<OwnedFd, QueryError> {
    use std::fs::File;

    use rustix::fs::{MemfdFlags, memfd_create};

    const CHUNK: usize = 256 * 1024;
    let failed = |source| QueryError::Worker { doing: "be handed the records", source };
    let memory =
        memfd_create("lro-records", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut memory = File::from(memory);
    let (mut buf, mut at) = (vec![0; CHUNK], 0);
    loop {
        let read = source.data.read_at(at, &mut buf).map_err(QueryError::Source)?;
        if read == 0 {
            return Ok(memory.into());
        }
        memory.write_all(&buf[..read]).map_err(failed)?;
        at += read as u64;
    }
}

/// Without anonymous memory a copy would need a name somewhere.
#[cfg(not(target_os = "linux"))]
fn copy(_: &Source<'_>) -> Result<OwnedFd, QueryError> {
    Err(QueryError::Worker {
        doing: "be handed records that are not in a file",
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
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        send(&ours, b"order", &[file.as_fd(), file.as_fd()]).unwrap();
        let (order, descriptors) = receive(&theirs).unwrap();
        assert_eq!(order, b"order");
        assert_eq!(descriptors.len(), 2);
        let mut buf = [0; 5];
        let received = File::from(descriptors.into_iter().next().unwrap());
        received.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"hello");
        drop(ours);
        assert!(receive(&theirs).is_err());
    }
}
