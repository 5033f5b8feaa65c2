//! jq filters over records, executed by jaq in the worker.
//!
//! A filter sees one record at a time, or all records as one array. Parameters are variables:
//! `$namespace` for the parameter `namespace`, and `$params` for all of them. Functions of jaq are
//! available only if they are on an allowlist, so that a newer jaq adds none by unchanged. There is no
//! access to the environment, the clock, files, further inputs or modules.
//!
//! A record that a filter returns unchanged keeps its stored bytes. Other values are serialised;
//! numbers keep their spelling unless the filter computes with them.

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

use self::compile::{CompiledFilter, ThreadFilter};
use crate::engine::{
    Completion, CountBudget, EngineResult, Fault, OpenSource, OutputWriter, ThreadPool, lines,
};
use crate::query::{FailedRecords, InvalidParamName, ParamName, QueryParams, RecordLayout};

/// A filter with its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JqQuery {
    /// The filter.
    pub filter: String,
    /// The input of the filter.
    #[serde(rename = "over")]
    pub input: FilterInput,
    /// The variables.
    pub params: QueryParams,
}

/// The input of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterInput {
    /// Each record by itself.
    EachRecord,
    /// The array of all records.
    WholeSet,
}

impl JqQuery {
    /// Creates a query that applies a filter to each record.
    pub fn each(filter: impl Into<String>) -> Self {
        Self {
            filter: filter.into(),
            input: FilterInput::EachRecord,
            params: QueryParams::default(),
        }
    }

    /// Creates a query that applies a filter to the array of all records.
    pub fn whole(filter: impl Into<String>) -> Self {
        Self { input: FilterInput::WholeSet, ..Self::each(filter) }
    }

    /// Sets a variable.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Result<Self, InvalidParamName> {
        let name: ParamName = name.parse()?;
        self.params.insert(name, &value)?;
        Ok(self)
    }

    /// Sets all parameters.
    pub fn params(mut self, params: QueryParams) -> Self {
        self.params = params;
        self
    }
}

/// Runs a query in the worker.
pub(crate) fn answer(
    query: JqQuery,
    mut sources: Vec<OpenSource>,
    pool: &ThreadPool,
    output: &mut OutputWriter,
) -> EngineResult {
    let (Some(source), true) = (sources.pop(), sources.is_empty()) else {
        return Err(Fault::runtime("a filter reads one result"));
    };
    let (source, filter) = (Arc::new(source), query.filter.clone());
    let (mut completion, counted) = match query.input {
        FilterInput::EachRecord => answer_each(query, &source, pool, output),
        FilterInput::WholeSet => answer_whole(query, Arc::clone(&source), pool, output),
    }?;
    if counted && output.only_nulls() {
        completion.unknown_fields = unknown_fields::fields(filter, &source, pool);
    }
    Ok((completion, counted))
}

/// The output of one chunk.
#[derive(Default)]
struct ChunkOutput {
    /// One value per line.
    lines: Vec<u8>,
    records: u64,
    bytes: u64,
    failed: Option<FailedRecords>,
    /// The chunk exceeded the counting budget; later chunks do not count.
    over_budget: bool,
}

fn answer_each(
    query: JqQuery,
    source: &OpenSource,
    pool: &ThreadPool,
    output: &mut OutputWriter,
) -> EngineResult {
    // The compiler recurses, too, and the threads of the pool have deep stacks.
    let compiled = pool.submit(move || CompiledFilter::new(&query.filter, &query.params)).recv();
    let compiled = Arc::new(compiled.map_err(|_| Fault::Depth)??);
    let (layout, budget) = (source.layout, output.count_budget());
    let mut completion = Completion::default();
    let flow = pool.map_chunks(
        source,
        move |chunk| filter_chunk(&compiled, chunk, layout, budget),
        |part| collect(part?, &mut completion, output),
    )?;
    finish(completion, flow.is_continue(), output)
}

/// Turns a filter that failed on every record into an error.
fn finish(completion: Completion, counted: bool, output: &OutputWriter) -> EngineResult {
    match completion.failed {
        Some(failed) if output.values() == 0 && failed.records == completion.records_read => {
            Err(Fault::Runtime { message: failed.message, record: Some(failed.first) })
        }
        failed => Ok((Completion { failed, ..completion }, counted)),
    }
}

