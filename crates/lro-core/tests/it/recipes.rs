//! The ten recipes, run by the real jq in real shells, against answers computed here.

use std::path::Path;

use lro_core::{Detail, Extraction, RECIPES};
use testkit::recipes::{expected_outputs, run, run_and_parse, with_matches};

use crate::memories::{DETAILS, Offloaded, level};

fn check(memories: &[mif::Memory], detail: Detail, directory: &Path, shells: &[&str]) {
    let offloaded = Offloaded::memories(memories, detail);
    let path = directory.join("atlatl-recall-01KA35ZK000J6HB7H9NF6YV4D3.jsonl");
    std::fs::write(&path, offloaded.file(detail)).unwrap();
    let descriptor = offloaded.full(path.to_str().unwrap(), detail, Extraction::Shell, 0);
    let expected = expected_outputs(&offloaded.lines, level(detail));
    assert_eq!(descriptor.response.jq_recipes.len(), RECIPES);
    for (i, (recipe, expected)) in descriptor.response.jq_recipes.iter().zip(&expected).enumerate()
    {
        for shell in shells {
            assert!(
                run_and_parse(shell, &recipe.command, directory, i + 1) == *expected,
                "recipe {} at {detail} in {shell}: {}",
                i + 1,
                recipe.command
            );
        }
    }
    // A recipe without matches would prove nothing.
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
    // Nothing else was executed: each directory has one file.
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
        assert!(offloaded.stats.is_of_memories());
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
