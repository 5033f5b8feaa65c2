//! The savings of offloading, computed from the events of a ledger.
//!
//! f37: savings are net. The tokens of the descriptors, of all replies to queries and of the tool
//! definitions are subtracted from the tokens that the results would have taken. Each figure says how
//! much of it was measured and how much estimated. What a client would have cut from a result is not
//! saved: its limit is in the event.
//!
//! ```
//! use atlatl_lro::stats::Summary;
//! use lro::Event;
//!
//! let ledger = [
//!     r#"{"time":"2026-11-14T10:00:00Z","ref":"lro:01K9ZZZZZZZZZZZZZZZZZZZZZZ","event":"ResultOffloaded",
//!         "tool":"list_issues","server":"tracker","records":500,"bytes":90000,
//!         "inline":{"tokens":30000,"method":"counted"},"all_texts":true,
//!         "descriptor":{"tokens":400,"method":"counted"},"took_us":9000}"#,
//!     r#"{"time":"2026-11-14T10:00:05Z","event":"ToolsListed","server":"tracker",
//!         "definitions":{"tokens":600,"method":"counted"}}"#,
//! ];
//! let events = ledger.iter().map(|line| serde_json::from_str::<Event>(line).unwrap());
//! let summary = Summary::from_events(events);
//! assert_eq!(summary.all.net_tokens(), 29_000);
//! assert_eq!(summary.servers[0].name, "tracker");
//! ```

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;

use chrono::{DateTime, Days, NaiveDate, Utc};
use lro::{Event, EventKind, Reader};
use lro_core::tokens::{Estimate, Method};
use lro_core::{ClientLimit, Reference};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// The row of failed queries, whose costs belong to no server or tool.
const FAILED_QUERIES: &str = "(failed questions)";
/// The row of results without a server: those stored from the command line.
const NO_SERVER: &str = "(no server)";

/// The beginning of the server label of an agent's results.
const HOOK_LABEL: &str = "hook ";

/// The number of days before the last event for which days without events are listed.
const MAX_EMPTY_DAYS: u64 = 400;

/// The figures of a ledger.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The time of the first event.
    pub from: Option<DateTime<Utc>>,
    /// The time of the last event.
    pub to: Option<DateTime<Utc>>,
    /// The figures of all events.
    pub all: Figures,
    /// The part of them for output of an agent's tools: stored by its hook after a call, or by the
    /// `atlatl run` that its hook put before a command.
    pub hooks: Figures,
    /// By server, the greatest net saving first.
    pub servers: Vec<SummaryRow>,
    /// By tool, the greatest net saving first. Events without a tool are not in it.
    pub tools: Vec<SummaryRow>,
    /// By program that a tool ran, the greatest net saving first. Other events are not in it.
    pub commands: Vec<SummaryRow>,
    /// By day in UTC, from the first to the last.
    pub days: Vec<SummaryRow>,
}

