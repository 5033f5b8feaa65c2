//! Frame: bytes of the wire, cut into lines, events and messages.
//!
//! Nothing depends on how the bytes arrive; what is read is what `serde_json` and the standard of
//! server-sent events read there; and an edit of a text is the edit of its value.

#![no_main]

use std::collections::HashSet;
use std::io::{self, Read};
use std::time::Duration;

use atlatl_fuzz::{Json, NAMES, Name, Written, object, spaced};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro_wire::protocol::{self, ProtocolGeneration};
use lro_wire::sse::{SseEvents, SsePart};
use lro_wire::{JsonRpcError, Line, Lines, Message, Messages, Object, edit};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    Lines { stream: Vec<Piece<'a>>, holding: Holding, turns: Vec<Turn>, skipped: u8 },
    SseEvents { stream: Vec<Piece<'a>>, cuts: Vec<u8> },
    Message { written: Written<'a>, batch: bool, members: Vec<(Name<'a>, Json<'a>)>, around: u8 },
    Merge { written: Written<'a>, object: Vec<(Name<'a>, Json<'a>)>, patch: Patch, around: u8 },
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Lines { stream, holding, turns, skipped } => {
        lines(&bytes(&stream), &holding, &turns, skipped);
    }
    Input::SseEvents { stream, cuts } => events(&bytes(&stream), &cuts),
    Input::Message { written, batch, members, around } => {
        let object = object(&members);
        let ours = if batch { format!("[{object}, 7,{object} ]") } else { object };
        message(&written.text(&spaced(&ours, around)));
    }
    Input::Merge { written, object: members, patch, around } => {
        merge(&written.text(&spaced(&object(&members), around)), &patch.object(PATCHED));
    }
});

/// A piece of a stream.
#[derive(Debug, Arbitrary)]
enum Piece<'a> {
    Fragments(&'a [u8]),
    Bytes(&'a [u8]),
    /// One byte so often that lines and fields become too long.
    Run(u8, u8),
}

/// What streams of events are made of: bytes alone would seldom make any.
const FRAGMENTS: &[&[u8]] = &[
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b":",
    b" ",
    b"data",
    b"data:",
    b"data: ",
    b"event",
    b"event: ",
    b"id",
    b"id:",
    b"retry: ",
    b"retry:5",
    b"0",
    b"99999999999",
    b"dat",
    b"datas:",
    b"Data:",
    b"{\"a\":1}",
    b"\0",
    b"\xEF\xBB\xBF",
    b"\xEF\xBB",
    b"\xEF",
    b"\xC3\xA9",
    b"\xFF",
    b": note",
];

fn bytes(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Fragments(numbers) => {
                let fragment = |n: &u8| FRAGMENTS[usize::from(*n) % FRAGMENTS.len()];
                stream.extend(numbers.iter().flat_map(fragment));
            }
            Piece::Bytes(bytes) => stream.extend_from_slice(bytes),
            Piece::Run(byte, long) => {
                // One line may be long; that many lines would only take time.
                let (byte, most) =
                    [(b'x', 21), (b'\n', 12), (b'\r', 12), (*byte, 14)][usize::from(*byte) % 4];
                let count = (1 << (long % most)) - 1 + usize::from(long / most);
                stream.extend(std::iter::repeat_n(byte, count));
            }
        }
        stream.truncate(5 << 19);
    }
    stream
}

/// How long a line may be that is held.
#[derive(Debug, Arbitrary)]
enum Holding {
    Few(u8),
    Some(u32),
    Any(usize),
    All,
}

/// What a reader does when it is asked; in the end it gives all that is left.
#[derive(Debug, Arbitrary)]
enum Turn {
    Few(u8),
    Many(u16),
    /// A few bytes, so many times.
    Slowly(u8, u8),
    Interrupted,
    /// Whoever is told so asks again.
    Blocked,
}

struct Reader<'a> {
    left: &'a [u8],
    turns: std::slice::Iter<'a, Turn>,
    slow: (usize, u32),
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.slow.1 == 0 {
            self.slow = match self.turns.next() {
                None => (usize::MAX, 1),
                Some(Turn::Few(count)) => (usize::from(*count) + 1, 1),
                Some(Turn::Many(count)) => (usize::from(*count) + 1, 1),
                Some(Turn::Slowly(count, times)) => (usize::from(count % 3) + 1, 1 << (times % 18)),
                Some(Turn::Interrupted) => return Err(io::ErrorKind::Interrupted.into()),
                Some(Turn::Blocked) => return Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        self.slow.1 -= 1;
        let (now, left) = self.left.split_at(self.slow.0.min(buf.len()).min(self.left.len()));
        buf[..now.len()].copy_from_slice(now);
        self.left = left;
        Ok(now.len())
    }
}

/// Every line comes as it is, and only what is too long in pieces. Of every so manieth long line the
/// rest is skipped.
fn lines(stream: &[u8], holding: &Holding, turns: &[Turn], skipped: u8) {
    let held = match holding {
        Holding::Few(bytes) => usize::from(*bytes),
        Holding::Some(bytes) => *bytes as usize % (4 << 20),
        Holding::Any(bytes) => *bytes,
        Holding::All => usize::MAX,
    };
    let reader = Reader { left: stream, turns: turns.iter(), slow: (0, 0) };
    let mut lines = Lines::with_max_in_memory(reader, held);
    let mut expected = stream.split_inclusive(|byte| *byte == b'\n');
    let mut long_ones = 0u8;
    loop {
        let line = match lines.next() {
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "only what was not the end");
                continue;
            }
            Ok(None) => break,
            Ok(Some(line)) => line,
        };
        let whole = expected.next().expect("no more lines than there are");
        match line {
            Line::Whole(line) => assert!(line == whole, "a line as it came"),
            Line::Long(mut long) => {
                assert!(whole.len() > held, "what may be held is held");
                long_ones = long_ones.wrapping_add(1);
                let skip = skipped > 0 && long_ones.is_multiple_of(skipped);
                let mut rest = whole;
                while !skip || rest.len() == whole.len() {
                    match long.next_chunk() {
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                        Ok(None) => break,
                        Ok(Some(piece)) => {
                            assert!(!piece.is_empty(), "a piece brings something");
                            rest = rest.strip_prefix(piece).expect("the pieces are the line");
                        }
                    }
                }
                assert!(skip || rest.is_empty(), "the pieces are all of the line");
            }
        }
    }
    assert_eq!(expected.next(), None, "no line is left out");
    assert!(!matches!(lines.next(), Ok(Some(_))), "nothing comes behind the end");
}

