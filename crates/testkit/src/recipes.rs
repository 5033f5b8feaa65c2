//! The ten recipes: their expected output, and running them in a real shell.

use std::path::Path;
use std::process::Command;

use mif::{DetailLevel, Memory};
use serde_json::{Value, json};

/// The expected output of each recipe, computed from the record lines.
///
/// # Panics
///
/// Panics if a line is not JSON.
pub fn expected_outputs(lines: &[String], detail: DetailLevel) -> Vec<Vec<Value>> {
    let records: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect();
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let select = |keep: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        records.iter().filter(|record| keep(record)).cloned().collect()
    };
    let tsv = |text: &str| {
        text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
    };
    let count_by = |field: &str| -> Value {
        // jq sorts null before strings, and strings by code point.
        let mut groups = std::collections::BTreeMap::<Option<String>, u64>::new();
        for record in &records {
            *groups.entry(record[field].as_str().map(str::to_owned)).or_default() += 1;
        }
        groups.into_iter().map(|(name, count)| json!({field: name, "count": count})).collect()
    };
    let sorted = |key: &dyn Fn(&Value) -> f64| {
        let mut sorted = records.clone();
        sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
        sorted.reverse();
        Value::Array(sorted)
    };
    let contains = |text: String| text.to_lowercase().contains("keyword");
    let mut by_date = records.clone();
    by_date.sort_by_key(|record| text(record, "created"));
    let mut all = vec![
        records
            .iter()
            .map(|r| {
                Value::String(format!("{}\t{}", tsv(&text(r, "title")), tsv(&text(r, "namespace"))))
            })
            .collect(),
        select(&|r| text(r, "namespace").starts_with("_semantic")),
        select(&|r| contains(text(r, "title"))),
        records
            .iter()
            .map(|r| json!({"id": r["id"], "title": r["title"], "namespace": r["namespace"]}))
            .collect(),
        select(&|r| r["memory_type"] == "semantic"),
        vec![count_by("namespace")],
        select(&|r| r["tags"].as_array().is_some_and(|tags| tags.contains(&json!("TAG")))),
        vec![Value::Array(by_date)],
    ];
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    match detail {
        DetailLevel::Light => {
            let mut names: Vec<String> =
                records.iter().filter_map(|r| r["namespace"].as_str()).map(str::to_owned).collect();
            names.sort();
            names.dedup();
            all.push(vec![json!(names)]);
            all.push(vec![count_by("memory_type")]);
        }
        DetailLevel::Medium => {
            all.push(vec![sorted(&|r| number(&r["confidence"]))]);
            all.push(select(&|r| contains(text(r, "content"))));
        }
        _ => {
            all.push(vec![sorted(&|r| number(&r["provenance"]["confidence"]))]);
            all.push(select(&|r| contains(text(r, "content"))));
        }
    }
    all.iter().map(|answer| answer.iter().map(as_doubles).collect()).collect()
}

/// Runs recipe number `number` and parses its output.
///
/// # Panics
///
/// Panics if it fails, writes to standard error, or prints anything but JSON (text for the first recipe).
pub fn run_and_parse(shell: &str, command: &str, directory: &Path, number: usize) -> Vec<Value> {
    let output = run(shell, command, directory);
    if number == 1 {
        return output.lines().map(|line| Value::String(line.to_owned())).collect();
    }
    let values = serde_json::Deserializer::from_str(&output).into_iter();
    values.map(|value: Result<Value, _>| as_doubles(&value.expect("jq prints JSON"))).collect()
}

/// Runs the command of a recipe in a shell, as a client would, in `directory`.
///
/// # Panics
///
/// Panics if it fails or writes to standard error.
pub fn run(shell: &str, command: &str, directory: &Path) -> String {
    let output = Command::new(crate::tool::require(shell))
        .args(["-c", command])
        .current_dir(directory)
        .output()
        .expect("a shell starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{shell}: {command}\n{errors}");
    String::from_utf8(output.stdout).expect("jq prints UTF-8")
}

/// jq 1.6 reads numbers as doubles; the comparison does the same.
fn as_doubles(value: &Value) -> Value {
    match value {
        Value::Number(n) => json!(n.as_f64()),
        Value::Array(items) => items.iter().map(as_doubles).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), as_doubles(v))).collect())
        }
        other => other.clone(),
    }
}

/// Changes some memories so that the placeholders of recipes 3, 7 and 10 match.
pub fn with_matches(mut memories: Vec<Memory>) -> Vec<Memory> {
    for (i, memory) in memories.iter_mut().enumerate() {
        if i % 7 == 0 && memory.title.is_some() {
            memory.title = Some(format!("A Keyword in title {i}"));
        }
        if i % 5 == 0 && !memory.tags.as_deref().unwrap_or_default().is_empty() {
            memory.tags.get_or_insert_default().push("TAG".to_owned());
        }
        if i % 11 == 0 {
            memory.content = format!("{}\nand the KEYWORD here", memory.content);
        }
    }
    memories
}
