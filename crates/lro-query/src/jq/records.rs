//! Records: a filter over each record, chunks of them side by side.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use jaq_json::{Rc, Val};

use super::compile::{Compiled, Ready};
use super::{Query, parse, write};
use crate::answer::Failed;
use crate::source::Form;
use crate::worker::{Crew, Done, Emit, Fault, Flood, InOrder, Opened, Outcome, lines};

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

pub(super) fn answer(query: Query, source: &Opened, crew: &Crew, emit: &mut Emit) -> Outcome {
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
            parts.give(move || filter(&compiled, chunk, form, flood));
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

fn filter(
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
        if let Err(message) = record(&ready, &line, form, &mut flood, &mut part) {
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
fn record(
    ready: &Ready<'_>,
    line: &Bytes,
    form: Form,
    flood: &mut Flood,
    part: &mut Part,
) -> Result<(), String> {
    let input = parse::value(line).map_err(|error| error.to_string())?;
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
                if let Err(error) = write::value(&mut part.lines, &output) {
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
