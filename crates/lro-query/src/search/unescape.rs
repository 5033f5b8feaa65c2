//! Decodes the JSON escapes of lines, so that a search finds text as a person would type it.

use lro_json::append_lossy;
use memchr::memchr;

/// The length of the longest escape in bytes: a surrogate pair.
const MAX_ESCAPE_LEN: usize = 12;

/// Decodes `line` into `out`, if it has escapes.
pub(super) fn decode_line(line: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    if memchr(b'\\', line).is_none() {
        return false;
    }
    append_lossy(line, out);
    true
}

/// Decodes a line that arrives in windows.
#[derive(Default)]
pub(super) struct WindowDecoder {
    /// The end of the last window, which may be the beginning of an escape.
    pending: Vec<u8>,
}

impl WindowDecoder {
    /// Appends the text of the next window to `out`.
    pub(super) fn feed(&mut self, window: &[u8], out: &mut Vec<u8>) {
        let mut raw = std::mem::take(&mut self.pending);
        raw.extend_from_slice(window);
        let mut rest = &raw[..];
        while let Some(at) = memchr(b'\\', rest) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            if rest.len() < MAX_ESCAPE_LEN {
                self.pending = rest.to_vec();
                return;
            }
            let (escape, behind) = rest.split_at(escape_len(rest));
            append_lossy(escape, out);
            rest = behind;
        }
        out.extend_from_slice(rest);
    }

    /// Appends the rest of the line to `out`.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        append_lossy(&std::mem::take(&mut self.pending), out);
    }
}

/// The length of the escape at the beginning of `text`, which has at least [`MAX_ESCAPE_LEN`] bytes.
fn escape_len(text: &[u8]) -> usize {
    let is_high_surrogate = matches!(text[2], b'd' | b'D')
        && matches!(text[3], b'8' | b'9' | b'a' | b'b' | b'A' | b'B');
    match text[1] {
        b'u' if is_high_surrogate && text[6..].starts_with(b"\\u") => MAX_ESCAPE_LEN,
        b'u' => 6,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_windows_are_decoded_like_the_whole_line() {
        let line = r#"{"a":"say \"hi\" \\ C:\\temp\n caf\u00e9 \ud83d\ude42 \/x\u0041"}"#;
        let mut whole = Vec::new();
        assert!(decode_line(line.as_bytes(), &mut whole));
        assert!(!decode_line(b"nothing to decode", &mut Vec::new()));
        assert!(
            String::from_utf8(whole.clone())
                .unwrap()
                .contains("say \"hi\" \\ C:\\temp\n caf\u{e9} \u{1f642} /xA")
        );
        for window in 1..20 {
            let (mut decoder, mut out) = (WindowDecoder::default(), Vec::new());
            for part in line.as_bytes().chunks(window) {
                decoder.feed(part, &mut out);
            }
            decoder.finish(&mut out);
            assert_eq!(out, whole, "windows of {window}");
        }
    }
}
