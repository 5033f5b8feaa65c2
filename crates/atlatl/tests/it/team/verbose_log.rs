//! The most verbose log: no content, key, token or password, whatever goes wrong.
//!
//! Everything that goes in has [`CANARY`] in it or is a secret of its own. [`Serving`] and [`Collector`] search what
//! comes out when they end.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use testkit::authority::{AccessTokenSigner, Authority};
use testkit::http::{HttpServer, reply_json};
use testkit::postgres::PostgresServer;

use super::tenants::{House, ask, keep, tool};
use super::*;
use crate::traces::collector::Collector;

/// A part of each content, and of each name that a client makes up.
const CANARY: &str = "CANARY-4c1d9";
/// In texts that get vectors. The endpoint refuses all others that have the canary.
const EMBEDDABLE: &str = "with a vector";
/// In texts that the endpoint refuses for good.
const REFUSED: &str = "without a vector";
const WAIT: Duration = Duration::from_secs(30);

/// An embedding endpoint whose errors quote the texts that it was sent.
fn quoting_endpoint() -> HttpServer {
    HttpServer::start(|request, stream| {
        let body = request.json();
        let texts: Vec<&str> =
            body["input"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let error = json!({"error": {"message": texts.join(" ")}});
        let has = |what: &str| texts.iter().any(|text| text.contains(what));
        if has(REFUSED) {
            return reply_json(stream, "400 Bad Request", &error);
        }
        if has(CANARY) && !has(EMBEDDABLE) {
            return reply_json(stream, "500 Internal Server Error", &error);
        }
        let item = |(index, text): (usize, &&str)| json!({"index": index, "embedding": [1, 2, text.len()]});
        let data: Vec<Value> = texts.iter().enumerate().map(item).collect();
        reply_json(stream, "200 OK", &json!({"data": data}))
    })
}

/// A running server with all that it depends on.
struct Fixture {
    server: PostgresServer,
    bucket: s3::S3Server,
    database: String,
    authority: Authority,
    key: String,
    /// Ends before the directory of the program is gone.
    serving: Serving,
    collector: Collector,
    _endpoint: HttpServer,
    house: House,
}

impl Fixture {
    /// Starts a server. `RUST_LOG` is above `server.log.level`.
    fn start(format: &str, rust_log: &str, level: &str) -> Self {
        canaries::register_content(CANARY);
        let (authority, collector) = (Authority::start(), Collector::start());
        let endpoint = quoting_endpoint();
        let server = PostgresServer::start(&["fsync=off"]);
        let database = server.database();
        let house = House::of(&server, &database);
        let run = house.run(&["db", "migrate"]);
        assert_eq!(run.status, 0, "{run}");
        let key = house.tenant("ann");
        let bucket = s3::S3Server::start();
        let program = storing(collector.of(house.program), &bucket).variable("RUST_LOG", rust_log);
        let house = House { program, owner: house.owner };
        let settings = [
            format!("server.log.format={format}"),
            format!("server.log.level={level}"),
            format!("server.auth=keys,oauth:{}", authority.url("")),
            format!("memory.embedder=openai:{}#m", endpoint.url("/v1")),
            "server.admin.listen=127.0.0.1:0".to_owned(),
            "server.audit=audit.jsonl".to_owned(),
        ];
        let args: Vec<&str> = settings.iter().flat_map(|one| ["--set", one.as_str()]).collect();
        let serving = Serving::start(&house.program, &args);
        let resource = format!("{}/mcp", serving.url);
        authority.ledger().signer = Some(AccessTokenSigner::new("ann", &resource));
        let fixture = Self {
            server,
            bucket,
            database,
            authority,
            key,
            serving,
            collector,
            _endpoint: endpoint,
            house,
        };
        fixture.wait_until_ready();
        fixture
    }

    fn url(&self) -> &str {
        &self.serving.url
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        ask(self.url(), &self.key, method, path, body)
    }

    fn tool(&self, name: &str, arguments: &Value) -> Value {
        tool(self.url(), &self.key, name, arguments)
    }

    /// Sends a request with further headers; a refusal may close the connection before an answer is read.
    fn send(&self, method: &str, path: &str, body: &str, headers: &str) {
        let headers = format!("Authorization: Bearer {}\r\n{headers}", self.key);
        asked_with(self.url(), method, path, body, &headers);
    }

    fn wait_until_ready(&self) {
        let began = Instant::now();
        while asked(self.url(), "GET", "/readyz", "").is_none_or(|answer| answer.status != 200) {
            assert!(began.elapsed() < WAIT, "{:?}", self.serving.lines());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a line of the log contains `text`.
    fn wait_for_line(&self, text: &str) {
        let began = Instant::now();
        while !self.serving.lines().iter().any(|line| line.contains(text)) {
            assert!(began.elapsed() < WAIT, "{text}: {:#?}", self.serving.lines());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Every operation on memories, and on a stored result.
fn use_memories(fixture: &Fixture) {
    let content = format!("{CANARY}: the code of the \"north\" gate\nis 7731, {EMBEDDABLE}");
    let id = keep(fixture.url(), &fixture.key, &content);
    let path = format!("/v1/memories/{id}");
    assert_eq!(fixture.ask("GET", &path, "").status, 200);
    let search = json!({"query": format!("{CANARY} gate"), "explain": true}).to_string();
    assert_eq!(fixture.ask("POST", "/v1/search", &search).status, 200);
    for (name, arguments) in [
        ("capture_memory", json!({"content": content, "title": CANARY, "memory_type": "semantic"})),
        ("recall_memories", json!({"query": format!("{CANARY} gate {EMBEDDABLE}")})),
        ("search_memories", json!({"query": format!("{CANARY} {EMBEDDABLE}")})),
        ("inject_context", json!({"query": format!("{CANARY} {EMBEDDABLE}")})),
        ("list_memories", json!({"detail": "full", "tags": [CANARY]})),
        ("get_memory", json!({"id": id})),
        ("update_memory", json!({"id": id, "content": format!("{content}, changed")})),
        ("delete_memory", json!({"id": id})),
    ] {
        let answer = fixture.tool(name, &arguments);
        assert_eq!(answer["result"]["isError"], Value::Null, "{name}: {answer}");
    }
    for n in 0..60 {
        let text = format!("{CANARY} {n} {EMBEDDABLE} {}", "in the harbour ".repeat(40));
        keep(fixture.url(), &fixture.key, &text);
    }
    let large = fixture.tool("list_memories", &json!({"detail": "full"}));
    let descriptor = &large["result"]["structuredContent"];
    assert_eq!(descriptor["offloaded"], true, "{large}");
    let link = descriptor["file_path"].as_str().unwrap();
    // The signature of a link is as good as a token.
    canaries::register_token(link.rsplit('/').next().unwrap());
    let path = link.strip_prefix(fixture.url()).unwrap();
    assert_eq!(asked(fixture.url(), "GET", path, "").unwrap().status, 200);
    let reference = &descriptor["lro"]["ref"];
    let sql = format!("SELECT content FROM results WHERE content LIKE '%{CANARY}%' LIMIT 3");
    for (name, arguments) in [
        ("lro_extract", json!({"ref": reference, "sql": sql})),
        ("lro_extract", json!({"ref": reference, "query": "length", "whole": true})),
        ("search_large_output", json!({"ref": reference, "pattern": CANARY})),
        ("read_large_output", json!({"ref": reference, "unit": "records", "start": 0, "end": 2})),
    ] {
        let answer = fixture.tool(name, &arguments);
        assert_eq!(answer["result"]["isError"], Value::Null, "{name} {arguments}: {answer}");
    }
    // Questions that fail.
    for arguments in [
        json!({"ref": reference, "sql": format!("SELECT '{CANARY}' FRM x")}),
        json!({"ref": reference, "query": format!("error(\"{CANARY}\")")}),
        json!({"ref": CANARY, "sql": sql}),
    ] {
        fixture.tool("lro_extract", &arguments);
    }
}

/// Requests that are wrong in all parts that a client makes up.
fn send_wrong_requests(fixture: &Fixture) {
    for body in [
        format!("{{\"content\": \"{CANARY} is not closed"),
        format!("{{\"content\": {CANARY}}}"),
        json!({"content": [CANARY], "memory_type": "semantic"}).to_string(),
        json!({"content": CANARY, "memory_type": CANARY}).to_string(),
        json!({"content": CANARY, "memory_type": "semantic", CANARY: 1}).to_string(),
        json!({"query": 7, "mode": CANARY}).to_string(),
        json!([CANARY]).to_string(),
        // Larger than any body may be.
        format!("\"{}\"", CANARY.repeat(800_000)),
    ] {
        for path in ["/v1/memories", "/v1/search", "/mcp"] {
            fixture.send("POST", path, &body, "");
        }
    }
    for (name, arguments) in [
        (CANARY, json!({})),
        ("capture_memory", json!({"content": {"text": CANARY}, "memory_type": "semantic"})),
        ("capture_memory", json!({"content": CANARY, "memory_type": CANARY})),
        ("recall_memories", json!({CANARY: 1})),
        ("recall_memories", json!({"query": CANARY, "limit": CANARY, "since": CANARY})),
        ("list_memories", json!({"cursor": CANARY})),
        ("get_memory", json!({"id": CANARY})),
        ("update_memory", json!({"id": CANARY, "content": CANARY})),
    ] {
        let answer = fixture.tool(name, &arguments);
        assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
    }
    for (method, params) in [
        (CANARY, json!({})),
        ("resources/read", json!({"uri": format!("memory://{CANARY}")})),
        ("prompts/get", json!({"name": CANARY})),
        ("tasks/get", json!({"taskId": CANARY})),
        ("initialize", json!({"protocolVersion": CANARY, "clientInfo": {"name": CANARY}})),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": CANARY, "method": method, "params": params});
        fixture.send("POST", "/mcp", &body.to_string(), "");
    }
    for (method, path) in [
        ("GET", format!("/v1/memories/{CANARY}?key={CANARY}")),
        ("GET", format!("/{CANARY}")),
        ("GET", format!("/v1/memories?limit={CANARY}&{CANARY}=1")),
        ("GET", format!("/v1/offloads/{CANARY}/{CANARY}")),
        ("DELETE", format!("/v1/memories/{CANARY}")),
        (CANARY, "/v1/memories".to_owned()),
        (CANARY, "/mcp".to_owned()),
    ] {
        fixture.send(method, &path, "", "");
    }
    for header in [
        format!("Host: {CANARY}.example"),
        format!("Origin: https://{CANARY}.example"),
        format!("X-Request-Id: {CANARY} \"unsafe\""),
        format!("Mcp-Session-Id: {CANARY}"),
        format!("MCP-Protocol-Version: {CANARY}"),
        format!("User-Agent: {CANARY}"),
        format!("Cookie: session={CANARY}"),
        format!("traceparent: 00-{CANARY}\r\nbaggage: user={CANARY}"),
        format!("Content-Type: text/{CANARY}"),
        format!("{CANARY}: {CANARY}"),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        fixture.send("POST", "/mcp", &body, &format!("{header}\r\n"));
        fixture.send("GET", "/v1/memories?limit=1", "", &format!("{header}\r\n"));
    }
}

/// Credentials that are not accepted, and one access token that is.
fn send_credentials(fixture: &Fixture) {
    let signer = fixture.authority.ledger().signer.clone().unwrap();
    let claims = |lifetime| {
        let issuer = fixture.authority.url("");
        signer.claims(&issuer, "memory:read memory:write", lifetime)
    };
    let get = |token: &str| ask(fixture.url(), token, "GET", "/v1/memories?limit=1", "").status;
    let token = signer.sign(&claims(600));
    assert_eq!(get(&token), 200);
    let mut expired = claims(600);
    expired["exp"] = json!(1_600_000_000);
    let mut stranger = claims(600);
    stranger["tenant"] = json!("nobody");
    let last = if fixture.key.ends_with('1') { '2' } else { '1' };
    let wrong_key = format!("{}{last}", &fixture.key[..fixture.key.len() - 1]);
    let other = AccessTokenSigner { key: 1, ..signer.clone() };
    for wrong in [
        wrong_key,
        format!("{}A", fixture.key),
        signer.sign(&expired),
        signer.sign(&stranger),
        other.sign(&claims(600)),
        token[..token.len() - 4].to_owned(),
    ] {
        assert!([401, 403].contains(&get(&wrong)), "{}", &wrong[..8]);
    }
    let in_query = format!("/v1/memories?access_token={token}&key={}", fixture.key);
    assert_eq!(asked(fixture.url(), "GET", &in_query, "").unwrap().status, 400);
    let twice = format!("Authorization: Bearer {token}\r\n").repeat(2);
    assert_eq!(asked_with(fixture.url(), "GET", "/v1/memories", "", &twice).unwrap().status, 400);
    let basic = format!("Authorization: Basic {}\r\n", fixture.key);
    asked_with(fixture.url(), "GET", "/v1/memories", "", &basic);
    fixture.wait_for_line("refused a token");
}

/// Errors of the database whose detail quotes a row: of a batch of vectors, and of a request.
fn refuse_rows(fixture: &Fixture) {
    let sql = |statement: &str| fixture.server.sql(&fixture.database, statement);
    sql(&format!(
        "CREATE FUNCTION atlatl.refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'refused' USING DETAIL = 'Failing row contains ({CANARY})', \
         ERRCODE = 'check_violation'; END $$"
    ));
    let refuse = |table: &str| {
        sql(&format!(
            "CREATE TRIGGER refuse_row BEFORE INSERT OR UPDATE ON atlatl.{table} FOR EACH ROW \
             EXECUTE FUNCTION atlatl.refuse_row()"
        ))
    };
    refuse("embedding");
    keep(fixture.url(), &fixture.key, &format!("{CANARY} {EMBEDDABLE}, once more"));
    fixture.wait_for_line("embedding is retried");
    sql("DROP TRIGGER refuse_row ON atlatl.embedding");
    refuse("document");
    let memory = json!({"content": CANARY, "memory_type": "semantic"});
    assert!(fixture.ask("POST", "/v1/memories", &memory.to_string()).status >= 500);
    let refused = fixture.tool("capture_memory", &memory);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    sql("DROP TRIGGER refuse_row ON atlatl.document");
}

/// Errors of the endpoint, which quote the text of a query and of memories.
fn refuse_texts(fixture: &Fixture) {
    fixture.tool("recall_memories", &json!({"query": format!("{CANARY} harbour")}));
    keep(fixture.url(), &fixture.key, &format!("{CANARY} {REFUSED}"));
    fixture.wait_for_line("stored without a vector");
    keep(fixture.url(), &fixture.key, &format!("{CANARY} that fails"));
    fixture.wait_for_line("embedder is unavailable");
}

/// Outages of the database and of the bucket.
fn break_services(fixture: &Fixture) {
    let memory = json!({"content": CANARY, "memory_type": "semantic"});
    let call = json!({"name": "capture_memory", "arguments": memory});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    fixture.server.kill();
    assert_eq!(fixture.ask("POST", "/v1/memories", &memory.to_string()).status, 503);
    fixture.send("POST", "/mcp", &call.to_string(), "");
    let unknown = fixture.key.replacen(&fixture.key[4..8], "zzzz", 1);
    ask(fixture.url(), &unknown, "GET", "/v1/memories", "");
    fixture.wait_for_line("postgresql is unavailable");
    fixture.server.start_again();
    fixture.wait_until_ready();
    fixture.bucket.kill();
    fixture.tool("list_memories", &json!({"detail": "full"}));
    fixture.wait_for_line("object_storage is unavailable");
    fixture.bucket.start_again();
}

fn reload(fixture: &Fixture) -> io::Result<()> {
    let id = fixture.serving.id().to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &id]).status()?.success());
    fixture.wait_for_line("reloaded tokens, keys and log level");
    Ok(())
}

fn nothing_is_written(format: &str, rust_log: &str, level: &str) {
    let mut fixture = Fixture::start(format, rust_log, level);
    use_memories(&fixture);
    send_wrong_requests(&fixture);
    send_credentials(&fixture);
    refuse_rows(&fixture);
    refuse_texts(&fixture);
    break_services(&fixture);
    reload(&fixture).unwrap();
    // All places have something, or the search at the end shows nothing.
    let admin = fixture.serving.admin().unwrap();
    let metrics = asked(&admin, "GET", "/metrics", "").unwrap();
    assert!(metrics.body.contains("tool=\"capture_memory\""), "{metrics:?}");
    let lines = fixture.serving.lines();
    let requests = lines.iter().filter(|line| line.contains("request_id")).count();
    assert!(requests > 100, "{requests} of {} lines are about requests", lines.len());
    let audit = fixture.house.program.path("work/audit.jsonl");
    let audit = std::fs::read_to_string(audit).unwrap();
    assert!(audit.contains("POST /v1/memories") && audit.contains("AccessDenied"), "{audit}");
    assert!(fixture.serving.end_by("-TERM").success());
    assert!(fixture.collector.posts() > 0);
}

#[test]
fn g43_a_json_log_at_trace_has_no_contents_and_no_secrets() {
    nothing_is_written("json", "trace", "info");
}

#[test]
fn g43_a_text_log_at_trace_has_no_contents_and_no_secrets() {
    // An empty variable is none.
    nothing_is_written("text", "", "trace");
}
