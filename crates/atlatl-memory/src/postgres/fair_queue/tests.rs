//! Tests of the fair queue: turns, bounds, reserved permits and abandoned transactions.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use proptest::prelude::*;
use tokio::task::{JoinHandle, yield_now};

use super::*;

const LONG: Duration = Duration::from_mins(1);

type Acquiring = Pin<Box<dyn Future<Output = Result<Permit, StoreError>>>>;

fn many(connections: usize) -> Arc<FairQueue> {
    FairQueue::new(Shares::new(connections, ConnectionSharing::ManyTenants))
}

/// Returns a permit that is available at once.
async fn take(queue: &Arc<FairQueue>, name: impl Into<QueueName>) -> Permit {
    queue.acquire(name.into(), Duration::ZERO).await.unwrap()
}

async fn is_refused(queue: &Arc<FairQueue>, name: impl Into<QueueName>) -> bool {
    matches!(queue.acquire(name.into(), Duration::ZERO).await, Err(StoreError::Busy))
}

/// Starts a transaction, and waits until it has a permit or is in its queue.
async fn start(
    queue: &Arc<FairQueue>,
    name: impl Into<QueueName>,
) -> JoinHandle<Result<Permit, StoreError>> {
    let (queue, name) = (Arc::clone(queue), name.into());
    let task = tokio::spawn(async move { queue.acquire(name, LONG).await });
    settle().await;
    task
}

/// Lets the other tasks run until all of them wait.
async fn settle() {
    for _ in 0..4 {
        yield_now().await;
    }
}

/// Asserts that nothing is in use and no transaction waits.
fn assert_idle(queue: &FairQueue) {
    let state = queue.lock();
    assert_eq!(state.free, state.shares.shared);
    assert!(state.queues.is_empty() && state.turns.is_empty(), "{state:?}");
}

#[test]
fn the_connections_are_divided_without_a_rest() {
    let shares = |connections, sharing| {
        let shares = Shares::new(connections, sharing);
        let reserved = shares.reserved_for_readiness + shares.reserved_for_authentication;
        assert_eq!(shares.shared + reserved, connections.max(1));
        (shares.shared, shares.max_per_queue)
    };
    let one = |connections| shares(connections, ConnectionSharing::OneTenant);
    let many = |connections| shares(connections, ConnectionSharing::ManyTenants);
    assert_eq!([0, 1, 3, 4, 8].map(one), [(1, 1), (1, 1), (3, 3), (3, 3), (7, 7)]);
    assert_eq!([0, 1, 3, 4, 8, 20].map(many), [(1, 1), (1, 1), (3, 1), (2, 1), (6, 2), (18, 5)]);
}

#[tokio::test]
async fn g42_a_tenant_with_many_waiters_delays_others_by_one_turn() {
    let queue = many(8);
    let _other = [take(&queue, "x").await, take(&queue, "x").await];
    let mut free = vec![take(&queue, "y").await, take(&queue, "y").await];
    let in_use = [take(&queue, "a").await, take(&queue, "a").await];
    // All shared permits are in use. Of tenant a 64 transactions wait before the others come.
    let mut many = Vec::new();
    for _ in 0..64 {
        many.push(start(&queue, "a").await);
    }
    let mut others = vec![start(&queue, "b").await, start(&queue, "c").await];
    // A turn of a, which is at its bound, is skipped and not used up.
    drop(free.pop());
    let b = others.remove(0).await.unwrap().unwrap();
    drop(free.pop());
    let c = others.remove(0).await.unwrap().unwrap();
    drop(in_use);
    settle().await;
    assert_eq!(many.iter().filter(|task| task.is_finished()).count(), 2);
    // With a and b waiting, they take turns.
    let (one, two) = (start(&queue, "b").await, start(&queue, "b").await);
    drop(c);
    settle().await;
    assert!(one.is_finished() && !two.is_finished(), "a is at its bound");
    drop(b);
    settle().await;
    assert!(two.is_finished());
    assert_eq!(many.iter().filter(|task| task.is_finished()).count(), 2);
}

#[tokio::test]
async fn g42_waiting_tenants_get_permits_in_turn() {
    let queue = many(4);
    let mut in_use = vec![take(&queue, "x").await, take(&queue, "y").await];
    let mut waiting = Vec::new();
    for tenant in ["a", "a", "a", "b", "b", "c"] {
        waiting.push((tenant, start(&queue, tenant).await));
    }
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(in_use.remove(0));
        settle().await;
        let next = waiting.iter().position(|(_, task)| task.is_finished()).expect("a permit");
        let (tenant, task) = waiting.remove(next);
        in_use.push(task.await.unwrap().unwrap());
        order.push(tenant);
    }
    assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
    drop(in_use);
    assert_idle(&queue);
}

#[tokio::test]
async fn a_tenant_uses_no_more_than_its_share_also_when_it_is_alone() {
    let queue = many(8);
    let mut permits = vec![take(&queue, "a").await, take(&queue, "a").await];
    assert!(is_refused(&queue, "a").await);
    permits.extend([take(&queue, "b").await, take(&queue, "b").await]);
    permits.extend([take(&queue, "c").await, take(&queue, "c").await]);
    assert!(is_refused(&queue, "d").await, "all shared permits are in use");
    drop(permits);
    assert_idle(&queue);
    let queue = FairQueue::new(Shares::new(8, ConnectionSharing::OneTenant));
    let mut permits = Vec::new();
    for _ in 0..7 {
        permits.push(take(&queue, "a").await);
    }
    assert!(is_refused(&queue, "a").await);
}

