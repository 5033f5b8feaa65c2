//! Arguments that a tool wants in headers (2026-07-28, `x-mcp-header`).

use http::{HeaderMap, HeaderName};
use lro_http::header::encoded;
use lro_wire::Object;
use serde_json::value::RawValue;

/// How deep a schema is looked into.
const DEPTH: usize = 8;

/// The headers that `arguments` need by a tool's input schema.
pub(crate) fn param_headers(schema: &RawValue, arguments: Option<&RawValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // Most schemas ask for none: not one is read then.
    if Object::may_mention(schema.get(), "header")
        && let (Some(schema), Some(arguments)) =
            (Object::read(schema.get()), arguments.and_then(|json| Object::read(json.get())))
    {
        collect(schema, &arguments, DEPTH, &mut headers);
    }
    headers
}

fn collect(schema: Object<'_>, arguments: &Object<'_>, depth: usize, headers: &mut HeaderMap) {
    let Some(properties) = schema.at(&["properties"]) else { return };
    for (name, property) in &properties.members {
        let Some(argument) = arguments.get(name) else { continue };
        let Some(property) = Object::read(property.get()) else { continue };
        if let Some(header) = property.text("x-mcp-header") {
            let name = HeaderName::try_from(format!("mcp-param-{header}"));
            if let (Ok(name), Some(value)) = (name, plain(argument)) {
                headers.insert(name, encoded(&value));
            }
        } else if depth > 0
            && let Some(inner) = Object::read(argument.get())
        {
            collect(property, &inner, depth - 1, headers);
        }
    }
}

/// What a value without parts is in a header.
fn plain(argument: &RawValue) -> Option<String> {
    let json = argument.get();
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok(),
        b'n' | b'{' | b'[' => None,
        _ => Some(json.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn arguments_stand_in_the_headers_that_are_asked_for() {
        let schema = raw(r#"{"type":"object","properties":{
                "region":{"type":"string","x-mcp-header":"Region"},
                "count":{"type":"integer","x-mcp-header":"Count"},
                "deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}},
                "odd":{"type":"string","x-mcp-header":"no header\n"},
                "none":{"type":"string","x-mcp-header":"None"},
                "other":{"type":"string"}}}"#);
        let arguments = raw(
            r#"{"region":"größer","count":12345678901234567890,"deep":{"flag":true},"odd":"x","none":null,"other":"y"}"#,
        );
        let headers = param_headers(&schema, Some(&arguments));
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["mcp-param-region"], "=?base64?Z3LDtsOfZXI=?=");
        assert_eq!(headers["mcp-param-count"], "12345678901234567890");
        assert_eq!(headers["mcp-param-flag"], "true");
        assert!(param_headers(&schema, None).is_empty());
    }
}
