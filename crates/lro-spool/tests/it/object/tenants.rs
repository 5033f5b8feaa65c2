//! Isolation of tenants in one bucket.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, TimeDelta};
use lro_spool::{
    Bucket, InvalidTenant, ObjectOptions, ObjectSpool, Quota, RemoteKind, Spool, SpoolError,
};
use testkit::s3::S3Server;

use super::options;
use super::store::Faulty;
use crate::fixture::{at, fast, id, put, whole};

#[test]
fn tenants_of_one_bucket_see_nothing_of_each_other() {
    let server = S3Server::shared();
    let url = format!("s3://{}/spool", server.bucket());
    let bucket = Bucket::from_url(&url, server.settings(), options()).unwrap();
    let names = ["ann", "ann/", "../t-ann", "..", ".", "Ann", "ann\0", "t-ann/index", "\u{e9}\n"];
    let spools: Vec<_> =
        names.iter().map(|name| ObjectSpool::new(&bucket, name, Quota::NONE).unwrap()).collect();
    for (n, spool) in (0u8..).zip(&spools) {
        assert!(spool.list().unwrap().is_empty(), "{:?}", names[usize::from(n)]);
        // The same identity for each, so that only the tenant tells them apart.
        put(spool, id(1), &[b'[', b'0' + n, b']']).unwrap();
    }
    for (n, spool) in (0u8..).zip(&spools) {
        assert_eq!(whole(spool, id(1)), [b'[', b'0' + n, b']']);
    }
    assert_eq!(spools[0].sweep(at(3_600_000)).unwrap().expired.len(), 1);
    assert!(spools[0].list().unwrap().is_empty());
    for spool in &spools[1..] {
        assert_eq!(spool.list().unwrap().len(), 1);
    }
    assert_eq!(ObjectSpool::new(&bucket, "", Quota::NONE).err(), Some(InvalidTenant));
}

#[test]
fn g48_everything_of_a_tenant_is_erased_and_nothing_of_others() {
    let server = S3Server::shared();
    let url = format!("s3://{}/spool", server.bucket());
    let bucket = Bucket::from_url(&url, server.settings(), options()).unwrap();
    let names = ["ann", "ann/", "anna", "Ann"];
    let spools = names.map(|name| ObjectSpool::new(&bucket, name, Quota::NONE).unwrap());
    for spool in &spools {
        for n in 0..5 {
            put(spool, id(n), b"[1,2]").unwrap();
        }
    }
    // One is deleted already, and has a tombstone.
    spools[0].remove(&id(4).into()).unwrap();
    let eraser = bucket.eraser("ann").unwrap();
    let (mut results, mut steps) = (0, 0);
    loop {
        let erased = eraser.erase_some().unwrap();
        results += erased.results;
        steps += 1;
        if erased.is_complete {
            assert_eq!((erased.results, erased.bytes), (0, 0));
            break;
        }
        assert!(erased.bytes > 0 && steps < 9, "{erased:?}");
    }
    assert_eq!(results, 4);
    assert!(spools[0].list().unwrap().is_empty());
    assert!(matches!(
        spools[0].open(&id(1).into(), at(0)).map(drop),
        Err(SpoolError::NotFound { .. })
    ));
    for spool in &spools[1..] {
        assert_eq!(spool.list().unwrap().len(), 5);
        assert_eq!(whole(spool, id(1)), b"[1,2]");
    }
    // Of a tenant that goes on.
    let eraser = bucket.eraser("anna").unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let now = DateTime::from_timestamp(now.try_into().unwrap(), 0).unwrap();
    assert!(eraser.erase_results(now - TimeDelta::hours(1)).unwrap().is_complete);
    assert_eq!(spools[2].list().unwrap().len(), 5);
    let erased = eraser.erase_results(now + TimeDelta::hours(1)).unwrap();
    assert!(erased.results == 5 && erased.bytes > 0 && !erased.is_complete, "{erased:?}");
    assert!(eraser.erase_results(now + TimeDelta::hours(1)).unwrap().is_complete);
    assert!(spools[2].list().unwrap().is_empty());
    put(&spools[2], id(9), b"[3]").unwrap();
    assert_eq!(whole(&spools[2], id(9)), b"[3]");
    assert_eq!(bucket.eraser("").err(), Some(InvalidTenant));
}

