//! Recently stored results, so that an identical result is not stored again.
//!
//! A result is identical if the server, the tool, the arguments, the payload and the further texts are
//! the same. The candidates are in memory, per offloader; the contents are compared with what is stored.
//! So nothing is hashed, and a result that is gone, expired or changed is never returned.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use lro_core::payload::{self, Payload};
use lro_json::Lexemes;
use lro_spool::{
    PartRole, RestoreError, Spool, StoredForm, StoredResult, restore_payload, restore_text,
};

use crate::delivery::{Offloaded, ToolCall};

/// The most results that are remembered. Each takes a few kilobytes, most of it the descriptor.
const MAX_REMEMBERED: usize = 256;
/// The most stored results that one result is compared with.
const MAX_CANDIDATES: usize = 4;
/// Larger payloads are compared byte by byte only, and not without white space.
const MAX_COMPACTED_BYTES: u64 = 16 << 20;

/// The results that an offloader stored recently.
#[derive(Debug, Default)]
pub(crate) struct RecentResults(Mutex<VecDeque<Arc<RecentResult>>>);

#[derive(Debug)]
struct RecentResult {
    tool: String,
    server: Option<String>,
    arguments: String,
    bytes: u64,
    records: u64,
    descriptor: String,
    listed: lro_spool::ResultInfo,
}

/// A result that may be identical to a stored one.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) call: ToolCall<'a>,
    pub(crate) payload: &'a dyn Payload,
    /// Whether white space is content.
    pub(crate) exact: bool,
    /// All further texts, as they would be stored.
    pub(crate) texts: &'a [&'a str],
}

impl RecentResults {
    /// The stored result that is identical to `candidate`, with a descriptor that says since when, and
    /// the number of its records. `None` if less than half of its time to live is left.
    pub(crate) fn find(
        &self,
        candidate: Candidate<'_>,
        spool: &dyn Spool,
        now: DateTime<Utc>,
    ) -> Option<(Offloaded, u64)> {
        let candidates = self.candidates_for(candidate, now);
        candidates.iter().find_map(|recent| {
            // An open result cannot be deleted, so it is complete while it is compared.
            let Ok(stored) = spool.open(&recent.listed.id().into(), now) else {
                self.forget(recent);
                return None;
            };
            let same = is_identical(candidate, &*stored).unwrap_or(false);
            same.then(|| recent.reused(&*stored)).flatten()
        })
    }

    /// Remembers a stored result.
    pub(crate) fn insert(&self, candidate: Candidate<'_>, offloaded: &Offloaded, records: u64) {
        let Some(arguments) = arguments(&candidate.call) else { return };
        let recent = RecentResult {
            tool: candidate.call.tool.to_owned(),
            server: candidate.call.server.map(str::to_owned),
            arguments: arguments.to_owned(),
            bytes: candidate.payload.bytes(),
            records,
            descriptor: offloaded.descriptor.clone(),
            listed: offloaded.listed.clone(),
        };
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if results.len() == MAX_REMEMBERED {
            results.pop_front();
        }
        results.push_back(Arc::new(recent));
    }

    /// The latest results of the same call with the same size.
    fn candidates_for(
        &self,
        candidate: Candidate<'_>,
        now: DateTime<Utc>,
    ) -> Vec<Arc<RecentResult>> {
        let Some(arguments) = arguments(&candidate.call) else { return Vec::new() };
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may_be_same = |recent: &&Arc<RecentResult>| {
            recent.bytes == candidate.payload.bytes()
                && recent.tool == candidate.call.tool
                && recent.server.as_deref() == candidate.call.server
                && recent.arguments == arguments
                && recent.is_fresh(now)
        };
        results.iter().rev().filter(may_be_same).take(MAX_CANDIDATES).cloned().collect()
    }

    fn forget(&self, gone: &Arc<RecentResult>) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.retain(|recent| !Arc::ptr_eq(recent, gone));
    }
}

impl RecentResult {
    /// Whether at least half of its time to live is left.
    fn is_fresh(&self, now: DateTime<Utc>) -> bool {
        let sidecar = &self.listed.sidecar;
        let half = (sidecar.expires_at - sidecar.created_at) / 2;
        now >= sidecar.created_at && sidecar.expires_at - now >= half
    }

    /// The delivery of `stored`, which is this result, for another call.
    fn reused(&self, stored: &dyn StoredResult) -> Option<(Offloaded, u64)> {
        let since = self.listed.sidecar.created_at.to_rfc3339_opts(SecondsFormat::Secs, true);
        // Every descriptor of this crate begins so.
        let start = format!(r#"{{"lro":{{"ref":"{}","#, self.listed.id().reference());
        let rest = self.descriptor.strip_prefix(&start)?;
        let descriptor = format!(r#"{start}"unchanged_since":"{since}",{rest}"#);
        Some((Offloaded { descriptor, listed: stored.listed().clone() }, self.records))
    }
}

fn arguments<'a>(call: &ToolCall<'a>) -> Option<&'a str> {
    call.arguments.and_then(|arguments| arguments.json())
}

/// Whether `stored` has the payload and the further texts of `candidate`.
fn is_identical(candidate: Candidate<'_>, stored: &dyn StoredResult) -> Result<bool, RestoreError> {
    let sidecar = &stored.listed().sidecar;
    if sidecar.further_texts() != candidate.texts.len() {
        return Ok(false);
    }
    for (number, text) in (1..).zip(candidate.texts) {
        if !same(&text.as_bytes(), |out| restore_text(stored, number, out).map(drop))? {
            return Ok(false);
        }
    }
    if same(candidate.payload, |out| restore_payload(stored, out))? {
        return Ok(true);
    }
    // The white space between the records is not stored.
    let compact =
        matches!(sidecar.content, StoredForm::Array | StoredForm::Map | StoredForm::Lines)
            && sidecar.parts.iter().all(|part| part.role != PartRole::Original);
    match candidate.payload.whole() {
        Some(whole) if compact && !candidate.exact && whole.len() as u64 <= MAX_COMPACTED_BYTES => {
            let mut restored = Vec::new();
            restore_payload(stored, &mut restored)?;
            Ok(Lexemes(whole).eq(Lexemes(&restored)))
        }
        _ => Ok(false),
    }
}

/// Whether `write` writes exactly the bytes of `payload`.
fn same(
    payload: &dyn Payload,
    write: impl FnOnce(&mut dyn Write) -> Result<(), RestoreError>,
) -> Result<bool, RestoreError> {
    let comparison = Comparison { payload, at: 0, differs: false };
    // Each comparison reads the payload, which may be in a file.
    let mut writer = BufWriter::with_capacity(COMPARED_BYTES, comparison);
    let written = write(&mut writer);
    let flushed = writer.flush().is_ok();
    let (comparison, _) = writer.into_parts();
    if comparison.differs {
        return Ok(false);
    }
    written.map(|()| flushed && comparison.at == payload.bytes())
}

/// The bytes that are compared at a time.
const COMPARED_BYTES: usize = 64 * 1024;

/// A writer that compares with a payload, and fails at the first difference.
struct Comparison<'a> {
    payload: &'a dyn Payload,
    at: u64,
    differs: bool,
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.at + bytes.len() as u64;
        let expected = payload::part(self.payload, self.at..end).map_err(io::Error::other)?;
        if expected != bytes {
            self.differs = true;
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.at = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
