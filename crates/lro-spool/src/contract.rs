//! Contract: the suite that every implementation of [`Spool`] runs in its tests.
//!
//! ```
//! use lro_spool::{MemorySpool, contract};
//!
//! contract::run(|quota| Box::new(MemorySpool::new(quota)));
//! ```

mod faulty_os;

use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::records::Detected;
use lro_core::{Detail, OffloadHeader, Operation, ResultId, Tokens};

pub use self::faulty_os::{FaultDuration, FaultyOs, InjectedFault};
use crate::{
    Address, Extension, NewResult, PartNumber, PartRole, PositionedRead, Quota, Spool, SpoolError,
    SpoolLimit, StoreRequest, StoredForm, restore_payload, store,
};

const NOON: i64 = 1_800_000_000_000;
const HOUR: Duration = Duration::from_hours(1);

/// Runs every case on an empty spool that `make` creates for a quota.
///
/// # Panics
///
/// Panics if an implementation breaks the contract.
pub fn run(make: impl Fn(Quota) -> Box<dyn Spool>) {
    let unlimited = || make(Quota::NONE);
    nothing_is_visible_before_the_commit(&*unlimited());
    a_dropped_draft_leaves_nothing(&*unlimited());
    the_header_comes_first_and_any_place_can_be_read(&*unlimited());
    parts_are_kept_apart(&*unlimited());
    a_name_is_taken_once(&*unlimited());
    every_address_leads_to_the_result_and_no_other_does(&*unlimited());
    readers_protect_a_result(&*unlimited());
    expiry_is_exact_and_reported_once(&*unlimited());
    a_clock_set_back_deletes_nothing(&*unlimited());
    results_are_listed_by_age_and_removed_one_by_one(&*unlimited());
    a_quota_of_files_holds(&*make(Quota { max_files: 2, ..Quota::NONE }));
    a_quota_of_bytes_holds(&*make(Quota { max_bytes: 4000, ..Quota::NONE }));
    payloads_come_back(&*unlimited());
    scratch_has_no_name(&*unlimited());
}

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(NOON + ms).expect("within range")
}

fn id(n: u16) -> ResultId {
    ResultId::new(NOON.unsigned_abs(), u128::from(n))
}

fn new(n: u16, extension: Extension, created_at: DateTime<Utc>) -> NewResult {
    let operation = Operation::from_tool("list_issues");
    let header = OffloadHeader::new(&operation, None, 0, Tokens(9), Detail::Light, created_at);
    let tool = "list_issues".to_owned();
    NewResult {
        id: id(n),
        operation,
        tool,
        server: None,
        arguments: None,
        extension,
        header,
        created_at,
        ttl: HOUR,
    }
}

fn put(
    spool: &dyn Spool,
    n: u16,
    text: &[u8],
    created_at: DateTime<Utc>,
) -> Result<(), SpoolError> {
    let mut draft = spool.create(new(n, Extension::Txt, created_at))?;
    draft.write(text)?;
    draft.commit(StoredForm::Text.into()).map(drop)
}

fn all<R: PositionedRead + ?Sized>(from: &R) -> Vec<u8> {
    let (mut bytes, mut buf) = (Vec::new(), [0; 7]);
    loop {
        let read = from.read_at(bytes.len() as u64, &mut buf).expect("readable");
        if read == 0 {
            assert_eq!(bytes.len() as u64, from.len());
            assert_eq!(bytes.is_empty(), from.is_empty());
            return bytes;
        }
        bytes.extend_from_slice(&buf[..read]);
    }
}

fn missing(spool: &dyn Spool, n: u16) {
    let found = spool.open(&id(n).into(), at(0)).map(drop);
    assert!(matches!(found, Err(SpoolError::NotFound { .. })), "{found:?}");
}

fn nothing_is_visible_before_the_commit(spool: &dyn Spool) {
    let mut draft = spool.create(new(1, Extension::Txt, at(0))).expect("created");
    draft.write(b"half").expect("written");
    missing(spool, 1);
    assert!(spool.list().expect("listed").is_empty());
    assert_eq!(spool.sweep(at(0)).expect("swept").leftovers, 0, "a live draft is no leftover");
    draft.write(b" and half").expect("written");
    let listed = draft.commit(StoredForm::Text.into()).expect("committed");
    assert_eq!(spool.list().expect("listed"), [listed]);
    assert_eq!(all(&*spool.open(&id(1).into(), at(0)).expect("opened")), b"half and half");
}

