//! The token cost of the tools in a listing.

use lro_core::Tokenizer;
use lro_core::tokens::{Estimate, Method, count_all};
use lro_wire::Object;
use serde_json::value::RawValue;

/// The tokens of all names, descriptions and input schemas on a page: what a client hands to a model.
/// Output schemas and annotations stay with the client.
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
        for text in [tool.text("name"), tool.text("description")].into_iter().flatten() {
            add(&text);
        }
        if let Some(schema) = tool.get("inputSchema") {
            add(schema.get());
        }
    }
    all
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
        assert_eq!(cost("no listing", &O200k).tokens.0, 0);
        assert_eq!(cost(&listing(tool), &O200k).method, Method::Counted);
    }
}
