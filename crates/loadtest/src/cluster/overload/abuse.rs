//! Abusive clients: each kind runs until its stop flag is set, and counts what its clients got.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::net::{self, AddressFamily, SocketType, sockopt};
use serde::{Serialize, Serializer};

use crate::cluster::http_client::{HttpClient, Request, RequestError, Response};
use crate::cluster::tenants::{Tenant, Tenants};

const SLOW_READERS: usize = 256;
/// The receive buffer of a slow reader, in bytes.
const RECEIVE_BUFFER_LEN: usize = 4 << 10;
const IDLE_CONNECTIONS: usize = 10_000;
const LARGE_BODY_SENDERS: usize = 4;
const LARGE_BODY_LEN: u64 = 64 << 20;
/// How long a connection, and a response, may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two reads of a slow reader.
const SLOW_READ_INTERVAL: Duration = Duration::from_millis(200);
/// How often an idle client checks the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A kind of abuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abuse {
    /// Ten times as many clients of the same kind.
    TenfoldClients,
    /// Clients that read a response a few bytes at a time.
    SlowReaders,
    /// Connections that send nothing, or half of a request.
    IdleConnections,
    /// Request bodies of eight times the limit, one after another.
    LargeBodies,
}

impl fmt::Display for Abuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TenfoldClients => write!(f, "ten times the clients"),
            Self::SlowReaders => write!(f, "{SLOW_READERS} slow readers"),
            Self::IdleConnections => write!(f, "{IDLE_CONNECTIONS} idle connections"),
            Self::LargeBodies => {
                write!(f, "{LARGE_BODY_SENDERS} senders of {} MB", LARGE_BODY_LEN >> 20)
            }
        }
    }
}

impl Serialize for Abuse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What abusive clients got, by kind.
pub(super) type ResultCounts = BTreeMap<String, u64>;

/// Clients that read slowly. Calls `on_ready` when all are started.
pub(super) fn slow_readers(
    tenants: &Tenants,
    port: u16,
    on_ready: impl FnOnce(),
    stop: &AtomicBool,
) -> Result<ResultCounts> {
    let reads = thread::scope(|scope| {
        let readers: Vec<_> = (0..SLOW_READERS)
            .map(|number| {
                let tenant = &tenants.for_client(number).tenant;
                scope.spawn(move || read_slowly(tenant, port, stop))
            })
            .collect();
        on_ready();
        readers.into_iter().map(ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut results = ResultCounts::new();
    for read in reads {
        let (complete, bytes) = read.map_err(|_| anyhow!("a reader panicked"))??;
        *results.entry("whole answers".to_owned()).or_default() += u64::from(complete);
        *results.entry("bytes".to_owned()).or_default() += bytes;
    }
    Ok(results)
}

/// Whether the response was complete, and how many bytes were read.
fn read_slowly(tenant: &Tenant, port: u16, stop: &AtomicBool) -> Result<(bool, u64)> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_LEN)?;
    net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let mut stream = TcpStream::from(socket);
    let key = &tenant.key;
    let request = format!(
        "GET /v1/memories?limit=100 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    stream.set_read_timeout(Some(SLOW_READ_INTERVAL))?;
    let (mut buffer, mut bytes) = ([0; 64], 0);
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer).map_err(RequestError::from) {
            Ok(0) => return Ok((true, bytes)),
            Ok(read) => bytes += read as u64,
            Err(RequestError::Timeout) => {}
            Err(_) => return Ok((false, bytes)),
        }
        thread::sleep(SLOW_READ_INTERVAL);
    }
    Ok((false, bytes))
}

/// Connections without a complete request. Calls `on_ready` when all are open.
pub(super) fn idle_connections(
    port: u16,
    on_ready: impl FnOnce(),
    stop: &AtomicBool,
) -> Result<ResultCounts> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connections = (0..IDLE_CONNECTIONS).map(|number| {
        let mut stream = TcpStream::connect_timeout(&address, REQUEST_TIMEOUT)
            .with_context(|| format!("connection {number}: ulimit -n 20000 may be needed"))?;
        if number % 2 == 0 {
            stream.write_all(b"GET /v1/memories HTTP/1.1\r\nHost: 127")?;
        }
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    let mut connections = connections.collect::<Result<Vec<_>>>()?;
    on_ready();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
    }
    let is_open = |stream: &mut TcpStream| {
        let read = stream.read(&mut [0; 1]);
        read.is_err_and(|error| RequestError::from(error) == RequestError::Timeout)
    };
    let open = connections.iter_mut().map(is_open).filter(|open| *open).count() as u64;
    Ok(ResultCounts::from([("open to the end".to_owned(), open)]))
}

/// Clients that send bodies above the limit.
pub(super) fn large_bodies(
    tenants: &Tenants,
    port: u16,
    stop: &AtomicBool,
) -> Result<ResultCounts> {
    let sent = thread::scope(|scope| {
        let senders: Vec<_> = (0..LARGE_BODY_SENDERS)
            .map(|number| {
                let tenant = &tenants.for_client(number).tenant;
                scope.spawn(move || {
                    let mut results = ResultCounts::new();
                    while !stop.load(Ordering::Relaxed) {
                        let result = match send_large_body(tenant, port) {
                            Ok(response) => response.status.to_string(),
                            Err(error) => format!("{error:?}"),
                        };
                        *results.entry(result).or_default() += 1;
                    }
                    results
                })
            })
            .collect();
        senders.into_iter().map(ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut sums = ResultCounts::new();
    for results in sent {
        for (what, count) in results.map_err(|_| anyhow!("a sender panicked"))? {
            *sums.entry(what).or_default() += count;
        }
    }
    Ok(sums)
}

fn send_large_body(tenant: &Tenant, port: u16) -> Result<Response, RequestError> {
    let request = Request::post("/v1/memories", String::new()).with_key(&tenant.key);
    HttpClient::new(port, REQUEST_TIMEOUT).send_spaces(request, LARGE_BODY_LEN)
}
