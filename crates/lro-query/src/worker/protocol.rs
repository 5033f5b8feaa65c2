//! The protocol between parent and worker.
//!
//! The parent sends one [`Job`] as JSON together with the open descriptors of its sources, so that a
//! worker never needs a path. The worker answers with the frames of an [engine](crate::engine); the parent
//! checks every length against its own limits.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::error::QueryError;
use crate::page::Page;
use crate::query::{Alias, RecordLayout, Source};
use crate::request::Query;

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
        return Err(io::Error::other("the job is too long"));
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
