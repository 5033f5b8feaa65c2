//! Response: an answer over HTTP/1.1, read by hand, so that what is odd in it is seen and not mended.

use std::io::{self, BufRead, Read};

/// No line of a head is longer, and no head has more.
const LONGEST_LINE: u64 = 16 << 10;
const MOST_HEADERS: usize = 100;
/// No answer is longer.
const LONGEST_BODY: usize = 256 << 20;
/// As much of an answer as is shown to a person.
const SHOWN: usize = 600;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Names in small letters.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether the connection can be used again.
    pub(super) stays_open: bool,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Nobody listens.
    Refused,
    /// The connection ended before the answer did.
    Reset,
    /// Nothing came for too long.
    Timeout,
    /// What came is no answer.
    Malformed(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Timeout,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ => Self::Reset,
        }
    }
}

impl Response {
    /// Reads one answer, and nothing behind it.
    pub(super) fn read(from: &mut impl BufRead) -> Result<Self, Broken> {
        loop {
            let (version, status) = status(&line(from)?)?;
            let headers = headers(from)?;
            // "Continue" and its like announce another answer.
            if (100..200).contains(&status) {
                continue;
            }
            let mut response = Self { status, headers, body: Vec::new(), stays_open: true };
            let framed = response.framing()?;
            response.stays_open = version == 1
                && framed != Framing::UntilClosed
                && !response.header("connection").is_some_and(|value| {
                    value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"))
                });
            response.body = body(from, framed)?;
            return Ok(response);
        }
    }

    /// A header by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// Everything that came, head and body, to be searched.
    pub(super) fn whole(&self) -> Vec<u8> {
        let mut whole = self.head().into_bytes();
        whole.extend_from_slice(&self.body);
        whole
    }

    /// The answer for a person, its beginning at least, on one line.
    pub(super) fn shown(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let mut shown: String = body.chars().take(SHOWN).collect();
        if shown.len() < body.len() {
            shown.push('…');
        }
        format!("{}{shown}", self.head()).replace(['\r', '\n'], " ")
    }

    fn head(&self) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
        format!("{}\n{}\n", self.status, headers.collect::<String>())
    }

    /// Two ways to tell the end that disagree are how one answer is taken for two.
    fn framing(&self) -> Result<Framing, Broken> {
        if matches!(self.status, 204 | 304) {
            return Ok(Framing::Length(0));
        }
        let all = |name: &str| -> Vec<&str> {
            let named = self.headers.iter().filter(|(found, _)| found == name);
            named.map(|(_, value)| &**value).collect()
        };
        let (lengths, codings) = (all("content-length"), all("transfer-encoding"));
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(Framing::UntilClosed),
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunks),
            ([first, rest @ ..], []) if rest.iter().all(|other| other == first) => {
                number(first, 10).map(Framing::Length)
            }
            _ => Err(malformed("the end of the body is told in two ways", &self.head())),
        }
    }
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunks,
    UntilClosed,
}

/// The minor version and the status.
fn status(line: &str) -> Result<(u8, u16), Broken> {
    let wrong = || malformed("no status line", line);
    let mut words = line.splitn(3, ' ');
    let version = match words.next() {
        Some("HTTP/1.1") => 1,
        Some("HTTP/1.0") => 0,
        _ => return Err(wrong()),
    };
    let status = words.next().filter(|word| word.len() == 3).ok_or_else(wrong)?;
    let status = status.parse().ok().filter(|status| (100..600).contains(status));
    Ok((version, status.ok_or_else(wrong)?))
}

