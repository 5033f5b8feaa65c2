//! `atlatl proxy --url`: real servers over HTTP, seen by a real client.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};

use crate::inspector::{OWN_TOOLS, Seen, inspect, undo};
use crate::program::Program;
use crate::proxied::{Proxied, reference};
use crate::reached::{Everything, Fixture};
use crate::serving::{Serving, harbours, remembering, token};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// Asks a server by the Inspector, directly over HTTP.
fn directly(program: &Program, url: &str, era: &str, asked: &[&str]) -> Seen {
    let header = token(url).map(|token| format!("Authorization: Bearer {token}"));
    let header: Vec<&str> = header.iter().flat_map(|header| ["--header", header]).collect();
    let args = ["--transport", "http", "--protocol-era", era, url];
    let args = [&args, &header[..], &["--method"], asked].concat();
    inspect(&program.path("work"), &program.path("home"), &args)
}

/// What makes the proxy send the token of the server at `url`, where it needs one.
fn headers(url: &str) -> String {
    let origin = url.strip_suffix("/mcp").unwrap_or(url);
    let header = token(url).map(|token| json!(format!("{origin} Authorization: Bearer {token}")));
    format!("ATLATL_PROXY__HEADERS={}", Value::from(header.into_iter().collect::<Vec<_>>()))
}

/// The same through the proxy, over standard input and output.
fn through(program: &Program, url: &str, era: &str, asked: &[&str]) -> Seen {
    let tmp = format!("TMPDIR={}", program.path("tmp").display());
    let headers = headers(url);
    let proxy = ["atlatl", "proxy", "--url", url, "--method"];
    let args = [&["--protocol-era", era, "-e", &tmp, "-e", &headers], &proxy[..], asked].concat();
    inspect(&program.path("work"), &program.path("home"), &args)
}

/// Asks everything both ways and holds that the answers are the same.
fn answers_the_same(url: &str, era: &str, questions: &[&[&str]]) {
    let program = Program::new();
    for asked in questions {
        let (direct, proxied) = thread::scope(|scope| {
            let direct = scope.spawn(|| directly(&program, url, era, asked));
            (through(&program, url, era, asked), direct.join().unwrap())
        });
        let (proxied, direct) = (direct, proxied);
        let fails = asked.iter().any(|part| part.contains("no-such"));
        let failed = direct.status != 0 || direct.stdout.contains("\"isError\": true");
        assert_eq!(failed, fails, "{era} {asked:?}: {direct:?}");
        if asked == &["tools/list"] {
            let mut listing = proxied.json();
            undo(&mut listing);
            assert_eq!(listing, direct.json(), "{era}");
        } else if failed {
            assert_eq!((proxied.status, &proxied.stdout), (direct.status, &direct.stdout));
        } else {
            assert_eq!(proxied, direct, "{era} {asked:?}");
        }
    }
}

#[test]
fn f13_the_inspector_sees_the_everything_server_over_http_as_it_is() {
    let server = Everything::start();
    let document = "demo://resource/static/document/architecture.md";
    let location = ["--tool-arg", "location=Chicago"];
    for era in ["legacy", "auto"] {
        answers_the_same(
            &server.url,
            era,
            &[
                &["tools/list"],
                &["resources/list"],
                &["prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Ghent"],
                &["resources/read", "--uri", document],
                &["tools/call", "--tool-name", "echo", "--tool-arg", "message=a \"b\" é 🎯"],
                &[&["tools/call", "--tool-name", "get-structured-content"], &location[..]].concat(),
                &["tools/call", "--tool-name", "no-such-tool"],
            ],
        );
    }
}

#[test]
fn f13_the_inspector_sees_a_server_of_both_eras_over_http_as_it_is() {
    let server = Fixture::start();
    for era in ERAS {
        answers_the_same(
            &server.url,
            era,
            &[
                &["tools/list"],
                &["resources/list"],
                &["resources/read", "--uri", "test://static-text"],
                &["prompts/list"],
                &["tools/call", "--tool-name", "test_simple_text"],
                &["tools/call", "--tool-name", "test_multiple_content_types"],
            ],
        );
    }
}

