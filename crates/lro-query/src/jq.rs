//! jq: filters over records, by jaq, in the worker.
//!
//! A filter sees one record at a time, or all of them as one array. Parameters are variables:
//! `$namespace` for the parameter `namespace`, and `$params` for all of them. What jaq offers is
//! taken by name from a list, so that a newer jaq brings nothing in by itself; there is no
//! environment, no clock, no file, no further input, no module.
//!
//! A record that a filter lets through unchanged comes out as the bytes it was stored as. Other
//! values are written anew; numbers keep their spelling unless the filter computes with them.

mod allowlist;
mod compile;
mod json;
mod natives;
mod terms;
mod unknown_fields;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use bytes::Bytes;
use jaq_json::{Rc, Val};
use serde::{Deserialize, Serialize};

use self::compile::{Compiled, Ready};
use super::query::{Failed, Form, NotAName, ParamName, Params};
use super::worker::{Crew, Done, Emit, Fault, Flood, InOrder, OpenSource, Outcome, lines};

/// A filter with its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Query {
    /// The filter.
    pub filter: String,
    /// What it is applied to.
    pub over: Over,
    /// Its variables.
    pub params: Params,
}

/// What a filter is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Each record by itself.
    EachRecord,
    /// The array of all records.
    WholeSet,
}

impl Query {
    /// A filter over each record.
    pub fn each(filter: impl Into<String>) -> Self {
        Self { filter: filter.into(), over: Over::EachRecord, params: Params::default() }
    }

    /// A filter over the array of all records.
    pub fn whole(filter: impl Into<String>) -> Self {
        Self { over: Over::WholeSet, ..Self::each(filter) }
    }

    /// Gives a variable its value.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Result<Self, NotAName> {
        let name: ParamName = name.parse()?;
        self.params.insert(name, &value)?;
        Ok(self)
    }

    /// Has these parameters.
    pub fn params(mut self, params: Params) -> Self {
        self.params = params;
        self
    }
}

/// Answers in the worker.
pub(crate) fn answer(
    query: Query,
    mut sources: Vec<OpenSource>,
    crew: &Crew,
    emit: &mut Emit,
) -> Outcome {
    let (Some(source), true) = (sources.pop(), sources.is_empty()) else {
        return Err(Fault::runtime("a filter reads one result"));
    };
    let (source, filter) = (Arc::new(source), query.filter.clone());
    let (mut done, counted) = match query.over {
        Over::EachRecord => answer_each(query, &source, crew, emit),
        Over::WholeSet => answer_whole(query, Arc::clone(&source), crew, emit),
    }?;
    if counted && emit.says_nothing() {
        done.unknown_fields = unknown_fields::fields(filter, &source, crew);
    }
    Ok((done, counted))
}

// --- Records: a filter over each record, chunks of them side by side.

/// What one chunk gave.
#[derive(Default)]
struct Part {
    /// One value per line.
    lines: Vec<u8>,
    records: u64,
    bytes: u64,
    failed: Option<Failed>,
    /// The chunk gave more than anyone will read: nothing behind it counts.
    flooded: bool,
}

pub(super) fn answer_each(
    query: Query,
    source: &OpenSource,
    crew: &Crew,
    emit: &mut Emit,
) -> Outcome {
    // Filters recurse while they are compiled as well: a thread of the crew has the deeper stack.
    let compiled = crew.give(move || Compiled::new(&query.filter, &query.params)).recv();
    let compiled = Arc::new(compiled.map_err(|_| Fault::Depth)??);
    let (form, flood) = (source.form, emit.flood());
    let mut parts = InOrder::new(crew);
    let mut chunks = source.chunks();
    let mut done = Done::default();
    loop {
        while !parts.is_full()
            && let Some(chunk) = chunks.next()
        {
            let chunk = chunk.map_err(|error| Fault::reading(&error))?;
            let compiled = Arc::clone(&compiled);
            parts.give(move || filter_chunk(&compiled, chunk, form, flood));
        }
        let Some(part) = parts.take() else { break };
        if collect(part?, &mut done, emit)?.is_break() {
            return finished(done, false, emit);
        }
    }
    finished(done, true, emit)
}

/// A filter that failed on everything it saw has no answer.
fn finished(done: Done, counted: bool, emit: &Emit) -> Outcome {
    match done.failed {
        Some(failed) if emit.seen() == 0 && failed.records == done.records_read => {
            Err(Fault::Runtime { message: failed.message, record: Some(failed.first) })
        }
        failed => Ok((Done { failed, ..done }, counted)),
    }
}