fn headers(from: &mut impl BufRead) -> Result<Vec<(String, String)>, Broken> {
    let mut headers = Vec::new();
    loop {
        let line = line(from)?;
        if line.is_empty() {
            return Ok(headers);
        }
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        match line.split_once(':') {
            Some((name, value))
                if !name.is_empty() && name.chars().all(token) && headers.len() < MOST_HEADERS =>
            {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            _ => return Err(malformed("no header", &line)),
        }
    }
}

fn body(from: &mut impl BufRead, framing: Framing) -> Result<Vec<u8>, Broken> {
    let mut body = Vec::new();
    match framing {
        Framing::Length(length) => part(from, length, &mut body)?,
        Framing::UntilClosed => {
            from.take(LONGEST_BODY as u64).read_to_end(&mut body)?;
        }
        Framing::Chunks => loop {
            let head = line(from)?;
            // What stands behind the size says nothing to us.
            let size = number(head.split(';').next().unwrap_or_default().trim(), 16)?;
            if size == 0 {
                // Headers may follow the body.
                headers(from)?;
                break;
            }
            part(from, size, &mut body)?;
            if !line(from)?.is_empty() {
                return Err(malformed("a chunk is longer than it says", &head));
            }
        },
    }
    Ok(body)
}

fn part(from: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> Result<(), Broken> {
    if body.len().saturating_add(length) > LONGEST_BODY {
        return Err(malformed("the body is too long", &length.to_string()));
    }
    let read = from.take(length as u64).read_to_end(body)?;
    if read < length { Err(Broken::Reset) } else { Ok(()) }
}

/// A line without its end.
fn line(from: &mut impl BufRead) -> Result<String, Broken> {
    let mut bytes = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut bytes)?;
    match bytes.strip_suffix(b"\r\n") {
        Some(line) => String::from_utf8(line.to_vec())
            .map_err(|_| malformed("no text", &String::from_utf8_lossy(&bytes))),
        None if bytes.ends_with(b"\n") || bytes.len() as u64 == LONGEST_LINE => {
            Err(malformed("no line", &String::from_utf8_lossy(&bytes)))
        }
        None => Err(Broken::Reset),
    }
}

/// Digits alone: a sign or a space would be read in two ways.
fn number(text: &str, radix: u32) -> Result<usize, Broken> {
    let digits = !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    let number = usize::from_str_radix(text, radix).ok().filter(|_| digits);
    number.ok_or_else(|| malformed("no size", text))
}

fn malformed(why: &str, what: &str) -> Broken {
    Broken::Malformed(format!("{why}: {:?}", what.chars().take(200).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Response, Broken> {
        Response::read(&mut text.as_bytes())
    }

    fn body_of(text: &str) -> String {
        String::from_utf8(read(text).unwrap().body).unwrap()
    }

    #[test]
    fn an_answer_ends_where_it_says_and_the_next_one_begins_there() {
        let two = "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nLocation: /x\r\n\r\nhello\
                   HTTP/1.1 404 Not Found\r\ncontent-length:0\r\nConnection: Keep-Alive, CLOSE\r\n\r\n";
        let mut bytes = two.as_bytes();
        let first = Response::read(&mut bytes).unwrap();
        assert_eq!((first.status, &*first.body, first.stays_open), (201, &b"hello"[..], true));
        assert_eq!((first.header("location"), first.header("etag")), (Some("/x"), None));
        let second = Response::read(&mut bytes).unwrap();
        assert_eq!((second.status, second.body.len(), second.stays_open), (404, 0, false));
        assert!(bytes.is_empty());
        assert_eq!(first.shown(), "201 content-length: 5 location: /x  hello");
    }

    #[test]
    fn chunks_are_put_together() {
        let chunked =
            |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
        assert_eq!(body_of(&chunked("5\r\nhello\r\n0\r\n\r\n")), "hello");
        let extended = "3;a=b\r\nhel\r\n00B\r\nlo\r\nworld!!\r\n0\r\nX-Sum: 1\r\n\r\n";
        assert_eq!(body_of(&chunked(extended)), "hello\r\nworld!!");
        for cut in ["", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n"] {
            assert_eq!(read(&chunked(cut)), Err(Broken::Reset), "{cut:?}");
        }
        for odd in ["x\r\n", "-1\r\n", "+5\r\nhello\r\n", "\r\n", "4\r\nhello\r\n0\r\n\r\n"] {
            assert!(matches!(read(&chunked(odd)), Err(Broken::Malformed(_))), "{odd:?}");
        }
        let huge = "ffffffffffffffff\r\n";
        assert!(matches!(read(&chunked(huge)), Err(Broken::Malformed(_))));
    }

    #[test]
    fn announcements_are_passed_over_and_some_answers_have_no_body() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nX: y\r\n\r\n";
        let response = read(text).unwrap();
        assert_eq!((response.status, response.stays_open), (204, true));
        let whole = read("HTTP/1.1 200 OK\r\n\r\nuntil the end").unwrap();
        assert_eq!((&*whole.body, whole.stays_open), (&b"until the end"[..], false));
        let old = read("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx").unwrap();
        assert!(!old.stays_open);
    }

    #[test]
    fn what_is_cut_is_reset_and_what_is_odd_is_malformed() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), Err(Broken::Reset), "{end}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(20_000));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(101));
        for odd in [
            "HTTP/2 200 OK\r\n\r\n",
            "SSH-2.0-x\r\n",
            "HTTP/1.1 99 Low\r\n\r\n",
            "HTTP/1.1 +20 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "HTTP/1.1 200 OK\r\nno header\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            &long,
            &many,
        ] {
            assert!(matches!(read(odd), Err(Broken::Malformed(_))), "{odd:.80}: {:?}", read(odd));
        }
        // The same length twice is one.
        assert_eq!(
            body_of("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
            "x"
        );
    }

    #[test]
    fn failures_of_a_connection_are_told_apart() {
        for (kind, expected) in [
            (io::ErrorKind::WouldBlock, Broken::Timeout),
            (io::ErrorKind::TimedOut, Broken::Timeout),
            (io::ErrorKind::ConnectionRefused, Broken::Refused),
            (io::ErrorKind::ConnectionReset, Broken::Reset),
            (io::ErrorKind::BrokenPipe, Broken::Reset),
        ] {
            assert_eq!(Broken::from(io::Error::from(kind)), expected);
        }
    }
}
