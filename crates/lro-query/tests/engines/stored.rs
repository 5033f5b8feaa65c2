//! Queries over stored results, with and without a file.

use std::time::Duration;

use chrono::DateTime;
use lro_core::records::Detected;
use lro_core::{Detail, ResultId, Tokens};
use lro_query::{QueryRequest, Source, jq, sql};
use lro_spool::{
    Address, DirOptions, DirSpool, MemorySpool, Quota, Spool, StoreRequest, StoredResult, store,
};

use crate::fixture::{lines, run};

fn stored(spool: &dyn Spool, payload: &[u8]) -> Box<dyn StoredResult> {
    let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    let what = StoreRequest {
        id: ResultId::new(1_800_000_000_000, 42),
        tool: "list_issues",
        server: None,
        arguments: None,
        exact: false,
        query: None,
        detail: Detail::Light,
        found: &Detected::detect(payload),
        estimated: Tokens(12),
        created_at: now,
        ttl: Duration::from_hours(1),
    };
    let (listed, _) = store(spool, what, payload, &[]).unwrap();
    let address: Address = listed.id().reference().to_string().parse().unwrap();
    spool.open(&address, now).unwrap()
}

#[test]
fn n2_the_header_is_skipped_and_the_subset_returned_from_any_spool() {
    let home = tempfile::tempdir().unwrap();
    let options = DirOptions::private().quota(Quota::NONE);
    let directory = DirSpool::open(&home.path().join("spool"), options).unwrap();
    let memory = MemorySpool::default();
    let spools: [&dyn Spool; 2] = [&directory, &memory];
    for spool in spools {
        let result = stored(spool, br#"{"next": null, "issues": [{"n": 1}, {"n": 2, "t": "x"}]}"#);
        let source = Source::stored(&*result).unwrap();
        let filter = jq::JqQuery::each("select(.n == 2)");
        let answer = run(&QueryRequest::jq(&filter, source)).unwrap();
        assert_eq!(lines(&answer), ["{\"n\":2,\"t\":\"x\"}"]);
        assert_eq!(answer.records_read, 2);
        let statement = sql::SqlQuery::new("SELECT _n, t FROM results ORDER BY n DESC");
        let answer = run(&QueryRequest::sql(&statement, source)).unwrap();
        assert_eq!(lines(&answer), ["{\"_n\":2,\"t\":\"x\"}", "{\"_n\":1,\"t\":null}"]);
    }
}

#[test]
fn a_stored_file_is_handed_over_itself() {
    let home = tempfile::tempdir().unwrap();
    let options = DirOptions::private().quota(Quota::NONE);
    let directory = DirSpool::open(&home.path().join("spool"), options).unwrap();
    assert!(stored(&directory, b"[{\"n\":1}]").as_file().is_some());
    assert!(stored(&MemorySpool::default(), b"[{\"n\":1}]").as_file().is_none());
}
