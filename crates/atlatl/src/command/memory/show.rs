//! `atlatl memory show`.

use super::{render, resolve_id};
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output},
    settings::Settings,
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which memory
    #[arg(value_name = "ID")]
    id: String,
    /// json, json-ld or markdown, whoever reads it
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    form: Option<Form>,
}

/// The written forms of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Json,
    JsonLd,
    Markdown,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let store = memory_config::expected(settings)?;
    let id = resolve_id::id(&args.id, &*store)?;
    let memory = store.get(&id)?.ok_or_else(|| resolve_id::missing(&args.id))?;
    let form = args.form.or((output.mode() == Mode::Json).then_some(Form::Json));
    match form {
        Some(Form::Json) => output.lexemes(&memory.to_json())?,
        Some(Form::JsonLd) => output.lexemes(&memory.to_json_ld_value().to_string())?,
        Some(Form::Markdown) => output.foreign(memory.to_markdown().as_bytes())?,
        None => {
            output.facts(&render::facts(&memory, memory_config::moment().now))?;
            output.text("\n")?;
            memory.content.lines().try_for_each(|line| output.line(line))?;
        }
    }
    Ok(Status::Success)
}
