//! Descriptors: data reaches a worker as something open, never as a name.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::error::QueryError;
use crate::source::Source;

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
pub(super) enum Opened<'a> {
    Its(BorrowedFd<'a>),
    Copy(OwnedFd),
}

impl<'a> Opened<'a> {
    pub(super) fn open(source: &Source<'a>) -> Result<Self, QueryError> {
        match source.data.as_file() {
            Some(file) => Ok(Self::Its(file)),
            None => copy(source).map(Self::Copy),
        }
    }
}

impl AsFd for Opened<'_> {
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
