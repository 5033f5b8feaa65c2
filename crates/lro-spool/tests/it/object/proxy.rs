//! A proxy between a spool and a real S3 server that breaks connections on demand.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What is done to a connection's first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// Nothing.
    Whole,
    /// It is answered with 500 by the proxy.
    Broken,
    /// The connection is cut after so many bytes to the server.
    CutTo(usize),
    /// The connection is cut after so many bytes of the answer.
    CutFrom(usize),
    /// One byte at this place of the answer is another.
    Changed(usize),
    /// The answer waits for that long.
    Slow(Duration),
}

#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    /// What happens to requests that have this in their first line, and how many times still.
    rule: Mutex<(Wire, &'static str, usize)>,
    hit: AtomicUsize,
    /// All bytes to and from the server.
    to: AtomicUsize,
    from: AtomicUsize,
}

impl Proxy {
    pub(super) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let rule = Mutex::new((Wire::Whole, "", 0));
        let (hit, to, from) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { server, rule, hit, to, from });
        let all = Arc::clone(&shared);
        // It ends with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&all);
                thread::spawn(move || {
                    let _ = shared.serve(client);
                });
            }
        });
        Self { address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub(super) fn set(&self, wire: Wire, line: &'static str, times: usize) {
        *self.shared.rule.lock().unwrap() = (wire, line, times);
        self.shared.hit.store(0, Ordering::SeqCst);
    }

    /// How many requests were hit.
    pub(super) fn hit(&self) -> usize {
        self.shared.hit.load(Ordering::SeqCst)
    }

    /// How many bytes came from the server since this was last asked.
    pub(super) fn came(&self) -> usize {
        self.shared.from.swap(0, Ordering::SeqCst)
    }
}

impl Shared {
    fn wire(&self, line: &str) -> Wire {
        let mut rule = self.rule.lock().unwrap();
        if rule.2 == 0 || !line.contains(rule.1) {
            return Wire::Whole;
        }
        rule.2 -= 1;
        self.hit.fetch_add(1, Ordering::SeqCst);
        rule.0
    }

    /// One connection, one request at a time: each ends with its answer, so that each is looked at.
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        let mut byte = [0; 1];
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        let line = text.lines().next().unwrap_or_default();
        let wire = self.wire(line);
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let length: usize = length.unwrap_or(0);
        if wire == Wire::Broken {
            let mut body = vec![0; length];
            client.read_exact(&mut body)?;
            client.write_all(
                b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\nconnection: close\r\n\r\nOops",
            )?;
            return client.shutdown(Shutdown::Both);
        }
        let mut server = TcpStream::connect(self.server)?;
        let kept = text.trim_end_matches("\r\n");
        server.write_all(format!("{kept}\r\nconnection: close\r\n\r\n").as_bytes())?;
        let most = if let Wire::CutTo(bytes) = wire { bytes.min(length) } else { length };
        let sent = copy(&mut client, &mut server, most, |_, _| {})?;
        self.to.fetch_add(sent, Ordering::SeqCst);
        if most < length {
            // With a reset, as a cable would.
            server.shutdown(Shutdown::Both)?;
            return client.shutdown(Shutdown::Both);
        }
        if let Wire::Slow(wait) = wire {
            thread::sleep(wait);
        }
        let most = if let Wire::CutFrom(bytes) = wire { bytes } else { usize::MAX };
        let change = |at: usize, bytes: &mut [u8]| {
            if let Wire::Changed(place) = wire
                && let Some(byte) = place.checked_sub(at).and_then(|at| bytes.get_mut(at))
            {
                *byte ^= 1;
            }
        };
        let came = copy(&mut server, &mut client, most, change)?;
        self.from.fetch_add(came, Ordering::SeqCst);
        client.shutdown(Shutdown::Both)
    }
}

fn copy(
    from: &mut TcpStream,
    to: &mut TcpStream,
    most: usize,
    change: impl Fn(usize, &mut [u8]),
) -> std::io::Result<usize> {
    let (mut done, mut buf) = (0, vec![0; 64 << 10]);
    while done < most {
        let space = buf.len().min(most - done);
        let read = from.read(&mut buf[..space])?;
        if read == 0 {
            break;
        }
        change(done, &mut buf[..read]);
        to.write_all(&buf[..read])?;
        done += read;
    }
    Ok(done)
}
