//! The `OpenAPI` description agrees with the server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::served::{Answer, Served};
use crate::fixture::{Era, Place, memories};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The description, as the server sends it.
fn described(served: &Served) -> Value {
    let description = served.get("/openapi.json");
    assert_eq!(description.header("content-type"), Some("application/json"));
    description.json()
}

#[test]
fn every_path_and_method_of_the_description_is_served_and_no_others() {
    let place = Place::with(&memories(["One.".to_owned()]));
    let served = Served::start(&place);
    let description = described(&served);
    let paths = description["paths"].as_object().unwrap();
    for (path, operations) in paths {
        let real = path.replace("{id}", "00000000-0000-7000-8000-000000000000");
        for method in METHODS {
            let body = if matches!(method, "get" | "delete") { "" } else { "{}" };
            let answer = served.ask(&method.to_uppercase(), &real, &[], body);
            let known = operations.get(method).is_some();
            assert_eq!(answer.status == 405, !known, "{method} {path}: {}", answer.status);
        }
    }
    let served: BTreeSet<&str> =
        atlatl_server::http::paths().into_iter().map(|(path, _)| path).collect();
    let routed: BTreeSet<&str> = served.into_iter().filter(|path| *path != "/mcp").collect();
    let described: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    assert_eq!(routed, described);
}

/// Asserts that a response conforms to the description.
fn holds(description: &Value, operation: (&str, &str), answer: &Answer) {
    let (method, path) = operation;
    let responses = &description["paths"][path][method]["responses"];
    let response = responses.get(answer.status.to_string()).or_else(|| responses.get("default"));
    let response = response.unwrap_or_else(|| panic!("{method} {path}: {}", answer.status));
    let Some(content) = response.get("content") else {
        assert!(answer.body.is_empty(), "{method} {path}");
        return;
    };
    let form = answer.header("content-type").unwrap().split(';').next().unwrap();
    let mut schema = content
        .get(form)
        .unwrap_or_else(|| panic!("{method} {path}: {} {form}", answer.status))["schema"]
        .clone();
    if !form.ends_with("json") {
        return;
    }
    // References point into the description.
    schema["components"] = description["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let document = answer.json();
    let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{method} {path}: {errors:?}: {document}");
}

#[test]
fn real_answers_are_what_the_description_says() {
    let mut place = Place::with(&memories((0..300).map(|n| format!("Row {n} of the harbour."))));
    place.config.prompt.offload.shared_filesystem = true;
    let served = Served::start(&place);
    let description = described(&served);
    let set = served.client(Era::Modern).call("list_memories", json!({}));
    let stored = format!("/v1/offloads/{}", set["lro"]["ref"].as_str().unwrap());
    let memory = "/v1/memories/00000000-0000-7000-8000-000000000007";
    let new = json!({"content": "New.", "memory_type": "episodic", "tags": ["a"]}).to_string();
    let query = json!({"query": "harbour", "limit": 3}).to_string();
    let explained = json!({"query": "harbour", "limit": 3, "explain": true}).to_string();
    let made = served.ask("POST", "/v1/memories", &[], &new);
    let schema = json!({"$ref": "#/components/schemas/NewMemory",
        "components": description["components"]});
    let new_memory = jsonschema::validator_for(&schema).unwrap();
    assert!(new_memory.is_valid(&serde_json::from_str(&new).unwrap()));
    holds(&description, ("post", "/v1/memories"), &made);
    for (method, path, real, body, status) in [
        ("get", "/v1/memories", "/v1/memories?limit=7", "", 200),
        ("get", "/v1/memories", "/v1/memories?detail=light&offset=9", "", 200),
        ("get", "/v1/memories", "/v1/memories?limit=0", "", 400),
        ("post", "/v1/memories", "/v1/memories", "{}", 422),
        ("get", "/v1/memories/{id}", memory, "", 200),
        ("get", "/v1/memories/{id}", "/v1/memories/x", "", 404),
        ("put", "/v1/memories/{id}", memory, &new, 200),
        ("delete", "/v1/memories/{id}", memory, "", 204),
        ("delete", "/v1/memories/{id}", memory, "", 404),
        ("post", "/v1/search", "/v1/search", &query, 200),
        ("post", "/v1/search", "/v1/search", &explained, 200),
        ("post", "/v1/search", "/v1/search", "{}", 400),
        ("get", "/v1/offloads/{id}", &stored, "", 200),
        ("get", "/v1/offloads/{id}", "/v1/offloads/x", "", 404),
        ("get", "/healthz", "/healthz", "", 200),
        ("get", "/readyz", "/readyz", "", 200),
        ("get", "/metrics", "/metrics", "", 200),
        ("get", "/openapi.json", "/openapi.json", "", 200),
    ] {
        let answer = served.ask(&method.to_uppercase(), real, &[], body);
        assert_eq!(answer.status, status, "{method} {real}: {}", answer.text());
        holds(&description, (method, path), &answer);
    }
    let part = served.ask("GET", &stored, &[("Range", "bytes=0-9")], "");
    assert_eq!(part.status, 206);
    holds(&description, ("get", "/v1/offloads/{id}"), &part);
}

#[test]
fn figures_are_counted_by_our_own_words() {
    let place = Place::new();
    let served = Served::start(&place);
    served.get("/v1/memories");
    served.get("/v1/memories/secret-of-a-client");
    served.get("/made/up/by/a/client");
    let metrics = served.get("/metrics").text();
    assert!(metrics.contains(r#"path="/v1/memories",status="200"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"path="/v1/memories/{id}",status="404"} 1"#), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"));
    assert!(!metrics.contains("client"), "{metrics}");
}
