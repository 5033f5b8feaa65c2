//! What is printed in place of large output: its descriptor, as text or as JSON.

use std::fmt::Write as _;

use lro_core::escape_invisible;
use lro_spool::{OutputLog, OutputStream, PartRole};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::process::Ended;
use crate::output::grouped;
use crate::stored_output::StoredOutput;

/// The bytes at the end of the output that are read for its last lines.
const TAIL_BYTES: u64 = 2000;
/// The most last lines.
const MAX_TAIL_LINES: usize = 20;
/// The most bytes of standard error that are printed beside the descriptor of standard output.
const MAX_SEPARATE_STDERR_BYTES: u64 = 4096;

/// The members of a descriptor that the text shows, with their literals unchanged.
#[derive(Deserialize)]
struct Descriptor<'a> {
    #[serde(borrow)]
    lro: Extension<'a>,
    summary: Summary,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
    guidance: String,
}

#[derive(Deserialize)]
struct Extension<'a> {
    #[serde(borrow)]
    preview: Option<&'a RawValue>,
    #[serde(borrow)]
    around: Option<&'a RawValue>,
    #[serde(borrow)]
    tables: Option<&'a RawValue>,
    #[serde(borrow)]
    notes: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Summary {
    #[serde(default)]
    kind: String,
    count: Option<u64>,
    lines: Option<u64>,
    estimated_tokens: Option<u64>,
}

/// A stored output of a command that ended.
pub(super) struct Report<'a> {
    pub(super) stored: &'a StoredOutput,
    pub(super) log: &'a OutputLog,
    pub(super) ended: Ended,
}

impl Report<'_> {
    /// The note on a terminal, which has shown the output.
    pub(super) fn note(&self) -> String {
        let reference = self.stored.reference();
        format!(
            "stored {} of output as {reference}; to search it: atlatl extract {reference} --search \
             WORD",
            crate::output::size(self.log.len())
        )
    }

    /// The descriptor with facts about the command, on one line.
    pub(super) fn json(&self) -> String {
        let mut run = json!({
            "stdout_bytes": self.log.stream_len(OutputStream::Stdout),
            "stderr_bytes": self.log.stream_len(OutputStream::Stderr),
        });
        match self.ended {
            Ended::Exited(status) => run["exit_status"] = status.into(),
            Ended::Killed(signal) => run["signal"] = signal.into(),
        }
        let kind = self.descriptor().map(|descriptor| descriptor.summary.kind);
        if let Some(tail) = kind.and_then(|kind| self.tail(&kind)) {
            run["tail"] = Value::from(tail);
        }
        // Appended to the text, because parsing it could change numbers of the preview.
        let text = &self.stored.descriptor;
        let members = text.strip_suffix('}').unwrap_or(text);
        format!("{members},\"run\":{run}}}\n")
    }

    fn descriptor(&self) -> Option<Descriptor<'_>> {
        serde_json::from_str(&self.stored.descriptor).ok()
    }

    /// The descriptor as text for a model or a person.
    pub(super) fn text(&self) -> String {
        let Some(descriptor) = self.descriptor() else { return self.json() };
        let Descriptor { lro, summary, fields, guidance } = descriptor;
        let mut text = format!("[atlatl] {}\n", self.headline(&summary));
        let members = [
            ("fields", fields),
            ("around", lro.around),
            ("tables", lro.tables),
            ("notes", lro.notes),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{name}: {value}");
            }
        }
        if let Some(preview) = lro.preview.map(RawValue::get) {
            if let Ok(records) = serde_json::from_str::<Vec<&RawValue>>(preview) {
                text.push_str("--- first records\n");
                for record in records {
                    let _ = writeln!(text, "{record}");
                }
            } else if let Ok(lines) = serde_json::from_str::<String>(preview) {
                let _ = writeln!(text, "--- first lines\n{lines}");
            }
        }
        if let Some(tail) = self.tail(&summary.kind) {
            let _ = writeln!(text, "--- last lines\n{tail}");
        }
        let _ = writeln!(text, "---\n{guidance}");
        text
    }

    fn headline(&self, summary: &Summary) -> String {
        let Summary { count, lines, estimated_tokens, .. } = *summary;
        let mut facts = Vec::new();
        for (number, unit) in [(count, "records"), (lines, "lines"), (estimated_tokens, "tokens")] {
            if let Some(number) = number {
                facts.push(format!("{} {unit}", grouped(number)));
            }
        }
        let stderr = self.log.stream_len(OutputStream::Stderr);
        if stderr > 0 {
            facts.push(format!("{} bytes of it on standard error", grouped(stderr)));
        }
        let ended = match self.ended {
            Ended::Exited(status) => format!("exit status {status}"),
            Ended::Killed(signal) => format!("ended by signal {signal}"),
        };
        format!(
            "{} bytes of output stored as {} ({}); {ended}",
            grouped(self.log.len()),
            self.stored.reference(),
            facts.join(", ")
        )
    }

    /// The last lines of a text, or of the output of a command that failed.
    fn tail(&self, kind: &str) -> Option<String> {
        let is_useful = match kind {
            "text" => true,
            "binary" | "base64" => false,
            _ => self.ended != Ended::Exited(0),
        };
        // The preview shows all of a short output.
        if !is_useful || self.log.len() <= TAIL_BYTES {
            return None;
        }
        let start = self.log.len().saturating_sub(TAIL_BYTES);
        last_lines(&read_range(self.log, start, self.log.len())?)
    }

    /// Short messages on standard error, if the descriptor is of standard output alone.
    pub(super) fn separate_stderr(&self) -> Vec<u8> {
        let parts = &self.stored.listed.sidecar.parts;
        let is_separate = parts.iter().any(|part| part.role == PartRole::Output);
        if !is_separate || self.log.stream_len(OutputStream::Stderr) > MAX_SEPARATE_STDERR_BYTES {
            return Vec::new();
        }
        let runs = self.log.runs().filter_map(Result::ok);
        let of_stderr = runs.filter(|run| run.stream == OutputStream::Stderr);
        of_stderr
            .filter_map(|run| read_range(self.log, run.range.start, run.range.end))
            .flatten()
            .collect()
    }
}

