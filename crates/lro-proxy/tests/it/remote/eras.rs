//! The newer era: every request for itself, said again in headers.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::http::{HttpServer, begin_events, reply_json};

use super::client::{Client, answer, modern, usual};

#[test]
fn p6_a_request_is_said_again_in_headers_and_has_no_session() {
    let server = HttpServer::start(usual);
    let mut client = Client::of(&server);
    client.asks(&modern(1, "tools/call", json!({"name": "größe"})));
    client.asks(&modern(2, "resources/read", json!({"uri": "a://b"})));
    client.asks(&modern(3, "tasks/get", json!({"taskId": "t-1"})));
    client.asks(&modern(4, "server/discover", json!({})));
    let asked = server.asked();
    let of: Vec<_> = asked
        .iter()
        .map(|asked| (asked.header("mcp-method").unwrap(), asked.header("mcp-name")))
        .collect();
    assert_eq!(
        of,
        [
            ("tools/call", Some("=?base64?Z3LDtsOfZQ==?=")),
            ("resources/read", Some("a://b")),
            ("tasks/get", Some("t-1")),
            ("server/discover", None),
        ]
    );
    for asked in asked.iter() {
        assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(asked.header("mcp-session-id"), None);
        let info = &asked.json()["params"]["_meta"]["io.modelcontextprotocol/clientInfo"];
        assert_eq!(info["proxy"], true, "P6");
    }
    drop(asked);
    client.leaves();
    assert!(server.asked().iter().all(|asked| asked.method == "POST"));
}

#[test]
fn arguments_stand_in_headers_where_the_schema_asks_for_it() {
    let server = HttpServer::start(|asked, stream| {
        let message = asked.json();
        match message["method"].as_str() {
            Some("tools/list") => {
                let second = message["params"]["cursor"] == "2";
                let name = if second { "t" } else { "other" };
                let tool = json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}});
                let mut result = json!({"resultType": "complete", "tools": [tool]});
                if !second {
                    result["nextCursor"] = json!("2");
                }
                reply_json(
                    stream,
                    "200 OK",
                    &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
                )
            }
            Some("tools/call") if asked.header("mcp-param-region") != Some("eu") => {
                let error = json!({"code": -32020, "message": "Mcp-Param-Region is missing"});
                reply_json(
                    stream,
                    "400 Bad Request",
                    &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
                )
            }
            _ => usual(asked, stream),
        }
    });
    // Whoever calls before it has listed: the schema is looked up.
    let mut client = Client::of(&server);
    let called = |id| modern(id, "tools/call", json!({"name": "t", "arguments": {"region": "eu"}}));
    assert_eq!(client.asks(&called(1)), answer(&json!(1)));
    let before = server.asked().len();
    assert_eq!(before, 4, "refused, two pages, answered");
    assert_eq!(client.asks(&called(2)), answer(&json!(2)));
    assert_eq!(server.asked().len(), before + 1, "it is remembered");
    // What is wrong for another reason is told.
    let wrong = modern(3, "tools/call", json!({"name": "t", "arguments": {"region": "us"}}));
    assert_eq!(client.asks(&wrong)["error"]["code"], -32020);
    assert!(client.hears_nothing());
}

#[test]
fn a_cancelled_request_closes_its_stream_and_nothing_is_told() {
    let closed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&closed);
    let server = HttpServer::start(move |asked, stream| {
        if asked.json()["id"] != 1 {
            return usual(asked, stream);
        }
        begin_events(stream, &[])?;
        stream.write_all(b": nothing yet\n\n")?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let end = stream.read(&mut [0; 1]);
        seen.store(
            matches!(end, Ok(0))
                || end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
            Ordering::SeqCst,
        );
        Ok(())
    });
    let mut client = Client::of(&server);
    client.says(&modern(1, "tools/call", json!({"name": "slow"})));
    thread::sleep(Duration::from_millis(150));
    client.says(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let began = std::time::Instant::now();
    while !closed.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(closed.load(Ordering::SeqCst), "the stream is closed");
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(client.asks(&modern(2, "tools/call", json!({"name": "t"}))), answer(&json!(2)));
    assert!(client.hears_nothing());
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_subscription_may_be_silent_for_longer_than_an_answer() {
    let server = HttpServer::start(|asked, stream| {
        if asked.json()["method"] != "subscriptions/listen" {
            return usual(asked, stream);
        }
        begin_events(stream, &[])?;
        stream.write_all(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"}\n\n")?;
        thread::sleep(Duration::from_millis(700));
        stream.write_all(
            b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
        )?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    });
    let options =
        super::client::Options { silence: Duration::from_millis(200), ..Default::default() };
    let mut client = Client::with(&server, options, &lro_core::config::Config::default());
    client.says(&modern(
        1,
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    ));
    assert_eq!(client.hears()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(client.hears()["method"], "notifications/tools/list_changed");
    // It broke off, which the client must know in order to ask again.
    let heard = client.hears();
    assert_eq!((&heard["id"], heard["error"]["code"].is_number()), (&json!(1), true), "{heard}");
}
