//! Finds the call in a hint, so that it can be sent as it is.

use serde_json::{Map, Value};

use super::battery::Call;

const TOOLS: [&str; 4] =
    ["lro_extract", "read_large_output", "search_large_output", "query_large_output"];

/// The arguments that exclude each other.
const QUERIES: [&str; 3] = ["recipe", "query", "sql"];
/// The words before new values of arguments.
const AGAIN: [&str; 3] = ["Call again with ", "as in ", "As in "];

/// The call that `text` asks for instead of `attempt`: the first complete one, `tool(name=value, …)` or
/// `tool {"name": value, …}` with values in JSON, or that of the attempt with the arguments after "Call
/// again with" or "as in".
pub(super) fn call_in(text: &str, attempt: &Call) -> Option<Call> {
    complete_call(text).or_else(|| {
        let places = AGAIN.iter().flat_map(|words| text.match_indices(words));
        let mut places: Vec<usize> = places.map(|(at, words)| at + words.len()).collect();
        places.sort_unstable();
        let new = places.into_iter().find_map(|at| named_values(&text[at..]))?;
        let mut call = attempt.clone();
        // One query replaces another one.
        if new.keys().any(|name| QUERIES.contains(&name.as_str())) {
            call.arguments.retain(|name, _| !QUERIES.contains(&name.as_str()));
        }
        call.arguments.extend(new);
        Some(call)
    })
}

/// The first complete call in `text`, for example in the guidance of a descriptor.
pub fn complete_call(text: &str) -> Option<Call> {
    let mut places: Vec<(usize, &str)> =
        TOOLS.iter().flat_map(|tool| text.match_indices(tool)).collect();
    places.sort_unstable();
    places.into_iter().find_map(|(at, tool)| {
        let rest = text[at + tool.len()..].trim_start();
        let arguments = match rest.strip_prefix('(') {
            Some(inner) if inner.starts_with('{') => first_value(inner)?.0.as_object().cloned()?,
            Some(inner) => named_values(inner)?,
            None if rest.starts_with('{') => first_value(rest)?.0.as_object().cloned()?,
            None => return None,
        };
        Some(Call { tool: tool.to_owned(), arguments })
    })
}

/// Parses `name=value, name=value`, up to anything else; `None` if there is none.
fn named_values(mut text: &str) -> Option<Map<String, Value>> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut arguments = Map::new();
    while let Some((name, rest)) = text.split_once('=').filter(|(name, _)| is_name(name)) {
        let Some((value, end)) = first_value(rest) else { break };
        arguments.insert(name.to_owned(), value);
        text = rest[end..].strip_prefix(',').unwrap_or_default().trim_start();
    }
    (!arguments.is_empty()).then_some(arguments)
}

/// The JSON value at the beginning of `text`, and where it ends.
fn first_value(text: &str) -> Option<(Value, usize)> {
    if !text.starts_with(['"', '{', '[']) {
        // The stream below wants a space after a number or a word.
        let word = text.split([',', ')', ' ', '\n']).next()?.trim_end_matches('.');
        return Some((serde_json::from_str(word).ok()?, word.len()));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> Option<(String, Value)> {
        let attempt =
            Call::parse(r#"lro_extract {"ref":"lro:1","sql":"SELECT x","limit":5}"#).unwrap();
        call_in(text, &attempt).map(|call| (call.tool, call.arguments.into()))
    }

    fn extract(arguments: Value) -> (String, Value) {
        ("lro_extract".to_owned(), arguments)
    }

    #[test]
    fn a_complete_call_is_found_in_both_forms() {
        let expected = extract(json!({"ref": "lro:1", "sql": "SELECT \"a\" (1)", "limit": 5}));
        let named = r#"Hint: lro_extract(ref="lro:1", sql="SELECT \"a\" (1)", limit=5) works."#;
        assert_eq!(found(named), Some(expected.clone()));
        let json = r#"`lro_extract {"ref":"lro:1","sql":"SELECT \"a\" (1)","limit":5}`"#;
        assert_eq!(found(json), Some(expected));
    }

    #[test]
    fn new_values_replace_arguments_of_the_attempt() {
        let corrected = extract(json!({"ref": "lro:1", "limit": 5, "sql": "SELECT y"}));
        let hint = r#"Hint: Nearest columns: "y". Call again with sql="SELECT y"."#;
        assert_eq!(found(hint), Some(corrected));
        let other =
            extract(json!({"ref": "lro:1", "limit": 5, "query": ".y", "target": "original"}));
        assert_eq!(found(r#"Note: z, as in query=".y", target="original""#), Some(other));
        let number = extract(json!({"ref": "lro:1", "sql": "SELECT x", "limit": 7}));
        assert_eq!(found("Hint: As in limit=7."), Some(number));
    }

    #[test]
    fn names_of_tools_and_other_text_are_not_calls() {
        assert_eq!(found("Use search_large_output or read_large_output."), None);
        assert_eq!(found("lro_extract(ref=lro:1)"), None);
        assert_eq!(found("Set whole=true."), None);
        assert_eq!(found("as in select(.field != null)"), None);
        let second = r#"Use search_large_output, or query_large_output(ref="x", query=".a")"#;
        assert_eq!(found(second).unwrap().0, "query_large_output");
    }
}