/// The figures of one server, tool or day.
#[derive(Debug, Clone, serde::Serialize)]
#[non_exhaustive]
pub struct SummaryRow {
    /// The server, tool or day. Names of servers and tools are untrusted text.
    pub name: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Summary {
    /// Summarizes `events`, which may be in any order.
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Self {
        Self::with_client_limit(events, None)
    }

    /// The same as if every client had this limit, instead of the limits in the events.
    pub fn with_client_limit(
        events: impl IntoIterator<Item = Event>,
        limit: Option<ClientLimit>,
    ) -> Self {
        let mut events: Vec<Event> = events.into_iter().collect();
        if limit.is_some() {
            for event in &mut events {
                if let EventKind::ResultOffloaded { client_limit, .. } = &mut event.kind {
                    *client_limit = limit;
                }
            }
        }
        let programs: HashMap<Reference, String> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::ResultOffloaded { program: Some(program), .. } => {
                    Some((event.result?, program.clone()))
                }
                _ => None,
            })
            .collect();
        let counted: HashMap<Reference, Estimate> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::ResultCounted { inline } => Some((event.result?, *inline)),
                _ => None,
            })
            .collect();
        let mut summary = Self::default();
        let mut servers = BTreeMap::<String, Figures>::new();
        let mut tools = BTreeMap::<(String, String), Figures>::new();
        let mut commands = BTreeMap::<&str, Figures>::new();
        let mut days = BTreeMap::<NaiveDate, Figures>::new();
        for event in &events {
            let counted = event.result.and_then(|result| counted.get(&result).copied());
            summary.from = summary.from.into_iter().chain([event.time]).min();
            summary.to = summary.to.max(Some(event.time));
            summary.all.add(event, counted);
            days.entry(event.time.date_naive()).or_default().add(event, counted);
            if let Some(program) = event.result.and_then(|result| programs.get(&result)) {
                commands.entry(program).or_default().add(event, counted);
            }
            let (server, tool) = server_and_tool(&event.kind);
            if let Some(server) = server {
                if is_hook(Some(server)) {
                    summary.hooks.add(event, counted);
                }
                servers.entry(server.to_owned()).or_default().add(event, counted);
                if let Some(tool) = tool {
                    tools
                        .entry((server.to_owned(), tool.to_owned()))
                        .or_default()
                        .add(event, counted);
                }
            }
        }
        let labels: Vec<String> = servers.keys().cloned().collect();
        summary.tools = sort_by_net_savings(tools.into_iter().map(|((server, tool), figures)| {
            let server = short_label(&server, &labels);
            (format!("{server} {tool}"), figures)
        }));
        summary.servers = sort_by_net_savings(
            servers
                .into_iter()
                .map(|(server, figures)| (short_label(&server, &labels).to_owned(), figures)),
        );
        summary.commands = sort_by_net_savings(
            commands.into_iter().map(|(program, figures)| (program.to_owned(), figures)),
        );
        let first = days.keys().next().copied();
        let last = days.keys().next_back().copied();
        if let (Some(first), Some(last)) = (first, last) {
            // List days without events too, but not years of them after a wrong clock.
            let near = last.checked_sub_days(Days::new(MAX_EMPTY_DAYS)).unwrap_or(first);
            let old: Vec<NaiveDate> = days.range(..near).map(|(day, _)| *day).collect();
            let all =
                old.into_iter().chain(near.max(first).iter_days().take_while(|day| *day <= last));
            let row = |day: NaiveDate| SummaryRow {
                name: day.to_string(),
                figures: days.remove(&day).unwrap_or_default(),
            };
            summary.days = all.map(row).collect();
        }
        summary
    }
}

/// The server and the tool that an event is about.
fn server_and_tool(kind: &EventKind) -> (Option<&str>, Option<&str>) {
    match kind {
        EventKind::ResultOffloaded { server, tool, .. }
        | EventKind::ResultExtracted { server, tool, .. } => {
            (Some(server.as_deref().unwrap_or(NO_SERVER)), Some(tool))
        }
        EventKind::ToolsListed { server, .. } => (Some(server), None),
        EventKind::ExtractionFailed { .. } => (Some(FAILED_QUERIES), None),
        _ => (None, None),
    }
}

/// The name in a server's label `name:hash`, or the whole label if another server has the same name.
fn short_label<'a>(label: &'a str, labels: &[String]) -> &'a str {
    let Some((name, _)) = label.rsplit_once(':') else { return label };
    let same = labels
        .iter()
        .filter(|other| other.rsplit_once(':').is_some_and(|(other, _)| other == name));
    if same.count() == 1 { name } else { label }
}

fn sort_by_net_savings(rows: impl Iterator<Item = (String, Figures)>) -> Vec<SummaryRow> {
    let mut rows: Vec<SummaryRow> =
        rows.map(|(name, figures)| SummaryRow { name, figures }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.figures.net_tokens()));
    rows
}

/// Sums over events: all of them, or those of one server, tool or day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The number of stored results.
    pub results: u64,
    /// The total size of these results.
    pub bytes: u64,
    /// The tokens of these results.
    pub inline: Amount,
    /// g76: the part of them that clients would have passed to a model.
    pub visible_tokens: Amount,
    /// The number of results for a client whose limit is not known. They count whole.
    pub without_limit: u64,
    /// The tokens of the descriptors that replaced them.
    pub descriptors: Amount,
    /// The number of answered queries.
    pub replies: u64,
    /// The number of queries that failed and got an error instead.
    pub failures: u64,
    /// The tokens of answers and errors.
    pub reply_tokens: Amount,
    /// How often a client listed the tools.
    pub listings: u64,
    /// The tokens of the tool definitions in these listings.
    pub definitions: Amount,
    /// The number of records in the results.
    pub records: u64,
    /// The number of records, or parts of one, in answers.
    pub records_read: u64,
    /// The number of answers to people and programs, which take no context.
    pub to_programs: u64,
    /// The number of results passed by reference to another tool.
    pub passed: u64,
    /// The number of results that could not be stored.
    pub write_failures: u64,
    /// The latencies of storing.
    pub storing: Latencies,
    /// The latencies of answering.
    pub answering: Latencies,
}