fn a_dropped_draft_leaves_nothing(spool: &dyn Spool) {
    let mut draft = spool.create(new(1, Extension::Txt, at(0))).expect("created");
    draft.write(b"never to be seen").expect("written");
    let part = draft.add_part(PartRole::Text).expect("added");
    draft.write_part(part, b"nor this").expect("written");
    drop(draft);
    missing(spool, 1);
    put(spool, 1, b"the name is free", at(0)).expect("stored");
}

fn the_header_comes_first_and_any_place_can_be_read(spool: &dyn Spool) {
    let mut draft = spool.create(new(1, Extension::Jsonl, at(0))).expect("created");
    draft.write(b"{\"n\":1}\n").expect("written");
    let listed = draft.commit(StoredForm::Lines.into()).expect("committed");
    let reader = spool.open(&id(1).into(), at(0)).expect("opened");
    let bytes = all(&*reader);
    let mut lines = bytes.split(|b| *b == b'\n');
    let header: OffloadHeader =
        serde_json::from_slice(lines.next().unwrap_or_default()).expect("a header");
    assert!(header.is_ours());
    assert_eq!(lines.next(), Some(b"{\"n\":1}".as_slice()));
    assert_eq!(listed.sidecar.bytes, bytes.len() as u64);
    assert_eq!((listed.sidecar.created_at, listed.sidecar.expires_at), (at(0), at(3_600_000)));
    assert_eq!(reader.listed(), &listed);
    assert_eq!(reader.read_at(reader.len() - 2, &mut [0; 9]).expect("read"), 2);
    assert_eq!(reader.read_at(reader.len(), &mut [0; 9]).expect("read"), 0);
    assert_eq!(reader.read_at(reader.len() + 9, &mut [0; 9]).expect("read"), 0);
}

fn parts_are_kept_apart(spool: &dyn Spool) {
    let mut draft = spool.create(new(1, Extension::Bin, at(0))).expect("created");
    let one = draft.add_part(PartRole::Original).expect("added");
    let two = draft.add_part(PartRole::Text).expect("added");
    for (part, bytes) in [(one, "1"), (two, "2"), (one, "one"), (two, "")] {
        draft.write_part(part, bytes.as_bytes()).expect("written");
    }
    assert!(draft.write_part(PartNumber(0), b"x").is_err());
    assert!(draft.write_part(PartNumber(3), b"x").is_err());
    draft.write(b"data").expect("written");
    let listed = draft.commit(StoredForm::Binary.into()).expect("committed");
    let parts: Vec<_> = listed.sidecar.parts.iter().map(|part| (part.role, part.bytes)).collect();
    assert_eq!(parts, [(PartRole::Original, 4), (PartRole::Text, 1)]);
    let reader = spool.open(&id(1).into(), at(0)).expect("opened");
    assert_eq!(all(&*reader), b"data");
    let part = reader.part(one).expect("part 1");
    assert_eq!(all(&*reader.part(two).expect("part 2")), b"2");
    assert!(reader.part(PartNumber(0)).is_err() && reader.part(PartNumber(3)).is_err());
    drop(reader);
    assert_eq!(spool.sweep(at(3_600_000)).expect("swept").in_use, 1, "a part protects the whole");
    assert_eq!(all(&*part), b"1one");
}

fn a_name_is_taken_once(spool: &dyn Spool) {
    put(spool, 1, b"first", at(0)).expect("stored");
    let second = put(spool, 1, b"second", at(0));
    assert!(matches!(second, Err(SpoolError::Taken { .. })), "{second:?}");
    assert_eq!(all(&*spool.open(&id(1).into(), at(0)).expect("opened")), b"first");
    assert_eq!(spool.list().expect("listed").len(), 1);
}

