//! Summary: the figures of a ledger, in all and by server, tool and day.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Days, NaiveDate, Utc};
use lro::{Event, EventKind};
use lro_core::Reference;
use lro_core::tokens::Estimate;
use serde::Serialize;

use crate::stats::figures::Figures;

/// What costs tokens and belongs to no single server or tool.
const APART: &str = "(failed questions)";
/// A server that has no name: a result that was stored from the command line.
const UNNAMED: &str = "(no server)";

/// Days for which the empty ones are listed as well.
const SPAN: u64 = 400;

/// The figures of a ledger.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// When the first event was.
    pub from: Option<DateTime<Utc>>,
    /// When the last event was.
    pub to: Option<DateTime<Utc>>,
    /// Everything.
    pub all: Figures,
    /// By server, the greatest net saving first.
    pub servers: Vec<Row>,
    /// By tool, the greatest net saving first. What is not about a result of one is not in it.
    pub tools: Vec<Row>,
    /// By day in UTC, from the first to the last.
    pub days: Vec<Row>,
}

/// The figures of one server, tool or day.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// Which: text from outside, but for days.
    pub name: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Summary {
    /// Sums up `events`, in any order.
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Self {
        let events: Vec<Event> = events.into_iter().collect();
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
        let mut days = BTreeMap::<NaiveDate, Figures>::new();
        for event in &events {
            let counted = event.result.and_then(|result| counted.get(&result).copied());
            summary.from = summary.from.into_iter().chain([event.time]).min();
            summary.to = summary.to.max(Some(event.time));
            summary.all.add(event, counted);
            days.entry(event.time.date_naive()).or_default().add(event, counted);
            let (server, tool) = about(&event.kind);
            if let Some(server) = server {
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
        summary.tools = best_first(tools.into_iter().map(|((server, tool), of)| {
            let server = short(&server, &labels);
            (format!("{server} {tool}"), of)
        }));
        summary.servers = best_first(
            servers.into_iter().map(|(server, of)| (short(&server, &labels).to_owned(), of)),
        );
        let first = days.keys().next().copied();
        let last = days.keys().next_back().copied();
        if let (Some(first), Some(last)) = (first, last) {
            // Days on which nothing happened are seen as such, unless a clock was years off.
            let near = last.checked_sub_days(Days::new(SPAN)).unwrap_or(first);
            let old: Vec<NaiveDate> = days.range(..near).map(|(day, _)| *day).collect();
            let all =
                old.into_iter().chain(near.max(first).iter_days().take_while(|day| *day <= last));
            let row = |day: NaiveDate| Row {
                name: day.to_string(),
                figures: days.remove(&day).unwrap_or_default(),
            };
            summary.days = all.map(row).collect();
        }
        summary
    }
}

/// The server and the tool that an event is about.
fn about(kind: &EventKind) -> (Option<&str>, Option<&str>) {
    match kind {
        EventKind::ResultOffloaded { server, tool, .. }
        | EventKind::ResultExtracted { server, tool, .. } => {
            (Some(server.as_deref().unwrap_or(UNNAMED)), Some(tool))
        }
        EventKind::ToolsListed { server, .. } => (Some(server), None),
        EventKind::ExtractionFailed { .. } => (Some(APART), None),
        _ => (None, None),
    }
}

/// A server's label without what tells it from others of the same program, where there are none.
fn short<'a>(label: &'a str, labels: &[String]) -> &'a str {
    let Some((name, _)) = label.rsplit_once(':') else { return label };
    let same =
        labels.iter().filter(|other| other.rsplit_once(':').is_some_and(|(of, _)| of == name));
    if same.count() == 1 { name } else { label }
}

fn best_first(rows: impl Iterator<Item = (String, Figures)>) -> Vec<Row> {
    let mut rows: Vec<Row> = rows.map(|(name, figures)| Row { name, figures }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.figures.net_tokens()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_where_it_says_enough() {
        let labels = ["files:abc", "files:def", "web:123", "atlatl"].map(str::to_owned);
        let shown: Vec<&str> = labels.iter().map(|label| short(label, &labels)).collect();
        assert_eq!(shown, ["files:abc", "files:def", "web", "atlatl"]);
    }
}
