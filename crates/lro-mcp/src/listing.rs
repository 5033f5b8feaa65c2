//! Listing: `tools/list` as a client gets it from a server whose results may be replaced.

mod cost;
mod schema;

use lro_wire::Object;
use lro_wire::edit::Edits;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::cost::cost;
use self::schema::{widened_input, widened_output};

/// What is done to a listing.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Changes<'a> {
    /// Tools to append to the last page, unless the server has one of that name.
    pub own: &'a [Value],
    /// Whether a reference may be an argument.
    pub references: bool,
    /// Names of tools that earlier pages listed.
    pub earlier: &'a [String],
}

impl<'a> Changes<'a> {
    /// Nothing but wider output schemas.
    pub fn none() -> Self {
        Self { own: &[], references: false, earlier: &[] }
    }

    /// Appends `own` to the last page; `earlier` are the names of the pages before.
    pub fn appending(mut self, own: &'a [Value], earlier: &'a [String]) -> Self {
        (self.own, self.earlier) = (own, earlier);
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
    /// Whether it is the last.
    pub last: bool,
}

impl Page {
    /// Reads the `result` of `tools/list` and changes what has to be changed; `may_replace` says of
    /// which tools a result may be replaced. `None` where it is no listing.
    pub fn of(
        result: &str,
        changes: Changes<'_>,
        may_replace: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let object = Object::read(result)?;
        let array = object.get("tools")?;
        let listed: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
        let mut edits = Edits::of(result);
        let mut tools = Vec::new();
        for tool in listed {
            // What has no name cannot be called.
            let Some(tool) = Object::read(tool.get()) else { continue };
            let Some(name) = tool.text("name") else { continue };
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
        let last = object.get("nextCursor").is_none_or(|cursor| cursor.get() == "null");
        if last {
            for own in changes.own {
                let taken = |name: &String| Some(name.as_str()) == own["name"].as_str();
                if !tools.iter().any(|(name, _)| taken(name)) && !changes.earlier.iter().any(taken)
                {
                    edits.add_element(array.get(), &own.to_string());
                }
            }
        }
        if !edits.is_empty()
            && let Some(scope) = object.get("cacheScope")
        {
            // What one person's proxy added is not for everyone's cache.
            edits.replace(scope.get(), r#""private""#);
        }
        let json = (!edits.is_empty()).then(|| edits.applied().into_owned());
        Some(Self { json, tools, last })
    }
}
