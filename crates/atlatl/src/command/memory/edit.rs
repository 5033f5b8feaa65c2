//! `atlatl memory edit`.

mod editor;

use atlatl_memory::CaptureService;
use mif::{Detail, Map, Memory, MemoryType, Namespace, Status as Life, Value};

use self::editor::Draft;
use super::{add::typed, fields::tags, render, resolve_id};
use crate::{
    error::{Error, Status, with_causes},
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
    /// What it is called from now on
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// What it says from now on; - is standard input
    #[arg(long, value_name = "TEXT")]
    content: Option<String>,
    /// Where it belongs from now on
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// A label, in place of all it has
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// semantic, episodic or procedural
    #[arg(long = "type", value_name = "TYPE")]
    memory_type: Option<MemoryType>,
    /// active, archived, superseded or deleted
    #[arg(long, value_name = "STATUS")]
    status: Option<Life>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let store = memory_config::expected(settings)?;
    let id = resolve_id::id(&args.id, &*store)?;
    let before = store.get(&id)?.ok_or_else(|| resolve_id::missing(&args.id))?;
    let mut fields = args.fields()?;
    let mut draft = None;
    if fields.is_empty() {
        let written = Draft::write(&before, settings.surroundings())?;
        // Only what was changed is written: what another process changes meanwhile stays.
        fields = match written.read().and_then(|edited| changes(&before, &edited)) {
            Ok(fields) => fields,
            Err(wrong) => return Err(written.kept(&wrong)),
        };
        draft = Some(written);
    }
    let now = memory_config::moment().now;
    let after = if fields.is_empty() {
        output.note("nothing was changed");
        before
    } else {
        let changed = CaptureService::new(store).update(&id, &fields, now);
        match (changed, draft) {
            (Ok(Some(after)), _) => after,
            (Ok(None), None) => return Err(resolve_id::missing(&args.id)),
            (Ok(None), Some(draft)) => return Err(draft.kept("the memory is gone meanwhile")),
            (Err(error), None) => return Err(error.into()),
            (Err(error), Some(draft)) => return Err(draft.kept(&with_causes(&error))),
        }
    };
    match output.mode() {
        Mode::Json => output.lexemes(&after.to_json())?,
        Mode::Human => output.facts(&render::facts(&after, now))?,
    }
    Ok(Status::Success)
}

impl Args {
    fn fields(&self) -> Result<Map, Error> {
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
                Some("-") => Some(typed()?.into()),
                content => content.map(Value::from),
            },
        );
        Ok(fields)
    }
}

/// The fields that differ, with `null` for those that are gone; or what may not differ.
fn changes(before: &Memory, after: &Memory) -> Result<Map, String> {
    if (after.id != before.id) || (after.created != before.created) {
        return Err("a memory keeps its id and its time of creation".to_owned());
    }
    let (before, after) = (before.at(Detail::Full), after.at(Detail::Full));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let mut changes: Map = gone.map(|name| (name.clone(), Value::Null)).collect();
    let differ = after.into_iter().filter(|(name, value)| before.get(name) != Some(value));
    changes.extend(differ);
    Ok(changes)
}
