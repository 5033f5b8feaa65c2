//! Large results in object storage: stored by one process, asked and fetched from another.

use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::postgres::PostgresServer;

use super::*;

/// A descriptor, from `tool` of a server.
fn described(serving: &Serving, tool: &str, arguments: &Value) -> Value {
    let answer = call(serving, tool, arguments);
    let descriptor = answer["result"]["structuredContent"].clone();
    assert_eq!(descriptor["offloaded"], true, "{answer}");
    descriptor
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// What a command of a descriptor prints.
fn shell(command: &str) -> String {
    let run = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn path_of<'a>(serving: &Serving, link: &'a str) -> &'a str {
    link.strip_prefix(&serving.url).unwrap_or_else(|| panic!("{link}"))
}

#[test]
fn a_result_that_one_process_stored_is_asked_and_fetched_from_another() {
    let program = storing(team(PostgresServer::shared()), s3::S3Server::shared());
    filled(&program, 700);
    let (one, other) = (Serving::start(&program, &[]), Serving::start(&program, &[]));
    let descriptor = described(&one, "list_memories", &json!({"detail": "full"}));
    assert_eq!(descriptor["summary"]["count"], 700, "{descriptor}");
    assert_eq!(descriptor["lro"]["readable_path"], false, "{descriptor}");
    let reference = descriptor["lro"]["ref"].as_str().unwrap();

    // On the process that did not write it: by SQL, jq, recipe, search, range, and a fresh link.
    let ask = |tool: &str, mut arguments: Value| {
        arguments["ref"] = json!(reference);
        let answer = call(&other, tool, &arguments);
        assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
        text(&answer).to_owned()
    };
    let said = ask("lro_extract", json!({"sql": "SELECT count(*) AS n FROM results"}));
    assert!(said.ends_with("{\"n\":700}\n"), "{said}");
    let said = ask("lro_extract", json!({"query": "length", "whole": true}));
    assert!(said.trim_end().ends_with("\n700"), "{said}");
    let said = ask("lro_extract", json!({"recipe": 6}));
    assert!(said.contains(" answers.\n{\"namespace\":"), "{said}");
    let said = ask("search_large_output", json!({"pattern": "Ship 699 in"}));
    assert!(said.starts_with("1 of 1 matching lines."), "{said}");
    let said = ask("read_large_output", json!({"unit": "records", "start": 5, "end": 6}));
    assert!(said.starts_with("1 of 700 records."), "{said}");
    let said = ask("lro_extract", json!({}));
    assert!(said.starts_with("1 of 1 links."), "{said}");
    let fresh = said.lines().last().unwrap();

    // With a shell, by the recipes and by the fresh link.
    let recipes = descriptor["jq_recipes"].as_array().unwrap();
    for recipe in recipes {
        let command = recipe["command"].as_str().unwrap();
        assert!(command.starts_with("curl -fsS 'http://127.0.0.1:"), "{command}");
        let command = command.replace("\"keyword\"", "\"ship\"");
        assert!(!shell(&command).is_empty() || command.contains("TAG"), "{command}");
    }
    let titles = shell(recipes[0]["command"].as_str().unwrap());
    assert_eq!(titles.lines().count(), 700);
    let link = descriptor["file_path"].as_str().unwrap();
    let whole = get(&one, path_of(&one, link));
    let same = get(&other, path_of(&other, fresh));
    assert_eq!((whole.status, same.status), (200, 200));
    assert_eq!(whole.body.lines().count(), 701);
    assert!(whole.body == same.body, "the same bytes from both");
    assert!(whole.headers.contains("cache-control: no-store"), "{}", whole.headers);
}