fn collect(part: Part, done: &mut Done, emit: &mut Emit) -> Result<ControlFlow<()>, Fault> {
    if let Some(mut failed) = part.failed {
        failed.first += done.records_read;
        match &mut done.failed {
            Some(all) => all.records += failed.records,
            none => *none = Some(failed),
        }
    }
    done.records_read += part.records;
    emit.read(part.records, part.bytes);
    for line in lines(&part.lines, Form::Lines) {
        if emit.value(line).map_err(|error| Fault::reading(&error))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(if part.flooded { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

fn filter_chunk(
    compiled: &Compiled,
    chunk: Vec<u8>,
    form: Form,
    mut flood: Flood,
) -> Result<Part, Fault> {
    if let Err(error) = std::str::from_utf8(&chunk) {
        return Err(Fault::runtime(format!("the records are not UTF-8: {error}")));
    }
    let ready = compiled.ready()?;
    let chunk = Bytes::from(chunk);
    let mut part = Part { bytes: chunk.len() as u64, ..Part::default() };
    for line in lines(&chunk, form) {
        part.records += 1;
        flood.read(1, line.len() as u64);
        let line = chunk.slice_ref(line);
        if let Err(message) = filter_record(&ready, &line, form, &mut flood, &mut part) {
            match &mut part.failed {
                Some(failed) => failed.records += 1,
                none => *none = Some(Failed { records: 1, first: part.records, message }),
            }
        }
        if part.flooded {
            break;
        }
    }
    Ok(part)
}

/// The outputs of one record. A failure ends them, as in jq; those before it count.
fn filter_record(
    ready: &Ready<'_>,
    line: &Bytes,
    form: Form,
    flood: &mut Flood,
    part: &mut Part,
) -> Result<(), String> {
    let input = json::parse(line).map_err(|error| error.to_string())?;
    // A weak reference tells the record from a copy and is no reason to make one: what changes it
    // while this exists moves it elsewhere.
    let itself = match &input {
        Val::Obj(members) if form == Form::Lines => Some(Rc::downgrade(members)),
        _ => None,
    };
    for output in ready.run(input) {
        let output = output?;
        let before = part.lines.len();
        match (&output, &itself) {
            (Val::Obj(members), Some(itself)) if Rc::as_ptr(members) == itself.as_ptr() => {
                part.lines.extend_from_slice(line.trim_ascii());
            }
            _ => {
                if let Err(error) = json::write(&mut part.lines, &output) {
                    part.lines.truncate(before);
                    return Err(error.to_string());
                }
            }
        }
        part.lines.push(b'\n');
        if flood.rises(part.lines.len() - before) {
            part.flooded = true;
            return Ok(());
        }
    }
    Ok(())
}

// --- Runs a filter over the array of all records.

/// What the filter's thread says.
enum Said {
    Value(Vec<u8>),
    End(Result<Ended, Fault>),
}

struct Ended {
    records: u64,
    failed: Option<String>,
}

pub(super) fn answer_whole(
    query: Query,
    source: Arc<OpenSource>,
    crew: &Crew,
    emit: &mut Emit,
) -> Outcome {
    // The filter runs where the stack is deep, and waits when its outputs are not taken.
    let bytes = source.end.saturating_sub(source.begin);
    let (say, hear) = sync_channel(64);
    let running = crew.give(move || {
        let ended = run_whole(&query, &source, &say);
        // Nobody listens any more: enough was counted.
        let _ = say.send(Said::End(ended));
    });
    let mut done = Done::default();
    // How many records there are is known only behind the last value.
    emit.read(0, bytes);
    for said in hear {
        match said {
            Said::Value(line) => {
                if emit.value(&line).map_err(|error| Fault::reading(&error))?.is_break() {
                    return Ok((done, false));
                }
            }
            Said::End(ended) => {
                let ended = ended?;
                done.records_read = ended.records;
                match ended.failed {
                    Some(message) if emit.seen() == 0 => {
                        return Err(Fault::Runtime { message, record: None });
                    }
                    failed => {
                        done.failed =
                            failed.map(|message| Failed { records: 1, first: 1, message });
                    }
                }
                return Ok((done, true));
            }
        }
    }
    drop(running);
    Err(Fault::runtime("the filter ended without an answer"))
}

fn run_whole(query: &Query, source: &OpenSource, say: &SyncSender<Said>) -> Result<Ended, Fault> {
    let compiled = Compiled::new(&query.filter, &query.params)?;
    let ready = compiled.ready()?;
    let text = source.whole().map_err(|error| Fault::reading(&error))?;
    if let Err(error) = std::str::from_utf8(&text) {
        return Err(Fault::runtime(format!("the records are not UTF-8: {error}")));
    }
    let text = Bytes::from(text);
    let mut records = Vec::new();
    for line in lines(&text, source.form) {
        let number = records.len() as u64 + 1;
        let value = json::parse(&text.slice_ref(line))
            .map_err(|error| Fault::Runtime { message: error.to_string(), record: Some(number) })?;
        records.push(value);
    }
    let count = records.len() as u64;
    for output in ready.run(Val::Arr(Rc::new(records))) {
        let mut line = Vec::new();
        let written = output
            .and_then(|output| json::write(&mut line, &output).map_err(|error| error.to_string()));
        if let Err(message) = written {
            return Ok(Ended { records: count, failed: Some(message) });
        }
        if say.send(Said::Value(line)).is_err() {
            break;
        }
    }
    Ok(Ended { records: count, failed: None })
}
