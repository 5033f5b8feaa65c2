//! Stateless requests (2026-07-28): headers that repeat the body, and cancellation.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::http::{HttpServer, begin_events, reply_json};

use super::client::{Client, answer, default_response, stateless_request};

#[test]
fn p6_a_request_is_said_again_in_headers_and_has_no_session() {
    let server = HttpServer::start(default_response);
    let mut client = Client::connect(&server);
    client.request(&stateless_request(1, "tools/call", json!({"name": "größe"})));
    client.request(&stateless_request(2, "resources/read", json!({"uri": "a://b"})));
    client.request(&stateless_request(3, "tasks/get", json!({"taskId": "t-1"})));
    client.request(&stateless_request(4, "server/discover", json!({})));
    let received = server.asked();
    let of: Vec<_> = received
        .iter()
        .map(|received| (received.header("mcp-method").unwrap(), received.header("mcp-name")))
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
    for received in received.iter() {
        assert_eq!(received.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(received.header("mcp-session-id"), None);
        let info = &received.json()["params"]["_meta"]["io.modelcontextprotocol/clientInfo"];
        assert_eq!(info["proxy"], true, "P6");
    }
    drop(received);
    client.disconnect();
    assert!(server.asked().iter().all(|received| received.method == "POST"));
}

#[test]
fn arguments_stand_in_headers_where_the_schema_asks_for_it() {
    let server = HttpServer::start(|received, stream| {
        let message = received.json();
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
            Some("tools/call") if received.header("mcp-param-region") != Some("eu") => {
                let error = json!({"code": -32020, "message": "Mcp-Param-Region is missing"});
                reply_json(
                    stream,
                    "400 Bad Request",
                    &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
                )
            }
            _ => default_response(received, stream),
        }
    });
    // The client has not listed the tools, so the proxy looks up the schema.
    let mut client = Client::connect(&server);
    let tool_call = |id| {
        stateless_request(id, "tools/call", json!({"name": "t", "arguments": {"region": "eu"}}))
    };
    assert_eq!(client.request(&tool_call(1)), answer(&json!(1)));
    let before = server.asked().len();
    assert_eq!(before, 4, "refused, two pages, answered");
    assert_eq!(client.request(&tool_call(2)), answer(&json!(2)));
    assert_eq!(server.asked().len(), before + 1, "it is remembered");
    // Errors for other reasons reach the client.
    let wrong =
        stateless_request(3, "tools/call", json!({"name": "t", "arguments": {"region": "us"}}));
    assert_eq!(client.request(&wrong)["error"]["code"], -32020);
    assert!(client.receives_nothing());
}

#[test]
fn a_cancelled_stateless_request_closes_its_stream_and_sends_nothing() {
    let closed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&closed);
    let server = HttpServer::start(move |received, stream| {
        if received.json()["id"] != 1 {
            return default_response(received, stream);
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
    let mut client = Client::connect(&server);
    client.send(&stateless_request(1, "tools/call", json!({"name": "slow"})));
    thread::sleep(Duration::from_millis(150));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let began = std::time::Instant::now();
    while !closed.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(closed.load(Ordering::SeqCst), "the stream is closed");
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(
        client.request(&stateless_request(2, "tools/call", json!({"name": "t"}))),
        answer(&json!(2))
    );
    assert!(client.receives_nothing());
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_subscription_may_be_silent_for_longer_than_an_answer() {
    let server = HttpServer::start(|received, stream| {
        if received.json()["method"] != "subscriptions/listen" {
            return default_response(received, stream);
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
    client.send(&stateless_request(
        1,
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    ));
    assert_eq!(client.receive()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(client.receive()["method"], "notifications/tools/list_changed");
    // The stream was interrupted; the client needs an error to request it again.
    let heard = client.receive();
    assert_eq!((&heard["id"], heard["error"]["code"].is_number()), (&json!(1), true), "{heard}");
}