/// The last lines of an output that ends with `bytes`; `None` if they are empty.
fn last_lines(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    let Some((_, whole_lines)) = text.split_once('\n') else {
        // One long line: its end. A character may be cut at its beginning.
        let end = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
        return (!end.is_empty()).then(|| escape_invisible(&format!("\u{2026}{end}")).into_owned());
    };
    // The first line is likely incomplete.
    let lines: Vec<&str> = whole_lines.lines().collect();
    let last = &lines[lines.len().saturating_sub(MAX_TAIL_LINES)..];
    Some(escape_invisible(&last.join("\n")).into_owned())
}

/// The bytes of a log from `start` to `end`; `None` if they cannot be read.
fn read_range(log: &OutputLog, start: u64, end: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    let mut filled = 0;
    while filled < bytes.len() {
        match log.read_at(start + filled as u64, &mut bytes[filled..]) {
            Ok(read @ 1..) => filled += read,
            Ok(0) | Err(_) => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_or_the_end_of_a_long_one() {
        let last = |text: &str| last_lines(text.as_bytes());
        assert_eq!(last("cut\none\ntwo\n").as_deref(), Some("one\ntwo"));
        assert_eq!(last("cut\r\none\r\ntwo\r\n\n").as_deref(), Some("one\ntwo"));
        assert_eq!(last("cut\none").as_deref(), Some("one"));
        assert_eq!(
            last("the end of a long line").as_deref(),
            Some("\u{2026}the end of a long line")
        );
        assert_eq!(
            last("the end of a long line\n").as_deref(),
            Some("\u{2026}the end of a long line")
        );
        assert_eq!(last_lines(b"\xa9 cut\n").as_deref(), Some("\u{2026} cut"));
        assert_eq!(last("\n\n\n"), None);
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let last = last(&many.join("\n")).unwrap();
        assert_eq!((last.lines().count(), last.starts_with("80\n")), (MAX_TAIL_LINES, true));
    }
}
