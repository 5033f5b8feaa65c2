//! Writes a draft on a background thread.
//!
//! Finding the lines of a large result keeps one processor busy, and copying them into the system's
//! cache another; done in turn they would add up.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::SpoolError;
use crate::spool::{Draft, PartNumber};

/// From so many bytes on a thread is worth its start.
const BEHIND_FROM: u64 = 4 << 20;
/// How many chunks may wait: few enough that they are still in the cache when they are written.
const WAITING: usize = 8;

/// Where the bytes of a draft go.
pub(crate) struct Writing {
    way: Way,
    written: u64,
}

enum Way {
    Directly(Box<dyn Draft>),
    Behind(Behind),
    /// A write failed, and the draft is gone.
    Over,
}

struct Behind {
    chunks: Option<SyncSender<Chunk>>,
    used: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<Result<Box<dyn Draft>, SpoolError>>>,
}

struct Chunk {
    part: Option<PartNumber>,
    bytes: Vec<u8>,
}

impl Writing {
    pub(crate) fn new(draft: Box<dyn Draft>) -> Self {
        Self { way: Way::Directly(draft), written: 0 }
    }

    /// Appends `bytes` to the data or a part, and empties them.
    pub(crate) fn write(
        &mut self,
        part: Option<PartNumber>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), SpoolError> {
        self.written += bytes.len() as u64;
        if self.written > BEHIND_FROM && matches!(self.way, Way::Directly(_)) {
            self.way = match std::mem::replace(&mut self.way, Way::Over) {
                Way::Directly(draft) => Behind::start(draft),
                other => other,
            };
        }
        match &mut self.way {
            Way::Directly(draft) => {
                write(&mut **draft, part, bytes)?;
                bytes.clear();
                Ok(())
            }
            Way::Behind(behind) => behind.send(part, bytes),
            Way::Over => Err(over()),
        }
    }

    /// Waits until everything is written, and gives the draft back.
    pub(crate) fn finish(self) -> Result<Box<dyn Draft>, SpoolError> {
        match self.way {
            Way::Directly(draft) => Ok(draft),
            Way::Behind(mut behind) => behind.join(),
            Way::Over => Err(over()),
        }
    }
}

impl Behind {
    fn start(draft: Box<dyn Draft>) -> Way {
        let (chunks, taken) = sync_channel::<Chunk>(WAITING);
        let (give_back, used) = channel();
        // The draft must survive a thread that could not be started.
        let (hand, over) = channel();
        let thread = thread::Builder::new().name("spool_writer".to_owned()).spawn(move || {
            let draft = over.recv().map_err(|_| self::over())?;
            write_all(draft, &taken, &give_back)
        });
        match thread {
            Ok(thread) => {
                // The thread is waiting for it.
                let _ = hand.send(draft);
                Way::Behind(Self { chunks: Some(chunks), used, thread: Some(thread) })
            }
            Err(_) => Way::Directly(draft),
        }
    }

    fn send(&mut self, part: Option<PartNumber>, bytes: &mut Vec<u8>) -> Result<(), SpoolError> {
        let next = self.used.try_recv().unwrap_or_default();
        let chunk = Chunk { part, bytes: std::mem::replace(bytes, next) };
        match &self.chunks {
            Some(chunks) if chunks.send(chunk).is_ok() => Ok(()),
            // The thread ends before its time only when it failed.
            _ => self.join().and(Err(over())),
        }
    }

    fn join(&mut self) -> Result<Box<dyn Draft>, SpoolError> {
        drop(self.chunks.take());
        let thread = self.thread.take().ok_or_else(over)?;
        thread.join().expect("writing a draft does not panic")
    }
}

/// A draft leaves nothing behind once its owner is gone, so that waits for the thread.
impl Drop for Behind {
    fn drop(&mut self) {
        drop(self.chunks.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(
    mut draft: Box<dyn Draft>,
    chunks: &Receiver<Chunk>,
    give_back: &Sender<Vec<u8>>,
) -> Result<Box<dyn Draft>, SpoolError> {
    for Chunk { part, mut bytes } in chunks {
        write(&mut *draft, part, &bytes)?;
        bytes.clear();
        // Nobody may be left to use it again.
        let _ = give_back.send(bytes);
    }
    Ok(draft)
}

fn write(draft: &mut dyn Draft, part: Option<PartNumber>, bytes: &[u8]) -> Result<(), SpoolError> {
    match part {
        None => draft.write(bytes),
        Some(part) => draft.write_part(part, bytes),
    }
}

fn over() -> SpoolError {
    let source = std::io::Error::other("an earlier write failed");
    SpoolError::Io { op: "write", path: std::path::PathBuf::new(), source }
}