impl Figures {
    /// Adds `event`. `counted` is the token count of its result, if it was counted later.
    pub(crate) fn add(&mut self, event: &Event, counted: Option<Estimate>) {
        match &event.kind {
            EventKind::ResultOffloaded {
                records,
                bytes,
                inline,
                client_limit,
                descriptor,
                took_us,
                ..
            } => {
                self.results += 1;
                self.bytes += bytes;
                self.records += records;
                let inline = counted.unwrap_or(*inline);
                self.inline += inline;
                self.visible_tokens +=
                    client_limit.map_or(inline, |limit| limit.apply(inline, *bytes));
                self.without_limit += u64::from(client_limit.is_none());
                self.descriptors += *descriptor;
                self.storing.add(*took_us);
            }
            // An agent runs `atlatl extract` in its shell: the answer is in its context.
            EventKind::ResultExtracted { reader: Reader::Program, server, .. }
                if !is_hook(server.as_deref()) =>
            {
                self.to_programs += 1;
            }
            EventKind::ResultExtracted { records_given, reply, took_us, .. } => {
                self.replies += 1;
                self.records_read += records_given;
                self.reply_tokens += *reply;
                self.answering.add(*took_us);
            }
            EventKind::ExtractionFailed { reply, .. } => {
                self.failures += 1;
                self.reply_tokens += *reply;
            }
            EventKind::ToolsListed { definitions, .. } => {
                self.listings += 1;
                self.definitions += *definitions;
            }
            EventKind::ResultPassed { .. } => self.passed += 1,
            EventKind::OffloadWriteFailed { .. } => self.write_failures += 1,
            _ => {}
        }
    }

    /// The tokens spent: descriptors, replies, definitions.
    pub fn costs(&self) -> Amount {
        let mut costs = self.descriptors;
        costs += self.reply_tokens;
        costs += self.definitions;
        costs
    }

    /// The tokens saved net of all costs; negative if offloading cost more than it saved. What a client
    /// would have cut is not saved.
    pub fn net_tokens(&self) -> i64 {
        self.visible_tokens.tokens().cast_signed() - self.costs().tokens().cast_signed()
    }

    /// The same if clients passed every result whole.
    pub fn net_tokens_of_whole_results(&self) -> i64 {
        self.inline.tokens().cast_signed() - self.costs().tokens().cast_signed()
    }

    /// The basis of [`net_tokens`](Self::net_tokens).
    pub fn net_basis(&self) -> Basis {
        let mut all = self.visible_tokens;
        all += self.costs();
        all.basis()
    }

    /// The net savings as a percentage of the tokens that clients would have passed to a model.
    pub fn saved_per_cent(&self) -> Option<f64> {
        ratio(self.net_tokens(), self.visible_tokens.tokens()).map(|share| share * 100.0)
    }

    /// k/n: the share of the records that were read. A record that was read twice counts twice.
    pub fn access_ratio(&self) -> Option<f64> {
        ratio(self.records_read.cast_signed(), self.records)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio is shown with three digits")]
fn ratio(part: i64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut figures = serializer.serialize_struct("Figures", 23)?;
        figures.serialize_field("results", &self.results)?;
        figures.serialize_field("bytes", &self.bytes)?;
        figures.serialize_field("inline", &self.inline)?;
        figures.serialize_field("visible_tokens", &self.visible_tokens)?;
        figures.serialize_field("without_limit", &self.without_limit)?;
        figures.serialize_field("descriptors", &self.descriptors)?;
        figures.serialize_field("replies", &self.reply_tokens)?;
        figures.serialize_field("definitions", &self.definitions)?;
        figures.serialize_field("net_tokens", &self.net_tokens())?;
        figures
            .serialize_field("net_tokens_of_whole_results", &self.net_tokens_of_whole_results())?;
        figures.serialize_field("net_basis", self.net_basis().as_str())?;
        figures.serialize_field("saved_per_cent", &self.saved_per_cent())?;
        figures.serialize_field("questions_answered", &self.replies)?;
        figures.serialize_field("questions_failed", &self.failures)?;
        figures.serialize_field("listings", &self.listings)?;
        figures.serialize_field("records", &self.records)?;
        figures.serialize_field("records_read", &self.records_read)?;
        figures.serialize_field("access_ratio", &self.access_ratio())?;
        figures.serialize_field("to_programs", &self.to_programs)?;
        figures.serialize_field("passed", &self.passed)?;
        figures.serialize_field("write_failures", &self.write_failures)?;
        figures.serialize_field("storing", &self.storing)?;
        figures.serialize_field("answering", &self.answering)?;
        figures.end()
    }
}

/// A number of tokens, with the part of it that is estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Amount {
    /// Tokens that were counted.
    pub measured: u64,
    /// Tokens that were estimated.
    pub estimated: u64,
}