#[tokio::test]
async fn g42_readiness_and_authentication_never_wait_for_tenants() {
    let queue = many(4);
    let tenants = [take(&queue, "a").await, take(&queue, "b").await];
    let waiting = start(&queue, "c").await;
    for _ in 0..3 {
        let ready = take(&queue, QueueName::Readiness).await;
        let authenticated = take(&queue, QueueName::Authentication).await;
        assert!(is_refused(&queue, QueueName::Readiness).await, "one is reserved");
        assert!(!waiting.is_finished());
        drop((ready, authenticated));
        assert!(!waiting.is_finished(), "a reserved permit is not for tenants");
    }
    drop(tenants);
    // A second lookup uses a shared permit.
    let lookup = || take(&queue, QueueName::Authentication);
    let lookups = [lookup().await, lookup().await];
    assert!(is_refused(&queue, "d").await);
    drop(lookups);
    drop(waiting.await.unwrap().unwrap());
    assert_idle(&queue);
}

#[tokio::test]
async fn a_queue_has_a_bound_and_the_others_are_not_affected() {
    let queue = many(4);
    let in_use = [take(&queue, "a").await, take(&queue, "b").await];
    let mut waiting = Vec::new();
    for _ in 0..MAX_WAITING {
        waiting.push(start(&queue, "a").await);
    }
    let refused = queue.acquire("a".into(), LONG).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    let other = start(&queue, "c").await;
    drop(in_use);
    drop(other.await.unwrap().unwrap());
    for task in waiting {
        drop(task.await.unwrap().unwrap());
    }
    assert_idle(&queue);
}

#[tokio::test]
async fn an_abandoned_transaction_leaves_the_queue_and_a_granted_permit_is_passed_on() {
    let queue = many(4);
    let in_use = [take(&queue, "a").await, take(&queue, "b").await];
    let mut first = Box::pin(queue.acquire("a".into(), LONG));
    let mut second = Box::pin(queue.acquire("a".into(), LONG));
    let mut third = Box::pin(queue.acquire("c".into(), LONG));
    for waiting in [&mut first, &mut second, &mut third] {
        assert!(is_pending(waiting.as_mut()).await);
    }
    drop(first);
    assert_eq!(queue.lock().queues[&QueueName::from("a")].waiters.len(), 1);
    // The second gets a permit, and is dropped before it is polled.
    drop(in_use);
    drop(second);
    drop(third.await.unwrap());
    assert_idle(&queue);
    // A transaction that waits too long fails, and leaves the queue.
    let in_use = [take(&queue, "a").await, take(&queue, "b").await];
    let late = queue.acquire("a".into(), Duration::from_millis(5)).await;
    assert!(matches!(late, Err(StoreError::Busy)), "{late:?}");
    drop(in_use);
    assert_idle(&queue);
}

async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// A step of a random schedule: of a tenant, a transaction begins, one ends, or one is dropped
/// wherever it is.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin(u8),
    End(u8),
    Drop(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any::<u8>().prop_map(Step::Begin),
        1 => any::<u8>().prop_map(Step::End),
        2 => any::<u8>().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn prop_no_permit_is_lost_or_given_twice(connections in 1..12_usize, steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let queue = many(connections);
            let mut begun: Vec<Acquiring> = Vec::new();
            let mut granted = Vec::new();
            for step in steps {
                match step {
                    Step::Begin(tenant) => {
                        let name = match tenant % 6 {
                            0 => QueueName::Readiness,
                            1 => QueueName::Authentication,
                            n => QueueName::from(n.to_string().as_str()),
                        };
                        let queue = Arc::clone(&queue);
                        begun.push(Box::pin(async move { queue.acquire(name, LONG).await }));
                    }
                    Step::End(n) if !granted.is_empty() => {
                        drop(granted.swap_remove(usize::from(n) % granted.len()));
                    }
                    Step::Drop(n) if !begun.is_empty() => {
                        drop(begun.swap_remove(usize::from(n) % begun.len()));
                    }
                    Step::End(_) | Step::Drop(_) => {}
                }
                // Of those that wait, half are polled, so that some have a permit without knowing.
                for n in (0..begun.len()).rev().step_by(2) {
                    let polled = poll_fn(|context| Poll::Ready(begun[n].as_mut().poll(context))).await;
                    if let Poll::Ready(permit) = polled {
                        drop(begun.swap_remove(n));
                        granted.extend(permit);
                    }
                }
                let state = queue.lock();
                let in_use: usize = state.queues.values().map(|queue| queue.in_use).sum();
                assert!(granted.len() <= in_use && in_use <= connections);
                for (name, queue) in &state.queues {
                    assert!(queue.in_use <= state.shares.max(name));
                    assert!(queue.waiters.is_empty() || !state.may_take(name), "{state:?}");
                }
            }
            drop((begun, granted));
            assert_idle(&queue);
        });
    }
}

#[test]
fn no_permit_is_lost_to_ten_thousand_abandoned_transactions_on_many_threads() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let queue = many(8);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10_000_u32)
            .map(|n| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move {
                    let tenant = (n % 7).to_string();
                    let mut waiting = pin!(queue.acquire(tenant.as_str().into(), LONG));
                    for _ in 0..n % 5 {
                        let polled =
                            poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await;
                        if let Poll::Ready(permit) = polled {
                            yield_now().await;
                            drop(permit);
                            return;
                        }
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        // Everyone still gets one.
        for tenant in 0..7 {
            drop(queue.acquire(tenant.to_string().as_str().into(), LONG).await.unwrap());
        }
    });
    assert_idle(&queue);
}