#[test]
fn a_link_is_for_reading_one_result_and_no_other() {
    let (postgres, s3) = (PostgresServer::shared(), s3::S3Server::shared());
    let program = storing(team(postgres), s3).file("work/tokens", "t".repeat(40) + "\n");
    shell(&format!("chmod 600 {}", program.path("work/tokens").display()));
    filled(&program, 300);
    let open = Serving::start(&program, &[]);
    let closed = Serving::start(&program, &["--set", "server.auth=token-file:tokens"]);
    let link = |arguments: &Value| {
        let descriptor = described(&open, "list_memories", arguments);
        path_of(&open, descriptor["file_path"].as_str().unwrap()).to_owned()
    };
    let (mine, other) = (link(&json!({"detail": "full"})), link(&json!({"detail": "medium"})));
    // A link needs no token; without it a token is needed.
    assert_eq!(get(&closed, &mine).status, 200);
    let (id, signed) = mine.rsplit_once('/').unwrap();
    assert_eq!(get(&closed, id).status, 401);
    let (_, other_signed) = other.rsplit_once('/').unwrap();
    let tenant = mine.replacen("ZGVmYXVsdA", "b3RoZXI", 1);
    assert_ne!(tenant, mine);
    let expiry: u64 = signed.split('.').nth(1).unwrap().parse().unwrap();
    let later = mine.replacen(&expiry.to_string(), &(expiry + 600).to_string(), 1);
    for wrong in [
        format!("{id}/{other_signed}"),
        tenant,
        later,
        format!("{mine}A"),
        format!("{id}/a.b.c"),
        mine.replace("/v1/offloads/", "/v1/offloads/..%2f"),
    ] {
        assert_eq!(get(&closed, &wrong).status, 404, "{wrong}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(asked(&closed.url, method, &mine, "{}").unwrap().status, 405, "{method}");
    }
    // Another tenant on the same database and bucket knows nothing of it.
    let stranger = Serving::start(&program, &["--set", "memory.tenant=other"]);
    assert_eq!(get(&stranger, &mine).status, 404);
    assert_eq!(get(&stranger, id).status, 404);
}

#[test]
fn what_has_expired_is_gone_for_all_and_from_the_bucket() {
    let (postgres, s3) = (PostgresServer::shared(), s3::S3Server::shared());
    let program = storing(team(postgres), s3);
    filled(&program, 300);
    let serving = Serving::start(&program, &["--set", "prompt.offload.ttl_seconds=2"]);
    let descriptor = described(&serving, "list_memories", &json!({"detail": "full"}));
    let link = path_of(&serving, descriptor["file_path"].as_str().unwrap()).to_owned();
    assert_eq!(get(&serving, &link).status, 200);
    thread::sleep(Duration::from_millis(2100));
    let gone = get(&serving, &link);
    assert_eq!(gone.status, 410, "{gone:?}");
    let answer =
        call(&serving, "lro_extract", &json!({"ref": descriptor["lro"]["ref"], "recipe": 1}));
    assert!(text(&answer).starts_with("Error (expired): "), "{answer}");
}

#[test]
fn a_proxy_gets_it_whole_and_a_shared_file_system_a_path() {
    let (postgres, s3) = (PostgresServer::shared(), s3::S3Server::shared());
    let program = storing(team(postgres), s3);
    filled(&program, 300);
    let serving = Serving::start(&program, &[]);
    let proxied = json!({"name": "list_memories", "arguments": {},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "p", "version": "1", "proxy": true},
        "io.modelcontextprotocol/clientCapabilities": {}
    }});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": proxied});
    let more =
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: list_memories\r\n";
    let answer = asked_with(&serving.url, "POST", "/mcp", &body.to_string(), more).unwrap().json();
    assert_eq!(answer["result"]["structuredContent"]["count"], 300, "{answer}");

    let shared = Serving::start(&program, &["--set", "prompt.offload.shared_filesystem=true"]);
    let descriptor = described(&shared, "list_memories", &json!({"detail": "full"}));
    assert_eq!(descriptor["lro"]["readable_path"], true, "{descriptor}");
    assert!(std::path::Path::new(descriptor["file_path"].as_str().unwrap()).is_file());

    let none = program.variable("ATLATL_SPOOL__URL", "");
    let paged = call(&Serving::start(&none, &[]), "list_memories", &json!({"detail": "full"}));
    assert!(paged["result"]["structuredContent"]["next_cursor"].is_string(), "{paged}");
}
