//! Places: how many connections a server has at a time, and of whom.
//!
//! One address gets at most three quarters of them: it may be a balancer, so it gets many, but a client
//! that hoards connections leaves some to others. Whoever finds no place waits in front of them. There,
//! health checks are answered at once, so that a server at its limit is not taken for a dead one. When
//! that room is full too, the oldest one in it has to go.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// What is answered to connections that have no place.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];
/// How long a request waits for a connection slot before it gets 503.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses that are remembered before those without connections are forgotten.
const ADDRESSES: usize = 1024;

/// The places of one server.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    per_address: usize,
    addresses: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
    /// Connections without a place, the oldest first.
    queue: Mutex<VecDeque<Weak<Connection>>>,
}

/// A place, given back when it is dropped.
struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<OwnedSemaphorePermit>,
}

/// What a request may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// An answer like any other.
    Full,
    /// An answer that ends the connection, which has no place.
    Last,
    /// None: the server is at its limit.
    Refused,
}

/// A connection as its task, its stream and its requests see it.
pub(crate) struct Connection {
    peer: Option<IpAddr>,
    place: Mutex<Option<Place>>,
    waiting: Mutex<Option<OwnedSemaphorePermit>>,
    /// Whether it has to make room.
    evicted: watch::Sender<bool>,
    phase: Mutex<Phase>,
    head_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Between two requests.
    Idle,
    /// The head of a request must be complete by then.
    Head(Instant),
    /// A request is being answered.
    Request,
}

impl Places {
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(connections)),
            waiting: Arc::new(Semaphore::new((connections / 16).clamp(4, 64))),
            per_address: connections - connections / 4,
            addresses: Mutex::default(),
            queue: Mutex::default(),
        }
    }

    /// Takes a connection on, with a place if there is one for its address. The first request must have
    /// its head complete within `head_timeout`.
    pub(crate) async fn admit(
        &self,
        peer: Option<IpAddr>,
        head_timeout: Duration,
    ) -> Arc<Connection> {
        let peer = peer.map(network);
        let place = self.try_take(peer);
        let waiting = if place.is_none() { Some(self.wait().await) } else { None };
        let connection = Arc::new(Connection {
            peer,
            place: Mutex::new(place),
            waiting: Mutex::new(waiting),
            evicted: watch::Sender::new(false),
            phase: Mutex::new(Phase::Head(Instant::now() + head_timeout)),
            head_timeout,
        });
        let mut queue = lock(&self.queue);
        queue.retain(|other| other.upgrade().is_some_and(|other| other.waits()));
        if connection.waits() {
            queue.push_back(Arc::downgrade(&connection));
        }
        drop(queue);
        connection
    }

    fn try_take(&self, peer: Option<IpAddr>) -> Option<Place> {
        let of_address = match self.of_address(peer) {
            Some(share) => Some(share.try_acquire_owned().ok()?),
            None => None,
        };
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Place { _of_all: of_all, _of_address: of_address })
    }

    async fn take(&self, peer: Option<IpAddr>) -> Option<Place> {
        let of_address = match self.of_address(peer) {
            Some(share) => Some(share.acquire_owned().await.ok()?),
            None => None,
        };
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Place { _of_all: of_all, _of_address: of_address })
    }

    /// A permit to wait; the oldest connection that waits has to go where there is none left.
    async fn wait(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(&self.waiting).try_acquire_owned() {
                return permit;
            }
            let oldest = lock(&self.queue).pop_front();
            match oldest {
                Some(oldest) => {
                    if let Some(oldest) = oldest.upgrade() {
                        oldest.evict();
                    }
                }
                // Those that hold the rest are about to end.
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    /// What an address may have; a Unix socket has none.
    fn of_address(&self, peer: Option<IpAddr>) -> Option<Arc<Semaphore>> {
        let peer = peer?;
        let mut addresses = lock(&self.addresses);
        if let Some(share) = addresses.get(&peer).and_then(Weak::upgrade) {
            return Some(share);
        }
        if addresses.len() >= ADDRESSES {
            addresses.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.per_address));
        addresses.insert(peer, Arc::downgrade(&share));
        Some(share)
    }
}

impl Connection {
    /// Bytes arrived: where no request is being answered, they begin the next one.
    pub(crate) fn received(&self) {
        let mut phase = lock(&self.phase);
        if *phase == Phase::Idle {
            *phase = Phase::Head(Instant::now() + self.head_timeout);
        }
    }

    /// Decides on a request for `path` whose head is complete.
    pub(crate) async fn request(&self, path: &str, places: &Places) -> Admission {
        *lock(&self.phase) = Phase::Request;
        if lock(&self.place).is_some() {
            return Admission::Full;
        }
        if HEALTH.contains(&path) {
            return Admission::Last;
        }
        let place = tokio::select! {
            place = places.take(self.peer) => place,
            () = self.is_evicted() => None,
            () = tokio::time::sleep(WAIT_TIMEOUT) => None,
        };
        // An evicted connection has no permit to wait for.
        if place.is_none() || lock(&self.waiting).take().is_none() {
            return Admission::Refused;
        }
        *lock(&self.place) = place;
        Admission::Full
    }

    /// The answer is out.
    pub(crate) fn answered(&self) {
        let mut phase = lock(&self.phase);
        if *phase == Phase::Request {
            *phase = Phase::Idle;
        }
    }

    fn waits(&self) -> bool {
        lock(&self.waiting).is_some()
    }

    fn evict(&self) {
        drop(lock(&self.waiting).take());
        self.evicted.send_replace(true);
    }

    async fn is_evicted(&self) {
        // The sender is ours, and so there until this ends.
        let _ = self.evicted.subscribe().wait_for(|evicted| *evicted).await;
    }

    /// Completes when the connection has to make room: at once where it asks nothing, else when it had
    /// `grace` for its answer.
    pub(crate) async fn evicted(&self, grace: Duration) {
        self.is_evicted().await;
        if *lock(&self.phase) == Phase::Request {
            tokio::time::sleep(grace).await;
        }
    }

    /// Completes when a request's head has taken too long.
    pub(crate) async fn head_expired(&self) {
        loop {
            // Bytes that arrive meanwhile set a deadline that is later than this one.
            let phase = *lock(&self.phase);
            match phase {
                Phase::Head(deadline) if deadline <= Instant::now() => return,
                Phase::Head(deadline) => tokio::time::sleep_until(deadline).await,
                _ => tokio::time::sleep(self.head_timeout).await,
            }
        }
    }
}

/// What counts as one address: of version 6 a client has a whole network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
