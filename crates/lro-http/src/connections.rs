//! Limits on open connections, and the state of each connection.
//!
//! One address gets at most three quarters of the connections: it may be a load balancer, so it gets
//! many, but a client that hoards connections leaves some to others. A connection beyond the limits
//! waits in a short queue, where only health checks are answered, so that a server at its limit does not
//! look dead. When the queue is full, the oldest connection in it is evicted.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_io_timeout::TimeoutStream;

/// Paths that are served to queued connections.
const HEALTH_PATHS: [&str; 2] = ["/healthz", "/readyz"];
/// How long a request waits for a permit before it gets status 503.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of addresses above which those without connections are dropped.
const MAX_TRACKED_ADDRESSES: usize = 1024;

/// Limits the connections of a server, in total and per address.
pub(crate) struct ConnectionLimiter {
    total: Arc<Semaphore>,
    queue_slots: Arc<Semaphore>,
    per_address: usize,
    addresses: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
    /// Connections without a permit, the oldest first.
    queue: Mutex<VecDeque<Weak<TrackedConnection>>>,
}

/// Permission to serve a connection; released when it is dropped.
struct ConnectionPermit {
    _total: OwnedSemaphorePermit,
    _address: Option<OwnedSemaphorePermit>,
}

/// The decision on a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Serve it.
    Serve,
    /// Serve it and close the connection, which has no permit.
    ServeAndClose,
    /// Answer with status 503: the server is at its limit.
    Reject,
}

/// The state of a connection, shared by its task, its stream and its requests.
pub(crate) struct TrackedConnection {
    peer: Option<IpAddr>,
    permit: Mutex<Option<ConnectionPermit>>,
    queue_slot: Mutex<Option<OwnedSemaphorePermit>>,
    /// Whether it was evicted from the queue.
    evicted: watch::Sender<bool>,
    phase: Mutex<Phase>,
    head_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Idle between two requests.
    Idle,
    /// Reading the head of a request, which must be complete by this deadline.
    Head(Instant),
    /// Serving a request.
    Request,
}

impl ConnectionLimiter {
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            total: Arc::new(Semaphore::new(connections)),
            queue_slots: Arc::new(Semaphore::new((connections / 16).clamp(4, 64))),
            per_address: connections - connections / 4,
            addresses: Mutex::default(),
            queue: Mutex::default(),
        }
    }

    /// Accepts a connection, with a permit if one is free for its address. The head of its first request
    /// must be complete within `head_timeout`.
    pub(crate) async fn admit(
        &self,
        peer: Option<IpAddr>,
        head_timeout: Duration,
    ) -> Arc<TrackedConnection> {
        let peer = peer.map(network);
        let permit = self.try_acquire(peer);
        let queue_slot =
            if permit.is_none() { Some(self.acquire_queue_slot().await) } else { None };
        let connection = Arc::new(TrackedConnection {
            peer,
            permit: Mutex::new(permit),
            queue_slot: Mutex::new(queue_slot),
            evicted: watch::Sender::new(false),
            phase: Mutex::new(Phase::Head(Instant::now() + head_timeout)),
            head_timeout,
        });
        let mut queue = lock(&self.queue);
        queue.retain(|other| other.upgrade().is_some_and(|other| other.is_queued()));
        if connection.is_queued() {
            queue.push_back(Arc::downgrade(&connection));
        }
        drop(queue);
        connection
    }

    fn try_acquire(&self, peer: Option<IpAddr>) -> Option<ConnectionPermit> {
        let address = match self.address_share(peer) {
            Some(share) => Some(share.try_acquire_owned().ok()?),
            None => None,
        };
        let total = Arc::clone(&self.total).try_acquire_owned().ok()?;
        Some(ConnectionPermit { _total: total, _address: address })
    }

    async fn acquire(&self, peer: Option<IpAddr>) -> Option<ConnectionPermit> {
        let address = match self.address_share(peer) {
            Some(share) => Some(share.acquire_owned().await.ok()?),
            None => None,
        };
        let total = Arc::clone(&self.total).acquire_owned().await.ok()?;
        Some(ConnectionPermit { _total: total, _address: address })
    }

    /// Acquires a slot in the queue; evicts the oldest queued connection if none is free.
    async fn acquire_queue_slot(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(&self.queue_slots).try_acquire_owned() {
                return permit;
            }
            let oldest = lock(&self.queue).pop_front();
            match oldest {
                Some(oldest) => {
                    if let Some(oldest) = oldest.upgrade() {
                        oldest.evict();
                    }
                }
                // The connections that hold the other slots are about to end.
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    /// The semaphore of an address; `None` for a Unix socket.
    fn address_share(&self, peer: Option<IpAddr>) -> Option<Arc<Semaphore>> {
        let peer = peer?;
        let mut addresses = lock(&self.addresses);
        if let Some(share) = addresses.get(&peer).and_then(Weak::upgrade) {
            return Some(share);
        }
        if addresses.len() >= MAX_TRACKED_ADDRESSES {
            addresses.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.per_address));
        addresses.insert(peer, Arc::downgrade(&share));
        Some(share)
    }
}

