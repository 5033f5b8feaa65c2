//! `atlatl config get` and `atlatl config set`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCompleter;
use serde_json::Value as Json;
use tempfile::NamedTempFile;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::command::complete;
use crate::error::{Error, Status};
use crate::output::{Mode, Output};
use crate::settings::{Settings, Sources, parse_assignment};

/// Arguments of `atlatl config get`.
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// Key, such as `proxy.threshold_tokens`
    #[arg(add = ArgValueCompleter::new(complete::keys))]
    key: String,
}

/// Prints the effective value of a key.
pub(super) fn get(args: &GetArgs, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::read(sources)?;
    let entry = settings.entries().iter().find(|entry| entry.full_name() == args.key);
    let entry = entry.ok_or_else(|| {
        Error::usage(format!("{}: no key has this name", args.key)).with_hint("atlatl config show")
    })?;
    let value = entry.key.redacted(&entry.value);
    match (output.mode(), value) {
        (Mode::Human, Json::String(text)) => output.line(text)?,
        (_, value) => output.json(&value)?,
    }
    Ok(Status::Success)
}

/// Arguments of `atlatl config set`.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// Key, such as `proxy.threshold_tokens`
    #[arg(add = ArgValueCompleter::new(complete::keys))]
    key: String,
    /// Value, as with --set
    #[arg(allow_hyphen_values = true)]
    value: String,
}

/// Sets a key in the user's configuration file. Comments and order stay.
pub(super) fn set(args: &SetArgs, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let assigned = parse_assignment(&args.key, &args.value)?;
    let path = sources.editable_file().ok_or_else(|| {
        Error::usage("no home directory for the configuration").with_hint("--config FILE")
    })?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failure(&path, "cannot read", &error)),
    };
    let mut document: DocumentMut = text.parse().map_err(|error| {
        Error::usage(format!("{}: {error}", path.display())).with_hint("atlatl config check")
    })?;
    let mut names: Vec<&str> = assigned.key.name.split('.').collect();
    names.extend(assigned.name.as_deref());
    let last = names.pop().unwrap_or_default();
    let table = table_at(document.as_table_mut(), &names).ok_or_else(|| {
        Error::usage(format!("{}: {} is not a table", path.display(), names.join(".")))
    })?;
    insert(table, last, toml_value(&assigned.value));
    let target = write_checked(&path, &document.to_string())?;
    output.note(format_args!("wrote {}", target.display()));
    // A stronger source may hide it.
    if let Ok(settings) = Settings::read(sources) {
        let name = assigned.full_name();
        let entry = settings.entries().iter().find(|entry| entry.full_name() == name);
        if let Some(entry) = entry.filter(|entry| entry.value != assigned.value) {
            output.note(format_args!("{name} is set by {}, which overrides it", entry.origin));
        }
    }
    Ok(Status::Success)
}

fn failure(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::failure(format!("{}: {what} the configuration: {error}", path.display()))
}

/// The table with this name, created if it is missing.
fn table_at<'a>(document: &'a mut Table, names: &[&str]) -> Option<&'a mut dyn TableLike> {
    let mut table: &mut dyn TableLike = document;
    let mut is_inline = false;
    for name in names {
        let item = table.entry(name).or_insert_with(|| {
            if is_inline {
                return Item::Value(InlineTable::new().into());
            }
            let mut new = Table::new();
            // Its header is written only if it has values.
            new.set_implicit(true);
            Item::Table(new)
        });
        is_inline = item.is_inline_table();
        table = item.as_table_like_mut()?;
    }
    Some(table)
}

/// Sets a value, and keeps the comment behind the former one.
fn insert(table: &mut dyn TableLike, name: &str, mut value: Value) {
    match table.get_mut(name) {
        Some(Item::Value(former)) => {
            *value.decor_mut() = former.decor().clone();
            *former = value;
        }
        _ => {
            table.insert(name, Item::Value(value));
        }
    }
}

fn toml_value(json: &Json) -> Value {
    match json {
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::from(number),
            None => Value::from(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(toml_value).collect::<Array>()),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.as_str(), toml_value(value)));
            Value::from(members.collect::<InlineTable>())
        }
        // No key has this value.
        Json::Null => Value::from(""),
    }
}

/// Replaces a file by `text` if that is a valid configuration. Returns the path behind symbolic links.
fn write_checked(path: &Path, text: &str) -> Result<PathBuf, Error> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = target.parent().unwrap_or(Path::new("."));
    let written = || -> std::io::Result<NamedTempFile> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // Only the user can read it: it may contain secrets.
        let mut file = NamedTempFile::new_in(directory)?;
        if let Ok(metadata) = fs::metadata(&target) {
            let mode = metadata.permissions().mode() & 0o777;
            file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let file = written().map_err(|error| failure(&target, "cannot write", &error))?;
    Settings::read(&Sources::only_file(file.path())).map_err(|problems| {
        // Not the name of the temporary file.
        let (temporary, shown) = (file.path().display().to_string(), target.display().to_string());
        let all: Vec<String> = problems
            .iter()
            .map(|problem| problem.to_string().replace(&temporary, &shown))
            .collect();
        Error::usage(all.join("; ")).with_hint("nothing was changed")
    })?;
    file.persist(&target).map_err(|error| failure(&target, "cannot write", &error.error))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edited(text: &str, names: &[&str], last: &str, value: &Json) -> String {
        let mut document: DocumentMut = text.parse().unwrap();
        let table = table_at(document.as_table_mut(), names).unwrap();
        insert(table, last, toml_value(value));
        document.to_string()
    }

    #[test]
    fn comments_and_order_stay() {
        let text = "# mine\n[proxy]\nttl_seconds = 60 # short\ntools = \"all\"\n";
        assert_eq!(
            edited(text, &["proxy"], "ttl_seconds", &json!(90)),
            "# mine\n[proxy]\nttl_seconds = 90 # short\ntools = \"all\"\n"
        );
        assert_eq!(
            edited(text, &["proxy"], "dir", &json!("/x")),
            "# mine\n[proxy]\nttl_seconds = 60 # short\ntools = \"all\"\ndir = \"/x\"\n"
        );
    }

    #[test]
    fn tables_are_created() {
        assert_eq!(
            edited("", &["prompt", "offload"], "enabled", &json!(false)),
            "[prompt.offload]\nenabled = false\n"
        );
        assert_eq!(
            edited("", &["proxy", "policy"], "list_*", &json!({"threshold_tokens": 5})),
            "[proxy.policy]\n\"list_*\" = { threshold_tokens = 5 }\n"
        );
        assert_eq!(
            edited("proxy = { tools = \"all\" } # mine\n", &["proxy"], "dir", &json!("/x")),
            "proxy = { tools = \"all\" , dir = \"/x\" } # mine\n"
        );
        assert_eq!(
            edited("prompt = {}\n", &["prompt", "offload"], "enabled", &json!(true)),
            "prompt = { offload = { enabled = true } }\n"
        );
        let mut document: DocumentMut = "proxy = 1".parse().unwrap();
        assert!(table_at(document.as_table_mut(), &["proxy"]).is_none());
    }
}