fn collect(
    part: ChunkOutput,
    completion: &mut Completion,
    output: &mut OutputWriter,
) -> Result<ControlFlow<()>, Fault> {
    if let Some(mut failed) = part.failed {
        failed.first += completion.records_read;
        match &mut completion.failed {
            Some(all) => all.records += failed.records,
            none => *none = Some(failed),
        }
    }
    completion.records_read += part.records;
    output.record_input(part.records, part.bytes);
    for line in lines(&part.lines, RecordLayout::Lines) {
        if output.write_value(line).map_err(|error| Fault::read_failed(&error))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(if part.over_budget { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

fn filter_chunk(
    compiled: &CompiledFilter,
    chunk: Vec<u8>,
    layout: RecordLayout,
    mut budget: CountBudget,
) -> Result<ChunkOutput, Fault> {
    if let Err(error) = std::str::from_utf8(&chunk) {
        return Err(Fault::runtime(format!("the records are not UTF-8: {error}")));
    }
    let filter = compiled.for_thread()?;
    let chunk = Bytes::from(chunk);
    let mut part = ChunkOutput { bytes: chunk.len() as u64, ..ChunkOutput::default() };
    for line in lines(&chunk, layout) {
        part.records += 1;
        budget.record_input(1, line.len() as u64);
        let line = chunk.slice_ref(line);
        if let Err(message) = filter_record(&filter, &line, layout, &mut budget, &mut part) {
            match &mut part.failed {
                Some(failed) => failed.records += 1,
                none => *none = Some(FailedRecords { records: 1, first: part.records, message }),
            }
        }
        if part.over_budget {
            break;
        }
    }
    Ok(part)
}

/// Appends the outputs for one record. As in jq, an error ends them, and earlier outputs count.
fn filter_record(
    filter: &ThreadFilter<'_>,
    line: &Bytes,
    layout: RecordLayout,
    budget: &mut CountBudget,
    part: &mut ChunkOutput,
) -> Result<(), String> {
    let input = json::parse(line).map_err(|error| error.to_string())?;
    // The weak reference identifies the unchanged record. It does not force a copy, and an update of
    // the record moves it to another address while the weak reference exists.
    let unchanged = match &input {
        Val::Obj(members) if layout == RecordLayout::Lines => Some(Rc::downgrade(members)),
        _ => None,
    };
    for output in filter.run(input) {
        let output = output?;
        let before = part.lines.len();
        match (&output, &unchanged) {
            (Val::Obj(members), Some(unchanged)) if Rc::as_ptr(members) == unchanged.as_ptr() => {
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
        if budget.spend(part.lines.len() - before) {
            part.over_budget = true;
            return Ok(());
        }
    }
    Ok(())
}

/// A message from the thread that runs a filter over all records.
enum FilterMessage {
    Value(Vec<u8>),
    End(Result<FilterSummary, Fault>),
}

struct FilterSummary {
    records: u64,
    failed: Option<String>,
}

fn answer_whole(
    query: JqQuery,
    source: Arc<OpenSource>,
    pool: &ThreadPool,
    output: &mut OutputWriter,
) -> EngineResult {
    // The filter runs in a thread with a deep stack, and blocks if its outputs are not received.
    let bytes = source.end.saturating_sub(source.begin);
    let (sender, receiver) = sync_channel(64);
    let task = pool.submit(move || {
        let summary = run_whole(&query, &source, &sender);
        // Sending fails if the receiver has counted enough.
        let _ = sender.send(FilterMessage::End(summary));
    });
    let mut completion = Completion::default();
    // The number of records is known only after the last value.
    output.record_input(0, bytes);
    for message in receiver {
        match message {
            FilterMessage::Value(line) => {
                if output.write_value(&line).map_err(|error| Fault::read_failed(&error))?.is_break()
                {
                    return Ok((completion, false));
                }
            }
            FilterMessage::End(summary) => {
                let summary = summary?;
                completion.records_read = summary.records;
                match summary.failed {
                    Some(message) if output.values() == 0 => {
                        return Err(Fault::Runtime { message, record: None });
                    }
                    failed => {
                        completion.failed =
                            failed.map(|message| FailedRecords { records: 1, first: 1, message });
                    }
                }
                return Ok((completion, true));
            }
        }
    }
    drop(task);
    Err(Fault::runtime("the filter ended without a result"))
}

fn run_whole(
    query: &JqQuery,
    source: &OpenSource,
    sender: &SyncSender<FilterMessage>,
) -> Result<FilterSummary, Fault> {
    let compiled = CompiledFilter::new(&query.filter, &query.params)?;
    let filter = compiled.for_thread()?;
    let text = source.whole().map_err(|error| Fault::read_failed(&error))?;
    if let Err(error) = std::str::from_utf8(&text) {
        return Err(Fault::runtime(format!("the records are not UTF-8: {error}")));
    }
    let text = Bytes::from(text);
    let mut records = Vec::new();
    for line in lines(&text, source.layout) {
        let number = records.len() as u64 + 1;
        let value = json::parse(&text.slice_ref(line))
            .map_err(|error| Fault::Runtime { message: error.to_string(), record: Some(number) })?;
        records.push(value);
    }
    let count = records.len() as u64;
    for output in filter.run(Val::Arr(Rc::new(records))) {
        let mut line = Vec::new();
        let written = output
            .and_then(|output| json::write(&mut line, &output).map_err(|error| error.to_string()));
        if let Err(message) = written {
            return Ok(FilterSummary { records: count, failed: Some(message) });
        }
        if sender.send(FilterMessage::Value(line)).is_err() {
            break;
        }
    }
    Ok(FilterSummary { records: count, failed: None })
}
