//! An incremental parser for server-sent events.
//!
//! Existing crates buffer a whole event, often twice. The data of an event may be a tool result of
//! any size, so this parser passes the data on in the chunks that arrive and buffers only the short
//! fields beside it.

use std::time::Duration;

use memchr::memchr2;

/// The longest value, in bytes, of a field other than `data`; longer ones are ignored.
const MAX_FIELD_LEN: usize = 4096;
/// The length of the longest field name that the format defines.
const MAX_NAME_LEN: usize = 5;
/// A stream may begin with a byte order mark, which is skipped.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Parses a stream into events.
///
/// ```
/// use lro_wire::sse::{SseEvents, SsePart};
///
/// let mut events = SseEvents::default();
/// let (mut data, mut ids) = (Vec::new(), Vec::new());
/// for bytes in [&b"id: 7\nda"[..], b"ta: {\"a\"", b":1}\r\n\r\n"] {
///     events.feed(bytes, |part| match part {
///         SsePart::Data(piece) => data.extend_from_slice(piece),
///         SsePart::End(event) => ids.push(event.id),
///     });
/// }
/// assert_eq!(data, br#"{"a":1}"#);
/// assert_eq!(ids, [Some("7".to_owned())]);
/// ```
#[derive(Debug, Default)]
pub struct SseEvents {
    state: State,
    event: SseEvent,
    /// How many bytes of a byte order mark were read; its full length after the start of the stream.
    mark_len: usize,
    /// The last byte was a carriage return; a line feed that follows belongs to it.
    after_return: bool,
}

/// A part of an event.
#[derive(Debug, PartialEq, Eq)]
pub enum SsePart<'a> {
    /// The next chunk of the event's data, never empty.
    Data(&'a [u8]),
    /// The event is complete.
    End(SseEvent),
}

/// An event, without its data.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent {
    /// The event type; `None` for a plain message.
    pub name: Option<String>,
    /// The event id, which resumes the stream after this event.
    pub id: Option<String>,
    /// The delay before the client reconnects.
    pub retry: Option<Duration>,
    /// Whether the event has a `data` field, even an empty one.
    pub has_data: bool,
}

/// The position in a line.
#[derive(Debug)]
enum State {
    /// In the name of a field.
    Name(Vec<u8>),
    /// After the colon, where one space is optional.
    Colon(Field),
    /// In the value.
    Value(Field, Vec<u8>),
    /// In a comment or an unknown field.
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Name,
    Id,
    Retry,
}

impl Default for State {
    fn default() -> Self {
        Self::Name(Vec::new())
    }
}

impl SseEvents {
    /// Parses the next bytes and calls `each` with every part that they contain.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(SsePart<'_>)) {
        bytes = self.skip_byte_order_mark(bytes, &mut each);
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.line_bytes(line, &mut each);
            bytes = rest;
            if let Some(&ending) = rest.first() {
                self.after_return = ending == b'\r';
                bytes = &rest[1..];
                self.end_line(&mut each);
            }
        }
    }

    /// Skips a byte order mark, which may arrive in several chunks.
    fn skip_byte_order_mark<'a>(
        &mut self,
        bytes: &'a [u8],
        each: &mut impl FnMut(SsePart<'_>),
    ) -> &'a [u8] {
        let mut at = 0;
        while self.mark_len < BYTE_ORDER_MARK.len() && at < bytes.len() {
            if bytes[at] != BYTE_ORDER_MARK[self.mark_len] {
                // Not a byte order mark: the bytes that matched so far belong to a line.
                let matched = std::mem::replace(&mut self.mark_len, BYTE_ORDER_MARK.len());
                self.line_bytes(&BYTE_ORDER_MARK[..matched], each);
                break;
            }
            self.mark_len += 1;
            at += 1;
        }
        &bytes[at..]
    }

    fn line_bytes(&mut self, mut bytes: &[u8], each: &mut impl FnMut(SsePart<'_>)) {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Name(name) => {
                    let colon = memchr::memchr(b':', bytes);
                    let (more, rest) = bytes.split_at(colon.unwrap_or(bytes.len()));
                    let free = (MAX_NAME_LEN + 1).saturating_sub(name.len());
                    name.extend_from_slice(&more[..more.len().min(free)]);
                    bytes = rest;
                    if colon.is_some() {
                        bytes = &rest[1..];
                        self.state = Field::from_name(name).map_or(State::Ignored, State::Colon);
                        self.begin_data(each);
                    }
                }
                State::Colon(field) => {
                    let field = *field;
                    bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
                    self.state = State::Value(field, Vec::new());
                }
                State::Value(Field::Data, _) => {
                    each(SsePart::Data(bytes));
                    return;
                }
                State::Value(_, value) => {
                    // One byte more than allowed shows that the value is too long.
                    let free = (MAX_FIELD_LEN + 1).saturating_sub(value.len());
                    value.extend_from_slice(&bytes[..bytes.len().min(free)]);
                    return;
                }
                State::Ignored => return,
            }
        }
    }

    /// Starts a data line. Several data lines form one text with line breaks between them.
    fn begin_data(&mut self, each: &mut impl FnMut(SsePart<'_>)) {
        if matches!(self.state, State::Colon(Field::Data))
            && std::mem::replace(&mut self.event.has_data, true)
        {
            each(SsePart::Data(b"\n"));
        }
    }

    fn end_line(&mut self, each: &mut impl FnMut(SsePart<'_>)) {
        match std::mem::take(&mut self.state) {
            State::Name(name) if name.is_empty() => {
                let event = std::mem::take(&mut self.event);
                if event != SseEvent::default() {
                    each(SsePart::End(event));
                }
            }
            // A field without a colon has an empty value.
            State::Name(name) => match Field::from_name(&name) {
                Some(Field::Data) => {
                    self.state = State::Colon(Field::Data);
                    self.begin_data(each);
                    self.state = State::default();
                }
                Some(field) => self.event.set(field, Vec::new()),
                None => {}
            },
            State::Colon(field) => self.event.set(field, Vec::new()),
            State::Value(field, value) => self.event.set(field, value),
            State::Ignored => {}
        }
    }
}

impl SseEvent {
    fn set(&mut self, field: Field, value: Vec<u8>) {
        let Some(value) =
            String::from_utf8(value).ok().filter(|value| value.len() <= MAX_FIELD_LEN)
        else {
            return;
        };
        match field {
            Field::Data => {}
            Field::Name => self.name = (!value.is_empty()).then_some(value),
            Field::Id if value.contains('\0') => {}
            Field::Id => self.id = Some(value),
            Field::Retry => {
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let millis = digits.then(|| value.parse().ok()).flatten();
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
        }
    }
}

impl Field {
    fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"data" => Some(Self::Data),
            b"event" => Some(Self::Name),
            b"id" => Some(Self::Id),
            b"retry" => Some(Self::Retry),
            _ => None,
        }
    }
}