#[test]
fn f13_the_inspector_sees_the_memory_server_over_http_as_it_is() {
    let program = remembering(&harbours(5));
    let serving = Serving::start(&program, &[]);
    let url = format!("{}/mcp", serving.url);
    let recall = json!({"query": "harbour"}).to_string();
    for era in ERAS {
        answers_the_same(
            &url,
            era,
            &[
                &["resources/list"],
                &["prompts/list"],
                &["tools/call", "--tool-name", "recall_memories", "--tool-args-json", &recall],
                &["tools/call", "--tool-name", "list_memories"],
                &["tools/call", "--tool-name", "get_memory", "--tool-arg", "id=no-such"],
            ],
        );
    }
}

/// A recall of 200 memories, by the Inspector.
fn recalled(
    ask: fn(&Program, &str, &str, &[&str]) -> Seen,
    program: &Program,
    url: &str,
    era: &str,
) -> Value {
    let asked = json!({"query": "harbour", "detail": "full", "limit": 200}).to_string();
    let called = ["tools/call", "--tool-name", "recall_memories", "--tool-args-json", &asked];
    let seen = ask(program, url, era, &called);
    assert_eq!(seen.status, 0, "{era}: {seen:?}");
    seen.json()["structuredContent"].clone()
}

#[test]
fn p1_p2_p3_p4_our_server_gives_all_to_the_proxy_which_writes_the_local_file() {
    let team = remembering(&harbours(200));
    let serving = Serving::start(&team, &[]);
    let url = format!("{}/mcp", serving.url);
    for era in ERAS {
        let person = Program::new();
        // P1: a client that connects over HTTP directly gets no path, which it could not read.
        let direct = recalled(directly, &person, &url, era);
        assert!(direct.get("file_path").is_none() && direct["count"] == 200, "{direct}");
        // P2, P3: to the proxy the server gives everything, and the proxy writes it here.
        let proxied = recalled(through, &person, &url, era);
        assert_eq!(
            (&proxied["offloaded"], &proxied["summary"]["count"]),
            (&json!(true), &json!(200))
        );
        let path = proxied["file_path"].as_str().unwrap();
        assert!(path.starts_with(person.path("tmp").to_str().unwrap()), "{path}");
        let file = fs::read_to_string(path).unwrap();
        let header: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
        assert_eq!(header["count"], 200, "{header}");
        // P4: nothing is altered on the way.
        let stored: Vec<Value> =
            file.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(Value::from(stored), direct["memories"], "{era}");
        assert!(fs::read_dir(team.path("tmp")).unwrap().next().is_none(), "the server wrote none");
    }
}

#[test]
fn p2_to_the_proxy_our_server_lists_no_extraction_tools_of_its_own() {
    let program = Program::new();
    let serving = Serving::start(&program, &[]);
    let url = format!("{}/mcp", serving.url);
    for era in ERAS {
        let names = |more: &[&str]| -> Vec<String> {
            let tmp = format!("TMPDIR={}", program.path("tmp").display());
            let proxy = ["atlatl", "proxy", "--url", &url];
            let headers = headers(&url);
            let args = [
                &["--protocol-era", era, "-e", &tmp, "-e", &headers],
                &proxy[..],
                more,
                &["--method", "tools/list"],
            ]
            .concat();
            let seen = inspect(&program.path("work"), &program.path("home"), &args);
            let tools = seen.json()["tools"].as_array().unwrap().clone();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        let with = names(&[]);
        assert_eq!(with[with.len() - 4..], OWN_TOOLS);
        assert_eq!(with.len(), 12);
        let without = names(&["--tools", "none"]);
        assert_eq!(without, with[..8], "each tool once, and ours are the proxy's");
    }
}

#[test]
fn p5_another_proxy_answers_about_what_one_stored_before() {
    let team = remembering(&harbours(200));
    let serving = Serving::start(&team, &[]);
    let url = format!("{}/mcp", serving.url);
    let person = Program::new();
    let header = format!("Authorization: Bearer {}", token(&url).unwrap());
    let proxy = || Proxied::of(person.command(&["proxy", "--url", &url, "--header", &header]));
    let mut first = proxy();
    first.initialize(&json!({}));
    let answer = first.call("recall_memories", &json!({"query": "harbour", "detail": "full"}));
    let found = reference(&answer);
    drop(first);
    // No server behind it: what was stored is enough.
    drop(serving);
    let mut second = proxy();
    let sql = "select count(*) as n from results";
    let answer = second.call("lro_extract", &json!({"ref": found, "sql": sql}));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "1 of 1 rows.\n{\"n\":200}\n");
}

