//! Runs a filter over the array of all records.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use bytes::Bytes;
use jaq_json::{Rc, Val};

use super::compile::Compiled;
use super::{Query, parse, write};
use crate::answer::Failed;
use crate::worker::{Crew, Done, Emit, Fault, Opened, Outcome, lines};

/// What the filter's thread says.
enum Said {
    Value(Vec<u8>),
    End(Result<Ended, Fault>),
}

struct Ended {
    records: u64,
    failed: Option<String>,
}

pub(super) fn answer(query: Query, source: Arc<Opened>, crew: &Crew, emit: &mut Emit) -> Outcome {
    // The filter runs where the stack is deep, and waits when its outputs are not taken.
    let bytes = source.end.saturating_sub(source.begin);
    let (say, hear) = sync_channel(64);
    let running = crew.give(move || {
        let ended = run(&query, &source, &say);
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

fn run(query: &Query, source: &Opened, say: &SyncSender<Said>) -> Result<Ended, Fault> {
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
        let value = parse::value(&text.slice_ref(line))
            .map_err(|error| Fault::Runtime { message: error.to_string(), record: Some(number) })?;
        records.push(value);
    }
    let count = records.len() as u64;
    for output in ready.run(Val::Arr(Rc::new(records))) {
        let mut line = Vec::new();
        let written = output
            .and_then(|output| write::value(&mut line, &output).map_err(|error| error.to_string()));
        if let Err(message) = written {
            return Ok(Ended { records: count, failed: Some(message) });
        }
        if say.send(Said::Value(line)).is_err() {
            break;
        }
    }
    Ok(Ended { records: count, failed: None })
}
