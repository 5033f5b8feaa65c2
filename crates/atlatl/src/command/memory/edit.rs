//! `atlatl memory add` and `atlatl memory edit`.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::Command;
use std::{fs, io};

use atlatl_memory::CaptureService;
use mif::{
    DetailLevel, MAX_CONTENT_BYTES, Map, Memory, MemoryType, Namespace, Status as MemoryStatus,
    Value,
};
use tempfile::NamedTempFile;

use super::{by_id, query};
use crate::error::{Error, Status, with_causes};
use crate::memory_config;
use crate::output::{Facts, Mode, Output};
use crate::settings::{Settings, Surroundings};

/// Examples for `atlatl memory add --help`.
pub(crate) const ADD_EXAMPLES: &str = "\
Examples:
  atlatl memory add 'We deploy on Thursdays.' --tag release
  atlatl memory add --type procedural --title 'Rotate keys' < rotate.md
  atlatl memory add --from-json < fields.json";

/// The maximum length of a JSON object: the longest content with every character escaped.
const MAX_JSON_BYTES: usize = 16 << 20;

/// Arguments of `atlatl memory add`.
#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// Content of the memory; - is standard input, the
    /// default in a pipe
    #[arg(value_name = "TEXT", verbatim_doc_comment)]
    content: Option<String>,
    /// Type: semantic (the default), episodic or procedural
    #[arg(long = "type", value_name = "TYPE")]
    memory_type: Option<MemoryType>,
    /// Title [default: the first line of the content]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Namespace [default: follows from the type]
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Tag; can be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Read all fields as JSON from standard input
    #[arg(
        long,
        conflicts_with_all = ["content", "memory_type", "title", "namespace", "tags"]
    )]
    from_json: bool,
}

/// Runs `atlatl memory add`.
pub(super) async fn add(
    args: &AddArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let fields = if args.from_json { read_stdin_object()? } else { args.to_fields(output.mode())? };
    let store = memory_config::open(settings).await?;
    let memory = CaptureService::new(store).capture(fields, memory_config::moment()).await?;
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

impl AddArgs {
    fn to_fields(&self, mode: Mode) -> Result<Map, Error> {
        let content = match self.content.as_deref() {
            Some("-") => read_stdin_text()?,
            Some(text) => text.to_owned(),
            None if io::stdin().is_terminal() => {
                return Err(Error::usage("the memory has no content")
                    .with_hint("atlatl memory add TEXT, or pass the text on standard input"));
            }
            None => read_stdin_text()?,
        };
        // 0.1.0 read the fields with --json: its scripts must not store their JSON as the content.
        if mode == Mode::Json
            && self.content.is_none()
            && serde_json::from_str::<serde_json::Value>(&content)
                .is_ok_and(|fields| fields.get("content").is_some())
        {
            return Err(Error::usage("--json selects the output and does not read the fields")
                .with_hint("atlatl memory add --from-json"));
        }
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

/// Arguments of `atlatl memory edit`.
#[derive(Debug, clap::Args)]
pub(crate) struct EditArgs {
    /// Id of the memory
    #[arg(value_name = "ID")]
    id: String,
    /// New title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// New content; - is standard input
    #[arg(long, value_name = "TEXT")]
    content: Option<String>,
    /// New namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// New tag, replaces all tags; can be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// New type: semantic, episodic or procedural
    #[arg(long = "type", value_name = "TYPE")]
    memory_type: Option<MemoryType>,
    /// New status: active, archived, superseded or deleted
    #[arg(long, value_name = "STATUS")]
    status: Option<MemoryStatus>,
}

/// Runs `atlatl memory edit`.
pub(super) async fn edit(
    args: &EditArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let store = memory_config::open_required(settings).await?;
    let id = by_id::resolve_id(&args.id, &*store).await?;
    let before = store.get(&id).await?.ok_or_else(|| by_id::unknown_id(&args.id))?;
    let mut fields = args.to_fields()?;
    let mut draft = None;
    if fields.is_empty() {
        let edited_draft = Draft::edit(&before, settings.surroundings())?;
        // Writes only the changed fields, so that concurrent changes of others are preserved.
        fields = match edited_draft.read().and_then(|edited| changed_fields(&before, &edited)) {
            Ok(fields) => fields,
            Err(error) => return Err(edited_draft.into_error(&error)),
        };
        draft = Some(edited_draft);
    }
    let now = memory_config::moment().now;
    let after = if fields.is_empty() {
        output.note("nothing was changed");
        before
    } else {
        let changed = CaptureService::new(store).update(&id, &fields, now).await;
        match (changed, draft) {
            (Ok(Some(after)), _) => after,
            (Ok(None), None) => return Err(by_id::unknown_id(&args.id)),
            (Ok(None), Some(draft)) => {
                return Err(draft.into_error("the memory was deleted in the meantime"));
            }
            (Err(error), None) => return Err(error.into()),
            (Err(error), Some(draft)) => return Err(draft.into_error(&with_causes(&error))),
        }
    };
    match output.mode() {
        Mode::Json => output.lexemes(&after.to_json())?,
        Mode::Human => output.facts(&query::memory_facts(&after, now))?,
    }
    Ok(Status::Success)
}

impl EditArgs {
    fn to_fields(&self) -> Result<Map, Error> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(name.to_owned(), value);
            }
        };
        put("title", self.title.as_deref().map(Value::from));
        put("namespace", self.namespace.as_ref().map(|namespace| namespace.as_str().into()));
        put("tags", (!self.tags.is_empty()).then(|| tags(&self.tags)));
        put("memory_type", self.memory_type.map(|kind| kind.as_str().into()));
        put("status", self.status.map(|status| status.as_str().into()));
        put(
            "content",
            match self.content.as_deref() {
                Some("-") => Some(read_stdin_text()?.into()),
                content => content.map(Value::from),
            },
        );
        Ok(fields)
    }
}

