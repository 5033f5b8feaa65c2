//! Header: a stored file and its sidecar as someone may have left them.
//!
//! A file is opened by its header or its sidecar, or it is refused; what was opened gives its bytes
//! and answers questions, whatever is said of it.

#![no_main]

use std::cell::LazyCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro::{Extractor, Query, Spools, QueryKind};
use lro_core::config::Config;
use lro_core::{OffloadHeader, ResultId};
use lro_query::{Cancel, Page, read, search};
use lro_spool::{
    DirOptions, DirSpool, PartNumber, Quota, Sidecar, Spool, SpoolError, StoredForm, StoredResult,
    restore_payload, records_offset,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const EXTENSIONS: &[&str] = &["jsonl", "json", "txt", "bin"];
const FORMS: &[&str] =
    &["array", "lines", "records", "table", "document", "text", "binary", "another"];
const NOW: i64 = 1_800_000_000_000;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    extension: u8,
    header: Written<'a, Header<'a>>,
    /// Whether the header line ends.
    ended: bool,
    sidecar: Option<Written<'a, Beside<'a>>>,
    body: &'a [u8],
    now: i32,
    start: u8,
    part: u16,
}

/// Something of ours, something of ours in which bytes were changed, or anything.
#[derive(Debug, Arbitrary)]
enum Written<'a, T> {
    Ours(T),
    Changed(T, u16, &'a [u8]),
    Any(&'a [u8]),
}

#[derive(Debug, Arbitrary)]
struct Header<'a> {
    foreign: bool,
    operation: &'a str,
    query: Option<&'a str>,
    count: u64,
    memories: bool,
    timestamp: Time<'a>,
    detail: &'a str,
}

#[derive(Debug, Arbitrary)]
enum Time<'a> {
    Near(i32),
    Far(i64),
    Text(&'a str),
}

#[derive(Debug, Arbitrary)]
struct Beside<'a> {
    header: Header<'a>,
    tool: &'a str,
    form: u8,
    bytes: u64,
    created: Time<'a>,
    expires: Time<'a>,
    envelope: Option<(&'a str, u16)>,
    parts: Vec<(bool, u64)>,
}

trait Json {
    fn json(&self) -> Value;
}

impl Time<'_> {
    fn text(&self) -> String {
        let ms = match self {
            Self::Near(ms) => NOW + i64::from(*ms),
            Self::Far(ms) => *ms,
            Self::Text(text) => return (*text).to_owned(),
        };
        DateTime::from_timestamp_millis(ms).map_or_else(String::new, |time| time.to_rfc3339())
    }
}

impl Json for Header<'_> {
    fn json(&self) -> Value {
        json!({
            "type": if self.foreign { "another" } else { "lro_header" },
            "operation": self.operation,
            "query": self.query,
            "count": self.count,
            "schema_version": if self.memories { "0.1.0" } else { "inferred" },
            "timestamp": self.timestamp.text(),
            "estimated_tokens": 1,
            "detail": self.detail,
        })
    }
}

impl Json for Beside<'_> {
    fn json(&self) -> Value {
        let parts = self.parts.iter().map(
            |(text, bytes)| json!({"role": if *text { "text" } else { "original" }, "bytes": bytes}),
        );
        let mut sidecar = json!({
            "header": self.header.json(),
            "tool": self.tool,
            "content": FORMS[usize::from(self.form) % FORMS.len()],
            "bytes": self.bytes,
            "created_at": self.created.text(),
            "expires_at": self.expires.text(),
            "parts": parts.collect::<Vec<_>>(),
        });
        if let Some((json, at)) = self.envelope {
            sidecar["envelope"] = json!({"json": json, "at": at});
        }
        sidecar
    }
}

impl<T: Json> Written<'_, T> {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Ours(written) => written.json().to_string().into_bytes(),
            Self::Changed(written, at, other) => {
                let mut bytes = written.json().to_string().into_bytes();
                let at = usize::from(*at) % (bytes.len() + 1);
                let end = (at + other.len()).min(bytes.len());
                bytes.splice(at..end, other.iter().copied());
                bytes
            }
            Self::Any(bytes) => bytes.to_vec(),
        }
    }
}

/// A directory in memory, an extractor for it, and one name.
struct Place {
    home: TempDir,
    spool: Arc<DirSpool>,
    extractor: Extractor,
}

thread_local! {
    static PLACE: LazyCell<Place> = LazyCell::new(|| {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let home = home.expect("a temporary directory");
        let options = DirOptions::flat().quota(Quota::NONE);
        let spool = Arc::new(DirSpool::open(home.path(), options).expect("a spool"));
        let spools = Spools::new(vec![spool.clone()]);
        Place { home, spool, extractor: Extractor::new(spools, &Config::default()) }
    });
}