impl TrackedConnection {
    /// Records that bytes arrived. On an idle connection they begin the next request.
    pub(crate) fn bytes_received(&self) {
        let mut phase = lock(&self.phase);
        if *phase == Phase::Idle {
            *phase = Phase::Head(Instant::now() + self.head_timeout);
        }
    }

    /// Decides on a request for `path` whose head is complete.
    pub(crate) async fn admit_request(&self, path: &str, limiter: &ConnectionLimiter) -> Admission {
        *lock(&self.phase) = Phase::Request;
        if lock(&self.permit).is_some() {
            return Admission::Serve;
        }
        if HEALTH_PATHS.contains(&path) {
            return Admission::ServeAndClose;
        }
        let permit = tokio::select! {
            permit = limiter.acquire(self.peer) => permit,
            () = self.eviction() => None,
            () = tokio::time::sleep(QUEUE_TIMEOUT) => None,
        };
        // An evicted connection has lost its queue slot and gets no permit.
        if permit.is_none() || lock(&self.queue_slot).take().is_none() {
            return Admission::Reject;
        }
        *lock(&self.permit) = permit;
        Admission::Serve
    }

    /// Records that the response was sent.
    pub(crate) fn response_sent(&self) {
        let mut phase = lock(&self.phase);
        if *phase == Phase::Request {
            *phase = Phase::Idle;
        }
    }

    fn is_queued(&self) -> bool {
        lock(&self.queue_slot).is_some()
    }

    fn evict(&self) {
        drop(lock(&self.queue_slot).take());
        self.evicted.send_replace(true);
    }

    async fn eviction(&self) {
        // The sender is a field of this value, so it outlives the wait.
        let _ = self.evicted.subscribe().wait_for(|evicted| *evicted).await;
    }

    /// Completes when the connection was evicted: immediately if it is not serving a request, otherwise
    /// after `grace`.
    pub(crate) async fn evicted(&self, grace: Duration) {
        self.eviction().await;
        if *lock(&self.phase) == Phase::Request {
            tokio::time::sleep(grace).await;
        }
    }

    /// Completes when the head of a request has taken too long.
    pub(crate) async fn head_expired(&self) {
        loop {
            // Bytes that arrive in the meantime set a later deadline.
            let phase = *lock(&self.phase);
            match phase {
                Phase::Head(deadline) if deadline <= Instant::now() => return,
                Phase::Head(deadline) => tokio::time::sleep_until(deadline).await,
                _ => tokio::time::sleep(self.head_timeout).await,
            }
        }
    }
}

/// Maps an IPv6 address to its /64 network, since a client has a whole network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A response body that reports its end to the connection.
pub(crate) struct TrackedBody {
    pub(crate) body: Body,
    pub(crate) connection: Arc<TrackedConnection>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.connection.response_sent();
    }
}

/// A stream that reports arriving bytes to the connection.
pub(crate) struct TrackedStream<S> {
    pub(crate) stream: Pin<Box<TimeoutStream<S>>>,
    pub(crate) connection: Arc<TrackedConnection>,
}

impl<S: AsyncRead + AsyncWrite> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.stream.as_mut().poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.bytes_received();
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncWrite for TrackedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
