//! Load: the same request again and again, on connections that stay open.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use crate::spread::Spread;

pub(crate) struct Load {
    address: SocketAddr,
    request: String,
}

pub(crate) struct Taken {
    pub(crate) answered: usize,
    pub(crate) seconds: f64,
    pub(crate) times: Spread,
}

impl Taken {
    #[expect(clippy::cast_precision_loss, reason = "a few million at most")]
    pub(crate) fn per_second(&self) -> f64 {
        self.answered as f64 / self.seconds
    }
}

impl Load {
    pub(crate) fn new(address: SocketAddr, request: &str) -> Self {
        Self { address, request: request.to_owned() }
    }

    /// Asks on so many connections for so long. One thread: the server needs the processors more.
    pub(crate) fn run(&self, connections: usize, patience: Duration) -> Taken {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let begun = Instant::now();
        let times = runtime.block_on(async {
            let clients: Vec<_> = (0..connections)
                .map(|_| tokio::spawn(client(self.address, self.request.clone(), begun + patience)))
                .collect();
            let mut times = Vec::new();
            for client in clients {
                times.extend(client.await.expect("a client").expect("answers"));
            }
            times
        });
        let seconds = begun.elapsed().as_secs_f64();
        Taken { answered: times.len(), seconds, times: Spread::of(&times) }
    }
}

async fn client(address: SocketAddr, request: String, end: Instant) -> io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut answer = Vec::with_capacity(64 << 10);
    let mut times = Vec::new();
    while Instant::now() < end {
        let asked = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        answer.clear();
        loop {
            if stream.read_buf(&mut answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if is_whole(&answer)? {
                break;
            }
        }
        times.push(asked.elapsed());
    }
    Ok(times)
}

/// Whether all of an answer is there. One that is not 200 would be measured for nothing.
fn is_whole(answer: &[u8]) -> io::Result<bool> {
    let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(false);
    };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    if !text.starts_with("http/1.1 200") {
        return Err(io::Error::other(text));
    }
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length
        .and_then(|length| length.trim().parse().ok())
        .ok_or_else(|| io::Error::other("no length"))?;
    Ok(answer.len() >= head + 4 + length)
}

/// Seconds of a processor that a process has used, as Linux counts them: in hundredths.
pub(crate) fn processor_seconds(process: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / 100.0)
}
