//! Reply: answers of any size, within a limit of any size.
//!
//! A reply that was cut is the beginning of the whole one, in whole answers, takes no more tokens
//! than it may, and says where to go on.

#![no_main]

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro::{Extractor, Query, Reply, Spools, Values, QueryKind};
use lro_core::config::Config;
use lro_core::records::Detected;
use lro_core::tokens::{self, Measure};
use lro_core::{Detail, NoTokenizer, O200k, ResultId, Tokenizer, Tokens};
use lro_query::{Cancel, Page, read, search};
use lro_spool::{Address, MemorySpool, Spool, ToStore, store};
use serde_json::json;

/// Below this there is no room beside the first line and the notes.
const LEAST: u64 = 160;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    limit: u16,
    tokenizer: bool,
    way: Way,
    texts: Vec<(&'a [u8], u8)>,
}

#[derive(Debug, Arbitrary)]
enum Way {
    Recipe(u8),
    Search { context: u8 },
    ReadRecords { start: u8, length: Option<u8> },
    ReadLines { start: u8, length: Option<u8> },
    ReadCharacters { start: u8, length: Option<u16> },
}

impl Way {
    fn wanted(&self) -> QueryKind {
        let read = |unit, start: u8, length: Option<u64>| {
            let start = u64::from(start);
            let end = length.map(|length| start + length);
            QueryKind::Read { unit, start: start.into(), end, most: u64::MAX }
        };
        match *self {
            Self::Recipe(number) => {
                QueryKind::Recipe { number: 1 + u64::from(number % 10), params: Values::new() }
            }
            Self::Search { context } => QueryKind::Search {
                pattern: ".".to_owned(),
                case: search::Case::Sensitive,
                most: 1000,
                context: usize::from(context % 4),
                offset: 0.into(),
                group_by: None,
            },
            Self::ReadRecords { start, length } => {
                read(read::ReplyUnit::Records, start, length.map(u64::from))
            }
            Self::ReadLines { start, length } => {
                read(read::ReplyUnit::Lines, start, length.map(u64::from))
            }
            Self::ReadCharacters { start, length } => {
                read(read::ReplyUnit::Characters, start, length.map(u64::from))
            }
        }
    }
}

impl Input<'_> {
    /// Memories for recipes; for the others text, where each may stand as it is.
    fn payload(&self) -> Vec<u8> {
        let texts = self.texts.iter().map(|(text, times)| text.repeat(1 + usize::from(*times) / 4));
        if !matches!(self.way, Way::Recipe(_) | Way::ReadRecords { .. }) {
            return texts.flat_map(|text| [text, b"\n".to_vec()].concat()).collect();
        }
        let memory = |(n, text): (usize, Vec<u8>)| {
            let text = String::from_utf8_lossy(&text).into_owned();
            json!({
                "id": n.to_string(), "memory_type": "semantic", "title": text, "namespace": "a/b",
                "tags": [text, "x"], "created": "2026-01-01T00:00:00Z", "content": text,
                "provenance": {"confidence": 0.9, "trust_level": "verified"},
            })
        };
        let memories: Vec<_> = texts.enumerate().map(memory).collect();
        json!(memories).to_string().into_bytes()
    }
}

