//! The ten recipes, run by the real jq in real shells, against answers computed here.

use std::path::Path;
use std::process::Command;

use lro_core::{Detail, Extraction, RECIPES};
use serde_json::{Value, json};

use crate::memories::{DETAILS, Offloaded};

/// What a recipe must answer, from the records alone. `jq -c` lines, or plain text for recipe 1.
fn answers(lines: &[String], detail: Detail) -> Vec<Vec<Value>> {
    let records: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
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
        Detail::Light => {
            let mut names: Vec<String> =
                records.iter().filter_map(|r| r["namespace"].as_str()).map(str::to_owned).collect();
            names.sort();
            names.dedup();
            all.push(vec![json!(names)]);
            all.push(vec![count_by("memory_type")]);
        }
        Detail::Medium => {
            all.push(vec![sorted(&|r| number(&r["confidence"]))]);
            all.push(select(&|r| contains(text(r, "content"))));
        }
        Detail::Full => {
            all.push(vec![sorted(&|r| number(&r["provenance"]["confidence"]))]);
            all.push(select(&|r| contains(text(r, "content"))));
        }
    }
    all
}

/// Runs a descriptor's command as a client would: the whole line, in a shell, anywhere.
fn run(shell: &str, command: &str, directory: &Path) -> String {
    let output = Command::new(testkit::tool::require(shell))
        .args(["-c", command])
        .current_dir(directory)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{shell}: {command}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn parse(output: &str, raw: bool) -> Vec<Value> {
    if raw {
        return output.lines().map(|line| Value::String(line.to_owned())).collect();
    }
    serde_json::Deserializer::from_str(output).into_iter().map(Result::unwrap).collect()
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

/// Some memories that the placeholders of recipes 3, 7 and 10 match.
fn with_matches(mut memories: Vec<mif::Memory>) -> Vec<mif::Memory> {
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

fn check(memories: &[mif::Memory], detail: Detail, directory: &Path, shells: &[&str]) {
    let offloaded = Offloaded::memories(memories, detail);
    let path = directory.join("atlatl-recall-01KA35ZK000J6HB7H9NF6YV4D3.jsonl");
    std::fs::write(&path, offloaded.file(detail)).unwrap();
    let descriptor = offloaded.full(path.to_str().unwrap(), detail, Extraction::Shell, 0);
    let expected = answers(&offloaded.lines, detail);
    assert_eq!(descriptor.response.jq_recipes.len(), RECIPES);
    for (i, (recipe, expected)) in descriptor.response.jq_recipes.iter().zip(&expected).enumerate()
    {
        for shell in shells {
            let answer = parse(&run(shell, &recipe.command, directory), i == 0);
            let answer: Vec<Value> = answer.iter().map(as_doubles).collect();
            let expected: Vec<Value> = expected.iter().map(as_doubles).collect();
            assert!(
                answer == expected,
                "recipe {} at {detail} in {shell}: {}",
                i + 1,
                recipe.command
            );
        }
    }
    // A recipe that matches nothing would show nothing.
    assert!(expected.iter().all(|answer| !answer.is_empty()), "{detail}");
}

#[test]
fn r7_every_recipe_answers_right_over_500_memories() {
    let memories = with_matches(testkit::corpus::memories(500, 42));
    let directory = tempfile::tempdir().unwrap();
    for detail in DETAILS {
        check(&memories, detail, directory.path(), &["bash", "dash"]);
    }
}

#[test]
fn r7_every_recipe_answers_right_where_optional_fields_are_absent() {
    let memories = with_matches(testkit::corpus::sparse_memories(500, 42));
    let directory = tempfile::tempdir().unwrap();
    for detail in DETAILS {
        check(&memories, detail, directory.path(), &["bash", "dash"]);
    }
}

#[test]
fn r6_every_recipe_works_in_fifty_hostile_directories() {
    let memories = with_matches(testkit::corpus::sparse_memories(80, 7));
    let root = tempfile::tempdir().unwrap();
    let names = testkit::hostile::directories();
    assert_eq!(names.len(), 50);
    for (i, name) in names.iter().enumerate() {
        let directory = root.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        // All three levels and both shells, spread over the directories.
        check(&memories, DETAILS[i % 3], &directory, &[["bash", "dash"][i % 2]]);
    }
    // Nothing was executed on the way: the directories hold the one file each.
    for entry in std::fs::read_dir(root.path()).unwrap() {
        assert_eq!(std::fs::read_dir(entry.unwrap().path()).unwrap().count(), 1);
    }
}

#[test]
fn r7_every_recipe_answers_where_fields_are_of_another_kind() {
    let plain = r#"{"id":"1","memory_type":"semantic","created":"2026-01-01","title":"a keyword","namespace":"_semantic","tags":["TAG"],"content":"keyword","confidence":0.5,"provenance":{"confidence":0.5}}"#;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    for odd in [
        r#""title":5"#,
        r#""title":[1]"#,
        r#""title":null"#,
        r#""namespace":7"#,
        r#""tags":"TAG""#,
        r#""tags":null"#,
        r#""content":null"#,
        r#""content":{}"#,
        r#""provenance":"me""#,
        r#""provenance":null"#,
        r#""provenance":[1]"#,
        r#""confidence":"high""#,
    ] {
        let line = format!(
            r#"{{"id":"2","memory_type":"semantic","created":"2026-01-02","content":"c",{odd}}}"#
        );
        let offloaded = Offloaded::of(&format!("[{plain},{line}]"), "recall_memories");
        assert!(offloaded.survey.is_of_memories());
        std::fs::write(&path, offloaded.file(Detail::Full)).unwrap();
        for detail in DETAILS {
            let descriptor = offloaded.full(path.to_str().unwrap(), detail, Extraction::Shell, 0);
            for recipe in &descriptor.response.jq_recipes {
                assert!(
                    run("dash", &recipe.command, directory.path())
                        .contains(|c: char| c.is_alphanumeric()),
                    "{odd}: {}",
                    recipe.command
                );
            }
        }
    }
}