fn every_address_leads_to_the_result_and_no_other_does(spool: &dyn Spool) {
    put(spool, 1, b"here", at(0)).expect("stored");
    let listed = spool.list().expect("listed").remove(0);
    let mut addresses =
        vec![listed.id().to_string(), listed.id().reference().to_string(), listed.name.to_string()];
    addresses.extend(listed.path.as_ref().and_then(|path| path.to_str()).map(str::to_owned));
    for text in addresses {
        let address: Address = text.parse().expect("an address");
        assert_eq!(all(&*spool.open(&address, at(0)).expect("opened")), b"here", "{text}");
    }
    missing(spool, 2);
    for name in [
        listed.name.to_string().replace(".txt", ".bin"),
        listed.name.to_string().replace("list_issues", "list"),
        format!("/nowhere/{}", listed.name),
    ] {
        let found = spool.open(&name.parse().expect("an address"), at(0)).map(drop);
        assert!(
            matches!(found, Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. })),
            "{name}: {found:?}"
        );
    }
}

fn readers_protect_a_result(spool: &dyn Spool) {
    put(spool, 1, b"long read", at(0)).expect("stored");
    let reader = spool.open(&id(1).into(), at(0)).expect("opened");
    let again = spool.open(&id(1).into(), at(0)).expect("two readers");
    let swept = spool.sweep(at(3_600_000)).expect("swept");
    assert!(swept.expired.is_empty() && swept.in_use == 1, "{swept:?}");
    drop(again);
    let removed = spool.remove(&id(1).into());
    assert!(matches!(removed, Err(SpoolError::InUse { .. })), "{removed:?}");
    assert_eq!(all(&*reader), b"long read");
    drop(reader);
    assert_eq!(spool.sweep(at(3_600_000)).expect("swept").expired.len(), 1);
}

fn expiry_is_exact_and_reported_once(spool: &dyn Spool) {
    put(spool, 1, b"older", at(0)).expect("stored");
    put(spool, 2, b"younger", at(1)).expect("stored");
    assert!(spool.open(&id(1).into(), at(3_599_999)).is_ok());
    for swept in [0, 1] {
        let opened = spool.open(&id(1).into(), at(3_600_000)).map(drop);
        let Err(SpoolError::Expired { operation, tool, expires_at }) = opened else {
            panic!("{opened:?}");
        };
        assert_eq!((operation.as_str(), tool.as_str()), ("list_issues", "list_issues"));
        assert_eq!(expires_at, at(3_600_000));
        if swept == 0 {
            assert!(spool.sweep(at(3_599_999)).expect("swept").expired.is_empty());
            let gone = spool.sweep(at(3_600_000)).expect("swept").expired;
            assert_eq!(gone.iter().map(crate::ResultInfo::id).collect::<Vec<_>>(), [id(1)]);
        }
    }
    let gone = spool.sweep(at(3_600_001)).expect("swept").expired;
    assert_eq!(gone.iter().map(crate::ResultInfo::id).collect::<Vec<_>>(), [id(2)]);
    assert!(spool.sweep(at(i64::from(i32::MAX))).expect("swept").expired.is_empty());
}

fn a_clock_set_back_deletes_nothing(spool: &dyn Spool) {
    put(spool, 1, b"from the future", at(86_400_000)).expect("stored");
    // Named at noon, created tomorrow.
    for now in [at(-NOON), at(-1), at(0), at(3_600_000), at(86_400_000), at(89_999_999)] {
        assert!(spool.sweep(now).expect("swept").expired.is_empty(), "{now}");
        assert!(spool.open(&id(1).into(), now).is_ok(), "{now}");
    }
    assert_eq!(spool.sweep(at(90_000_000)).expect("swept").expired.len(), 1);
}

fn results_are_listed_by_age_and_removed_one_by_one(spool: &dyn Spool) {
    for n in [3, 1, 2] {
        put(spool, n, b"x", at(0)).expect("stored");
    }
    let ids = || -> Vec<ResultId> {
        spool.list().expect("listed").iter().map(crate::ResultInfo::id).collect()
    };
    assert_eq!(ids(), [id(1), id(2), id(3)]);
    assert_eq!(spool.remove(&id(2).into()).expect("removed").id(), id(2));
    assert_eq!(ids(), [id(1), id(3)]);
    let twice = spool.remove(&id(2).into());
    assert!(matches!(twice, Err(SpoolError::NotFound { .. })), "{twice:?}");
}

