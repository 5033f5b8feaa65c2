//! Arbitrary headers and sidecars: a file is refused, or opened with its bytes.

use std::fs;

use lro_core::OffloadHeader;
use lro_spool::{Sidecar, Spool, SpoolError, StoredForm, records_offset, restore_payload};
use proptest::prelude::*;

use crate::fixture::{at, cases, fast, flat, id, put, whole};

/// What was written, with some bytes in it changed, or anything.
fn damaged(written: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = written.len();
    let bytes = || prop::collection::vec(any::<u8>(), 0..6);
    let change = (
        0..=length,
        0..4_usize,
        prop_oneof!["[0-9\"{},:a-z]{0,4}".prop_map(String::into_bytes), bytes()],
    );
    prop_oneof![
        2 => Just(written.clone()),
        6 => change.prop_map(move |(from, removed, put)| {
            let mut bytes = written.clone();
            bytes.splice(from..(from + removed).min(length), put);
            bytes
        }),
        1 => bytes(),
    ]
}

#[test]
fn prop_a_file_is_known_by_its_header_or_its_sidecar_or_refused() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let spool = flat(home.path());
    let payload = br#"{"rows": [{"a": 1}, {"a": "\u00e9"}], "next": null}"#;
    let name = put(&spool, id(1), payload).unwrap().name;
    let (path, beside) =
        (home.path().join(name.to_string()), home.path().join(format!("{name}.meta.json")));
    let (data, sidecar) = (fs::read(&path).unwrap(), fs::read(&beside).unwrap());
    assert_eq!(whole(&spool, id(1)), br#"{"rows":[{"a":1},{"a":"\u00e9"}],"next":null}"#);
    let cases = u32::try_from(cases(1000)).unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(data in damaged(data), sidecar in damaged(sidecar))| {
        fs::write(&path, &data).unwrap();
        fs::write(&beside, &sidecar).unwrap();
        let end = data.iter().position(|b| *b == b'\n');
        let header = end.and_then(|end| serde_json::from_slice(&data[..end]).ok());
        let sidecar = serde_json::from_slice(&sidecar).ok();
        let sidecar = sidecar.filter(|sidecar: &Sidecar| sidecar.header.is_ours());
        let opened = spool.open(&id(1).into(), at(0));
        let Some(header) = header.filter(OffloadHeader::is_ours) else {
            let refused = matches!(opened.err(), Some(SpoolError::NotOurs { .. }));
            prop_assert!(refused);
            prop_assert!(spool.list().unwrap().is_empty());
            return Ok(());
        };
        let listed = spool.list().unwrap();
        prop_assert_eq!(listed.len(), 1);
        if let Some(sidecar) = sidecar {
            prop_assert_eq!(&listed[0].sidecar, &sidecar);
        } else {
            prop_assert_eq!(&listed[0].sidecar.header, &header);
            prop_assert_eq!(listed[0].sidecar.content, StoredForm::Records);
        }
        let stored = match opened {
            Err(SpoolError::Expired { .. }) => {
                prop_assert!(listed[0].sidecar.is_expired(id(1), at(0)));
                return Ok(());
            }
            opened => opened.unwrap(),
        };
        prop_assert_eq!(stored.listed(), &listed[0]);
        let mut bytes = vec![0; data.len() + 1];
        prop_assert_eq!(stored.read_at(0, &mut bytes).unwrap(), data.len());
        prop_assert_eq!(&bytes[..data.len()], &data[..]);
        prop_assert_eq!(records_offset(&*stored).unwrap(), end.unwrap() as u64 + 1);
        // Whatever the sidecar says of envelope and parts: bytes, or a refusal.
        let _ = restore_payload(&*stored, &mut Vec::new());
    });
}
