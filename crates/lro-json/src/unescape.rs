//! Decodes a JSON string that does not fit into memory.

/// Decodes the inside of a JSON string as it arrives.
#[derive(Debug, Default)]
pub struct Unescape {
    /// An escape that is not whole yet.
    pending: Vec<u8>,
}

/// The string stands for no text: half of a surrogate pair stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the string has a lone surrogate")]
pub struct NoText;

impl Unescape {
    /// Decodes the next part of a string that was found valid, quotes excluded, into `out`.
    pub fn feed(&mut self, mut part: &[u8], out: &mut Vec<u8>) -> Result<(), NoText> {
        while !self.pending.is_empty() {
            let Some((&byte, rest)) = part.split_first() else { return Ok(()) };
            part = rest;
            self.pending.push(byte);
            self.settle(out)?;
        }
        while let Some(at) = memchr::memchr(b'\\', part) {
            out.extend_from_slice(&part[..at]);
            part = &part[at + 1..];
            // What stands alone decodes at once.
            if let Some(plain) = part.first().copied().and_then(simple) {
                out.push(plain);
                part = &part[1..];
                continue;
            }
            self.pending.push(b'\\');
            while !self.pending.is_empty() {
                let Some((&byte, rest)) = part.split_first() else { return Ok(()) };
                part = rest;
                self.pending.push(byte);
                self.settle(out)?;
            }
        }
        out.extend_from_slice(part);
        Ok(())
    }

    /// Ends the string.
    pub fn finish(self) -> Result<(), NoText> {
        if self.pending.is_empty() { Ok(()) } else { Err(NoText) }
    }

    /// Writes the escape that is pending, as soon as it is whole.
    fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), NoText> {
        let text = match *self.pending.as_slice() {
            [] | [_] | [_, b'u'] => return Ok(()),
            [_, escape] => {
                out.push(simple(escape).ok_or(NoText)?);
                self.pending.clear();
                return Ok(());
            }
            [_, _, ref hex @ ..] if hex.len() < 4 => return Ok(()),
            [_, _, ref rest @ ..] => {
                let unit = hex(&rest[..4])?;
                match (unit, rest.len()) {
                    (0xd800..=0xdbff, ..10) => {
                        // The other half must follow at once.
                        let follows = &rest[4..];
                        if !b"\\u".starts_with(&follows[..follows.len().min(2)]) {
                            return Err(NoText);
                        }
                        return Ok(());
                    }
                    (0xd800..=0xdbff, _) => {
                        let low = hex(&rest[6..10])?;
                        if !(0xdc00..=0xdfff).contains(&low) {
                            return Err(NoText);
                        }
                        0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    _ => unit,
                }
            }
        };
        let text = char::from_u32(text).ok_or(NoText)?;
        out.extend_from_slice(text.encode_utf8(&mut [0; 4]).as_bytes());
        self.pending.clear();
        Ok(())
    }
}

fn simple(escape: u8) -> Option<u8> {
    Some(match escape {
        b'"' | b'\\' | b'/' => escape,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

fn hex(digits: &[u8]) -> Result<u32, NoText> {
    let text = std::str::from_utf8(digits).map_err(|_| NoText)?;
    u32::from_str_radix(text, 16).map_err(|_| NoText)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(inside: &str, cut: usize) -> Result<String, NoText> {
        let (mut unescape, mut out) = (Unescape::default(), Vec::new());
        for part in inside.as_bytes().chunks(cut) {
            unescape.feed(part, &mut out)?;
        }
        unescape.finish()?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_string_is_decoded_however_it_is_cut() {
        let inside = r#"plain \"\\\/\b\f\n\r\t \u00e9é \ud83d\ude00\ud83d\ude00 end\u0000"#;
        let expected: String = serde_json::from_str(&format!("\"{inside}\"")).unwrap();
        for cut in 1..=inside.len() {
            assert_eq!(decoded(inside, cut).as_deref(), Ok(expected.as_str()), "cut by {cut}");
        }
    }

    #[test]
    fn half_a_pair_is_no_text() {
        for inside in [r"\ud800", r"\ud800x", r"\ud800\n", r"\udc00", r"\ud800\ud800", r"a\ud83d\u"]
        {
            for cut in 1..=inside.len() {
                assert_eq!(decoded(inside, cut), Err(NoText), "{inside} cut by {cut}");
            }
        }
    }
}
