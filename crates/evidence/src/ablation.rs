//! Ablations: deletes parts of a descriptor between the server and the agent.

use serde_json::{Map, Value};

use crate::condition::{Ablation, Condition, QueryLanguage, Strategy};

/// Strings of a deleted part that are shorter may occur elsewhere by chance.
const MIN_TRACEABLE_CHARS: usize = 24;

/// The path of a key: its parents, then the key.
type KeyPath = &'static [&'static str];

/// What remains of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Everything but these keys.
    Without(&'static [KeyPath]),
    /// These keys only.
    Only(&'static [KeyPath]),
}

const RECIPES: &[KeyPath] = &[&["jq_recipes"]];
const SCHEMA: &[KeyPath] = &[
    &["line_schema"],
    &["fields"],
    &["summary", "more_fields"],
    &["summary", "more_fields_at_least"],
    &["summary", "fields_of_first_records"],
];
const PREVIEW: &[KeyPath] = &[&["lro", "preview"], &["lro", "preview_cut"]];
const GUIDANCE: &[KeyPath] = &[&["guidance"]];
const BARE_FILE: &[KeyPath] =
    &[&["offloaded"], &["file_path"], &["summary", "count"], &["summary", "lines"]];
const BARE_REFERENCE: &[KeyPath] =
    &[&["offloaded"], &["lro", "ref"], &["summary", "count"], &["summary", "lines"]];
const PREVIEW_AND_FILE: &[KeyPath] = &[
    &["offloaded"],
    &["file_path"],
    &["summary", "count"],
    &["summary", "lines"],
    &["lro", "preview"],
    &["lro", "preview_cut"],
];
const PREVIEW_AND_REFERENCE: &[KeyPath] = &[
    &["offloaded"],
    &["lro", "ref"],
    &["lro", "preview"],
    &["lro", "preview_cut"],
    &["summary", "count"],
    &["summary", "lines"],
];

impl Rule {
    fn new(condition: &Condition) -> Self {
        let native = matches!(condition.strategy, Strategy::LroNative(_));
        match condition.ablation {
            Ablation::Full | Ablation::Inline | Ablation::Compact | Ablation::NoRecipesSetting => {
                Self::Without(&[])
            }
            Ablation::NoRecipes => Self::Without(RECIPES),
            Ablation::NoSchema => Self::Without(SCHEMA),
            Ablation::NoPreview => Self::Without(PREVIEW),
            Ablation::NoGuidance => Self::Without(GUIDANCE),
            Ablation::Bare if native => Self::Only(BARE_REFERENCE),
            Ablation::Bare => Self::Only(BARE_FILE),
            Ablation::PreviewOnly if native => Self::Only(PREVIEW_AND_REFERENCE),
            Ablation::PreviewOnly => Self::Only(PREVIEW_AND_FILE),
        }
    }

    fn apply(self, descriptor: &Value) -> Value {
        match self {
            Self::Without(paths) => {
                let mut rest = descriptor.clone();
                for path in paths {
                    delete(&mut rest, path);
                }
                rest
            }
            Self::Only(paths) => {
                let mut rest = Value::Object(Map::new());
                for path in paths {
                    copy(descriptor, &mut rest, path);
                }
                rest
            }
        }
    }
}

fn delete(value: &mut Value, path: &[&str]) {
    let Value::Object(members) = value else { return };
    match path {
        [] => {}
        [key] => {
            members.shift_remove(*key);
        }
        [key, rest @ ..] => {
            if let Some(member) = members.get_mut(*key) {
                delete(member, rest);
            }
        }
    }
}

fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return };
    let [key, rest @ ..] = path else { return };
    let Some(member) = from.get(*key) else { return };
    if rest.is_empty() {
        to.insert((*key).to_owned(), member.clone());
    } else {
        let inner = to.entry(*key).or_insert_with(|| Value::Object(Map::new()));
        copy(member, inner, rest);
    }
}

/// The settings of the program that belong to an ablation. Other ablations only delete.
pub fn settings(ablation: Ablation) -> &'static [&'static str] {
    match ablation {
        Ablation::Compact => &["prompt.offload.descriptor=compact"],
        Ablation::NoPreview => &["prompt.offload.preview_tokens=0"],
        Ablation::NoRecipesSetting => &["prompt.offload.recipes=false"],
        _ => &[],
    }
}

/// Whether the tools of an ablation offer recipes. Those of C10 do: the setting is about the
/// descriptor.
pub fn has_recipes(ablation: Ablation) -> bool {
    !matches!(ablation, Ablation::NoRecipes | Ablation::Bare | Ablation::PreviewOnly)
}

/// The ways to query a stored result that a condition does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RemovedWays {
    pub(crate) recipes: bool,
    pub(crate) jq: bool,
    pub(crate) sql: bool,
}