fn a_quota_of_files_holds(spool: &dyn Spool) {
    put(spool, 1, b"x", at(0)).expect("stored");
    put(spool, 2, b"x", at(1)).expect("stored");
    let third = put(spool, 3, b"x", at(2));
    assert!(matches!(third, Err(SpoolError::Full { limit: SpoolLimit::Files })), "{third:?}");
    // The expired result makes room and is reported later.
    put(spool, 4, b"x", at(3_600_000)).expect("room was made");
    let ids: Vec<_> = spool.list().expect("listed").iter().map(crate::ResultInfo::id).collect();
    assert_eq!(ids, [id(2), id(4)]);
    let gone = spool.sweep(at(0)).expect("swept").expired;
    assert_eq!(gone.iter().map(crate::ResultInfo::id).collect::<Vec<_>>(), [id(1)]);
    assert!(spool.sweep(at(0)).expect("swept").expired.is_empty(), "reported once");
}

fn a_quota_of_bytes_holds(spool: &dyn Spool) {
    put(spool, 1, &[b'x'; 2000], at(0)).expect("stored");
    let second = put(spool, 2, &[b'x'; 2500], at(1));
    assert!(matches!(second, Err(SpoolError::Full { limit: SpoolLimit::Bytes })), "{second:?}");
    assert_eq!(spool.list().expect("listed").len(), 1);
    put(spool, 2, &[b'x'; 2500], at(3_600_000)).expect("room was made");
    assert_eq!(spool.list().expect("listed").len(), 1);
}

fn payloads_come_back(spool: &dyn Spool) {
    let same: &[&[u8]] = &[
        b"[]",
        br#"[{"a":1},{"a":1e400,"a":"\ud800"}]"#,
        br#"{"items":[{"a":1},{"a":2}],"next":null}"#,
        b"{\"a\":1}\n{\"a\":2}\n",
        b"{\"one\": \"document\"}",
        b"plain  text\r\n",
        b"\xff\x00binary",
        b"name,n\nann,1\nbob,02\n",
        b"",
    ];
    for (n, payload) in (1..).zip(same) {
        let found = Detected::detect(payload);
        let what = StoreRequest {
            id: id(n),
            tool: "export",
            server: None,
            arguments: None,
            exact: false,
            query: None,
            detail: Detail::Light,
            found: &found,
            estimated: Tokens(1),
            created_at: at(0),
            ttl: HOUR,
        };
        let (listed, stats) = store(spool, what, payload, &["and a text"]).expect("stored");
        assert_eq!(stats.count, found.records().map_or(0, |records| records.count));
        let reader = spool.open(&listed.name.clone().into(), at(0)).expect("opened");
        let mut whole = Vec::new();
        restore_payload(&*reader, &mut whole).expect("put together");
        assert_eq!(whole.escape_ascii().to_string(), payload.escape_ascii().to_string());
        let last = u16::try_from(listed.sidecar.parts.len()).expect("few parts");
        assert_eq!(all(&*reader.part(PartNumber(last)).expect("the text")), b"and a text");
    }
}

fn scratch_has_no_name(spool: &dyn Spool) {
    let mut scratch = spool.scratch().expect("scratch");
    let mut other = spool.scratch().expect("another");
    assert!(scratch.is_empty());
    for chunk in [&b"one"[..], b"", b" and another"] {
        scratch.append(chunk).expect("put aside");
    }
    other.append(b"apart").expect("put aside");
    assert_eq!((all(&*scratch), all(&*other)), (b"one and another".to_vec(), b"apart".to_vec()));
    let swept = spool.sweep(at(i64::from(i32::MAX))).expect("swept");
    assert_eq!((swept.expired.len(), swept.leftovers), (0, 0));
    assert!(spool.list().expect("listed").is_empty());
    assert_eq!(all(&*scratch), b"one and another");
}