/// An event: its data, its name, its id, how long to wait.
type Plain = (Option<Vec<u8>>, Option<String>, Option<String>, Option<Duration>);

/// Events are those of the standard, however they arrive.
fn events(stream: &[u8], cuts: &[u8]) {
    let (whole, unended) = fed([stream]);
    let mut left = stream;
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle().take(stream.len().min(cuts.len() * 64)) {
        let (piece, rest) = left.split_at(usize::from(*cut).min(left.len()));
        pieces.push(piece);
        left = rest;
    }
    pieces.push(left);
    assert_eq!(fed(pieces), (whole.clone(), unended), "however it arrives");
    assert_eq!(whole, by_the_standard(stream));
}

/// The events of a stream that arrives in pieces, and the data behind the last.
fn fed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Plain>, Vec<u8>) {
    let (mut events, mut all, mut data) = (SseEvents::default(), Vec::new(), Vec::new());
    for piece in pieces {
        events.feed(piece, |part| match part {
            SsePart::Data(piece) => {
                assert!(!piece.is_empty());
                data.extend_from_slice(piece);
            }
            SsePart::End(event) => {
                let data = std::mem::take(&mut data);
                assert!(event.has_data || data.is_empty());
                all.push((event.has_data.then_some(data), event.name, event.id, event.retry));
            }
        });
    }
    (all, data)
}

/// The whole stream by the rules of the standard (HTML, 9.2.6). Ours on top: an event tells only what
/// it brings itself, one that brings anything is told even without data, and a field other than the
/// data is nothing where it is too long or no UTF-8.
fn by_the_standard(stream: &[u8]) -> Vec<Plain> {
    let mut rest = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let (mut all, mut event) = (Vec::new(), Plain::default());
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        let line = &rest[..end];
        rest = rest[end..].strip_prefix(b"\r\n").unwrap_or(&rest[end + 1..]);
        if line.is_empty() {
            let event = std::mem::take(&mut event);
            all.extend((event != Plain::default()).then_some(event));
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) =
            (&line[..colon.unwrap_or(line.len())], colon.map(|at| &line[at + 1..]));
        let value =
            value.map(|value| value.strip_prefix(b" ").unwrap_or(value)).unwrap_or_default();
        let text = str::from_utf8(value).ok().filter(|value| value.len() <= 4096);
        match (field, text) {
            (b"data", _) => {
                let before = event.0.take().map(|data| [&data[..], b"\n"].concat());
                event.0 = Some([&before.unwrap_or_default()[..], value].concat());
            }
            (b"event", Some(text)) => event.1 = Some(text.to_owned()).filter(|name| name != ""),
            (b"id", Some(text)) if !text.contains('\0') => event.2 = Some(text.to_owned()),
            (b"retry", Some(text)) if text.chars().all(|c| c.is_ascii_digit()) => {
                event.3 = text.parse().map(Duration::from_millis).ok().or(event.3);
            }
            _ => {}
        }
    }
    all
}

