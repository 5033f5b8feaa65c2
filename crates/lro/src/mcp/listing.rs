//! Rewrites `tools/list` for a server whose results may be replaced.

mod cost;
mod schema;

use lro_wire::Object;
use lro_wire::edit::Edits;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::cost::cost;
use self::schema::{widened_input, widened_output};
use crate::mcp::tools::Tools;

/// What is done to a listing.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Changes<'a> {
    /// Tools to append to the last page.
    pub own: &'a [Value],
    /// Whether a reference may be an argument.
    pub references: bool,
    /// Whether the names of the extraction tools are ours, so that a tool of the server with such a
    /// name is listed under another. Also where another server offers ours.
    pub reserved_names: bool,
}

impl<'a> Changes<'a> {
    /// Nothing but wider output schemas.
    pub fn none() -> Self {
        Self { own: &[], references: false, reserved_names: false }
    }

    /// Appends `own` to the last page.
    pub fn appending(mut self, own: &'a [Value]) -> Self {
        self.own = own;
        self
    }

    /// Lists tools of the server that have the name of an extraction tool under another name.
    pub fn reserving_names(mut self) -> Self {
        self.reserved_names = true;
        self
    }

    /// Lets a reference stand for a list or an object.
    pub fn with_references(mut self) -> Self {
        self.references = true;
        self
    }
}

/// A page of a listing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page {
    /// What the client gets; `None` for the page as it came.
    pub json: Option<String>,
    /// The server's tools on it, each with its input schema.
    pub tools: Vec<(String, Option<Box<RawValue>>)>,
    /// The server's tools on it that have the name of one of ours.
    pub renamed: Vec<Renamed>,
    /// Whether it is the last.
    pub last: bool,
}

/// A tool of the server that is listed under another name, since its own is that of one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Renamed {
    /// The name at the server.
    pub tool: String,
    /// The name in the listing.
    pub listed_as: String,
}

impl Renamed {
    /// Before the name of a tool that is listed under another.
    const PREFIX: &str = "server_";

    /// The name at the server of a tool that is listed as `name`; `None` where it is not renamed.
    pub fn original(name: &str) -> Option<&str> {
        name.strip_prefix(Self::PREFIX).filter(|tool| Self::is_reserved(tool))
    }

    /// Whether a tool of the server with that name is listed under another: the name of an extraction tool, or the
    /// name that such a tool is listed under.
    fn is_reserved(name: &str) -> bool {
        let mut name = name;
        while let Some(rest) = name.strip_prefix(Self::PREFIX) {
            name = rest;
        }
        Tools::is_name(name)
    }

    fn new(tool: &str) -> Self {
        Self { tool: tool.to_owned(), listed_as: format!("{}{tool}", Self::PREFIX) }
    }
}

/// The first words of the description of a renamed tool.
const RENAMED: &str = "Tool of the server, not Atlatl's tool of that name: ";

impl Page {
    /// Reads the `result` of `tools/list` and changes what has to be changed; `may_replace` says of
    /// which tools a result may be replaced. `None` where it is no listing.
    pub fn parse(
        result: &str,
        changes: Changes<'_>,
        may_replace: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let object = Object::read(result)?;
        let array = object.get("tools")?;
        let listed: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
        let mut edits = Edits::new(result);
        let (mut tools, mut renamed) = (Vec::new(), Vec::new());
        for json in listed {
            // What has no name cannot be called.
            let Some(tool) = Object::read(json.get()) else { continue };
            let Some(name) = tool.text("name") else { continue };
            if changes.reserved_names && Renamed::is_reserved(&name) {
                let one = Renamed::new(&name);
                if let Some(spelled) = tool.get("name") {
                    edits.replace(spelled.get(), Value::from(one.listed_as.as_str()).to_string());
                }
                let said = tool.text("description").unwrap_or_default();
                let said = Value::from(format!("{RENAMED}{said}")).to_string();
                match tool.get("description") {
                    Some(spelled) => edits.replace(spelled.get(), said),
                    None => edits.add_member(json.get(), "description", &said),
                }
                renamed.push(one);
            }
            let input = tool.get("inputSchema");
            // f10: the client checks what it gets against what was listed.
            if let Some(schema) = tool.get("outputSchema")
                && may_replace(&name)
                && let Some(wider) = widened_output(schema)
            {
                edits.replace(schema.get(), wider);
            }
            if changes.references
                && let Some(schema) = input
            {
                widened_input(schema, &mut edits);
            }
            tools.push((name.into_owned(), input.map(ToOwned::to_owned)));
        }
        // Clients take an empty cursor for the end, and one that is no string.
        let last = object.text("nextCursor").is_none_or(|cursor| cursor.is_empty());
        if last {
            for own in changes.own {
                edits.add_element(array.get(), &own.to_string());
            }
        }
        if !edits.is_empty()
            && let Some(scope) = object.get("cacheScope")
        {
            // What one person's proxy added is not for everyone's cache.
            edits.replace(scope.get(), r#""private""#);
        }
        let json = (!edits.is_empty()).then(|| edits.applied().into_owned());
        Some(Self { json, tools, renamed, last })
    }
}
