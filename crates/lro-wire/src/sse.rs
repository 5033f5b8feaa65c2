//! SSE: a stream of server-sent events, cut as it arrives.
//!
//! What crates there are give an event whole, and so hold it whole, often twice. An event may be a
//! tool result of any size: here its data comes out in the pieces it came in, and nothing is held but
//! the short fields beside it.

use std::time::Duration;

use memchr::memchr2;

/// A field other than the data is never longer; what is, is ignored.
const FIELD_CAP: usize = 4096;
/// The longest name of a field that means anything.
const NAME_CAP: usize = 5;
/// What a stream may begin with, and which means nothing.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Cuts a stream into events.
///
/// ```
/// use lro_wire::sse::{Events, Part};
///
/// let mut events = Events::default();
/// let (mut data, mut ids) = (Vec::new(), Vec::new());
/// for bytes in [&b"id: 7\nda"[..], b"ta: {\"a\"", b":1}\r\n\r\n"] {
///     events.feed(bytes, |part| match part {
///         Part::Data(piece) => data.extend_from_slice(piece),
///         Part::End(event) => ids.push(event.id),
///     });
/// }
/// assert_eq!(data, br#"{"a":1}"#);
/// assert_eq!(ids, [Some("7".to_owned())]);
/// ```
#[derive(Debug, Default)]
pub struct Events {
    at: At,
    event: Event,
    /// How much of a byte order mark was seen; all of it where there can be none any more.
    begun: usize,
    /// The last byte was a carriage return: a line feed behind it belongs to it.
    after_return: bool,
}

/// What comes out of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The next piece of the event's data, never empty.
    Data(&'a [u8]),
    /// The event is over.
    End(Event),
}

/// An event, without its data.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its name; `None` for a plain message.
    pub name: Option<String>,
    /// What to ask for when the stream breaks off behind it.
    pub id: Option<String>,
    /// How long to wait before asking again.
    pub retry: Option<Duration>,
    /// Whether it has a line of data at all, be it empty.
    pub has_data: bool,
}

/// Where in a line we are.
#[derive(Debug)]
enum At {
    /// In the name of a field.
    Name(Vec<u8>),
    /// Behind the colon, where one space may stand.
    Colon(Field),
    /// In the value.
    Value(Field, Vec<u8>),
    /// In a comment, or in what nobody knows.
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Name,
    Id,
    Retry,
}

impl Default for At {
    fn default() -> Self {
        Self::Name(Vec::new())
    }
}

impl Events {
    /// Takes what came next; `each` gets what it completes.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Part<'_>)) {
        bytes = self.behind_the_mark(bytes, &mut each);
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.within_a_line(line, &mut each);
            bytes = rest;
            if let Some(&ending) = rest.first() {
                self.after_return = ending == b'\r';
                bytes = &rest[1..];
                self.line_ends(&mut each);
            }
        }
    }

    /// Skips a byte order mark, which may arrive in pieces.
    fn behind_the_mark<'a>(
        &mut self,
        bytes: &'a [u8],
        each: &mut impl FnMut(Part<'_>),
    ) -> &'a [u8] {
        let mut at = 0;
        while self.begun < BYTE_ORDER_MARK.len() && at < bytes.len() {
            if bytes[at] != BYTE_ORDER_MARK[self.begun] {
                // It was none: what was taken for its beginning belongs to a line.
                let taken = std::mem::replace(&mut self.begun, BYTE_ORDER_MARK.len());
                self.within_a_line(&BYTE_ORDER_MARK[..taken], each);
                break;
            }
            self.begun += 1;
            at += 1;
        }
        &bytes[at..]
    }

    fn within_a_line(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Part<'_>)) {
        while !bytes.is_empty() {
            match &mut self.at {
                At::Name(name) => {
                    let colon = memchr::memchr(b':', bytes);
                    let (more, rest) = bytes.split_at(colon.unwrap_or(bytes.len()));
                    let room = (NAME_CAP + 1).saturating_sub(name.len());
                    name.extend_from_slice(&more[..more.len().min(room)]);
                    bytes = rest;
                    if colon.is_some() {
                        bytes = &rest[1..];
                        self.at = Field::called(name).map_or(At::Ignored, At::Colon);
                        self.data_begins(each);
                    }
                }
                At::Colon(field) => {
                    let field = *field;
                    bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
                    self.at = At::Value(field, Vec::new());
                }
                At::Value(Field::Data, _) => {
                    each(Part::Data(bytes));
                    return;
                }
                At::Value(_, value) => {
                    // One too many is kept, so that it is seen to be too long.
                    let room = (FIELD_CAP + 1).saturating_sub(value.len());
                    value.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    return;
                }
                At::Ignored => return,
            }
        }
    }

    /// Lines of data are one text with line breaks between them.
    fn data_begins(&mut self, each: &mut impl FnMut(Part<'_>)) {
        if matches!(self.at, At::Colon(Field::Data))
            && std::mem::replace(&mut self.event.has_data, true)
        {
            each(Part::Data(b"\n"));
        }
    }

    fn line_ends(&mut self, each: &mut impl FnMut(Part<'_>)) {
        match std::mem::take(&mut self.at) {
            At::Name(name) if name.is_empty() => {
                let event = std::mem::take(&mut self.event);
                if event != Event::default() {
                    each(Part::End(event));
                }
            }
            // A field without a colon has an empty value.
            At::Name(name) => match Field::called(&name) {
                Some(Field::Data) => {
                    self.at = At::Colon(Field::Data);
                    self.data_begins(each);
                    self.at = At::default();
                }
                Some(field) => self.event.set(field, Vec::new()),
                None => {}
            },
            At::Colon(field) => self.event.set(field, Vec::new()),
            At::Value(field, value) => self.event.set(field, value),
            At::Ignored => {}
        }
    }
}

impl Event {
    fn set(&mut self, field: Field, value: Vec<u8>) {
        let Some(value) = String::from_utf8(value).ok().filter(|value| value.len() <= FIELD_CAP)
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
    fn called(name: &[u8]) -> Option<Self> {
        match name {
            b"data" => Some(Self::Data),
            b"event" => Some(Self::Name),
            b"id" => Some(Self::Id),
            b"retry" => Some(Self::Retry),
            _ => None,
        }
    }
}
