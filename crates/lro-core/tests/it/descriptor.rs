//! The descriptor: its fields, its schema, its size.

use lro_core::{Detail, Extraction, O200k, RECIPES, Tokenizer, is_visible};
use serde_json::{Value, json};

use crate::memories::{DETAILS, Offloaded, json, payload};

const PATH: &str = "/tmp/atlatl-recall-01KA35ZK000J6HB7H9NF6YV4D3.jsonl";

fn tokens(value: &Value) -> u64 {
    O200k.count_till(&value.to_string(), u64::MAX).unwrap().unwrap().0
}

#[test]
fn r1_all_fields_are_there_always() {
    for memories in [testkit::corpus::memories(50, 1), testkit::corpus::sparse_memories(64, 1)] {
        for detail in DETAILS {
            for extraction in [Extraction::Shell, Extraction::Native] {
                let offloaded = Offloaded::memories(&memories, detail);
                let descriptor = json(&offloaded.full(PATH, detail, extraction, 300));
                let keys: Vec<&String> = descriptor.as_object().unwrap().keys().collect();
                assert_eq!(
                    keys,
                    [
                        "lro",
                        "offloaded",
                        "summary",
                        "file_path",
                        "line_schema",
                        "jq_recipes",
                        "guidance"
                    ]
                );
                assert_eq!(descriptor["offloaded"], true);
                assert_eq!(descriptor["file_path"], PATH);
                assert_eq!(descriptor["lro"]["ref"], format!("lro:{}", crate::memories::id()));
            }
        }
    }
}

