//! Fair queueing: which transaction gets the next free connection.
//!
//! A transaction takes a permit before it takes a connection, and there are as many permits as
//! connections. Transactions wait in queues: one for each tenant, one for readiness checks and one
//! for authentication. Free permits go to the queues in turn, so that a tenant with many waiting
//! transactions delays those of another tenant by one transaction and not by all of them.
//!
//! The number of permits that one queue uses at a time is bounded. With many tenants the bound is a
//! quarter of the connections, and it also holds while no other tenant waits: a statement that runs
//! cannot be interrupted for a tenant that comes later, and all statements share the processors of
//! one database. Readiness checks and authentication have one permit each that no tenant can take.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::migrations::NO_TENANT;
use super::options::{ConnectionSharing, MIN_SHARED_CONNECTIONS};
use crate::store::StoreError;

/// The maximum number of transactions that wait in one queue. Further ones fail at once.
const MAX_WAITING: usize = 128;
/// The share of the connections that one of many tenants may use, as a divisor.
const TENANT_SHARE_DIVISOR: usize = 4;

/// The name of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum QueueName {
    /// The transactions of a tenant. Administration has the queue of the empty name.
    Tenant(Arc<str>),
    Readiness,
    Authentication,
}

impl From<&str> for QueueName {
    fn from(tenant: &str) -> Self {
        Self::Tenant(tenant.into())
    }
}

impl From<&String> for QueueName {
    fn from(tenant: &String) -> Self {
        tenant.as_str().into()
    }
}

/// The queue of a transaction, and the tenant whose rows the transaction sees.
#[derive(Debug, Clone)]
pub(super) struct Requester<'a> {
    pub(super) queue: QueueName,
    pub(super) tenant: &'a str,
}

impl<'a> From<&'a str> for Requester<'a> {
    fn from(tenant: &'a str) -> Self {
        Self { queue: tenant.into(), tenant }
    }
}

impl<'a> From<&'a String> for Requester<'a> {
    fn from(tenant: &'a String) -> Self {
        tenant.as_str().into()
    }
}

/// A transaction that sees the rows of no tenant.
impl From<&QueueName> for Requester<'_> {
    fn from(queue: &QueueName) -> Self {
        Self { queue: queue.clone(), tenant: NO_TENANT }
    }
}

/// How many connections each queue may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// The connections that are not reserved.
    shared: usize,
    /// How many of these one queue may use at a time.
    max_per_queue: usize,
    reserved_for_readiness: usize,
    reserved_for_authentication: usize,
}

impl Shares {
    /// Divides `connections`. With fewer than [`MIN_SHARED_CONNECTIONS`] none is reserved.
    pub(super) fn new(connections: usize, sharing: ConnectionSharing) -> Self {
        let connections = connections.max(1);
        let reserves = connections >= MIN_SHARED_CONNECTIONS;
        let has_many_tenants = sharing == ConnectionSharing::ManyTenants;
        let reserved_for_readiness = usize::from(reserves);
        // Only a server for many tenants looks up keys in the database.
        let reserved_for_authentication = usize::from(reserves && has_many_tenants);
        let shared = connections - reserved_for_readiness - reserved_for_authentication;
        let max_per_queue =
            if has_many_tenants { (connections / TENANT_SHARE_DIVISOR).max(1) } else { shared };
        Self { shared, max_per_queue, reserved_for_readiness, reserved_for_authentication }
    }

    /// Returns how many connections are reserved for this queue.
    fn reserved(&self, name: &QueueName) -> usize {
        match name {
            QueueName::Tenant(_) => 0,
            QueueName::Readiness => self.reserved_for_readiness,
            QueueName::Authentication => self.reserved_for_authentication,
        }
    }

    /// Returns how many connections this queue may use at a time.
    fn max(&self, name: &QueueName) -> usize {
        self.reserved(name) + self.max_per_queue
    }
}

/// Hands out the permits.
#[derive(Debug)]
pub(super) struct FairQueue(Mutex<State>);

/// The permits and who waits for them.
///
/// Between two calls no queue has a waiter that could have a permit.
#[derive(Debug)]
struct State {
    shares: Shares,
    /// The number of permits that are neither reserved nor in use.
    free: usize,
    /// The queues with permits in use or with waiters.
    queues: HashMap<QueueName, Queue>,
    /// The queues with waiters. The first that may have a permit gets the next one.
    turns: VecDeque<QueueName>,
    next_waiter_id: u64,
}

#[derive(Debug, Default)]
struct Queue {
    in_use: usize,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    grant: oneshot::Sender<Permit>,
}

/// The right to use a connection. It is returned on drop.
#[derive(Debug)]
pub(super) struct Permit {
    queue: Arc<FairQueue>,
    name: QueueName,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.queue.release(&self.name);
    }
}