impl RemovedWays {
    pub(crate) fn new(condition: &Condition) -> Self {
        let language = match condition.effective_strategy() {
            Strategy::LroNative(language) => language,
            Strategy::LroShell => QueryLanguage::All,
            _ => return Self::default(),
        };
        Self {
            recipes: !has_recipes(condition.ablation),
            jq: language == QueryLanguage::Sql,
            sql: language == QueryLanguage::Jq,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Whether a text of the program names one of them.
    pub(crate) fn are_named_in(self, text: &str) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        self.recipes && text.to_lowercase().contains("recipe")
            || self.jq && has(&["jq", "query=", "whole=", "query_large_output"])
            || self.sql && (text.to_lowercase().contains("sql") || has(&["SELECT", "ORDER BY"]))
    }

    /// Guidance without the lines that name one of them.
    fn delete_from(self, guidance: &str) -> String {
        let lines = guidance.lines().filter_map(|line| {
            if !self.are_named_in(line) {
                return Some(line);
            }
            // The guidance of a compact descriptor is one line with two examples.
            let (first, _) = line.split_once(" or sql=")?;
            Some(first).filter(|first| !self.are_named_in(first))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The descriptor in a text or in `structuredContent`.
pub fn descriptor_in(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| value["offloaded"] == true)
}

/// Deletes what the agent must not see from the result of a tool, in `structuredContent` and in the
/// texts. Other results stay as they are.
pub fn apply(condition: &Condition, result: &mut Value) {
    if let Some(structured) = result.get_mut("structuredContent")
        && descriptor_in(structured).is_some()
    {
        *structured = filtered(condition, structured);
    }
    let Some(Value::Array(blocks)) = result.get_mut("content") else { return };
    for block in blocks {
        let Some(Value::String(text)) = block.get_mut("text") else { continue };
        let Ok(parsed) = serde_json::from_str::<Value>(text) else { continue };
        if descriptor_in(&parsed).is_some() {
            *text = filtered(condition, &parsed).to_string();
        }
    }
}

/// What a condition leaves of a descriptor.
fn filtered(condition: &Condition, descriptor: &Value) -> Value {
    let mut rest = Rule::new(condition).apply(descriptor);
    let removed = RemovedWays::new(condition);
    if let Some(Value::String(guidance)) = rest.get_mut("guidance")
        && removed.are_named_in(guidance)
    {
        *guidance = removed.delete_from(guidance);
    }
    rest
}

/// What remains of deleted keys in the text that an agent received: names of keys, and long strings
/// of their values. `original` is the descriptor as the server sent it.
pub fn leftovers(condition: &Condition, original: &Value, text: &str) -> Vec<String> {
    let rest = filtered(condition, original);
    let mut deleted = Vec::new();
    deleted_members(original, &rest, &mut deleted);
    let mut leftovers = Vec::new();
    for (key, value) in deleted {
        if text.contains(&format!("{}:", Value::from(key))) {
            leftovers.push(key.to_owned());
        }
        strings(value, &mut |string| {
            let quoted = Value::from(string).to_string();
            let inner = &quoted[1..quoted.len() - 1];
            if inner.chars().count() >= MIN_TRACEABLE_CHARS && text.contains(inner) {
                leftovers.push(format!("{key}: {inner}"));
            }
        });
    }
    if !has_recipes(condition.ablation) && text.to_lowercase().contains("recipe") {
        leftovers.push("recipe".to_owned());
    }
    leftovers
}

fn deleted_members<'a>(original: &'a Value, rest: &Value, deleted: &mut Vec<(&'a str, &'a Value)>) {
    let (Value::Object(original), Value::Object(rest)) = (original, rest) else { return };
    for (key, value) in original {
        match rest.get(key) {
            Some(remaining) => deleted_members(value, remaining, deleted),
            None => deleted.push((key.as_str(), value)),
        }
    }
}

fn strings(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter().for_each(|value| strings(value, visit)),
        Value::Object(members) => members.values().for_each(|value| strings(value, visit)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::condition::QueryLanguage;

    fn descriptor() -> Value {
        json!({
            "lro": {
                "ref": "lro:01M7PZZ65068CXASQCW8VQWRZ0",
                "expires_at": "2026-11-18T10:31:53Z",
                "preview": [{"id": "36c499d2-5c60-4f3e-9335-2971e8ec6597", "title": "A"}],
                "preview_cut": true,
            },
            "offloaded": true,
            "summary": {"count": 200, "estimated_tokens": 32005, "more_fields": 2},
            "file_path": "/tmp/atlatl-list-01M7PZZ65068CXASQCW8VQWRZ0.jsonl",
            "line_schema": {"type": "object", "properties": {"id": {"type": "string"}}},
            "jq_recipes": [{"description": "List titles", "command": "tail -n +2 /tmp/x | jq .title"}],
            "guidance": "200 memories.\nUse the jq recipes above. Common patterns:\n\
                - Browse: recipe #1\nMemory objects start at line 2.",
        })
    }

    fn applied(condition: &Condition) -> (Value, String) {
        let descriptor = descriptor();
        let mut result = json!({
            "content": [
                {"type": "text", "text": descriptor.to_string()},
                {"type": "text", "text": "{\"offloaded\": false}"},
                {"type": "image", "data": ""},
            ],
            "structuredContent": descriptor,
        });
        apply(condition, &mut result);
        assert_eq!(result["content"][1]["text"], "{\"offloaded\": false}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(result["structuredContent"].to_string(), text, "both forms are the same");
        (result["structuredContent"].take(), text)
    }

    #[test]
    fn nothing_of_a_deleted_key_remains() {
        for strategy in [Strategy::LroShell, Strategy::LroNative(QueryLanguage::All)] {
            for ablation in Ablation::ALL {
                let condition = Condition::with_ablation(strategy, ablation);
                let (_, text) = applied(&condition);
                let leftovers = leftovers(&condition, &descriptor(), &text);
                assert!(leftovers.is_empty(), "{condition}: {leftovers:?} in {text}");
            }
        }
    }

    #[test]
    fn leftovers_are_found() {
        let condition = Condition::with_ablation(Strategy::LroShell, Ablation::NoPreview);
        let leftovers = leftovers(&condition, &descriptor(), &descriptor().to_string());
        assert!(leftovers.contains(&"preview".to_owned()), "{leftovers:?}");
        let id = "preview: 36c499d2-5c60-4f3e-9335-2971e8ec6597".to_owned();
        assert!(leftovers.contains(&id), "{leftovers:?}");
    }

    #[test]
    fn a_bare_descriptor_has_the_pointer_of_its_tools_and_a_count() {
        let bare = |strategy| applied(&Condition::with_ablation(strategy, Ablation::Bare)).0;
        assert_eq!(
            bare(Strategy::LroShell),
            json!({
                "offloaded": true,
                "file_path": "/tmp/atlatl-list-01M7PZZ65068CXASQCW8VQWRZ0.jsonl",
                "summary": {"count": 200},
            })
        );
        assert_eq!(
            bare(Strategy::LroNative(QueryLanguage::All)),
            json!({
                "offloaded": true,
                "lro": {"ref": "lro:01M7PZZ65068CXASQCW8VQWRZ0"},
                "summary": {"count": 200},
            })
        );
    }

    #[test]
    fn each_ablation_deletes_its_keys_only() {
        let keys = |ablation| {
            let (value, _) = applied(&Condition::with_ablation(Strategy::LroShell, ablation));
            let members = value.as_object().unwrap();
            members.keys().cloned().collect::<Vec<_>>()
        };
        let all = keys(Ablation::Full);
        assert_eq!(all.len(), 7);
        for (ablation, key) in [
            (Ablation::NoRecipes, "jq_recipes"),
            (Ablation::NoSchema, "line_schema"),
            (Ablation::NoGuidance, "guidance"),
        ] {
            let rest: Vec<String> = all.iter().filter(|name| *name != key).cloned().collect();
            assert_eq!(keys(ablation), rest);
        }
        assert_eq!(keys(Ablation::NoPreview), all);
    }

    #[test]
    fn c2_is_the_full_descriptor_without_the_recipes_and_what_refers_to_them() {
        assert!(settings(Ablation::NoRecipes).is_empty(), "the program does nothing else");
        let (rest, _) = applied(&Condition::with_ablation(Strategy::LroShell, Ablation::NoRecipes));
        let mut expected = descriptor();
        expected.as_object_mut().unwrap().shift_remove("jq_recipes");
        expected["guidance"] = json!("200 memories.\nMemory objects start at line 2.");
        assert_eq!(rest, expected);
        let setting = Condition::with_ablation(Strategy::LroShell, Ablation::NoRecipesSetting);
        assert_eq!(applied(&setting).0, descriptor(), "the program leaves the recipes out");
        assert_eq!(settings(Ablation::NoRecipesSetting), ["prompt.offload.recipes=false"]);
    }

    #[test]
    fn guidance_does_not_name_a_removed_language() {
        let native = "Examples:\n- Browse: lro_extract(ref=\"r\", recipe=1)\n\
             - Custom filter: lro_extract(ref=\"r\", query=\"select(.n > 1)\")\n\
             - Count: lro_extract(ref=\"r\", sql=\"SELECT 1\")\nAvailable recipes: 1=titles.";
        let rest = |name: &str, guidance: &str| {
            let condition: Condition = name.parse().unwrap();
            RemovedWays::new(&condition).delete_from(guidance)
        };
        let lines = |name: &str| rest(name, native).lines().count();
        assert_eq!(rest("s2-c1", native), native);
        assert_eq!(
            rest("s2-c2", native),
            "Examples:\n- Custom filter: lro_extract(ref=\"r\", query=\"select(.n > 1)\")\n\
             - Count: lro_extract(ref=\"r\", sql=\"SELECT 1\")"
        );
        assert!(!rest("s2-sql-c1", native).contains("query=") && lines("s2-sql-c1") == 4);
        assert!(!rest("s2-jq-c1", native).contains("sql=") && lines("s2-jq-c1") == 4);
        let compact = "For example: lro_extract(ref=\"r\", recipe=1) or sql=\"SELECT 1\"";
        let first = "For example: lro_extract(ref=\"r\", recipe=1)";
        assert_eq!(rest("s2-jq-c6", compact), first);
        assert_eq!(rest("s2-sql-c6", compact), compact);
    }
}
