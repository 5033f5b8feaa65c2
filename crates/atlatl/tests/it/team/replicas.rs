//! Two processes on one database: what one began, the other goes on with.

use testkit::postgres::PostgresServer;

use super::*;

#[test]
fn a_page_walk_begun_on_one_process_ends_on_another() {
    let program = team(PostgresServer::shared());
    filled(&program, 333);
    let replicas = [Serving::start(&program, &[]), Serving::start(&program, &[])];
    for (tool, arguments) in [
        ("list_memories", json!({"limit": 40})),
        ("recall_memories", json!({"query": "ships in the harbour", "limit": 40})),
    ] {
        let (mut seen, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        loop {
            let mut arguments = arguments.clone();
            if cursor.is_string() {
                arguments["cursor"] = cursor;
            }
            let answer = call(&replicas[pages % 2], tool, &arguments);
            let set = &answer["result"]["structuredContent"];
            let ids = set["memories"].as_array().unwrap_or_else(|| panic!("{answer}"));
            seen.extend(ids.iter().map(|memory| memory["id"].as_str().unwrap().to_owned()));
            cursor = set["next_cursor"].clone();
            pages += 1;
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!((seen.len(), pages), (333, 9), "{tool}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 333, "{tool}: none twice");
    }
}

#[test]
fn what_one_process_acknowledged_another_finds_at_once() {
    let program = team(PostgresServer::shared());
    let (one, other) = (Serving::start(&program, &[]), Serving::start(&program, &[]));
    for n in 0..10 {
        let id = capture(&one, &format!("Berth {n} of the old harbour."));
        let answer = call(&other, "recall_memories", &json!({"query": format!("berth {n}")}));
        let best = &answer["result"]["structuredContent"]["memories"][0]["id"];
        assert_eq!(best, id.as_str(), "{answer}");
    }
}

#[test]
fn a_task_started_on_one_process_is_fetched_from_another() {
    let program = team(PostgresServer::shared());
    filled(&program, 120);
    let (one, other) = (Serving::start(&program, &[]), Serving::start(&program, &[]));
    let arguments = json!({"query": "ships in the harbour", "limit": 7});
    let call = json!({"name": "recall_memories", "arguments": arguments, "task": {"ttl": 60_000}});
    let begun = message(&one, "tools/call", &call);
    let id = begun["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}"));
    let asked = json!({"taskId": id});
    let results = [&one, &other].map(|replica| {
        let known = message(replica, "tasks/get", &asked);
        assert_eq!(known["result"]["taskId"], id, "{known}");
        message(replica, "tasks/result", &asked)["result"]["structuredContent"].take()
    });
    assert_eq!(results[0]["count"], 7, "{}", results[0]);
    for part in ["memories", "scores", "total_matches"] {
        assert_eq!(results[0][part], results[1][part], "{part}");
    }
    // A made-up id is not found.
    let odd = message(&other, "tasks/get", &json!({"taskId": format!("{id}A")}));
    assert!(odd["error"].is_object(), "{odd}");
}
