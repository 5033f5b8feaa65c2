//! `atlatl memory repair`: the index in step with the memories.

use serde_json::json;

use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output},
    settings::Settings,
};

pub(super) fn run(settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let repaired = memory_config::expected(settings)?.repair()?;
    let (missing, orphaned) = (repaired.missing, repaired.orphaned);
    match output.mode() {
        Mode::Json => output.json(&json!({"missing": missing, "orphaned": orphaned}))?,
        Mode::Human => {
            output.line(format!("put in what was missing: {missing}; took out: {orphaned}"))?;
        }
    }
    Ok(Status::Success)
}
