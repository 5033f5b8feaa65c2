//! Traces: what a collector gets to know of requests, and what it does not.

mod asking;
pub(crate) mod collector;
mod costs;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};

use self::asking::{Asker, CAPABILITIES, SPAN, parent, request, trace};
use self::collector::{Collector, said};
use crate::program::Program;
use crate::serving::{Serving, harbours, remembering};

const SERVER: i32 = 2;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The spans of a trace: the request's, and those below it by name.
fn of_trace(spans: &[Span], trace: &str) -> (Span, Vec<String>) {
    let of: Vec<&Span> = spans.iter().filter(|span| hex(&span.trace_id) == trace).collect();
    let requests: Vec<&&Span> = of.iter().filter(|span| span.kind == SERVER).collect();
    assert_eq!(requests.len(), 1, "{trace}: {of:?}");
    let request = requests[0];
    let below = of.iter().filter(|span| span.parent_span_id == request.span_id);
    let below: Vec<String> = below.map(|span| span.name.clone()).collect();
    assert_eq!(below.len() + 1, of.len(), "{of:?}");
    ((**request).clone(), below)
}

#[test]
fn the_span_in_meta_is_the_parent_before_the_one_in_the_headers() {
    let collector = Collector::start();
    let program = collector.of(remembering(&harbours(200)));
    let files = ["--set", "prompt.offload.shared_filesystem=true"];
    let mut serving = Serving::start(&program, &files);
    let mut asker = Asker::of(&serving);
    let light = json!({"query": "harbour", "limit": 1});
    let full = json!({"query": "harbour", "detail": "full"});

    let header = parent(1);
    let in_header = [("traceparent", &*header), ("tracestate", "a=1"), ("tracestate", "b=2")];
    let meta = json!({"traceparent": parent(2), "tracestate": "rojo=00f067aa,congo=t61"});
    asker.call(&in_header, meta, "recall_memories", &light);
    asker.call(&in_header, Value::Null, "recall_memories", &light);
    let found = asker.modern(json!({"traceparent": parent(3)}), "recall_memories", &full);
    assert!(found["result"]["structuredContent"]["lro"].is_object(), "{found}");
    // A call that could have become a task runs in another thread.
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let meta = json!({"traceparent": parent(4), CAPABILITIES: tasks});
    asker.modern(meta, "search_memories", &light);
    let reference = found["result"]["structuredContent"]["lro"]["ref"].clone();
    let question = json!({"ref": reference, "sql": "select count(*) from results"});
    asker.modern(json!({"traceparent": parent(5)}), "lro_extract", &question);
    asker.modern(json!({"traceparent": parent(6)}), "get_memory", &json!({"id": "nobody"}));
    assert!(serving.end_by("-TERM").success());

    let spans = collector.spans();
    for (n, name, state, below) in [
        (1, "tools/call recall_memories", "a=1,b=2", &["store", "intercept"][..]),
        (2, "tools/call recall_memories", "rojo=00f067aa,congo=t61", &["store", "intercept"]),
        (3, "tools/call recall_memories", "", &["store", "intercept"]),
        (4, "tools/call search_memories", "", &["store", "intercept"]),
        (5, "tools/call lro_extract", "", &["extract"]),
    ] {
        let (span, parts) = of_trace(&spans, &trace(n));
        assert_eq!((&*span.name, &*span.trace_state), (name, state), "{n}");
        assert_eq!(hex(&span.parent_span_id), SPAN, "{n}");
        assert_eq!(parts, below, "{n}");
        assert_eq!(said(&span.attributes, "error.type"), None, "{n}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    let attributes = |n| of_trace(&spans, &trace(n)).0.attributes;
    let of = |n, key| said(&attributes(n), key);
    assert_eq!(of(2, "mcp.method.name").as_deref(), Some("tools/call"));
    assert_eq!(of(2, "gen_ai.tool.name").as_deref(), Some("recall_memories"));
    assert_eq!(of(2, "atlatl.era").as_deref(), Some("legacy"));
    assert_eq!(of(2, "atlatl.result.count").as_deref(), Some("1"));
    assert_eq!(of(2, "atlatl.result.total_matches").as_deref(), Some("200"));
    assert_eq!(of(3, "atlatl.era").as_deref(), Some("modern"));
    assert_eq!(of(3, "atlatl.result.count").as_deref(), Some("200"));
    assert_eq!(of(3, "atlatl.delivery").as_deref(), Some("stored"));
    assert_eq!(of(4, "atlatl.result.count").as_deref(), Some("1"));
    assert_eq!(of(6, "error.type").as_deref(), Some("arguments"));
}

#[test]
fn a_parent_that_is_none_makes_a_new_root_and_one_that_is_not_sampled_makes_nothing() {
    let collector = Collector::start();
    let mut serving = Serving::start(&collector.of(Program::new()), &[]);
    let mut asker = Asker::of(&serving);
    let good = parent(1);
    let long = format!("{good}-{}", "x".repeat(100_000));
    let wrong = [
        "",
        "00",
        "nonsense\u{7}\u{1b}[2J",
        &good.to_uppercase(),
        &long,
        &good.replace("00-", "ff-"),
        &good.replace(SPAN, "0000000000000000"),
        &format!("{good}\n{good}"),
    ];
    for value in wrong {
        asker.ask(&[], &request("ping", &json!({"_meta": {"traceparent": value}})));
    }
    for value in [json!(7), json!(null), json!([good]), json!({"a": good})] {
        asker.ask(&[], &request("ping", &json!({"_meta": {"traceparent": value}})));
    }
    let twice = [("traceparent", &*good), ("traceparent", &*good)];
    asker.ask(&twice, &request("ping", &json!({})));
    asker.ask(&[("traceparent", "00-?")], &request("ping", &json!({})));
    // What is no parent in the one place does not hide the one in the other.
    let other = parent(2);
    let meta = json!({"_meta": {"traceparent": "00-", "tracestate": "a=1"}});
    asker.ask(&[("traceparent", &other)], &request("ping", &meta));
    // The parent counts where its state does not.
    for (n, state) in [(3, format!("a={}", "x".repeat(511))), (4, "=,=\u{1b}".to_owned())] {
        let meta = json!({"_meta": {"traceparent": parent(n), "tracestate": state}});
        asker.ask(&[], &request("ping", &meta));
    }
    let unsampled = parent(5).replace("-01", "-00");
    asker.ask(&[], &request("ping", &json!({"_meta": {"traceparent": unsampled}})));
    assert!(serving.end_by("-TERM").success());

    let spans = collector.spans();
    for n in [2, 3, 4] {
        let (span, _) = of_trace(&spans, &trace(n));
        assert_eq!((hex(&span.parent_span_id).as_str(), &*span.trace_state), (SPAN, ""), "{n}");
    }
    let roots: Vec<_> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    assert_eq!((roots.len(), spans.len()), (wrong.len() + 6, wrong.len() + 9), "{spans:?}");
    let traces: BTreeSet<_> = roots.iter().map(|span| hex(&span.trace_id)).collect();
    assert_eq!(traces.len(), roots.len());
    assert!(traces.iter().all(|known| !known.starts_with(&trace(0)[..28])), "{traces:?}");
}

#[test]
fn nothing_that_a_client_or_a_memory_says_gets_to_the_collector() {
    const TOKEN: &str = "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";
    let collector = Collector::start();
    let program = collector
        .of(Program::new().file("work/tokens", format!("{TOKEN}\n")))
        .variable("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of%20the%20collector")
        .variable("OTEL_SERVICE_NAME", "memories-of-a-team");
    fs::set_permissions(program.path("work/tokens"), Permissions::from_mode(0o600)).unwrap();
    let settings = ["--set", "server.auth=token-file:tokens"];
    let mut serving = Serving::start(&program, &settings);
    let mut asker = Asker::of(&serving);
    let bearer = format!("Bearer {TOKEN}");
    let auth = [("Authorization", &*bearer), ("baggage", "user=canary-baggage")];

    let content = json!({"content": "canary-content", "title": "canary-title", "tags": ["canary-tag"], "memory_type": "semantic"});
    let meta = json!({"baggage": "user=canary-baggage", "progressToken": "canary-progress"});
    let stored = asker.call(&auth, meta, "capture_memory", &content);
    let id = stored["result"]["structuredContent"]["memory"]["id"].as_str().unwrap().to_owned();
    for (tool, arguments) in [
        ("recall_memories", json!({"query": "canary-content"})),
        ("get_memory", json!({"id": id})),
        ("get_memory", json!({"id": "canary-id"})),
        ("inject_context", json!({"query": "canary-query"})),
        ("canary-tool", json!({})),
        ("update_memory", json!({"id": id, "content": "canary-changed"})),
        ("recall_memories", json!({"canary-argument": 1})),
        ("delete_memory", json!({"id": id})),
    ] {
        asker.call(&auth, Value::Null, tool, &arguments);
    }
    for (method, params) in [
        ("canary/method", json!({})),
        ("resources/read", json!({"uri": format!("memory://{id}/canary-resource")})),
        ("prompts/get", json!({"name": "canary-prompt"})),
        ("tasks/get", json!({"taskId": "canary-task"})),
        (
            "initialize",
            json!({"protocolVersion": "canary-version", "clientInfo": {"name": "canary-client"}}),
        ),
    ] {
        asker.ask(&auth, &request(method, &params));
    }
    // A request without a token has no span.
    asker.ask(&[("traceparent", &parent(1))], &request("ping", &json!({})));
    assert!(serving.end_by("-TERM").success());

    let spans = collector.spans();
    assert_eq!(spans.iter().filter(|span| span.kind == SERVER).count(), 14, "{spans:?}");
    let bytes = String::from_utf8_lossy(&collector.bytes()).into_owned();
    assert!(bytes.contains("tools/call recall_memories"), "{bytes}");
    for secret in
        ["canary", TOKEN, &id, "harbour", &serving.url, program.path("").to_str().unwrap()]
    {
        assert!(!bytes.contains(secret), "{secret}: {bytes}");
    }
    let keys = spans.iter().flat_map(|span| &span.attributes).map(|said| &*said.key);
    let expected = [
        "atlatl.delivery",
        "atlatl.era",
        "atlatl.result.count",
        "atlatl.result.total_matches",
        "error.type",
        "gen_ai.tool.name",
        "mcp.method.name",
        "rpc.response.status_code",
        "rpc.system.name",
    ];
    assert_eq!(keys.collect::<BTreeSet<_>>(), BTreeSet::from(expected));
    assert!(spans.iter().all(|span| span.events.is_empty() && span.links.is_empty()));
    let refused = spans.iter().find(|span| span.name == "_OTHER").unwrap();
    assert_eq!(said(&refused.attributes, "rpc.response.status_code").unwrap(), "-32601");

    for resource in collector.resources() {
        let attributes = resource.resource.unwrap().attributes;
        assert_eq!(said(&attributes, "service.name").unwrap(), "memories-of-a-team");
    }
    for (path, kind, key) in collector.heads("x-key") {
        assert_eq!((&*path, &*kind), ("/v1/traces", "application/x-protobuf"));
        assert_eq!(key.as_deref(), Some("of the collector"));
    }
}