#[test]
fn an_invalid_server_url_is_reported_before_anything_is_sent() {
    let program = Program::new();
    for (url, told) in [
        ("http://example.com/mcp", "https://"),
        ("ftp://example.com", "unsupported scheme"),
        ("example", "expected a URL"),
        ("https://user:SECRET@example.com/mcp", "in a header"),
    ] {
        let run = program.run(&["proxy", "--url", url]);
        assert_eq!(run.status, 2, "{run}");
        assert!(run.stderr.contains(told) && !run.stderr.contains("SECRET"), "{run}");
    }
    let header = ["proxy", "--url", "https://example.com/mcp", "--header", "X-Key: ${NO_SUCH}"];
    let run = program.run(&header);
    assert_eq!(run.status, 2, "{run}");
    assert!(run.stderr.contains("environment variable NO_SUCH is not set"), "{run}");
    let run = program.run(&["proxy"]);
    assert_eq!(run.status, 2, "{run}");
}

#[test]
fn headers_come_from_flags_configuration_and_environment() {
    let server = testkit::http::HttpServer::start(|asked, stream| {
        let id = &asked.json()["id"];
        let body = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        testkit::http::reply_json(stream, "200 OK", &body)
    });
    let origin = server.url("");
    let config = format!(
        "[proxy]\nheaders = [\"{origin} X-Configured: ${{KEY}}\", \"https://example.com X-Other: no\"]\n"
    );
    let program = Program::new()
        .file("home/.config/atlatl/config.toml", config)
        .variable("KEY", "from the environment");
    let url = server.url("/mcp");
    let args = ["proxy", "--url", &url, "--header", "Authorization: Bearer ${KEY}"];
    let mut client = Proxied::of(program.command(&args));
    client.exchange("ping", &json!({}));
    let asked = server.asked();
    assert_eq!(asked[0].header("x-configured"), Some("from the environment"));
    assert_eq!(asked[0].header("authorization"), Some("Bearer from the environment"));
    assert_eq!(asked[0].header("x-other"), None);
    let shown = program.run(&["config", "show"]);
    assert!(shown.stdout.contains("proxy.headers") && !shown.stdout.contains("${KEY}"), "{shown}");
}

/// The environments of the specification's deployment matrix.
const ENVIRONMENTS: [&str; 9] = [
    "Claude Code, Cursor, Windsurf",
    "IDE agents (Copilot, Cody)",
    "remote server over streamable HTTP, no proxy",
    "remote server and a local proxy",
    "remote server, local proxy, native extraction",
    "web chat (ChatGPT, Claude.ai)",
    "web chat and a proxy with native extraction",
    "mobile applications",
    "serverless agents (Lambda)",
];

#[test]
fn p7_the_guide_says_what_happens_in_each_environment() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/remote.md");
    let guide = fs::read_to_string(guide).unwrap();
    let rows = |environment: &str| {
        guide.lines().filter(|line| line.starts_with(&format!("| {environment} |"))).count()
    };
    for environment in ENVIRONMENTS {
        assert_eq!(rows(environment), 1, "{environment}");
    }
}