/// The changed fields, with `null` for removed ones; an error if the id or the creation time
/// differs.
fn changed_fields(before: &Memory, after: &Memory) -> Result<Map, String> {
    if (after.id != before.id) || (after.created != before.created) {
        return Err("the id and the creation time of a memory cannot be changed".to_owned());
    }
    let (before, after) = (before.at(DetailLevel::Full), after.at(DetailLevel::Full));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let mut changes: Map = gone.map(|name| (name.clone(), Value::Null)).collect();
    let differ = after.into_iter().filter(|(name, value)| before.get(name) != Some(value));
    changes.extend(differ);
    Ok(changes)
}

/// A memory as Markdown in a private temporary file, which is removed on drop.
struct Draft {
    file: NamedTempFile,
    /// The text before it was edited.
    text: String,
}

impl Draft {
    /// Writes the memory to a file and runs the editor on it.
    fn edit(memory: &Memory, surroundings: &Surroundings) -> Result<Self, Error> {
        let editor = surroundings.editor.as_deref().ok_or_else(|| {
            Error::usage("no editor: neither VISUAL nor EDITOR is set")
                .with_hint("use options: --title, --content, --tag, --status …")
        })?;
        let unwritable =
            |error| Error::failure(format!("cannot write the file for the editor: {error}"));
        let mut file = tempfile::Builder::new()
            .prefix("atlatl-")
            .suffix(".memory.md")
            .tempfile_in(&surroundings.temp_dir)
            .map_err(unwritable)?;
        let text = memory.to_markdown();
        file.write_all(text.as_bytes()).map_err(unwritable)?;
        file.flush().map_err(unwritable)?;
        let draft = Self { file, text };
        match run_editor(editor, draft.file.path().as_os_str()) {
            Ok(()) => Ok(draft),
            Err(why) => Err(draft.into_error(&why)),
        }
    }

    /// Parses the edited text.
    fn read(&self) -> Result<Memory, String> {
        // Opened by name: many editors replace the file.
        let text = fs::read_to_string(self.file.path()).map_err(|error| error.to_string())?;
        Memory::from_markdown(&text).map_err(|error| error.to_string())
    }

    /// Returns the error for `why`. If the text was changed, keeps the file and names it.
    fn into_error(self, why: &str) -> Error {
        let Self { file, text } = self;
        if fs::read(file.path()).is_ok_and(|now| now == text.as_bytes()) {
            return Error::failure(why);
        }
        let path = file.path().display().to_string();
        match file.keep() {
            Ok(_) => Error::failure(format!("{why}; your text is in {path}"))
                .with_hint(format!("fix it, then: atlatl memory import --replace {path}")),
            Err(error) => Error::failure(format!("{why}; your text is lost: {error}")),
        }
    }
}

/// Runs the editor and waits for it. No shell is involved: the command is split at white space into
/// the program and its arguments.
fn run_editor(editor: &OsStr, file: &OsStr) -> Result<(), String> {
    let mut words = editor
        .as_bytes()
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| OsString::from_vec(word.to_vec()));
    let program = words.next().unwrap_or_default();
    let name = program.display().to_string();
    let status = Command::new(program).args(words).arg(file).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} exited with {status}")),
        Err(error) => Err(format!("cannot run {name}: {error}")),
    }
}

/// Tags as a JSON array.
fn tags(tags: &[String]) -> Value {
    tags.iter().map(|tag| Value::from(tag.as_str())).collect()
}

/// Reads text from standard input, without the final line break, like `$(…)` of a shell.
fn read_stdin_text() -> Result<String, Error> {
    let text = read_stdin(MAX_CONTENT_BYTES + 2)?;
    let body = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
    Ok(body.unwrap_or(&text).to_owned())
}

/// Reads a JSON object from standard input.
fn read_stdin_object() -> Result<Map, Error> {
    let text = read_stdin(MAX_JSON_BYTES)?;
    match text.parse() {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::failure("standard input: expected a JSON object")),
        Err(error) => Err(Error::failure(format!("standard input: {error}"))),
    }
}

fn read_stdin(max_bytes: usize) -> Result<String, Error> {
    let failed = |why: String| Error::failure(format!("standard input: {why}"));
    let mut bytes = Vec::new();
    let mut stdin = io::stdin().take(max_bytes as u64 + 1);
    stdin.read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() > max_bytes {
        return Err(failed(format!("more than {max_bytes} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| failed("it is not UTF-8".to_owned()))
}