/// Whether a figure is measured or estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "all, some or none of it was counted")]
pub enum Basis {
    /// All of it was counted.
    Measured,
    /// Some of it was counted.
    PartlyEstimated,
    /// None of it was counted.
    Estimated,
}

impl Amount {
    /// The sum of measured and estimated tokens.
    pub fn tokens(self) -> u64 {
        self.measured + self.estimated
    }

    /// The basis of the sum. Zero tokens count as measured.
    pub fn basis(self) -> Basis {
        match (self.measured, self.estimated) {
            (_, 0) => Basis::Measured,
            (0, _) => Basis::Estimated,
            _ => Basis::PartlyEstimated,
        }
    }
}

impl Basis {
    /// The name of the basis, as printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::PartlyEstimated => "partly estimated",
            Self::Estimated => "estimated",
        }
    }
}

impl AddAssign<Estimate> for Amount {
    fn add_assign(&mut self, more: Estimate) {
        if more.method == Method::Counted {
            self.measured += more.tokens.0;
        } else {
            self.estimated += more.tokens.0;
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.measured += more.measured;
        self.estimated += more.estimated;
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut amount = serializer.serialize_struct("Amount", 3)?;
        amount.serialize_field("tokens", &self.tokens())?;
        amount.serialize_field("basis", self.basis().as_str())?;
        amount.serialize_field("estimated", &self.estimated)?;
        amount.end()
    }
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn add(&mut self, microseconds: u64) {
        self.0.push(microseconds);
    }

    /// The percentile in milliseconds, by the nearest-rank method.
    pub fn percentile_ms(&self, per_cent: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * per_cent).div_ceil(100).max(1);
        #[expect(clippy::cast_precision_loss, reason = "2^52 microseconds are 142 years")]
        sorted.get(rank - 1).map(|us| *us as f64 / 1000.0)
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut times = serializer.serialize_struct("Times", 3)?;
        times.serialize_field("median_ms", &self.percentile_ms(50))?;
        times.serialize_field("p95_ms", &self.percentile_ms(95))?;
        times.serialize_field("most_ms", &self.percentile_ms(100))?;
        times.end()
    }
}

/// Returns whether results with this label of a server are output of an agent's tools.
fn is_hook(server: Option<&str>) -> bool {
    server.is_some_and(|server| server.starts_with(HOOK_LABEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_from_what_a_hook_stored_is_in_the_context_of_the_agent() {
        let mut figures = Figures::default();
        for server in ["hook claude-code", "files"] {
            let event = format!(
                r#"{{"id":"01M7NS2TYB46ZSPNAJ9WNXPXT9","time":"2026-11-17T22:12:18Z","source":"atlatl extract",
                "correlation":"lro:01M7NS2TN74DP8SD76K14W83E5","ref":"lro:01M7NS2TN74DP8SD76K14W83E5",
                "event":"ResultExtracted","tool":"Bash","server":"{server}","way":"sql","reader":"program",
                "given":2,"total":2,"records":20000,"records_given":2,
                "reply":{{"tokens":19,"method":"without_tokenizer"}},"took_us":33115}}"#
            );
            figures.add(&serde_json::from_str(&event).unwrap(), None);
        }
        assert_eq!((figures.replies, figures.records_read, figures.to_programs), (1, 2, 1));
        assert_eq!(figures.reply_tokens.tokens(), 19);
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut times = Latencies::default();
        assert_eq!(times.percentile_ms(50), None);
        for us in [5000, 1000, 2000, 4000, 3000] {
            times.add(us);
        }
        let at = |per_cent| times.percentile_ms(per_cent).map(|ms| format!("{ms:.3}"));
        let expected = ["1.000", "3.000", "5.000", "5.000"].map(|ms| Some(ms.to_owned()));
        assert_eq!([at(0), at(50), at(95), at(100)], expected);
    }

    #[test]
    fn a_label_is_short_where_it_says_enough() {
        let labels = ["files:abc", "files:def", "web:123", "atlatl"].map(str::to_owned);
        let short: Vec<&str> = labels.iter().map(|label| short_label(label, &labels)).collect();
        assert_eq!(short, ["files:abc", "files:def", "web", "atlatl"]);
    }
}
