//! The task on which composing jq failed in the paper: records of a namespace, with a priority of at
//! least so much, whose content mentions a word. One call each, by SQL and by jq.

use mif::DetailLevel;
use serde_json::{Value, json};

use crate::fixture::Fixture;

struct Task {
    namespace: String,
    priority: u64,
    word: String,
    ids: Vec<String>,
}

/// Sixty tasks with true counts between 3 and 50.
fn tasks(records: &[Value]) -> Vec<Task> {
    let namespaces = ["_semantic", "_episodic", "_procedural", "_public", "_shared", "_local"];
    let words = [
        "the",
        "of",
        "is",
        "after",
        "before",
        "Nobody",
        "customer",
        "dashboard",
        "Kafka",
        "Redis",
        "Postgres",
        "limit",
        "tests",
        "month",
        "release",
        "backup",
    ];
    let mut tasks = Vec::new();
    for namespace in namespaces {
        for word in words {
            for priority in [2, 3, 4, 5] {
                let matches = |record: &&Value| {
                    record["namespace"].as_str().unwrap_or_default().starts_with(namespace)
                        && record["extensions"]["bench"]["priority"].as_u64() >= Some(priority)
                        && record["content"].as_str().unwrap_or_default().contains(word)
                };
                let ids: Vec<String> = records
                    .iter()
                    .filter(matches)
                    .map(|record| record["id"].as_str().unwrap().to_owned())
                    .collect();
                if (3..=50).contains(&ids.len()) {
                    let (namespace, word) = (namespace.to_owned(), word.to_owned());
                    tasks.push(Task { namespace, priority, word, ids });
                }
            }
        }
    }
    let step = tasks.len() / 60;
    assert!(step > 0, "{} tasks", tasks.len());
    tasks.into_iter().step_by(step).take(60).collect()
}

#[test]
fn e4_sixty_filters_over_several_fields_are_answered_in_one_call_each() {
    let fixture = Fixture::new();
    let lines = testkit::corpus::lines(&testkit::corpus::memories(500, 42), DetailLevel::Full);
    let records: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reference =
        fixture.store("recall_memories", &format!(r#"{{"memories":[{}]}}"#, lines.join(",")));
    let tasks = tasks(&records);
    assert_eq!(tasks.len(), 60);
    for Task { namespace, priority, word, ids } in tasks {
        let params = json!({"namespace": namespace, "priority": priority, "word": word});
        let sql = "SELECT id FROM results WHERE namespace LIKE :namespace || '%' \
                   AND extensions ->> '$.bench.priority' >= :priority AND instr(content, :word)";
        let jq = "select((.namespace | startswith($namespace)) \
                  and .extensions.bench.priority >= $priority \
                  and (.content | contains($word))) | .id";
        let by_sql =
            fixture.ask("lro_extract", &json!({"ref": reference, "sql": sql, "params": params}));
        let by_jq =
            fixture.ask("lro_extract", &json!({"ref": reference, "query": jq, "params": params}));
        let of_sql: Vec<String> = by_sql
            .1
            .iter()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
            })
            .collect();
        let of_jq: Vec<String> =
            by_jq.1.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(of_sql, ids, "{params}");
        assert_eq!(of_jq, ids, "{params}");
        assert!(by_sql.0.starts_with(&format!("{0} of {0} rows", ids.len())), "{}", by_sql.0);
    }
}