impl Permit {
    /// Returns the tenant in whose queue it was granted, if it is the queue of a tenant.
    pub(super) fn tenant(&self) -> Option<&Arc<str>> {
        match &self.name {
            QueueName::Tenant(tenant) => Some(tenant).filter(|tenant| !tenant.is_empty()),
            QueueName::Readiness | QueueName::Authentication => None,
        }
    }
}

impl FairQueue {
    pub(super) fn new(shares: Shares) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            shares,
            free: shares.shared,
            queues: HashMap::new(),
            turns: VecDeque::new(),
            next_waiter_id: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit, at most for `wait`. Fails at once if too many transactions wait in this
    /// queue. If the future is dropped, the transaction leaves the queue.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        name: QueueName,
        wait: Duration,
    ) -> Result<Permit, StoreError> {
        let (id, granted) = {
            let mut state = self.lock();
            if state.may_take(&name) {
                state.take(&name);
                drop(state);
                return Ok(Permit { queue: Arc::clone(self), name });
            }
            state.enqueue(&name)?
        };
        let _waiting = Waiting { queue: self, name: &name, id };
        match timeout(wait, granted).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(StoreError::Busy),
        }
    }

    /// Returns how many permits are in use, and how many transactions wait.
    pub(super) fn usage(&self) -> (usize, usize) {
        let state = self.lock();
        let all = || state.queues.values();
        let in_use = all().map(|queue| queue.in_use).sum();
        (in_use, all().map(|queue| queue.waiters.len()).sum())
    }

    /// Takes a permit back, and passes it on.
    fn release(self: &Arc<Self>, name: &QueueName) {
        let next = {
            let mut state = self.lock();
            state.put_back(name);
            state.next()
        };
        if let Some((name, grant)) = next {
            // If the transaction was dropped meanwhile, so is the permit, which passes it on.
            let _ = grant.send(Permit { queue: Arc::clone(self), name });
        }
    }
}

/// A transaction in a queue. It leaves the queue on drop.
struct Waiting<'a> {
    queue: &'a FairQueue,
    name: &'a QueueName,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.lock().leave(self.name, self.id);
    }
}

impl State {
    fn may_take(&self, name: &QueueName) -> bool {
        let in_use = self.queues.get(name).map_or(0, |queue| queue.in_use);
        let is_available = self.free > 0 || in_use < self.shares.reserved(name);
        is_available && in_use < self.shares.max(name)
    }

    fn take(&mut self, name: &QueueName) {
        let queue = self.queues.entry(name.clone()).or_default();
        // The reserved permits are used first and returned last.
        if queue.in_use >= self.shares.reserved(name) {
            self.free -= 1;
        }
        queue.in_use += 1;
    }

    fn put_back(&mut self, name: &QueueName) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        queue.in_use -= 1;
        if queue.in_use >= self.shares.reserved(name) {
            self.free += 1;
        }
        self.remove_unused(name);
    }

    /// Takes a permit for the queue whose turn it is. A returned permit is enough for one waiter.
    fn next(&mut self) -> Option<(QueueName, oneshot::Sender<Permit>)> {
        let turn = self.turns.iter().position(|name| self.may_take(name))?;
        let name = self.turns.remove(turn)?;
        let queue = self.queues.get_mut(&name)?;
        let waiter = queue.waiters.pop_front()?;
        if !queue.waiters.is_empty() {
            self.turns.push_back(name.clone());
        }
        self.take(&name);
        Some((name, waiter.grant))
    }

    fn enqueue(
        &mut self,
        name: &QueueName,
    ) -> Result<(u64, oneshot::Receiver<Permit>), StoreError> {
        let queue = self.queues.entry(name.clone()).or_default();
        if queue.waiters.len() >= MAX_WAITING {
            return Err(StoreError::Busy);
        }
        if queue.waiters.is_empty() {
            self.turns.push_back(name.clone());
        }
        let (grant, granted) = oneshot::channel();
        let id = self.next_waiter_id;
        self.next_waiter_id += 1;
        queue.waiters.push_back(Waiter { id, grant });
        Ok((id, granted))
    }

    /// Removes a waiter that has no permit yet.
    fn leave(&mut self, name: &QueueName, id: u64) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        let Some(place) = queue.waiters.iter().position(|waiter| waiter.id == id) else { return };
        queue.waiters.remove(place);
        if queue.waiters.is_empty() {
            self.turns.retain(|turn| turn != name);
            self.remove_unused(name);
        }
    }

    fn remove_unused(&mut self, name: &QueueName) {
        let is_unused = |queue: &Queue| queue.in_use == 0 && queue.waiters.is_empty();
        if self.queues.get(name).is_some_and(is_unused) {
            self.queues.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
