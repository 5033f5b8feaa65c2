//! Fields: what flags say of a memory, to make one or to choose some.

use std::str::FromStr;

use atlatl_memory::Filter;
use chrono::{DateTime, NaiveDate, Utc};
use mif::{MemoryType, Namespace, Status, Value};

/// Which memories are meant.
#[derive(Debug, clap::Args)]
pub(super) struct Chosen {
    /// In this namespace or below it
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// semantic, episodic or procedural
    #[arg(long = "type", value_name = "TYPE")]
    memory_type: Option<MemoryType>,
    /// With this tag; given twice, with both
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Made at this time or later, such as 2026-01-31
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<DateTime<Utc>>,
    /// Made before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<DateTime<Utc>>,
    /// At least as sure, from 0 to 1
    #[arg(long, value_name = "N", value_parser = unit)]
    min_confidence: Option<f64>,
    /// active, archived, superseded, deleted or any
    #[arg(long, value_name = "STATUS")]
    status: Option<Life>,
}

impl Chosen {
    /// The filter; `status` where none was asked for.
    pub(super) fn filter(&self, status: Option<Status>) -> Filter {
        let mut filter = Filter::default();
        filter.namespace.clone_from(&self.namespace);
        filter.memory_type = self.memory_type;
        filter.tags.clone_from(&self.tags);
        filter.since = self.since;
        filter.until = self.until;
        filter.min_confidence = self.min_confidence;
        filter.status = self.status.map_or(status, |Life(status)| status);
        filter
    }
}

/// A part of a memory's life, or nothing for any.
#[derive(Debug, Clone, Copy)]
struct Life(Option<Status>);

impl FromStr for Life {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "any" {
            return Ok(Self(None));
        }
        let status = text.parse();
        status
            .map(|status| Self(Some(status)))
            .map_err(|_| "expected active, archived, superseded, deleted or any")
    }
}

/// A day begins at midnight, UTC.
fn time(text: &str) -> Result<DateTime<Utc>, &'static str> {
    let day = || Some(text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?.and_utc());
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.to_utc())
        .or_else(day)
        .ok_or("expected a day such as 2026-01-31 or a time such as 2026-01-31T08:00:00Z")
}

fn unit(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or("expected a number from 0 to 1")
}

/// Tags as a memory has them.
pub(super) fn tags(tags: &[String]) -> Value {
    tags.iter().map(|tag| Value::from(tag.as_str())).collect()
}
