//! Downloads of stored results: whole, in ranges, and rejected.

use chrono::TimeDelta;
use lro::IdSeed;
use serde_json::json;

use super::served::Served;
use crate::fixture::{Era, Place, memories};

/// A fixture with an offloaded recall: its reference and its bytes.
fn stored() -> (Place, String, Vec<u8>) {
    let place = Place::with(&memories((0..300).map(|n| format!("Row {n} of the harbour."))));
    let set = place.client(Era::Legacy).call("recall_memories", json!({"query": "harbour"}));
    let bytes = std::fs::read(&place.files()[0]).unwrap();
    (place, set["lro"]["ref"].as_str().unwrap().to_owned(), bytes)
}

#[test]
fn a_stored_result_is_given_whole_and_in_ranges() {
    let (place, reference, bytes) = stored();
    let served = Served::start(&place);
    let ulid = reference.strip_prefix("lro:").unwrap();
    let len = bytes.len();
    for id in [reference.as_str(), ulid, &reference.replace(':', "%3A")] {
        let whole = served.get(&format!("/v1/offloads/{id}"));
        assert_eq!((whole.status, &whole.body), (200, &bytes), "{id}");
        assert_eq!(whole.header("accept-ranges"), Some("bytes"));
        assert_eq!(whole.header("content-type"), Some("application/octet-stream"));
    }
    let path = format!("/v1/offloads/{ulid}");
    let ask = |range: &str| served.ask("GET", &path, &[("Range", range)], "");
    for (range, start, end) in [
        ("bytes=0-0".to_owned(), 0, 1),
        ("bytes=0-99".to_owned(), 0, 100),
        ("bytes=100-".to_owned(), 100, len),
        ("bytes=-7".to_owned(), len - 7, len),
        (format!("bytes={}-", len - 1), len - 1, len),
        (
            "bytes=5-99999999999999999999"
                .to_owned()
                .replace("99999999999999999999", "18446744073709551615"),
            5,
            len,
        ),
        (format!("bytes=-{}", len + 10), 0, len),
    ] {
        let part = ask(&range);
        assert_eq!((part.status, &part.body[..]), (206, &bytes[start..end]), "{range}");
        let said = format!("bytes {start}-{}/{len}", end - 1);
        assert_eq!(part.header("content-range"), Some(said.as_str()));
    }
    // RFC 9110: an invalid range is ignored.
    for odd in ["lines=1-2", "bytes=", "bytes=x-y", "bytes=9-1", "bytes=0-1,5-6", "0-1"] {
        assert_eq!((ask(odd).status, ask(odd).body.len()), (200, len), "{odd}");
    }
    for beyond in
        [format!("bytes={len}-"), format!("bytes={}-{}", len + 5, len + 9), "bytes=-0".to_owned()]
    {
        let refused = ask(&beyond);
        refused.is_problem(416);
        assert_eq!(refused.header("content-range"), Some(format!("bytes */{len}").as_str()));
    }
    // The ranges add up to the whole.
    let pieces: Vec<u8> = (0..len)
        .step_by(997)
        .flat_map(|at| ask(&format!("bytes={at}-{}", at + 996)).body)
        .collect();
    assert_eq!(pieces, bytes);
}

#[test]
fn what_has_expired_is_gone_and_what_never_was_is_not_found() {
    let (mut place, reference, _) = stored();
    let served = Served::start(&place);
    let file = place.files()[0].clone();
    let name = file.file_name().unwrap().to_str().unwrap();
    let full = file.to_str().unwrap().replace('/', "%2F");
    for odd in [
        "01J00000000000000000000000",
        "lro:01J00000000000000000000000",
        "x",
        "..%2F..%2Fetc%2Fpasswd",
        "%2Fetc%2Fpasswd",
        "..",
        "%2e%2e",
        "%00",
        "%FF",
        name,
        &full,
        &reference.to_lowercase().replace("lro", "LRO:lro"),
        &format!("{reference}%7C.id"),
        &format!("{reference}%00"),
        &format!("{reference}/"),
    ] {
        served.get(&format!("/v1/offloads/{odd}")).is_problem(404);
    }
    assert_eq!(served.get(&format!("/v1/offloads/{reference}")).status, 200);
    drop(served);
    place.clock = || {
        let at = IdSeed::from_system();
        IdSeed { now: at.now + TimeDelta::hours(2), random: at.random }
    };
    let later = Served::start(&place);
    later.get(&format!("/v1/offloads/{reference}")).is_problem(410);
}
