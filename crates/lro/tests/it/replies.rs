//! Replies: truncated at an answer within their limit, with the offset of the next answers.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro::{Extractor, Query, QueryKind, Reply, ReplyUnit, Spools, Values};
use lro_core::config::Config;
use lro_core::records::Detected;
use lro_core::{Detail, O200k, ResultId, Tokenizer, Tokens};
use lro_query::{Cancel, Page, read, search};
use lro_spool::{MemorySpool, Spool, StoreRequest, store};
use proptest::prelude::*;
use serde_json::json;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn id() -> ResultId {
    ResultId::new(1_800_000_000_000, 1)
}

fn stored(payload: &[u8]) -> Arc<dyn Spool> {
    let spool = MemorySpool::default();
    let found = Detected::detect(payload);
    let what = StoreRequest {
        id: id(),
        tool: "recall_memories",
        server: None,
        arguments: None,
        exact: false,
        query: None,
        detail: Detail::Full,
        found: &found,
        estimated: Tokens(1),
        created_at: now(),
        ttl: Duration::from_hours(1),
    };
    store(&spool, what, payload, &[]).unwrap();
    Arc::new(spool)
}

/// Memories with these titles and contents.
fn memories(texts: &[String]) -> Arc<dyn Spool> {
    let memory = |(n, text): (usize, &String)| {
        json!({
            "id": n.to_string(), "memory_type": "semantic", "title": text, "namespace": "a/b",
            "tags": [text], "created": "2026-01-01T00:00:00Z", "content": text,
        })
    };
    let memories: Vec<_> = texts.iter().enumerate().map(memory).collect();
    stored(json!(memories).to_string().as_bytes())
}

fn ask(spool: &Arc<dyn Spool>, limit: u64, wanted: QueryKind, offset: u64) -> Reply {
    let extractor = Extractor::new(Spools::new(vec![Arc::clone(spool)]), &Config::default())
        .with_reply(Tokens(limit))
        .with_tokenizer(O200k);
    let page = Page { offset, limit: u64::MAX };
    let question = Query::new(id().into(), wanted).page(page);
    extractor.extract(&question, now(), &Cancel::default()).unwrap()
}

fn tokens(reply: &Reply) -> u64 {
    O200k.count_till(&reply.text(), u64::MAX).unwrap().unwrap().0
}

fn recipe(number: u64) -> QueryKind {
    QueryKind::Recipe { number, params: Values::new() }
}

fn records(start: u64) -> QueryKind {
    QueryKind::Read {
        unit: read::ReadUnit::Records,
        start: start.into(),
        end: None,
        most: u64::MAX,
    }
}

/// Words of any script, some of which take a token for each byte.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z ]{1,12}",
        "[!-~]{1,12}",
        "[\u{65e5}\u{1f642}\u{fffd}\u{c}\u{1}\u{202e}\n]{1,4}",
    ];
    (piece, 1..200_usize).prop_map(|(piece, times)| piece.repeat(times))
}

#[test]
fn prop_a_cut_reply_is_the_beginning_of_the_whole_one_within_its_limit() {
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..<_>::default() };
    let ways = proptest::sample::select(vec![recipe(8), records(0), searched(0)]);
    let texts = prop::collection::vec(text(), 0..8);
    proptest!(config, |(texts in texts, way in ways, limit in 160..2000_u64)| {
        let spool = memories(&texts);
        let whole = ask(&spool, u64::MAX, way.clone(), 0);
        prop_assert_eq!(whole.given, texts.len() as u64);
        let (mut given, mut next) = (0, Some(0));
        while let Some(from) = next {
            let reply = match &way {
                QueryKind::Read { .. } => ask(&spool, limit, records(from), 0),
                QueryKind::Search { .. } => ask(&spool, limit, searched(from), 0),
                other => ask(&spool, limit, other.clone(), from),
            };
            prop_assert!(tokens(&reply) <= limit, "{} of {limit}: {}", tokens(&reply), reply.text());
            prop_assert_eq!(reply.total, whole.total);
            prop_assert!(reply.given > 0 || texts.is_empty());
            let abridged = reply.notes.iter().any(|note| note.contains("than a reply"));
            let expected: Vec<_> = whole.body.split_inclusive('\n').skip(index(given)).collect();
            if abridged {
                prop_assert_eq!(reply.given, 1);
            } else {
                prop_assert_eq!(&reply.body, &expected[..index(reply.given)].concat());
            }
            given += reply.given;
            next = reply.next;
        }
        prop_assert_eq!(given, whole.given);
    });
}

fn searched(offset: u64) -> QueryKind {
    QueryKind::Search {
        pattern: ".".to_owned(),
        case: search::Case::Sensitive,
        most: 100,
        context: 0,
        offset: offset.into(),
        group_by: None,
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

#[test]
fn f31_an_answer_of_odd_text_is_cut_within_the_limit() {
    // Nearly one token per character: an estimate by characters is far too low.
    let odd: String =
        (0..3000_u32).map(|n| char::from(u8::try_from(33 + n * n % 89).unwrap())).collect();
    let spool = memories(&[odd]);
    for limit in [300, 700, 1600] {
        let reply = ask(&spool, limit, recipe(8), 0);
        assert!(tokens(&reply) <= limit, "{} of {limit}: {}", tokens(&reply), reply.text());
        assert!(reply.given == 1 && reply.body.len() > 20);
    }
}

#[test]
fn f31_a_read_leaves_room_for_its_first_line_and_notes() {
    let spool = stored(&b" /\xff".repeat(5000));
    for (unit, limit) in [(read::ReadUnit::Lines, 160), (read::ReadUnit::Characters, 1600)] {
        let wanted = QueryKind::Read { unit, start: 0.into(), end: None, most: u64::MAX };
        let reply = ask(&spool, limit, wanted, 0);
        assert!(tokens(&reply) <= limit, "{} of {limit}: {}", tokens(&reply), reply.text());
        assert!(
            matches!(reply.unit, ReplyUnit::Lines | ReplyUnit::Characters)
                && !reply.body.is_empty()
        );
    }
}

#[test]
fn f31_a_form_feed_in_an_answer_that_must_be_cut_ends() {
    let spool = memories(&["\u{c}a,%".repeat(300)]);
    for number in 1..=10 {
        let extractor = Extractor::new(Spools::new(vec![Arc::clone(&spool)]), &Config::default())
            .with_reply(Tokens(168));
        let question = Query::new(id().into(), recipe(number));
        // Some require parameters; all terminate.
        let _ = extractor.extract(&question, now(), &Cancel::default());
    }
}
