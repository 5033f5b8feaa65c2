//! Runs the real `jq` with many queries over many sets of records at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lro_core::{Detail, RECIPES, Recipe, RecipeInput, recipes};
use lro_query::recipe::RecipeParams;
use serde_json::{Value, json};

use crate::records::Set;

pub(crate) const DETAILS: [Detail; 3] = [Detail::Light, Detail::Medium, Detail::Full];

/// A set of records and the parameters of the queries.
pub(crate) struct Case {
    pub(crate) set: Set,
    pub(crate) params: RecipeParams,
}

/// The answers of all recipes at all levels for each case, from the text of the recipes with variables
/// for the placeholders. An array from `jq -s` is split into its elements.
pub(crate) fn answers(cases: &[Case]) -> Vec<BTreeMap<(usize, u8), Vec<Value>>> {
    let mut texts: Vec<String> = Vec::new();
    let mut input = Vec::new();
    for case in cases {
        let mut asked = Vec::new();
        for detail in DETAILS {
            for recipe in recipes(detail, case.set.optional) {
                let text = with_variables(&recipe);
                let known = texts.iter().position(|known| *known == text);
                asked.push(known.unwrap_or_else(|| {
                    texts.push(text);
                    texts.len() - 1
                }));
            }
        }
        let RecipeParams { namespace, keyword, memory_type, tag, .. } = &case.params;
        let params = json!({
            "namespace": namespace, "keyword": keyword, "memory_type": memory_type, "tag": tag,
        });
        let records = case.set.lines.join(",");
        writeln!(input, "{{\"p\":{params},\"q\":{asked:?},\"r\":[{records}]}}").unwrap();
    }
    let mut program = String::from(".p as $p | .r as $r | [.q[] as $q | $r | ");
    for (i, text) in texts.iter().enumerate() {
        let _ = write!(program, "if $q == {i} then ({text}) else ");
    }
    program.push_str("error");
    program.push_str(&" end".repeat(texts.len()));
    program.push(']');
    let output = run(&program, input);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), cases.len(), "one line for each case");
    lines.into_iter().map(by_recipe).collect()
}

/// The filter over the array of all records that returns an array of answers.
fn with_variables(recipe: &Recipe) -> String {
    let mut text = recipe.filter.clone();
    for (placeholder, variable) in [
        ("startswith(\"_semantic\")", "startswith($p.namespace)"),
        ("test(\"keyword\"; \"i\")", "test($p.keyword; \"i\")"),
        (".memory_type == \"semantic\"", ".memory_type == $p.memory_type"),
        ("index(\"TAG\")", "index($p.tag)"),
    ] {
        text = text.replace(placeholder, variable);
    }
    match recipe.input {
        RecipeInput::EachRecord => format!("[.[] | {text}]"),
        _ => text,
    }
}

fn by_recipe(line: &str) -> BTreeMap<(usize, u8), Vec<Value>> {
    let answers: Vec<Vec<Value>> = serde_json::from_str(line).unwrap();
    assert_eq!(answers.len(), DETAILS.len() * RECIPES);
    let numbers = (0..DETAILS.len()).flat_map(|level| (1..=10).map(move |number| (level, number)));
    let answers = answers.into_iter().map(|all| all.iter().map(as_doubles).collect());
    numbers.zip(answers).collect()
}

/// Runs `jq -c` and checks that it reports no error.
pub(crate) fn run(program: &str, input: Vec<u8>) -> String {
    let mut child = Command::new(testkit::tool::require("jq"))
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    writer.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// jq 1.6 reads numbers as doubles; the comparison does the same.
pub(crate) fn as_doubles(value: &Value) -> Value {
    match value {
        Value::Number(n) => json!(n.as_f64()),
        Value::Array(items) => items.iter().map(as_doubles).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), as_doubles(v))).collect())
        }
        other => other.clone(),
    }
}