fuzz_target!(|input: Input<'_>| {
    let mut payload = input.payload();
    payload.truncate(1 << 16);
    let (spool, address) = stored(&payload);
    let extractor = |limit: u64| {
        let extractor = Extractor::new(Spools::new(vec![spool.clone()]), &Config::default());
        let extractor = extractor.with_reply(Tokens(limit));
        if input.tokenizer { extractor.with_tokenizer(O200k) } else { extractor }
    };
    let limit = LEAST + u64::from(input.limit) % 4096;
    let (small, large) = (extractor(limit), extractor(u64::MAX));
    let ask = |extractor: &Extractor, wanted: QueryKind, offset| {
        let page = Page { offset, limit: u64::MAX };
        let question = Query::new(address.clone(), wanted).page(page);
        extractor.extract(&question, now(), &Cancel::default()).ok()
    };
    let whole = ask(&large, input.way.wanted(), 0);
    let Some(reply) = ask(&small, input.way.wanted(), 0) else {
        assert!(whole.is_none(), "the limit decides only how much is given");
        return;
    };
    let whole = whole.expect("the limit decides only how much is given");
    assert_eq!(reply.total, whole.total);
    assert!(reply.given > 0 || whole.given == 0, "a reply has an answer if there is one");
    within(&reply, limit, input.tokenizer);
    begins(&reply, &whole);

    // Going on gives the rest, and ends.
    let mut given = reply.given;
    let mut next = reply.next;
    for _ in 0..20 {
        let Some(from) = next else { break };
        let (wanted, offset) = match input.way.wanted() {
            QueryKind::Read { unit, end, most, .. } => {
                (QueryKind::Read { unit, start: from.into(), end, most }, 0)
            }
            QueryKind::Search { pattern, case, most, context, group_by, .. } => {
                let offset = from.into();
                (QueryKind::Search { pattern, case, most, context, offset, group_by }, 0)
            }
            other => (other, from),
        };
        let page = ask(&small, wanted.clone(), offset).expect("it worked before");
        let rest = ask(&large, wanted, offset).expect("it worked before");
        assert!(page.given > 0, "going on leads on");
        within(&page, limit, input.tokenizer);
        begins(&page, &rest);
        given += page.given;
        assert!(given <= whole.given);
        next = page.next;
    }
    if next.is_none() {
        assert_eq!(given, whole.given, "nothing is left out");
    }
});

fn now() -> DateTime<chrono::Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).expect("a time")
}

fn stored(payload: &[u8]) -> (Arc<dyn Spool>, Address) {
    let spool = MemorySpool::default();
    let found = Detected::detect(payload);
    let id = ResultId::new(1_800_000_000_000, 1);
    let what = ToStore {
        id,
        tool: "recall_memories",
        server: None,
        exact: false,
        query: None,
        detail: Detail::Full,
        found: &found,
        estimated: Tokens(1),
        created_at: now(),
        ttl: Duration::from_secs(3600),
    };
    store(&spool, what, payload, &[]).expect("memory takes it");
    (Arc::new(spool), id.into())
}

/// A reply takes no more tokens than it may.
fn within(reply: &Reply, limit: u64, tokenizer: bool) {
    let text = reply.text();
    let tokens = if tokenizer {
        O200k.count_till(&text, u64::MAX).expect("it counts").expect("without a limit").0
    } else {
        // The estimate of a whole may be higher than those of its parts: one line in a script that
        // is not Latin changes how all are counted.
        let estimate = |line| tokens::count(Measure::from_bytes(str::as_bytes(line)), line, &NoTokenizer);
        text.lines().map(|line| estimate(line).tokens.0).sum()
    };
    assert!(tokens <= limit, "{tokens} tokens, at most {limit}: {text}");
}

/// A reply is the beginning of the whole one, in whole answers unless it says otherwise.
fn begins(reply: &Reply, whole: &Reply) {
    assert!(reply.given <= whole.given);
    let cut = reply.notes.iter().any(|note| note.contains("larger than a reply"));
    let line_cut = reply.notes.iter().any(|note| note.contains("longer than a reply"));
    if cut {
        assert_eq!((reply.given, reply.body.lines().count()), (1, 1));
    } else {
        assert!(whole.body.starts_with(&reply.body));
    }
    match reply.unit {
        lro::ReplyUnit::Characters => {
            assert_eq!(reply.body.chars().count() as u64, reply.given);
        }
        _ if line_cut => assert_eq!(reply.given, 1),
        _ => assert_eq!(reply.body.split_inclusive('\n').count() as u64, reply.given),
    }
}
