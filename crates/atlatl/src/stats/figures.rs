//! Figures: what offloading came to, of everything or of one server, tool or day.

use lro::{Event, EventKind, Reader};
use lro_core::tokens::Estimate;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::stats::amount::{Amount, Basis};
use crate::stats::times::Times;

/// Sums over events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Results that were stored.
    pub results: u64,
    /// Their size.
    pub bytes: u64,
    /// The tokens they would have taken.
    pub inline: Amount,
    /// The tokens of the descriptors that took their place.
    pub descriptors: Amount,
    /// Questions that were answered.
    pub replies: u64,
    /// Questions that were not, and got a reason instead.
    pub failures: u64,
    /// The tokens of both.
    pub reply_tokens: Amount,
    /// How often a client was told of our tools.
    pub listings: u64,
    /// The tokens of that.
    pub definitions: Amount,
    /// Records in the results.
    pub records: u64,
    /// Answers that stand for a record or a part of one.
    pub records_read: u64,
    /// Parts that went to a person or a program: nobody's context.
    pub to_programs: u64,
    /// Results that went into a call of another tool without passing a model.
    pub passed: u64,
    /// Results that could not be stored.
    pub write_failures: u64,
    /// How long storing took.
    pub storing: Times,
    /// How long answering took.
    pub answering: Times,
}

impl Figures {
    /// Adds what `event` tells; `counted` is what its result was counted to be since.
    pub(crate) fn add(&mut self, event: &Event, counted: Option<Estimate>) {
        match &event.kind {
            EventKind::ResultOffloaded { records, bytes, inline, descriptor, took_us, .. } => {
                self.results += 1;
                self.bytes += bytes;
                self.records += records;
                self.inline += counted.unwrap_or(*inline);
                self.descriptors += *descriptor;
                self.storing.add(*took_us);
            }
            EventKind::ResultExtracted { reader: Reader::Program, .. } => self.to_programs += 1,
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

    /// What was spent: descriptors, replies, definitions.
    pub fn costs(&self) -> Amount {
        let mut costs = self.descriptors;
        costs += self.reply_tokens;
        costs += self.definitions;
        costs
    }

    /// What was saved after all costs; below zero where it cost more than it saved.
    pub fn net_tokens(&self) -> i64 {
        self.inline.tokens().cast_signed() - self.costs().tokens().cast_signed()
    }

    /// How certain that is.
    pub fn net_basis(&self) -> Basis {
        let mut all = self.inline;
        all += self.costs();
        all.basis()
    }

    /// The share of what would have been taken that was saved, in per cent.
    pub fn saved_per_cent(&self) -> Option<f64> {
        ratio(self.net_tokens(), self.inline.tokens()).map(|share| share * 100.0)
    }

    /// k/n: the share of the records that was read. A record that is read twice counts twice.
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
        let mut figures = serializer.serialize_struct("Figures", 20)?;
        figures.serialize_field("results", &self.results)?;
        figures.serialize_field("bytes", &self.bytes)?;
        figures.serialize_field("inline", &self.inline)?;
        figures.serialize_field("descriptors", &self.descriptors)?;
        figures.serialize_field("replies", &self.reply_tokens)?;
        figures.serialize_field("definitions", &self.definitions)?;
        figures.serialize_field("net_tokens", &self.net_tokens())?;
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