#[test]
fn r2_the_summary_says_what_is_in_the_file() {
    let memories = testkit::corpus::memories(200, 3);
    let offloaded = Offloaded::memories(&memories, Detail::Light);
    let summary =
        json(&offloaded.full(PATH, Detail::Light, Extraction::Shell, 0))["summary"].take();
    assert_eq!(summary["count"], 200);
    assert_eq!(summary["operation"], "recall");
    assert_eq!(summary["score_range"], json!([0.0, 1.0]));
    assert_eq!(summary["detail"], "light");
    let chars: usize = offloaded.lines.iter().map(|line| line.chars().count()).sum();
    assert_eq!(summary["estimated_tokens"], chars.div_ceil(4));
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for line in &offloaded.lines {
        let record: Value = serde_json::from_str(line).unwrap();
        *counts.entry(record["namespace"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let mut top: Vec<(String, usize)> = counts.into_iter().collect();
    top.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let top: Vec<String> = top.into_iter().take(5).map(|(name, _)| name).collect();
    assert_eq!(summary["top_namespaces"], json!(top));
}

#[test]
fn r3_there_are_exactly_ten_recipes_with_description_and_command() {
    let offloaded = Offloaded::memories(&testkit::corpus::memories(20, 1), Detail::Full);
    let descriptor = json(&offloaded.full(PATH, Detail::Full, Extraction::Native, 0));
    let recipes = descriptor["jq_recipes"].as_array().unwrap();
    assert_eq!(recipes.len(), RECIPES);
    for recipe in recipes {
        let keys: Vec<&String> = recipe.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["description", "command"]);
    }
}

/// `prompt.offload.recipes = false`: the other fields stay, and the guidance mentions no recipe.
#[test]
fn a_full_descriptor_without_recipes_has_other_examples() {
    for detail in DETAILS {
        for extraction in [Extraction::Shell, Extraction::Native] {
            let offloaded = Offloaded::memories(&testkit::corpus::memories(20, 1), detail);
            let with = json(&offloaded.full(PATH, detail, extraction, 0));
            let without = json(&offloaded.without_recipes(PATH, detail, extraction));
            let guidance = without["guidance"].as_str().unwrap();
            assert!(!guidance.contains("recipe") && without.get("jq_recipes").is_none());
            assert!(guidance.contains(&format!("Detail level: {detail}\n")), "{guidance}");
            assert_eq!(guidance.contains("lro_extract("), extraction == Extraction::Native);
            for field in ["lro", "offloaded", "summary", "file_path", "line_schema"] {
                assert_eq!(with[field], without[field], "{field}");
            }
            assert!(tokens(&without) < tokens(&with));
        }
    }
}

#[test]
fn r4_the_recipes_are_those_of_the_table() {
    let universal = [
        "tail -n +2 F | jq -r '[.title, .namespace] | @tsv'",
        "tail -n +2 F | jq 'select(.namespace | startswith(\"_semantic\"))'",
        "tail -n +2 F | jq 'select(.title | test(\"keyword\"; \"i\"))'",
        "tail -n +2 F | jq '{id, title, namespace}'",
        "tail -n +2 F | jq 'select(.memory_type == \"semantic\")'",
        "tail -n +2 F | jq -s 'group_by(.namespace) | map({namespace: .[0].namespace, count: length})'",
        "tail -n +2 F | jq 'select(.tags | index(\"TAG\"))'",
        "tail -n +2 F | jq -s 'sort_by(.created)'",
    ];
    let last = |detail| match detail {
        Detail::Light => [
            "tail -n +2 F | jq -s 'map(.namespace // empty) | unique'",
            "tail -n +2 F | jq -s 'group_by(.memory_type) | map({memory_type: .[0].memory_type, count: length})'",
        ],
        Detail::Medium => [
            "tail -n +2 F | jq -s 'sort_by(.confidence // 0) | reverse'",
            "tail -n +2 F | jq 'select(.content | test(\"keyword\"; \"i\"))'",
        ],
        Detail::Full => [
            "tail -n +2 F | jq -s 'sort_by(.provenance.confidence // 0) | reverse'",
            "tail -n +2 F | jq 'select(.content | test(\"keyword\"; \"i\"))'",
        ],
    };
    for detail in DETAILS {
        let offloaded = Offloaded::memories(&testkit::corpus::memories(20, 1), detail);
        let descriptor = offloaded.full("F", detail, Extraction::Shell, 0);
        let commands: Vec<&str> =
            descriptor.response.jq_recipes.iter().map(|r| r.command.as_str()).collect();
        assert_eq!(commands[..8], universal);
        assert_eq!(commands[8..], last(detail));
    }
}

#[test]
fn r5_recipes_name_only_fields_of_their_level_and_never_a_score() {
    for detail in DETAILS {
        let offloaded = Offloaded::memories(&testkit::corpus::memories(30, 5), detail);
        let descriptor = offloaded.full(PATH, detail, Extraction::Shell, 0);
        let first: Value = serde_json::from_str(&offloaded.lines[0]).unwrap();
        let properties = &descriptor.response.line_schema["properties"];
        for recipe in &descriptor.response.jq_recipes {
            let (_, filter) = recipe.command.split_once("jq ").unwrap();
            assert!(!filter.contains("score"), "{filter}");
            for word in filter.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
            {
                let Some(field) = word.strip_prefix('.').filter(|f| !f.is_empty()) else {
                    continue;
                };
                let top = field.split('.').next().unwrap();
                assert!(
                    properties.get(top).is_some() && first.get(top).is_some(),
                    "{detail}: {field}"
                );
            }
        }
    }
}

#[test]
fn r8_every_line_validates_against_the_line_schema() {
    for memories in [testkit::corpus::memories(200, 9), testkit::corpus::sparse_memories(200, 9)] {
        for detail in DETAILS {
            validate(&Offloaded::memories(&memories, detail));
        }
    }
    for payload in [
        r#"[{"a":1,"b":{"c":[1,"x",null]}},{"a":"s","b":{}},{"b":[1.5]},{"a":1,"a":2},7,"x",null]"#,
        "id,name,score\n1,a,\n2,b,2.5\n",
        "{\"a\":[[1],[{\"deep\":{\"er\":[1,{\"est\":1}]}}]]}\n{\"a\":{}}\n",
    ] {
        validate(&Offloaded::of(payload, "any_tool"));
    }
}

fn validate(offloaded: &Offloaded) {
    let schema = offloaded.stats.shape.line_schema();
    assert!(jsonschema::meta::is_valid(&schema), "{schema}");
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in &offloaded.lines {
        let record: Value = serde_json::from_str(line).unwrap();
        assert!(validator.is_valid(&record), "{line}\n{schema}");
    }
}

#[test]
fn r9_guidance_follows_the_template_and_assumes_no_shell() {
    let offloaded = Offloaded::memories(&testkit::corpus::memories(247, 2), Detail::Full);
    let guidance = offloaded.full(PATH, Detail::Full, Extraction::Shell, 0).response.guidance;
    let expected = format!(
        "Results offloaded to JSONL (247 memories, ~{} tokens saved).\n\
         File: {PATH}\n\
         Detail level: full\n\
         Use the jq recipes above to extract specific data. Common patterns:\n\
         - Browse: recipe #1 (titles with namespaces)\n\
         - Filter: recipe #2 (by namespace) or #3 (by keyword)\n\
         - Analyze: recipe #6 (count by namespace)\n\
         Read the file directly only if you need the complete dataset.\n\
         The header line (line 1) contains metadata; memory objects start at line 2.",
        offloaded.estimated
    );
    assert_eq!(guidance, expected);
    for imperative in ["must", "Run ", "shell", "bash"] {
        assert!(!guidance.contains(imperative), "{imperative}");
    }
}

#[test]
fn d2_guidance_and_summary_name_the_detail_level() {
    for detail in DETAILS {
        for extraction in [Extraction::Shell, Extraction::Native] {
            let offloaded = Offloaded::memories(&testkit::corpus::memories(20, 1), detail);
            let descriptor = offloaded.full(PATH, detail, extraction, 0);
            assert_eq!(descriptor.response.summary.detail, detail.as_str());
            assert!(descriptor.response.guidance.contains(&format!("Detail level: {detail}\n")));
        }
    }
}

#[test]
fn r11_the_compact_descriptor_has_reference_path_summary_and_one_line() {
    let offloaded = Offloaded::memories(&testkit::corpus::memories(200, 1), Detail::Light);
    for extraction in [Extraction::Shell, Extraction::Native] {
        let descriptor = json(&offloaded.compact(PATH, "recall_memories", extraction, 0));
        assert_eq!(descriptor["lro"]["ref"], format!("lro:{}", crate::memories::id()));
        assert_eq!(descriptor["file_path"], PATH);
        assert_eq!(descriptor["summary"]["count"], 200);
        assert_eq!(descriptor["summary"]["detail"], "light");
        assert_eq!(descriptor["guidance"].as_str().unwrap().lines().count(), 1);
        assert!(descriptor.get("jq_recipes").is_none());
    }
}

/// The guaranteed sizes, with a path as in the specification and without a preview.
#[test]
fn descriptors_stay_within_their_size() {
    let limits = [(Detail::Light, 1200), (Detail::Medium, 1400), (Detail::Full, 1400)];
    for memories in [testkit::corpus::memories(500, 42), testkit::corpus::sparse_memories(500, 42)]
    {
        for (detail, limit) in limits {
            let offloaded = Offloaded::memories(&memories, detail);
            for extraction in [Extraction::Shell, Extraction::Native] {
                let size = tokens(&json(&offloaded.full(PATH, detail, extraction, 0)));
                assert!(size <= limit, "{detail} {extraction:?}: {size} > {limit}");
            }
        }
    }
    for (name, payload) in third_party() {
        let offloaded = Offloaded::of(&payload, name);
        for extraction in [Extraction::Shell, Extraction::Native] {
            let size = tokens(&json(&offloaded.compact(PATH, name, extraction, 0)));
            assert!(size <= 400, "{name} {extraction:?}: {size} > 400");
        }
    }
}

fn third_party() -> Vec<(&'static str, String)> {
    let wide: Vec<String> =
        (0..90).map(|i| format!(r#""a_rather_long_field_name_{i}":{i}"#)).collect();
    let scripts: Vec<String> =
        (0..40).map(|i| format!(r#""\u4e2d\u6587\u5b57\u6bb5{i}":1"#)).collect();
    vec![
        (
            "list_issues",
            format!("[{}]", [r#"{"id":1,"title":"x","labels":["a"],"body":null}"#; 9].join(",")),
        ),
        ("wide_rows", format!("[{{{}}}]", wide.join(","))),
        ("other_scripts", format!("[{{{}}}]", scripts.join(","))),
        ("get_document", r#"{"a":{"b":1},"c":"d"}"#.to_owned()),
        ("read_text", "words ".repeat(500)),
        (
            "recall_memories",
            payload(&testkit::corpus::lines(
                &testkit::corpus::memories(50, 2),
                mif::DetailLevel::Full,
            )),
        ),
    ]
}

#[test]
fn the_preview_shows_whole_records_within_its_budget() {
    for detail in DETAILS {
        let offloaded = Offloaded::memories(&testkit::corpus::memories(50, 8), detail);
        let descriptor = offloaded.full(PATH, detail, Extraction::Native, 300);
        let preview = json(&descriptor.lro)["preview"].take();
        let shown = preview.as_array().unwrap();
        assert!(!shown.is_empty() && tokens(&preview) <= 300, "{detail}: {preview}");
        if descriptor.lro.preview_cut.is_none() {
            for (record, line) in shown.iter().zip(&offloaded.lines) {
                let whole: Value = serde_json::from_str(line).unwrap();
                assert!(*record == whole || !is_visible(line), "{record}\n{whole}");
            }
        }
    }
}
