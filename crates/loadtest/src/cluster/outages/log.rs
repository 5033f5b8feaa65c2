//! The lines of a replica's log, by the time of the outage in which they were written.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};

/// The level of a line that is not JSON.
const TEXT_LEVEL: &str = "TEXT";
/// Fields with no information for a reader.
const OMITTED_FIELDS: [&str; 1] = ["target"];

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LogLine {
    /// When it was written, since the start of the load.
    pub(super) at_ms: i64,
    /// The time in the line; empty if it has none.
    pub(super) timestamp: String,
    pub(super) level: String,
    pub(super) message: String,
    /// The other fields, for example `error`, `failed_calls` and `outage_seconds`.
    #[serde(flatten)]
    pub(super) fields: Map<String, Value>,
}

impl LogLine {
    /// Whether this is a line of `level` about a dependency.
    pub(super) fn is_about(&self, dependency: &str, level: &str) -> bool {
        self.level == level && self.fields.get("dependency").is_some_and(|name| *name == dependency)
    }

    /// The line for people: time, level, message and fields.
    pub(super) fn text(&self) -> String {
        let time = self.timestamp.split_once('T').map_or("", |(_, time)| time);
        let time = time.get(..12).unwrap_or(time);
        let fields = self.fields.iter().filter(|(name, _)| *name != "dependency");
        let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
        format!("{time} {:<5} {} {}", self.level, self.message, fields.join(" "))
            .trim_end()
            .to_owned()
    }
}

/// Reads a log. Times are since `started_at`.
pub(super) fn read(path: &Path, started_at: DateTime<Utc>) -> Result<Vec<LogLine>> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    Ok(parse(&text, started_at))
}

fn parse(text: &str, started_at: DateTime<Utc>) -> Vec<LogLine> {
    let mut lines = Vec::new();
    // A line without a time belongs to the line before it; the first ones are those of the start.
    let mut last_ms = i64::from(i32::MIN);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let parsed = parse_line(line, started_at).unwrap_or_else(|| LogLine {
            at_ms: last_ms,
            timestamp: String::new(),
            level: TEXT_LEVEL.to_owned(),
            message: line.to_owned(),
            fields: Map::new(),
        });
        last_ms = parsed.at_ms;
        lines.push(parsed);
    }
    lines
}

fn parse_line(line: &str, started_at: DateTime<Utc>) -> Option<LogLine> {
    let mut fields: Map<String, Value> = serde_json::from_str(line).ok()?;
    let mut take = |name: &str| match fields.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let timestamp = take("timestamp")?;
    let (level, message) = (take("level")?, take("message").unwrap_or_default());
    let at = DateTime::parse_from_rfc3339(&timestamp).ok()?;
    for name in OMITTED_FIELDS {
        fields.remove(name);
    }
    let at_ms = at.with_timezone(&Utc).signed_duration_since(started_at).num_milliseconds();
    Some(LogLine { at_ms, timestamp, level, message, fields })
}

/// The lines of a log by outage.
#[derive(Debug, Default, PartialEq)]
pub(super) struct LogSlices {
    /// Lines from before the load.
    pub(super) start: Vec<LogLine>,
    /// The lines of each window.
    pub(super) windows: Vec<Vec<LogLine>>,
    /// Lines of the load outside all windows.
    pub(super) others: Vec<LogLine>,
}

/// Splits a log by windows, which must not overlap. A window has its beginning and not its end.
pub(super) fn slice(lines: Vec<LogLine>, windows: &[(i64, i64)]) -> LogSlices {
    let mut slices = LogSlices { windows: vec![Vec::new(); windows.len()], ..LogSlices::default() };
    for line in lines {
        let window = windows.iter().position(|(from, to)| (*from..*to).contains(&line.at_ms));
        match window.and_then(|index| slices.windows.get_mut(index)) {
            Some(window) => window.push(line),
            None if line.at_ms < 0 => slices.start.push(line),
            None => slices.others.push(line),
        }
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"serving MCP at http://127.0.0.1:21003/mcp
{"timestamp":"2026-11-19T18:00:00.000Z","level":"INFO","message":"started","target":"atlatl"}
{"timestamp":"2026-11-19T18:00:12.204123Z","level":"WARN","dependency":"postgresql","error":"refused","message":"postgresql is unavailable","target":"atlatl_server::dependency"}
thread 'x' panicked

{"timestamp":"2026-11-19T18:00:20.500Z","level":"INFO","dependency":"postgresql","failed_calls":7,"outage_seconds":8.2,"message":"postgresql is available again"}
{"timestamp":"2026-11-19T18:00:30.000Z","level":"INFO","message":"stopped"}
"#;

    fn lines() -> Vec<LogLine> {
        parse(LOG, "2026-11-19T18:00:10Z".parse().unwrap())
    }

    #[test]
    fn g43_lines_are_sliced_by_the_windows_of_outages() {
        let slices = slice(lines(), &[(0, 2204), (2204, 10_500)]);
        let messages =
            |lines: &[LogLine]| lines.iter().map(|line| line.message.clone()).collect::<Vec<_>>();
        assert_eq!(slices.start.len(), 2);
        assert!(slices.windows[0].is_empty());
        assert_eq!(
            messages(&slices.windows[1]),
            ["postgresql is unavailable", "thread 'x' panicked"]
        );
        assert_eq!(messages(&slices.others), ["postgresql is available again", "stopped"]);
    }

    #[test]
    fn g43_a_line_has_its_time_and_its_fields() {
        let lines = lines();
        assert_eq!(lines[2].at_ms, 2204);
        assert!(lines[2].is_about("postgresql", "WARN"));
        assert!(!lines[2].is_about("postgresql", "INFO"));
        assert!(!lines[2].is_about("embedder", "WARN"));
        assert_eq!(
            lines[2].text(),
            "18:00:12.204 WARN  postgresql is unavailable error=\"refused\""
        );
        assert_eq!(
            lines[4].text(),
            "18:00:20.500 INFO  postgresql is available again failed_calls=7 outage_seconds=8.2"
        );
        assert_eq!((&*lines[3].level, lines[3].at_ms), (TEXT_LEVEL, 2204));
        assert_eq!(lines[3].text(), " TEXT  thread 'x' panicked".to_owned());
    }
}
