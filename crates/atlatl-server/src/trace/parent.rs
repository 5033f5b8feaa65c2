//! Parent: the span of a client that a request belongs to, as W3C Trace Context writes it.
//!
//! It comes from outside: what is not exactly in its form is not there at all.

/// A `tracestate` is at most so long; a longer one is dropped, which its specification allows.
const LONGEST_STATE: usize = 512;
/// Version 00 has this length; later ones may have more behind a dash.
const LENGTH: usize = 55;
const MAX_LEN: usize = 256;

/// A span of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// The trace that it belongs to; never 0.
    pub trace_id: u128,
    /// Which span; never 0.
    pub span_id: u64,
    /// Whether the client collects it.
    pub sampled: bool,
    /// What the systems on the way added: visible ASCII, at most 512 bytes, else as they spelled it.
    pub state: Option<String>,
}

impl Parent {
    /// Reads `traceparent`, and `tracestate` where it is usable; `None` for what is invalid.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        if !traceparent.is_ascii() || !(LENGTH..=MAX_LEN).contains(&traceparent.len()) {
            return None;
        }
        let (fixed, more) = traceparent.split_at(LENGTH);
        let mut fields = fixed.split('-');
        let version = hex(fields.next()?, 2)?;
        let trace_id = hex(fields.next()?, 32)?;
        let span_id = hex(fields.next()?, 16)?;
        let flags = hex(fields.next()?, 2)?;
        let behind_is_right = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.is_empty() || more.starts_with('-'),
        };
        if !behind_is_right || trace_id == 0 || span_id == 0 {
            return None;
        }
        let usable = |state: &&str| {
            (1..=LONGEST_STATE).contains(&state.len())
                && state.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        };
        Some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            sampled: flags & 1 == 1,
            state: tracestate.map(str::trim).filter(usable).map(str::to_owned),
        })
    }
}

/// A number of exactly so many digits, in lower case as the form wants it.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let right = text.len() == digits && text.bytes().all(lower);
    right.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_as_it_is_written() {
        let parent = Parent::read(GOOD, Some(" a=1,b=2 ")).unwrap();
        assert_eq!(parent.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(parent.span_id, 0xb7ad_6b71_6920_3331);
        assert_eq!((parent.sampled, parent.state.as_deref()), (true, Some("a=1,b=2")));
        let unsampled = GOOD.replace("-01", "-02");
        assert!(!Parent::read(&unsampled, None).unwrap().sampled);
        let later = format!("cc-{}-what comes later", &GOOD[3..]);
        assert!(Parent::read(&later, None).unwrap().sampled);
    }

    #[test]
    fn what_is_not_exactly_a_parent_is_none() {
        let zero = |range: std::ops::Range<usize>| {
            let mut text = GOOD.to_owned();
            text.replace_range(range.clone(), &"0".repeat(range.len()));
            text
        };
        for wrong in [
            String::new(),
            GOOD.to_uppercase(),
            GOOD.replace("00-", "ff-"),
            GOOD.replace("00-", "0x-"),
            GOOD.replace("-01", "-0g"),
            GOOD.replace("-01", "-+1"),
            GOOD.replace('-', "_"),
            format!("{GOOD}-"),
            format!(" {GOOD}"),
            format!("cc{}x", &GOOD[2..]),
            format!("cc{}-{}", &GOOD[2..], "x".repeat(300)),
            format!("é{}", &GOOD[2..]),
            GOOD[..54].to_owned(),
            zero(3..35),
            zero(36..52),
        ] {
            assert_eq!(Parent::read(&wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn a_state_that_is_too_long_or_no_text_is_dropped_alone() {
        for (state, kept) in [
            ("a=1".to_owned(), true),
            (format!("a={}", "x".repeat(510)), true),
            (format!("a={}", "x".repeat(511)), false),
            ("a=\u{1b}[31m".to_owned(), false),
            ("a=é".to_owned(), false),
            (" ".to_owned(), false),
        ] {
            let parent = Parent::read(GOOD, Some(&state)).unwrap();
            assert_eq!(parent.state.is_some(), kept, "{state:?}");
        }
    }
}