/// What is read of a message stands there.
fn message(text: &str) {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let object = Object::read(text);
    match (&value, &object) {
        (Some(Value::Object(members)), Some(object)) => {
            let mut read = Map::new();
            for (name, json) in &object.members {
                read.insert(name.to_string(), parsed(json));
            }
            assert_eq!(&read, members);
        }
        (Some(value), object) => assert!(object.is_none() && !value.is_object()),
        // What nobody looks at may be too deep or too large a number.
        (None, _) => {}
    }
    let message = Message::read(text);
    if let Some(message) = &message {
        same(message, value.as_ref());
    } else if let (Some(value), Some(object)) = (&value, &object) {
        let mut met = HashSet::new();
        let twice = object.members.iter().any(|(name, _)| {
            ["id", "method", "params", "result", "error"].contains(&&**name) && !met.insert(name)
        });
        let odd =
            value.get("method").is_some_and(|method| !method.is_string() && !method.is_null());
        assert!(twice || odd, "a plain message is read: {text}");
    }
    match Messages::read(text) {
        Some(Messages::One(one)) => {
            assert_eq!(format!("{one:?}"), format!("{:?}", message.expect("the same")));
        }
        Some(Messages::Batch(batch)) => {
            assert!(message.is_none(), "several are not one");
            if let Some(value) = value {
                let read: Vec<Value> = batch.iter().map(|(text, _)| value_of(text)).collect();
                assert_eq!(Value::from(read), value);
            }
            for (_, message) in &batch {
                message.iter().for_each(|message| same(message, None));
            }
        }
        _ => assert!(message.is_none() && !value.is_some_and(|value| value.is_array())),
    }
}

/// A message has the members that `value` has, and everything that is asked of it is answered.
fn same(message: &Message<'_>, value: Option<&Value>) {
    if let Some(value) = value {
        // Null is as good as nothing.
        let there = |name: &str| value.get(name).filter(|value| !value.is_null()).cloned();
        let read = |raw: Option<&RawValue>| raw.map(parsed);
        assert!(value.is_object());
        assert_eq!(message.method.as_deref().map(Value::from), there("method"));
        assert_eq!(read(message.id), there("id"));
        assert_eq!(read(message.params), there("params"));
        assert_eq!(read(message.result), there("result"));
        assert_eq!(read(message.error), there("error"));
        let params = there("params");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name =
            params.as_ref().and_then(|params| params.as_object()?.get("name").and_then(text));
        assert_eq!(protocol::tool(message).as_deref(), name.as_deref());
        assert_eq!(message.params().is_some(), params.is_some_and(|params| params.is_object()));
    }
    assert_eq!(message.is_request(), message.id.is_some() && message.method.is_some());
    if let Some(id) = message.id() {
        let failed = JsonRpcError::new(-1, "no").response(&id);
        let answer = Message::read(&failed).expect("a failure is a message");
        assert_eq!(answer.id().as_ref(), Some(&id));
        assert_eq!(answer.id().map(|id| id.key()), Some(id.key()));
    }
    let modern = ProtocolGeneration::from_request(message) == Some(ProtocolGeneration::Modern);
    assert!(!modern || message.method.is_some());
    let _ = (protocol::is_proxy(message), protocol::progress_token(message));
}

fn parsed(raw: &RawValue) -> Value {
    value_of(raw.get())
}

fn value_of(json: &str) -> Value {
    serde_json::from_str(json).expect("a part of what was read")
}

/// How deep a patch is at most: deeper JSON than `serde_json` reads says nothing here.
const PATCHED: usize = 8;

/// What to put into an object. Whole numbers only: a fraction may be read as its neighbour.
#[derive(Debug, Arbitrary)]
struct Patch(Vec<(u8, New)>);

#[derive(Debug, Arbitrary)]
enum New {
    Null,
    Number(i64),
    Text(char),
    List(Vec<u8>),
    Object(Patch),
}

impl Patch {
    fn object(&self, levels: usize) -> Value {
        let member = |(name, new): &(u8, New)| {
            let name = NAMES[usize::from(*name) % NAMES.len()].to_owned();
            let value = match new {
                New::Null => Value::Null,
                New::Number(number) => json!(number),
                New::Text(text) => json!(text),
                New::List(list) => json!(list),
                New::Object(_) if levels == 0 => Value::Null,
                New::Object(patch) => patch.object(levels - 1),
            };
            (name, value)
        };
        Value::Object(self.0.iter().map(member).collect())
    }
}

/// Merging into a text is merging into its value, and leaves the other members as they are spelled.
fn merge(text: &str, patch: &Value) {
    let told = edit::merge(text, patch);
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    assert_eq!(told.is_some(), value.is_object());
    let Some(told) = told else { return };
    let read: Value = serde_json::from_str(&told).expect("what was JSON is JSON");
    assert_eq!(read, merged(value, patch), "{text:?} with {patch} is {told:?}");
    let (before, after) = (Object::read(text), Object::read(&told));
    let (before, after) = (before.expect("an object"), after.expect("an object"));
    for (name, json) in &before.members {
        if patch.get(&**name).is_none() {
            let kept = after.members.iter().any(|(n, j)| n == name && j.get() == json.get());
            assert!(kept, "{name:?} is as it was");
        }
    }
    if patch.as_object().is_some_and(Map::is_empty) {
        assert_eq!(told, text);
    }
}

fn merged(mut value: Value, patch: &Value) -> Value {
    for (name, new) in patch.as_object().expect("a patch is an object") {
        let there = &mut value[name];
        *there = match (there.take(), new) {
            (there @ Value::Object(_), Value::Object(_)) => merged(there, new),
            _ => new.clone(),
        };
    }
    value
}
