//! Everything but tools: handshake, envelope, resources, the prompt, completion, cancellation.

use serde_json::json;

use crate::fixture::{Connected, ERAS, Era, Place, memories};

#[test]
fn both_eras_are_greeted_in_their_form() {
    let place = Place::new();
    let legacy = place.client(Era::Legacy);
    assert_eq!(legacy.greeting["protocolVersion"], "2025-11-25");
    assert_eq!(legacy.greeting["serverInfo"]["name"], "atlatl");
    let modern = place.client(Era::Modern);
    assert_eq!(modern.greeting["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(modern.greeting["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "atlatl");
    assert!(modern.greeting["ttlMs"].is_u64() && modern.greeting["cacheScope"].is_string());
    let mut old = place.client(Era::Legacy);
    for (asked, answered) in
        [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")]
    {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {}});
        let result = old.request("initialize", params);
        assert_eq!(result["protocolVersion"], answered);
        let tasks = result["capabilities"].get("tasks").is_some();
        assert_eq!(tasks, answered == "2025-11-25");
    }
    assert_eq!(old.request("ping", json!({})), json!({}));
}

#[test]
fn a_request_of_the_newer_era_must_say_what_it_speaks() {
    let place = Place::new();
    let mut client = place.client(Era::Legacy);
    let ask = |client: &mut Connected, meta: serde_json::Value| {
        let answer = client.response("server/discover", json!({"_meta": meta}));
        answer["error"].clone()
    };
    assert_eq!(ask(&mut client, json!({}))["code"], -32602);
    let version = "io.modelcontextprotocol/protocolVersion";
    assert_eq!(ask(&mut client, json!({version: "2026-07-28"}))["code"], -32602);
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let error = ask(&mut client, json!({version: "v999", capabilities: {}}));
    assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!("v999")));
    for method in
        ["initialize", "ping", "tasks/list", "tasks/result", "logging/setLevel", "nonsense"]
    {
        let params = json!({"_meta": {version: "2026-07-28", capabilities: {}}});
        let code = &client.response(method, params)["error"]["code"];
        assert_eq!(*code, -32601, "{method}");
    }
}

#[test]
fn memories_are_resources_that_a_person_can_pick() {
    let place = Place::with(&memories((0..250).map(|n| format!("Row {n}.\n\nMore of it."))));
    for era in ERAS {
        let mut client = place.client(era);
        let mut all = Vec::new();
        let mut params = json!({});
        loop {
            let page = client.request("resources/list", params.clone());
            all.extend(page["resources"].as_array().unwrap().clone());
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => break,
            }
        }
        assert_eq!(all.len(), 250);
        assert_eq!(all[0]["name"], "Row 249.\n\nMore of it.", "the newest first");
        let read = client.request("resources/read", json!({"uri": all[0]["uri"]}));
        let content = &read["contents"][0];
        assert_eq!(
            (&content["uri"], &content["mimeType"]),
            (&all[0]["uri"], &json!("text/markdown"))
        );
        let text = content["text"].as_str().unwrap();
        assert!(text.starts_with("---\n") && text.contains("More of it."), "{text}");
        let uri = format!("{}/json", all[0]["uri"].as_str().unwrap());
        let read = client.request("resources/read", json!({"uri": uri}));
        assert!(read["contents"][0]["text"].as_str().unwrap().starts_with("{\"id\""));
        let templates = client.request("resources/templates/list", json!({}));
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "memory://{id}");
        for odd in [
            "memory://x",
            "file:///etc/passwd",
            "memory://00000000-0000-7000-8000-00000000ffff",
            "",
        ] {
            let error = client.response("resources/read", json!({"uri": odd}))["error"].clone();
            let code = if era == Era::Legacy { -32002 } else { -32602 };
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(odd)));
        }
        let bad = client.response("resources/list", json!({"cursor": "bm8"}));
        assert_eq!(bad["error"]["code"], -32602);
    }
}

#[test]
fn the_prompt_puts_memories_into_a_conversation_and_typing_is_helped() {
    let place =
        Place::with(&memories(["The crane is red.".to_owned(), "The boat is blue.".to_owned()]));
    for era in ERAS {
        let mut client = place.client(era);
        let prompts = client.request("prompts/list", json!({}));
        assert_eq!(prompts["prompts"][0]["name"], "recall");
        let got = client
            .request("prompts/get", json!({"name": "recall", "arguments": {"topic": "crane"}}));
        let text = got["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("The crane is red.") && text.contains("1 of 1"), "{text}");
        let none = client
            .request("prompts/get", json!({"name": "recall", "arguments": {"topic": "plane"}}));
        assert!(
            none["messages"][0]["content"]["text"].as_str().unwrap().starts_with("No memories")
        );
        for odd in [json!({"name": "x"}), json!({"name": "recall"})] {
            assert_eq!(client.response("prompts/get", odd)["error"]["code"], -32602);
        }
        let complete =
            |client: &mut Connected, about: serde_json::Value, name: &str, value: &str| {
                let params = json!({"ref": about, "argument": {"name": name, "value": value}});
                client.request("completion/complete", params)["completion"]["values"].clone()
            };
        let topic = json!({"type": "ref/prompt", "name": "recall"});
        assert_eq!(complete(&mut client, topic, "topic", "crane"), json!(["The crane is red."]));
        let template = json!({"type": "ref/resource", "uri": "memory://{id}"});
        let ids = complete(&mut client, template, "id", "boat");
        assert_eq!(ids, json!(["00000000-0000-7000-8000-000000000001"]));
        let unknown = json!({"type": "ref/prompt", "name": "unknown"});
        assert_eq!(complete(&mut client, unknown, "x", "y"), json!([]));
    }
}

#[test]
fn whatever_is_no_request_is_survived() {
    let place = Place::new();
    let mut client = place.client(Era::Legacy);
    for odd in [
        "",
        "   ",
        "[]",
        "7",
        "null",
        "{}",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
        "\u{1}",
        "{\"method\":\"x\"}",
    ] {
        client.send_raw(odd);
    }
    let before = client.line();
    assert!(before.contains("-32700"), "{before}");
    let mut asked = json!({"jsonrpc": "2.0", "id": "last", "method": "ping"});
    client.send(&asked);
    loop {
        let line = client.line();
        if line.contains("last") {
            break;
        }
        assert!(line.contains("\"error\"") && !line.contains("\"id\":null"), "{line}");
    }
    // A batch of 2025-03-26.
    asked["id"] = json!(1);
    client.send(&json!([asked, {"jsonrpc": "2.0", "method": "notifications/initialized"}]));
    assert!(client.line().contains("\"id\":1"));
}

#[test]
fn requests_are_answered_beside_each_other() {
    let place = Place::with(&memories((0..20).map(|n| format!("Row {n} of the harbour."))));
    let mut client = place.client(Era::Modern);
    // As many as the server accepts before it waits for the client to read.
    let ids: Vec<u64> = (0..10)
        .map(|_| {
            client.ask(
                "tools/call",
                json!({"name": "recall_memories", "arguments": {"query": "harbour"}}),
            )
        })
        .collect();
    let mut answered: Vec<u64> = ids
        .iter()
        .map(|_| {
            let line = client.line();
            let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(answer["result"]["structuredContent"]["count"], 20);
            answer["id"].as_u64().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, ids);
}