#[test]
fn g48_an_erasure_goes_on_after_a_failure() {
    let server = S3Server::start();
    let url = format!("s3://{}/spool", server.bucket());
    let bucket = Bucket::from_url(&url, server.settings(), options()).unwrap();
    let spool = ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap();
    for n in 0..3 {
        put(&spool, id(n), b"[1,2]").unwrap();
    }
    let eraser = bucket.eraser("ann").unwrap();
    server.kill();
    let failed = eraser.erase_some();
    assert!(matches!(failed, Err(SpoolError::Remote { .. })), "{failed:?}");
    server.start_again();
    while !eraser.erase_some().unwrap().is_complete {}
    assert!(spool.list().unwrap().is_empty());
}

#[test]
fn everything_is_below_the_prefix_and_the_tenant() {
    let store = Faulty::new();
    let bucket = Bucket::new(Arc::clone(&store) as _, "a/b", options()).unwrap();
    for tenant in ["../../x", "\\..\\y", "%2e%2e%2fz"] {
        let spool = ObjectSpool::new(&bucket, tenant, Quota::NONE).unwrap();
        put(&spool, id(1), b"name,n\nann,1\nbob,02\n").unwrap();
    }
    let keys = store.keys();
    assert_eq!(keys.len(), 3 * 4, "{keys:?}");
    for key in keys {
        assert!(key.starts_with("a/b/t-") && !key.contains(".."), "{key}");
    }
    for prefix in ["a/../b", "..", "a//b", "a/\n"] {
        let opened = Bucket::new(Faulty::new(), prefix, options());
        assert!(matches!(opened, Err(SpoolError::Remote { .. })), "{prefix:?}");
    }
}

#[test]
fn a_wrong_secret_is_refused_and_said_so_without_it() {
    let server = S3Server::shared();
    let url = format!("s3://{}/spool", server.bucket());
    let mut settings = server.settings();
    settings[1].1 = "not-the-secret".to_owned();
    let bucket = Bucket::from_url(&url, settings, options()).unwrap();
    let spool = ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap();
    let opened = spool.open(&id(1).into(), at(0)).map(drop);
    let Err(SpoolError::Remote { source, .. }) = &opened else { panic!("{opened:?}") };
    assert_eq!(source.kind(), RemoteKind::Refused, "{source}");
    assert!(!format!("{opened:?}").contains("not-the-secret"));
    let listed = spool.list();
    assert!(matches!(listed, Err(SpoolError::Remote { .. })), "{listed:?}");
    let stored = put(&spool, id(1), b"[1]");
    assert!(matches!(stored, Err(lro_spool::EncodeError::Spool(SpoolError::Remote { .. }))));
}

#[test]
fn urls_that_cannot_be_used_are_refused_at_once() {
    let none = || Vec::<(String, String)>::new();
    let options = || ObjectOptions::new(fast()).time_limit(Duration::from_secs(1));
    for url in [
        "",
        "bucket",
        "file:///tmp",
        "memory:///",
        "http://127.0.0.1/x",
        "s3://",
        // Without an account.
        "az://container/p",
        "s3://key:hunter2@bucket/p",
    ] {
        let opened = Bucket::from_url(url, none(), options());
        let Err(error @ SpoolError::Remote { .. }) = opened else { panic!("{url:?}: {opened:?}") };
        let SpoolError::Remote { source, .. } = &error else { unreachable!() };
        assert_eq!(source.kind(), RemoteKind::Misused, "{url}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
    // Unknown names are passed over: a caller hands on what it finds.
    let settings = [("AWS_PAGER", "less"), ("AWS_REGION", "us-east-1")];
    assert!(Bucket::from_url("s3://bucket/p", settings, options()).is_ok());
}

#[test]
fn a_clear_connection_needs_to_be_allowed() {
    let server = S3Server::shared();
    let url = format!("s3://{}/spool", server.bucket());
    let settings: Vec<_> =
        server.settings().into_iter().filter(|(name, _)| name != "AWS_ALLOW_HTTP").collect();
    let opened = Bucket::from_url(&url, settings, options())
        .and_then(|bucket| ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap().list().map(drop));
    assert!(matches!(opened, Err(SpoolError::Remote { .. })), "{opened:?}");
}
