//! Rewrites `tools/list` for a server whose results may be replaced, and counts its tokens.
//!
//! Output schemas are widened to allow descriptors, input schemas to allow references.

use std::borrow::Cow;

use lro_core::Tokenizer;
use lro_core::tokens::{Estimate, Method, count_all};
use lro_wire::Object;
use lro_wire::edit::Edits;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::lookalike::NOTICE_MEMBER;
use super::tools::{OWN_PAGES, Tools};

/// The changes to a listing.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ListingOptions<'a> {
    /// The tools to append to the last page.
    pub own: &'a [Value],
    /// Whether arguments may be references.
    pub references: bool,
    /// Whether the names of the extraction tools are reserved, so that a server's tool with such a name
    /// is listed under another one. Also if another server offers the extraction tools.
    pub reserved_names: bool,
}

impl<'a> ListingOptions<'a> {
    /// Only widens output schemas.
    pub fn none() -> Self {
        Self { own: &[], references: false, reserved_names: false }
    }

    /// Appends `own` to the last page.
    pub fn appending(mut self, own: &'a [Value]) -> Self {
        self.own = own;
        self
    }

    /// Reserves the names of the extraction tools: server's tools with these names are renamed.
    pub fn reserving_names(mut self) -> Self {
        self.reserved_names = true;
        self
    }

    /// Allows references for lists and objects in arguments.
    pub fn with_references(mut self) -> Self {
        self.references = true;
        self
    }
}

/// A page of a `tools/list` response.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolsPage {
    /// The changed page; `None` if it is unchanged.
    pub json: Option<String>,
    /// The server's tools on the page, each with its input schema.
    pub tools: Vec<(String, Option<Box<RawValue>>)>,
    /// The names of those that only the server's pages call (MCP Apps).
    pub for_pages: Vec<String>,
    /// The renamed tools on the page.
    pub renamed: Vec<RenamedTool>,
    /// Whether it is the last page.
    pub last: bool,
}

/// A server's tool that is listed under another name, because its own is the name of an extraction
/// tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenamedTool {
    /// The name at the server.
    pub tool: String,
    /// The name in the listing.
    pub listed_as: String,
}

impl RenamedTool {
    /// The prefix of the new name.
    const PREFIX: &str = "server_";

    /// The server's name of a tool that is listed as `name`; `None` if it is not renamed.
    pub fn original(name: &str) -> Option<&str> {
        name.strip_prefix(Self::PREFIX).filter(|tool| Self::is_reserved(tool))
    }

