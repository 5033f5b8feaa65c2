//! The first pass over the output while it is read: beside the reader, once there is much of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use lro::ScannedPayload;
use lro_core::records::Detector;

/// Output beyond this is examined by a thread of its own.
const BACKGROUND_THRESHOLD_BYTES: u64 = 4 << 20;
/// The most buffers that wait to be examined.
const MAX_QUEUED_BUFFERS: usize = 16;

/// Examines the output.
pub(super) struct Scanner {
    state: State,
    bytes: u64,
    is_json_lines: Arc<AtomicBool>,
}

enum State {
    Here(Box<Examination>),
    Thread(ScanThread),
    /// The detector panicked. The output itself is not affected.
    Lost,
}

struct ScanThread {
    buffers: SyncSender<(Vec<u8>, usize)>,
    /// Buffers that can be filled again.
    used: Receiver<Vec<u8>>,
    thread: JoinHandle<Box<Examination>>,
}

/// The first pass, with what is known before its end.
#[derive(Default)]
struct Examination {
    detector: Detector,
    /// Whether the output seems to be JSON lines, whose records restore it byte for byte.
    is_json_lines: Arc<AtomicBool>,
}

impl Examination {
    fn feed(&mut self, bytes: &[u8]) {
        self.detector.feed(bytes);
        let is_json_lines = self.detector.is_json_lines_so_far();
        self.is_json_lines.store(is_json_lines, Ordering::Relaxed);
    }
}

impl Scanner {
    pub(super) fn new() -> Self {
        let is_json_lines: Arc<AtomicBool> = Arc::default();
        let examination = Examination {
            detector: Detector::with_stats(),
            is_json_lines: Arc::clone(&is_json_lines),
        };
        Self { state: State::Here(Box::new(examination)), bytes: 0, is_json_lines }
    }

    /// Whether the output seems to be JSON lines, as far as it was examined. The records then restore it
    /// byte for byte, and nothing else of it is kept. Later output can differ.
    pub(super) fn is_json_lines(&self) -> bool {
        self.is_json_lines.load(Ordering::Relaxed)
    }

    /// Examines the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.feed_buffer(&mut bytes.to_vec(), bytes.len());
    }

    /// Examines the first `read` bytes of `buffer`, which may be exchanged for another one of the same
    /// size.
    pub(super) fn feed_buffer(&mut self, buffer: &mut Vec<u8>, read: usize) {
        self.bytes += read as u64;
        self.state = match std::mem::replace(&mut self.state, State::Lost) {
            State::Here(examination) if self.bytes > BACKGROUND_THRESHOLD_BYTES => {
                start(examination)
            }
            state => state,
        };
        match &mut self.state {
            State::Here(examination) => {
                let feed = AssertUnwindSafe(|| examination.feed(&buffer[..read]));
                if catch_unwind(feed).is_err() {
                    self.state = State::Lost;
                }
            }
            State::Thread(scan) => {
                let next = scan.used.try_recv().unwrap_or_default();
                let size = buffer.len();
                let full = std::mem::replace(buffer, next);
                buffer.resize(size, 0);
                if scan.buffers.send((full, read)).is_err() {
                    self.state = State::Lost;
                }
            }
            State::Lost => {}
        }
    }

    /// The outcome; `None` if the output must be examined again.
    pub(super) fn finish(self) -> Option<ScannedPayload> {
        let examination = match self.state {
            State::Here(examination) => examination,
            State::Thread(ScanThread { buffers, thread, .. }) => {
                drop(buffers);
                thread.join().ok()?
            }
            State::Lost => return None,
        };
        Some(ScannedPayload::from_detector(examination.detector))
    }
}

/// Moves an examination to a thread, if one can be started.
fn start(examination: Box<Examination>) -> State {
    let (buffers, taken) = sync_channel(MAX_QUEUED_BUFFERS);
    let (recycle, used) = channel();
    // Sent separately, so that it is not lost if the thread cannot be started.
    let (hand_over, handed) = channel::<Box<Examination>>();
    let scan = move || {
        let examination = handed.recv().unwrap_or_default();
        examine(examination, &taken, &recycle)
    };
    match thread::Builder::new().name("output_scanner".to_owned()).spawn(scan) {
        Ok(thread) => {
            // The thread is receiving.
            let _ = hand_over.send(examination);
            State::Thread(ScanThread { buffers, used, thread })
        }
        Err(_) => State::Here(examination),
    }
}

fn examine(
    mut examination: Box<Examination>,
    buffers: &Receiver<(Vec<u8>, usize)>,
    recycle: &Sender<Vec<u8>>,
) -> Box<Examination> {
    for (buffer, read) in buffers {
        examination.feed(&buffer[..read]);
        // The reader may be gone.
        let _ = recycle.send(buffer);
    }
    examination
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_finds_the_same_as_the_reader() {
        let lines: Vec<u8> = (0..400_000)
            .flat_map(|n| format!("{{\"n\":{n},\"t\":\"x\"}}\n").into_bytes())
            .collect();
        assert!(lines.len() as u64 > BACKGROUND_THRESHOLD_BYTES + 1000);
        let mut scanner = Scanner::new();
        let mut buffer = vec![0; 10_000];
        for chunk in lines.chunks(9_999) {
            buffer[..chunk.len()].copy_from_slice(chunk);
            scanner.feed_buffer(&mut buffer, chunk.len());
            assert_eq!(buffer.len(), 10_000);
        }
        assert!(matches!(scanner.state, State::Thread(_)));
        let found = scanner.finish().unwrap();
        assert_eq!(*found.detected(), lro_core::records::Detected::detect(&lines));
    }

    #[test]
    fn json_lines_are_recognised_until_a_line_is_not_json() {
        let mut scanner = Scanner::new();
        scanner.feed(b"{\"n\":1,\"t\":\"a \\\" b\"}\n{\"n\":2");
        assert!(scanner.is_json_lines());
        scanner.feed(b"}\nno more\n");
        assert!(!scanner.is_json_lines());
        // Records of the others do not restore every byte.
        for text in ["{\"n\": 1}\n{\"n\":2}\n", "[1,2]\n", "{\n\"n\":1}\n", "{\"n\":1}", "text\n"] {
            let mut scanner = Scanner::new();
            scanner.feed(text.as_bytes());
            assert!(!scanner.is_json_lines(), "{text}");
        }
    }

    #[test]
    fn a_thread_that_panics_does_not_stop_the_reader() {
        let (buffers, taken) = sync_channel::<(Vec<u8>, usize)>(1);
        let (_recycle, used) = channel();
        let thread = thread::spawn(move || -> Box<Examination> {
            drop(taken);
            panic!("on purpose");
        });
        let state = State::Thread(ScanThread { buffers, used, thread });
        let mut scanner = Scanner { state, bytes: 0, is_json_lines: Arc::default() };
        let mut buffer = vec![0; 100];
        while !matches!(scanner.state, State::Lost) {
            scanner.feed_buffer(&mut buffer, 100);
            assert_eq!(buffer.len(), 100);
        }
        scanner.feed_buffer(&mut buffer, 100);
        assert!(scanner.finish().is_none());
    }
}
