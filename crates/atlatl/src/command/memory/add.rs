//! `atlatl memory add`.

use std::io::{self, IsTerminal as _, Read as _};

use atlatl_memory::CaptureService;
use mif::{MAX_CONTENT_BYTES, Map, MemoryType, Namespace, Value};

use super::fields::tags;
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Facts, Mode, Output},
    settings::Settings,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl memory add 'We deploy on Thursdays.' --tag release
  atlatl memory add --type procedural --title 'Rotate keys' < rotate.md
  atlatl memory add --json < fields.json";

/// The longest JSON object that is read: a content of the largest size, every sign of it escaped.
const MOST_JSON_BYTES: usize = 16 << 20;

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is to be remembered; - is standard input, the
    /// default in a pipe
    #[arg(value_name = "TEXT", verbatim_doc_comment)]
    content: Option<String>,
    /// semantic (the default), episodic or procedural
    #[arg(long = "type", value_name = "TYPE")]
    memory_type: Option<MemoryType>,
    /// What it is called [default: its first line]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Where it belongs [default: by its type]
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// A label, as often as there are labels
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Read all fields, as JSON, from standard input
    #[arg(
        long,
        conflicts_with_all = ["content", "memory_type", "title", "namespace", "tags"]
    )]
    json: bool,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let fields = if args.json { object()? } else { args.fields()? };
    let store = memory_config::open(settings)?;
    let memory = CaptureService::new(store).capture(fields, memory_config::moment())?;
    match output.mode() {
        Mode::Json => output.lexemes(&memory.to_json())?,
        Mode::Human => {
            let mut facts = Facts::default();
            facts.text("id", memory.id.as_str());
            facts.text("title", &memory.called());
            facts.text("namespace", memory.namespace.as_ref().map_or("", Namespace::as_str));
            output.facts(&facts)?;
        }
    }
    Ok(Status::Success)
}

impl Args {
    fn fields(&self) -> Result<Map, Error> {
        let content = match self.content.as_deref() {
            Some("-") => typed()?,
            Some(text) => text.to_owned(),
            None if io::stdin().is_terminal() => {
                return Err(Error::usage("nothing to remember")
                    .with_hint("atlatl memory add TEXT, or a text on standard input"));
            }
            None => typed()?,
        };
        let memory_type = self.memory_type.unwrap_or(MemoryType::Semantic);
        let mut fields = Map::new();
        fields.insert("memory_type".to_owned(), memory_type.as_str().into());
        fields.insert("content".to_owned(), content.into());
        if let Some(title) = &self.title {
            fields.insert("title".to_owned(), title.as_str().into());
        }
        if let Some(namespace) = &self.namespace {
            fields.insert("namespace".to_owned(), namespace.as_str().into());
        }
        if !self.tags.is_empty() {
            fields.insert("tags".to_owned(), tags(&self.tags));
        }
        Ok(fields)
    }
}

/// Standard input as a text, without the line break that ends it: as a shell's `$(…)` gives it.
pub(super) fn typed() -> Result<String, Error> {
    let text = input(MAX_CONTENT_BYTES + 2)?;
    let body = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
    Ok(body.unwrap_or(&text).to_owned())
}

fn object() -> Result<Map, Error> {
    let text = input(MOST_JSON_BYTES)?;
    match text.parse() {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::failure("standard input: expected a JSON object")),
        Err(error) => Err(Error::failure(format!("standard input: {error}"))),
    }
}

fn input(most: usize) -> Result<String, Error> {
    let failed = |why: String| Error::failure(format!("standard input: {why}"));
    let mut bytes = Vec::new();
    let mut stdin = io::stdin().take(most as u64 + 1);
    stdin.read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() > most {
        return Err(failed(format!("more than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| failed("it is not UTF-8".to_owned()))
}
