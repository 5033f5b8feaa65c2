//! `atlatl memory show` and `atlatl memory forget`, which take an id or the beginning of one.

use atlatl_memory::{CaptureService, MemoryStore};
use mif::MemoryId;
use serde::Serialize;

use super::query;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{Mode, Output, counted};
use crate::settings::Settings;

/// Arguments of `atlatl memory show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Id of the memory
    #[arg(value_name = "ID")]
    id: String,
    /// Format: json, json-ld or markdown
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    form: Option<ShowFormat>,
}

/// The formats of a single memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ShowFormat {
    Json,
    JsonLd,
    Markdown,
}

/// Runs `atlatl memory show`.
pub(super) async fn show(
    args: &ShowArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let store = memory_config::open_required(settings).await?;
    let id = resolve_id(&args.id, &*store).await?;
    let memory = store.get(&id).await?.ok_or_else(|| unknown_id(&args.id))?;
    let form = args.form.or((output.mode() == Mode::Json).then_some(ShowFormat::Json));
    match form {
        Some(ShowFormat::Json) => output.lexemes(&memory.to_json())?,
        Some(ShowFormat::JsonLd) => output.lexemes(&memory.to_json_ld_value().to_string())?,
        Some(ShowFormat::Markdown) => output.foreign(memory.to_markdown().as_bytes())?,
        None => {
            output.facts(&query::memory_facts(&memory, memory_config::moment().now))?;
            output.text("\n")?;
            memory.content.lines().try_for_each(|line| output.line(line))?;
        }
    }
    Ok(Status::Success)
}

/// Arguments of `atlatl memory forget`.
#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    /// Ids of the memories
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// The result in JSON.
#[derive(Default, Serialize)]
struct ForgetReport {
    forgotten: Vec<String>,
    missing: Vec<String>,
}

/// Runs `atlatl memory forget`.
pub(super) async fn forget(
    args: &ForgetArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let store = memory_config::open_required(settings).await?;
    // Resolves all ids before the first deletion, so that a mistyped id deletes nothing.
    let mut ids: Vec<MemoryId> = Vec::with_capacity(args.ids.len());
    for text in &args.ids {
        ids.push(resolve_id(text, &*store).await?);
    }
    ids.sort();
    ids.dedup();
    if !args.yes {
        let question = match store.get_all(&ids).await?.as_slice() {
            [] => None,
            [one] => Some(format!("Delete \"{}\" permanently?", one.called())),
            more => Some(format!("Delete {} memories permanently?", more.len())),
        };
        match question.map(|question| output.confirmed(question)).transpose()? {
            None | Some(Some(true)) => {}
            Some(Some(false)) => return Err(Error::failure("nothing was deleted")),
            Some(None) => {
                let message = "cannot ask for confirmation: not a terminal";
                return Err(Error::usage(message).with_hint("use --yes to skip the confirmation"));
            }
        }
    }
    let capture = CaptureService::new(store);
    let mut result = ForgetReport::default();
    for id in ids {
        let existed = capture.delete(&id).await?;
        let list = if existed { &mut result.forgotten } else { &mut result.missing };
        list.push(id.to_string());
    }
    match output.mode() {
        Mode::Json => output.json(&result)?,
        Mode::Human => {
            let there = counted(result.forgotten.len() as u64, "memory", "memories");
            output.line(format_args!("forgot {there}"))?;
        }
    }
    for id in &result.missing {
        output.note(format_args!("{id} did not exist"));
    }
    Ok(if result.missing.is_empty() { Status::Success } else { Status::Failure })
}

/// The minimum number of digits in the prefix of an id.
const MIN_ID_DIGITS: usize = 8;
/// The maximum number of ids listed for an ambiguous prefix.
const MAX_CANDIDATES: usize = 5;
/// The hint of errors about ids.
const ID_HINT: &str = "atlatl memory list";

/// Resolves an id, or an unambiguous prefix of one.
pub(super) async fn resolve_id(text: &str, store: &dyn MemoryStore) -> Result<MemoryId, Error> {
    let text = text.trim();
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let (first, last) = prefix_range(text).ok_or_else(|| {
        let expected = format!("expected an id, or at least its first {MIN_ID_DIGITS} digits");
        Error::usage(format!("{text}: {expected}")).with_hint(ID_HINT)
    })?;
    let mut ids = store.ids(&first, &last, MAX_CANDIDATES + 1).await?;
    match &ids[..] {
        [] => Err(unknown_id(text)),
        [_] => Ok(ids.remove(0)),
        _ => {
            let more = if ids.len() > MAX_CANDIDATES { " and more" } else { "" };
            let ids: Vec<&str> = ids.iter().take(MAX_CANDIDATES).map(MemoryId::as_str).collect();
            Err(Error::failure(format!("{text} is ambiguous: {}{more}", ids.join(", ")))
                .with_hint("use more digits of the id"))
        }
    }
}

/// The error for an id without a memory.
pub(super) fn unknown_id(text: &str) -> Error {
    Error::failure(format!("{text}: memory not found")).with_hint(ID_HINT)
}

/// The first and last ids with this prefix; `None` if it is too short or not hexadecimal.
fn prefix_range(text: &str) -> Option<(MemoryId, MemoryId)> {
    let digits = text.strip_prefix("urn:mif:").unwrap_or(text);
    let enough = digits.bytes().filter(|byte| *byte != b'-').count() >= MIN_ID_DIGITS;
    MemoryId::beginning_with(digits).filter(|_| enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_range() {
        let (first, last) = prefix_range("018F4e2a-7").unwrap();
        assert_eq!(first.as_str(), "018f4e2a-7000-0000-0000-000000000000");
        assert_eq!(last.as_str(), "018f4e2a-7fff-ffff-ffff-ffffffffffff");
        for wrong in ["018f4e2", "018f4e2g0", "", "é8f4e2a0", "+18f4e2a0"] {
            assert!(prefix_range(wrong).is_none(), "{wrong}");
        }
    }
}