fuzz_target!(|input: Input<'_>| PLACE.with(|place| place.check(&input)));

impl Place {
    fn check(&self, input: &Input<'_>) {
        let extension = EXTENSIONS[usize::from(input.extension) % EXTENSIONS.len()];
        let id = ResultId::new(NOW.unsigned_abs(), 1);
        let path = self.home.path().join(format!("atlatl-recall-{id}.{extension}"));
        let beside = self.home.path().join(format!("atlatl-recall-{id}.{extension}.meta.json"));
        let mut data = input.header.bytes();
        if input.ended {
            data.push(b'\n');
        }
        data.extend_from_slice(input.body);
        fs::write(&path, &data).expect("memory takes it");
        let sidecar = input.sidecar.as_ref().map(Written::bytes);
        if let Some(sidecar) = &sidecar {
            fs::write(&beside, sidecar).expect("memory takes it");
        }
        self.open(input, id, extension == "jsonl", &data, sidecar.as_deref());
        fs::remove_file(&path).expect("it was not removed");
        if sidecar.is_some() {
            fs::remove_file(&beside).expect("it was not removed");
        }
    }

    fn open(
        &self,
        input: &Input<'_>,
        id: ResultId,
        lines: bool,
        data: &[u8],
        sidecar: Option<&[u8]>,
    ) {
        let now = DateTime::from_timestamp_millis(NOW + i64::from(input.now)).expect("a near time");
        let header = data.iter().position(|b| *b == b'\n').and_then(|end| {
            let header: OffloadHeader = serde_json::from_slice(&data[..end]).ok()?;
            header.is_ours().then_some(header)
        });
        let sidecar = sidecar.and_then(|sidecar| {
            let sidecar: Sidecar = serde_json::from_slice(sidecar).ok()?;
            sidecar.header.is_ours().then_some(sidecar)
        });
        let known = if lines { header.is_some() } else { sidecar.is_some() };
        let listed = self.spool.list().expect("a directory can be listed");
        let opened = self.spool.open(&id.into(), now);
        if !known {
            assert!(matches!(opened.err(), Some(SpoolError::NotOurs { .. })));
            assert!(listed.is_empty());
            return;
        }
        assert_eq!(listed.len(), 1);
        let expired = listed[0].sidecar.is_expired(id, now);
        match (&sidecar, header) {
            (Some(sidecar), _) => {
                assert_eq!(&listed[0].sidecar, sidecar);
                let again = serde_json::to_vec(sidecar).expect("a sidecar is JSON");
                assert_eq!(serde_json::from_slice::<Sidecar>(&again).as_ref().ok(), Some(sidecar));
            }
            (None, Some(header)) => {
                let alone = &listed[0].sidecar;
                assert_eq!((&alone.header, alone.content), (&header, StoredForm::Records));
                assert!(alone.envelope.is_none() && alone.parts.is_empty());
                assert!(alone.expires_at >= alone.created_at);
            }
            (None, None) => unreachable!("it was known by one of them"),
        }
        match opened {
            Err(SpoolError::Expired { .. }) => assert!(expired),
            Err(error) => panic!("{error:?}"),
            Ok(stored) => {
                assert!(!expired);
                assert_eq!(stored.listed(), &listed[0]);
                self.ask(input, &*stored, id, data, now);
            }
        }
    }

    fn ask(
        &self,
        input: &Input<'_>,
        stored: &dyn StoredResult,
        id: ResultId,
        data: &[u8],
        now: DateTime<Utc>,
    ) {
        let mut bytes = vec![0; data.len() + 1];
        assert_eq!(stored.len(), data.len() as u64);
        assert_eq!(stored.read_at(0, &mut bytes).expect("a file can be read"), data.len());
        assert_eq!(bytes[..data.len()], *data);
        let line = data.split_inclusive(|b| *b == b'\n').next().map_or(0, <[u8]>::len);
        let begin = records_offset(stored).expect("a file can be read");
        assert_eq!(begin, line as u64);
        assert!(stored.part(PartNumber(input.part)).is_err(), "there is no part");

        let sidecar = &stored.listed().sidecar;
        let mut back = Vec::new();
        if restore_payload(stored, &mut back).is_ok() {
            match sidecar.content {
                StoredForm::Array | StoredForm::Lines => {}
                _ => assert_eq!(back, data),
            }
        }
        let start = u64::from(input.start);
        let read = |unit| QueryKind::Read { unit, start, end: None, part: 0 };
        let search = QueryKind::Search {
            pattern: "[a-z]".to_owned(),
            case: search::Case::Ignored,
            most: 5,
            context: 1,
        };
        let recipe = QueryKind::Recipe { number: start % 11, params: Default::default() };
        for wanted in [
            read(read::Unit::Characters),
            read(read::Unit::Lines),
            read(read::Unit::Records),
            search,
            recipe,
        ] {
            let question = Query { address: id.into(), wanted, page: Page::ALL };
            let answer = self.extractor.extract(&question, now, &Cancel::default());
            if let Ok(reply) = answer {
                assert!(reply.given <= reply.total.number());
            }
        }
    }
}
