//! Hazard: whoever is in the way of clients that behave.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::net::{self, AddressFamily, SocketType, sockopt};
use serde::{Serialize, Serializer};

use super::super::http_client::{HttpClient, Request, RequestError, Response};
use super::super::tenant_state::Tenants;
use super::super::tenants::Tenant;

/// Readers that take their time.
const READERS: usize = 256;
/// What the system keeps for one of them that it has not read.
const WINDOW: usize = 4 << 10;
/// Connections on which nothing is asked.
const CONNECTIONS: usize = 10_000;
/// Who sends too much at a time, and how much.
const SENDERS: usize = 4;
const BODY: u64 = 64 << 20;
/// How long one may take to be let in, and to be answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often somebody looks whether it is over.
const A_MOMENT: Duration = Duration::from_millis(200);

/// One way to ask too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abuse {
    /// Ten times as many clients of the same kind.
    TenTimes,
    /// Clients that read some bytes of an answer and then wait.
    SlowReaders,
    /// Connections that say nothing, or the half of a request.
    IdleConnections,
    /// Bodies that are eight times as long as they may be, one after another.
    LargeBodies,
}

impl fmt::Display for Abuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TenTimes => write!(f, "ten times the clients"),
            Self::SlowReaders => write!(f, "{READERS} slow readers"),
            Self::IdleConnections => write!(f, "{CONNECTIONS} idle connections"),
            Self::LargeBodies => write!(f, "{SENDERS} senders of {} MB", BODY >> 20),
        }
    }
}

impl Serialize for Abuse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What those in the way got, by kind.
pub(super) type Got = BTreeMap<String, u64>;

/// Connections that read nothing from the server at `port` until `over`, once they are `there`.
pub(super) fn slow_readers(
    fleet: &Tenants,
    port: u16,
    there: impl FnOnce(),
    over: &AtomicBool,
) -> Result<Got> {
    let read = thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                let tenant = &fleet.crews[number % fleet.crews.len()].tenant;
                scope.spawn(move || slowly(tenant, port, over))
            })
            .collect();
        there();
        readers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut got = Got::new();
    for read in read {
        let (whole, bytes) = read.map_err(|_| anyhow!("a reader panicked"))??;
        *got.entry("whole answers".to_owned()).or_default() += u64::from(whole);
        *got.entry("bytes".to_owned()).or_default() += bytes;
    }
    Ok(got)
}

/// Whether an answer came to its end, and how much of it was read.
fn slowly(tenant: &Tenant, port: u16, over: &AtomicBool) -> Result<(bool, u64)> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, WINDOW)?;
    net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let mut stream = TcpStream::from(socket);
    let key = &tenant.key;
    let asked = format!(
        "GET /v1/memories?limit=100 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\
         HttpClient: close\r\n\r\n"
    );
    stream.write_all(asked.as_bytes())?;
    stream.set_read_timeout(Some(A_MOMENT))?;
    let (mut buffer, mut bytes) = ([0; 64], 0);
    while !over.load(Ordering::Relaxed) {
        match stream.read(&mut buffer).map_err(RequestError::from) {
            Ok(0) => return Ok((true, bytes)),
            Ok(read) => bytes += read as u64,
            Err(RequestError::Timeout) => {}
            Err(_) => return Ok((false, bytes)),
        }
        thread::sleep(A_MOMENT);
    }
    Ok((false, bytes))
}

/// Connections on which nothing is asked until `over`, once they are `there`.
pub(super) fn idle_connections(port: u16, there: impl FnOnce(), over: &AtomicBool) -> Result<Got> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connections = (0..CONNECTIONS).map(|number| {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)
            .with_context(|| format!("connection {number}: ulimit -n 20000 may be needed"))?;
        if number % 2 == 0 {
            stream.write_all(b"GET /v1/memories HTTP/1.1\r\nHost: 127")?;
        }
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    let mut connections = connections.collect::<Result<Vec<_>>>()?;
    there();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(A_MOMENT / 4);
    }
    let open = |stream: &mut TcpStream| {
        let read = stream.read(&mut [0; 1]);
        read.is_err_and(|error| RequestError::from(error) == RequestError::Timeout)
    };
    let open = connections.iter_mut().map(open).filter(|open| *open).count() as u64;
    Ok(Got::from([("open to the end".to_owned(), open)]))
}

/// Bodies that are too long, until `over`.
pub(super) fn large_bodies(fleet: &Tenants, port: u16, over: &AtomicBool) -> Result<Got> {
    let sent = thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let tenant = &fleet.crews[number % fleet.crews.len()].tenant;
                scope.spawn(move || {
                    let mut got = Got::new();
                    while !over.load(Ordering::Relaxed) {
                        let said = match send(tenant, port) {
                            Ok(response) => response.status.to_string(),
                            Err(broken) => format!("{broken:?}"),
                        };
                        *got.entry(said).or_default() += 1;
                    }
                    got
                })
            })
            .collect();
        senders.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut all = Got::new();
    for got in sent {
        for (what, count) in got.map_err(|_| anyhow!("a sender panicked"))? {
            *all.entry(what).or_default() += count;
        }
    }
    Ok(all)
}

fn send(tenant: &Tenant, port: u16) -> Result<Response, RequestError> {
    let request = Request::post("/v1/memories", String::new()).with_key(&tenant.key);
    HttpClient::new(port, ANSWER_TIMEOUT).send_spaces(request, BODY)
}
