//! Standard output and standard error of this process, for the output of the command.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use lro_spool::{OutputLog, OutputStream};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// The bytes of a log that are printed at a time.
const PRINT_CHUNK_BYTES: usize = 1 << 20;

/// The streams of this process.
///
/// Bytes are written to the descriptors themselves: the streams of the standard library buffer lines, and
/// each byte must reach its reader when it is written.
pub(super) struct Sinks {
    stdout: io::Stdout,
    stderr: io::Stderr,
    /// Whether the reader of a stream is gone, by stream.
    closed: [bool; 2],
    /// The first error other than a missing reader: bytes of the output are lost.
    failure: Option<Errno>,
}

impl Sinks {
    pub(super) fn new() -> Self {
        Self { stdout: io::stdout(), stderr: io::stderr(), closed: [false; 2], failure: None }
    }

    /// The descriptor of a stream.
    pub(super) fn descriptor(&self, stream: OutputStream) -> BorrowedFd<'_> {
        match stream {
            OutputStream::Stdout => self.stdout.as_fd(),
            OutputStream::Stderr => self.stderr.as_fd(),
        }
    }

    /// Whether the reader of a stream is gone.
    pub(super) fn is_closed(&self, stream: OutputStream) -> bool {
        self.closed[index(stream)]
    }

    /// Notes that the reader of a stream is gone.
    pub(super) fn close(&mut self, stream: OutputStream) {
        self.closed[index(stream)] = true;
    }

    /// Why a part of the output could not be written, if that happened. A reader that is gone is no
    /// failure.
    pub(super) fn failure(&self) -> Option<Errno> {
        self.failure
    }

    /// Writes bytes to a stream. If its reader is gone, or the stream cannot be written, the rest is
    /// dropped: the exit status of the command is still due.
    pub(super) fn write(&mut self, stream: OutputStream, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_closed(stream) {
            let descriptor = self.descriptor(stream);
            match rustix::io::write(descriptor, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut wanted = [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)];
                    // An error shows at the next attempt to write.
                    let _ = poll(&mut wanted, None);
                }
                Err(error) => {
                    if error != Errno::PIPE {
                        self.failure.get_or_insert(error);
                    }
                    self.close(stream);
                }
            }
        }
    }

    /// Writes all output of a log, in the order in which it was read.
    pub(super) fn write_log(&mut self, log: &OutputLog) {
        let mut buffer = Vec::new();
        for run in log.runs() {
            let Ok(run) = run else {
                self.failure.get_or_insert(Errno::IO);
                return;
            };
            let mut at = run.range.start;
            while at < run.range.end && !self.is_closed(run.stream) {
                let left = usize::try_from(run.range.end - at).unwrap_or(usize::MAX);
                buffer.resize(left.min(PRINT_CHUNK_BYTES), 0);
                let Ok(read @ 1..) = log.read_at(at, &mut buffer) else {
                    // The file system failed after it had accepted the bytes.
                    self.failure.get_or_insert(Errno::IO);
                    return;
                };
                self.write(run.stream, &buffer[..read]);
                at += read as u64;
            }
        }
    }
}

fn index(stream: OutputStream) -> usize {
    match stream {
        OutputStream::Stdout => 0,
        OutputStream::Stderr => 1,
    }
}