    /// Whether a server's tool with that name is renamed: the name of an extraction tool, or the new
    /// name of a renamed tool.
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

/// The beginning of the description of a renamed tool.
const RENAMED_PREFIX: &str = "Tool of the server, not Atlatl's tool of that name: ";

impl ToolsPage {
    /// Parses and changes the `result` of `tools/list`; `may_replace` tells whether results of a tool
    /// may be replaced. `None` if it is not a listing.
    pub fn parse(
        result: &str,
        options: ListingOptions<'_>,
        may_replace: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let object = Object::read(result)?;
        let array = object.get("tools")?;
        let listed: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
        let mut edits = Edits::new(result);
        let (mut tools, mut for_pages, mut renamed) = (Vec::new(), Vec::new(), Vec::new());
        for json in listed {
            // A tool without a name cannot be called.
            let Some(tool) = Object::read(json.get()) else { continue };
            let Some(name) = tool.text("name") else { continue };
            if options.reserved_names && RenamedTool::is_reserved(&name) {
                let one = RenamedTool::new(&name);
                if let Some(spelled) = tool.get("name") {
                    edits.replace(spelled.get(), Value::from(one.listed_as.as_str()).to_string());
                }
                let description = tool.text("description").unwrap_or_default();
                let description = Value::from(format!("{RENAMED_PREFIX}{description}")).to_string();
                match tool.get("description") {
                    Some(spelled) => edits.replace(spelled.get(), description),
                    None => edits.add_member(json.get(), "description", &description),
                }
                renamed.push(one);
            }
            if let Some(meta) = tool.get("_meta").filter(|_| has_own_page(&tool)) {
                // The client would show our page with what the server says.
                edits.replace(meta.get(), "{}".to_owned());
            } else if is_for_pages_only(&tool) {
                for_pages.push(name.clone().into_owned());
            }
            let input = tool.get("inputSchema");
            // f10: clients validate results against the listed schema.
            if let Some(schema) = tool.get("outputSchema")
                && may_replace(&name)
                && let Some(wider) = widened_output(schema)
            {
                edits.replace(schema.get(), wider);
            }
            if options.references
                && let Some(schema) = input
            {
                widened_input(schema, &mut edits);
            }
            tools.push((name.into_owned(), input.map(ToOwned::to_owned)));
        }
        // Clients treat an empty cursor, or one that is not a string, as the end.
        let last = object.text("nextCursor").is_none_or(|cursor| cursor.is_empty());
        if last {
            for own in options.own {
                edits.add_element(array.get(), &own.to_string());
            }
        }
        if !edits.is_empty()
            && let Some(scope) = object.get("cacheScope")
        {
            // The changes of one user's proxy must not be cached for others.
            edits.replace(scope.get(), r#""private""#);
        }
        let json = (!edits.is_empty()).then(|| edits.applied().into_owned());
        Some(Self { json, tools, for_pages, renamed, last })
    }
}

/// The tokens of all names, descriptions and input schemas on a page, which clients pass to the model.
/// Output schemas and annotations stay with the client, and so do tools that only a page calls.
pub(crate) fn cost(listing: &str, tokenizer: &dyn Tokenizer) -> Estimate {
    let mut all = Estimate { tokens: lro_core::Tokens(0), method: Method::Counted };
    let tools = Object::read(listing)
        .and_then(|object| serde_json::from_str::<Vec<&RawValue>>(object.get("tools")?.get()).ok());
    let mut add = |text: &str| {
        let more = count_all(text, tokenizer);
        all.tokens.0 += more.tokens.0;
        if more.method != Method::Counted {
            all.method = more.method;
        }
    };
    for tool in tools.unwrap_or_default() {
        let Some(tool) = Object::read(tool.get()) else { continue };
        if is_for_pages_only(&tool) {
            continue;
        }
        for text in [tool.text("name"), tool.text("description")].into_iter().flatten() {
            add(&text);
        }
        if let Some(schema) = tool.get("inputSchema") {
            add(schema.get());
        }
    }
    all
}

/// Whether a server's tool names one of our pages as its own.
fn has_own_page(tool: &Object<'_>) -> bool {
    let names_one = |object: Option<Object<'_>>, member: &str| {
        let uri = object.and_then(|object| object.text(member).map(Cow::into_owned));
        uri.is_some_and(|uri| uri.starts_with(OWN_PAGES))
    };
    names_one(tool.clone().at(&["_meta", "ui"]), "resourceUri")
        || names_one(tool.clone().at(&["_meta"]), "ui/resourceUri")
}

/// Whether a client hides the tool from the model.
fn is_for_pages_only(tool: &Object<'_>) -> bool {
    let visibility =
        tool.clone().at(&["_meta", "ui"]).and_then(|ui| ui.get("visibility").map(RawValue::get));
    let parties = visibility.and_then(|list| serde_json::from_str::<Vec<String>>(list).ok());
    parties.is_some_and(|parties| parties.iter().all(|party| party != "model"))
}

/// A schema that allows `schema` or a descriptor; `None` if `schema` is not an object.
///
/// The old root moves to `/anyOf/0`, and references to it are changed. A root with its own `$id` keeps
/// its references, which are resolved against that id.
fn widened_output(schema: &RawValue) -> Option<String> {
    let mut inner: Value = serde_json::from_str(schema.get()).ok()?;
    let root = inner.as_object_mut()?;
    let mut wider = Map::new();
    if let Some(dialect) = root.remove("$schema") {
        wider.insert("$schema".to_owned(), dialect);
    }
    // Before 2026-07-28, the root must have the type object.
    if root.get("type").and_then(Value::as_str) == Some("object") {
        wider.insert("type".to_owned(), "object".into());
    }
    if !root.contains_key("$id") {
        move_references(&mut inner);
    }
    let stored = json!({
        "description": "a large stored result: query it by its ref",
        "type": "object",
        "properties": {"lro": {
            "type": "object",
            "properties": {"ref": {"type": "string"}},
            "required": ["ref"],
        }},
        "required": ["lro"],
    });
    let marked = json!({
        "description": "the server's own result in the form of a descriptor, marked as not Atlatl's",
        "type": "object",
        "properties": {NOTICE_MEMBER: {"type": "string"}},
        "required": [NOTICE_MEMBER],
    });
    wider.insert("anyOf".to_owned(), json!([inner, stored, marked]));
    Some(Value::Object(wider).to_string())
}

/// Changes references to the old root.
fn move_references(schema: &mut Value) {
    match schema {
        // A schema with its own id resolves references against that id.
        Value::Object(members) if !members.contains_key("$id") => {
            for (keyword, value) in members.iter_mut() {
                match (keyword.as_str(), &mut *value) {
                    ("$ref" | "$dynamicRef", Value::String(target)) => {
                        if target == "#" || target.starts_with("#/") {
                            target.replace_range(..1, "#/anyOf/0");
                        }
                    }
                    // Values, not schemas.
                    ("enum" | "const" | "default" | "examples", _) => {}
                    // The members of these are names, not keywords.
                    (
                        "properties" | "patternProperties" | "$defs" | "definitions"
                        | "dependentSchemas",
                        Value::Object(named),
                    ) => named.values_mut().for_each(move_references),
                    _ => move_references(value),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(move_references),
        _ => {}
    }
}

/// Allows a reference where the tool takes a list or an object. A string parameter accepts it already,
/// and a number is never a result.
fn widened_input(schema: &RawValue, edits: &mut Edits<'_>) {
    // A pointer into the properties would become invalid.
    if schema.get().contains("\"#/properties") {
        return;
    }
    let Some(properties) = Object::read(schema.get()).and_then(|root| root.at(&["properties"]))
    else {
        return;
    };
    for (_, property) in properties.members {
        let Some(object) = Object::read(property.get()) else { continue };
        let Some("array" | "object") = object.text("type").as_deref() else { continue };
        let reference = r#"{"type":"string","pattern":"^lro:"}"#;
        edits.replace(property.get(), format!(r#"{{"anyOf":[{property},{reference}]}}"#));
    }
}

#[cfg(test)]
mod tests {
    use lro_core::O200k;

    use super::*;

    #[test]
    fn f37_what_a_client_hands_to_a_model_is_counted_and_nothing_else() {
        let tool =
            r#"{"name":"look","description":"Looks \u0041gain","inputSchema":{"type":"object"}}"#;
        let listing = |tools: &str| format!(r#"{{"tools":[{tools}]}}"#);
        let expected: u64 = ["look", "Looks Again", r#"{"type":"object"}"#]
            .map(|text| count_all(text, &O200k).tokens.0)
            .iter()
            .sum();
        assert_eq!(cost(&listing(tool), &O200k).tokens.0, expected);
        let both = format!("{tool},{}", tool.replace('}', r#","outputSchema":{"a":1}}"#));
        assert!(cost(&listing(&both), &O200k).tokens.0 >= 2 * expected);
        let more = tool.replacen('{', r#"{"outputSchema":{"a":"long"},"annotations":{},"#, 1);
        assert_eq!(cost(&listing(&more), &O200k).tokens.0, expected);
        let hidden = tool.replacen('{', r#"{"_meta":{"ui":{"visibility":["app"]}},"#, 1);
        assert_eq!(cost(&listing(&format!("{tool},{hidden}")), &O200k).tokens.0, expected);
        // Who may call a tool costs nothing.
        for parties in [r#"["model","app"]"#, r#"["model"]"#] {
            let listed = hidden.replace(r#"["app"]"#, parties);
            assert_eq!(cost(&listing(&listed), &O200k).tokens.0, expected);
        }
        assert_eq!(cost("no listing", &O200k).tokens.0, 0);
        assert_eq!(cost(&listing(tool), &O200k).method, Method::Counted);
    }

    #[test]
    fn tools_that_only_pages_call_are_named() {
        let tool = |name: &str, ui: &str| format!(r#"{{"name":"{name}","_meta":{{"ui":{ui}}}}}"#);
        let tools = [
            tool("rows", r#"{"visibility":["app"]}"#),
            tool("both", r#"{"visibility":["model","app"]}"#),
            tool("model", r#"{"visibility":["model"]}"#),
            tool("unset", "{}"),
            // Its `_meta` is removed, so the client shows it to the model.
            tool("ours", r#"{"visibility":["app"],"resourceUri":"ui://atlatl/table.html"}"#),
        ];
        let page = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
        let parsed = ToolsPage::parse(&page, ListingOptions::none(), |_| true).unwrap();
        assert_eq!(parsed.for_pages, ["rows"]);
    }

    #[test]
    fn a_page_of_ours_belongs_to_no_tool_of_a_server() {
        let listing = |tool: &str| format!(r#"{{"tools":[{tool}]}}"#);
        for meta in [
            r#"{"ui":{"resourceUri":"ui://atlatl/table.html"},"a":1}"#,
            r#"{"ui/resourceUri":"ui://atlatl/other.html"}"#,
        ] {
            let page = listing(&format!(r#"{{"name":"t","inputSchema":{{}},"_meta":{meta}}}"#));
            let parsed = ToolsPage::parse(&page, ListingOptions::none(), |_| true).unwrap();
            let expected = page.replace(meta, "{}");
            assert_eq!(parsed.json.as_deref(), Some(&*expected));
        }
        let own = r#"{"name":"t","_meta":{"ui":{"resourceUri":"ui://other/page.html"}}}"#;
        let parsed = ToolsPage::parse(&listing(own), ListingOptions::none(), |_| true).unwrap();
        assert_eq!(parsed.json, None);
    }
}
