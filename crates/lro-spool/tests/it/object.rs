//! Results in object storage: in memory, on a real S3 server, and with faults in between.

mod faults;
mod identity;
mod life;
mod proxy;
mod ranges;
mod server;
mod store;
mod tenants;

use std::sync::Arc;
use std::time::Duration;

use lro_spool::{Bucket, ObjectOptions, ObjectSpool, PositionedRead, Quota, SpoolError, contract};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use testkit::s3::S3Server;

use crate::fixture::fast;

/// Quick to give up, and without a grace period.
fn options() -> ObjectOptions {
    ObjectOptions::new(fast())
        .time_limit(Duration::from_secs(5))
        .retries(3, Duration::from_millis(2))
        .part_bytes(5 << 20)
        .grace(Duration::ZERO)
}

fn on(store: Arc<dyn ObjectStore>, options: ObjectOptions) -> ObjectSpool {
    let bucket = Bucket::new(store, "spool", options).unwrap();
    ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap()
}

fn all<R: PositionedRead + ?Sized>(from: &R, chunk: usize) -> Result<Vec<u8>, SpoolError> {
    let (mut bytes, mut buf) = (Vec::new(), vec![0; chunk]);
    loop {
        match from.read_at(bytes.len() as u64, &mut buf)? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&buf[..read]),
        }
    }
}

/// Text of which no two blocks are the same.
fn text(bytes: usize) -> Vec<u8> {
    let mut random = testkit::SplitMix64::new(bytes as u64);
    let mut text = Vec::with_capacity(bytes + 8);
    while text.len() < bytes {
        text.extend(random.next_u64().to_le_bytes().map(|b| b'a' + b % 26));
    }
    text.truncate(bytes);
    text
}

#[test]
fn object_storage_keeps_the_contract() {
    contract::run(|quota| {
        let bucket = Bucket::new(Arc::new(InMemory::new()), "", options()).unwrap();
        Box::new(ObjectSpool::new(&bucket, "ann", quota).unwrap())
    });
}

#[test]
fn object_storage_keeps_the_contract_with_a_grace_period() {
    contract::run(|quota| {
        let options = options().grace(Duration::from_mins(10));
        let bucket = Bucket::new(Arc::new(InMemory::new()), "a/b", options).unwrap();
        Box::new(ObjectSpool::new(&bucket, "ann", quota).unwrap())
    });
}

#[test]
fn object_storage_on_an_s3_server_keeps_the_contract() {
    let server = S3Server::shared();
    contract::run(|quota| {
        let url = format!("s3://{}/spool", server.bucket());
        let bucket = Bucket::from_url(&url, server.settings(), options()).unwrap();
        Box::new(ObjectSpool::new(&bucket, "ann", quota).unwrap())
    });
}

#[test]
fn object_storage_can_be_used_inside_and_outside_of_a_runtime() {
    let spool = on(Arc::new(InMemory::new()), options());
    crate::fixture::put(&spool, crate::fixture::id(1), b"[1,2]").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        crate::fixture::put(&spool, crate::fixture::id(2), b"[3]").unwrap();
        assert_eq!(crate::fixture::whole(&spool, crate::fixture::id(1)), b"[1,2]");
        drop(spool);
    });
}
