//! The parsed events do not depend on how the stream is split.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use lro_wire::sse::{SseEvents, SsePart};
use proptest::prelude::*;
use sse_stream::SseStream;

/// Name, data, id and retry time in milliseconds.
type Plain = (Option<String>, String, Option<String>, Option<u64>);

fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Plain> {
    let (mut events, mut all, mut data) = (SseEvents::default(), Vec::new(), Vec::new());
    for piece in pieces {
        events.feed(piece, |part| match part {
            SsePart::Data(piece) => {
                assert!(!piece.is_empty());
                data.extend_from_slice(piece);
            }
            SsePart::End(event) => {
                assert!(event.has_data || data.is_empty());
                let data = String::from_utf8_lossy(&std::mem::take(&mut data)).into_owned();
                let retry = event.retry.map(|retry| u64::try_from(retry.as_millis()).unwrap());
                all.push((event.name, data, event.id, retry));
            }
        });
    }
    all
}

/// The events that the crate `sse-stream` parses, as a reference.
fn parsed_by_sse_stream(bytes: &[u8]) -> Vec<Plain> {
    let whole = Bytes::copy_from_slice(bytes);
    let stream = stream::once(async move { Ok::<_, std::io::Error>(whole) });
    let mut events = SseStream::from_bytes_stream(stream.boxed());
    let mut all = Vec::new();
    futures_util::future::FutureExt::now_or_never(async {
        while let Some(Ok(event)) = events.next().await {
            all.push((event.event, event.data.unwrap_or_default(), event.id, event.retry));
        }
    })
    .unwrap();
    all
}

#[test]
fn fields_are_read_as_browsers_read_them() {
    let stream =
        b"\xEF\xBB\xBF: comment\nevent: message\nid: 1\ndata: a\ndata:b\ndata\ndata:  c\n\n\
        retry: 250\r\n\r\ndata: x\r\rid: 2\ndata:\n\nretry: soon\nunknown: y\ndata: z\n\n\
        data: never ended";
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        decoded([&stream[..]]),
        [
            (text("message"), "a\nb\n\n c".to_owned(), text("1"), None),
            (None, String::new(), None, Some(250)),
            (None, "x".to_owned(), None, None),
            (None, String::new(), text("2"), None),
            (None, "z".to_owned(), None, None),
        ]
    );
}

#[test]
fn a_mark_that_is_none_is_text() {
    assert_eq!(decoded([&b"\xEF\xBBdata: x\n\n"[..]]), []);
    assert_eq!(decoded([&b"\xEF"[..], b"\xBB", b"\xBF", b"data: x\n\n"]).len(), 1);
}

#[test]
fn a_field_that_never_ends_takes_no_memory() {
    let mut stream = b"id: ".to_vec();
    stream.resize(10 << 20, b'x');
    stream.extend_from_slice(b"\ndata: y\n\n");
    assert_eq!(decoded([&stream[..]]), [(None, "y".to_owned(), None, None)]);
}

#[test]
fn an_event_cut_at_every_offset_is_the_same() {
    let stream = b"\xEF\xBB\xBFid: 9\r\nevent: e\r\ndata: {\"a\":\"\xC3\xA4\"}\r\ndata: {}\r\n\r\nretry: 5\n\ndata: q\r\r";
    let whole = decoded([&stream[..]]);
    assert_eq!(whole.len(), 3);
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
            assert_eq!(decoded(pieces), whole, "{first} {second}");
        }
    }
    assert_eq!(decoded(stream.chunks(1)), whole);
}

fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        6 => Just("data"), 1 => Just("id"), 1 => Just("event"), 1 => Just("retry"),
        1 => Just(""), 1 => Just("datas"), 1 => Just("dat"),
    ];
    let value = prop_oneof!["[ -~]{0,12}", "[0-9]{1,4}", "[ :\u{e9}\u{4e2d}]{0,4}"];
    (name, prop_oneof![Just(":"), Just(": ")], value)
        .prop_map(|(name, colon, value)| format!("{name}{colon}{value}"))
}

proptest! {
    #[test]
    fn cut_anywhere_it_is_the_same(
        lines in prop::collection::vec(prop_oneof![3 => line(), 1 => Just(String::new())], 0..20),
        ending in prop::sample::select(vec!["\n", "\r\n"]),
        cuts in prop::collection::vec(0usize..400, 0..8),
    ) {
        let stream = [lines.join(ending), String::new()].join(ending);
        let bytes = stream.as_bytes();
        let whole = decoded([bytes]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for cut in cuts.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[from..cut]);
            from = cut;
        }
        prop_assert_eq!(decoded(pieces), whole);
    }

    #[test]
    fn the_crate_made_for_it_reads_the_same(
        data in prop::collection::vec("[ -~\u{e9}\u{4e2d}]{1,30}", 1..4),
        id in prop::option::of("[a-z0-9]{1,8}"),
        name in prop::option::of("[a-z]{1,8}"),
        retry in prop::option::of(0u64..100_000),
    ) {
        let mut stream = String::new();
        stream.extend(name.iter().map(|name| format!("event: {name}\n")));
        stream.extend(data.iter().map(|data| format!("data: {data}\n")));
        stream.extend(id.iter().map(|id| format!("id: {id}\n")));
        stream.extend(retry.iter().map(|retry| format!("retry: {retry}\n")));
        stream.push('\n');
        prop_assert_eq!(decoded([stream.as_bytes()]), parsed_by_sse_stream(stream.as_bytes()));
    }
}
