//! Sessions (up to 2025-11-25): their headers, their event stream, and their renewal.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::http::{HttpServer, begin_events, reply};

use super::client::{Client, Options, answer, call, default_response};

fn broken() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionAborted.into())
}

#[test]
fn p6_a_session_is_kept_and_ended() {
    let server = HttpServer::start(default_response);
    let mut client = Client::connect(&server);
    client.initialize();
    client.request(&call(1));
    assert_eq!(client.disconnect().0, 0);
    let received = server.asked();
    let of: Vec<_> = received
        .iter()
        .map(|received| {
            (
                received.method.as_str(),
                received.header("mcp-session-id"),
                received.header("mcp-protocol-version"),
            )
        })
        .collect();
    let (session, version) = (Some("s-1"), Some("2025-11-25"));
    assert_eq!(of[0], ("POST", None, None));
    assert_eq!(of[1], ("POST", session, version));
    assert_eq!(received[1].json()["method"], "notifications/initialized");
    assert!(of.contains(&("GET", session, version)), "{of:?}");
    assert_eq!(*of.last().unwrap(), ("DELETE", session, version));
    assert_eq!(received[0].json()["params"]["clientInfo"]["proxy"], true, "P6");
    let accepted = received[0].header("accept").unwrap();
    assert!(accepted.contains("application/json") && accepted.contains("text/event-stream"));
}

#[test]
fn an_expired_session_is_renewed_once_for_all_waiting_requests() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let begun = Arc::clone(&sessions);
    let server = HttpServer::start(move |received, stream| {
        let message = received.json();
        if message["method"] == "initialize" {
            let session = format!("s-{}", begun.fetch_add(1, Ordering::SeqCst));
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            let headers = [("Content-Type", "application/json"), ("Mcp-Session-Id", &*session)];
            return reply(stream, "200 OK", &headers, body.as_bytes());
        }
        // The server drops the first session at the next request.
        if received.header("mcp-session-id") == Some("s-0") && message["method"] == "tools/call" {
            return reply(stream, "404 Not Found", &[], b"");
        }
        default_response(received, stream)
    });
    let mut client = Client::connect(&server);
    client.initialize();
    for id in 1..=8 {
        client.send(&call(id));
    }
    let mut heard: Vec<_> = (1..=8).map(|_| client.receive()).collect();
    heard.sort_by_key(|message| message["id"].as_u64());
    let wanted: Vec<_> = (1..=8).map(|id| answer(&json!(id))).collect();
    assert_eq!(heard, wanted);
    assert!(client.receives_nothing(), "the greeting of our own is ours");
    assert_eq!(sessions.load(Ordering::SeqCst), 2);
    let received = server.asked();
    let again =
        received.iter().filter(|received| received.json()["method"] == "notifications/initialized");
    let versions: Vec<_> =
        again.map(|received| received.header("mcp-protocol-version").map(str::to_owned)).collect();
    assert_eq!(versions, [Some("2025-06-18".to_owned()), Some("2025-06-18".to_owned())]);
}

#[test]
fn a_session_that_always_expires_is_an_error_of_the_request() {
    let server = HttpServer::start(|received, stream| match received.json()["method"].as_str() {
        Some("tools/call") => reply(stream, "404 Not Found", &[], b""),
        _ => default_response(received, stream),
    });
    let mut client = Client::connect(&server);
    client.initialize();
    let heard = client.request(&call(1));
    assert_eq!(heard["error"]["data"]["status"], 404, "{heard}");
    let greetings =
        server.asked().iter().filter(|received| received.json()["method"] == "initialize").count();
    assert_eq!(greetings, 2);
}

#[test]
fn a_stream_that_breaks_off_goes_on_behind_its_last_event() {
    let server = HttpServer::start(|received, stream| {
        let message = received.json();
        match (received.method.as_str(), received.header("last-event-id")) {
            ("GET", Some("e-1")) => {
                begin_events(stream, &[])?;
                write!(
                    stream,
                    "id: e-2\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{}}}}\n\n"
                )?;
                broken()
            }
            ("GET", Some("e-2")) => {
                begin_events(stream, &[])?;
                write!(stream, "id: e-3\ndata: {}\n\n", answer(&json!(1)))?;
                broken()
            }
            ("POST", _) if message["method"] == "tools/call" => {
                begin_events(stream, &[])?;
                stream.write_all(b"id: e-1\nretry: 60\ndata:\n\n")?;
                broken()
            }
            _ => default_response(received, stream),
        }
    });
    let mut client = Client::connect(&server);
    client.initialize();
    let began = Instant::now();
    client.send(&call(1));
    assert_eq!(client.receive()["method"], "notifications/message");
    assert_eq!(client.receive(), answer(&json!(1)));
    assert!(began.elapsed() > Duration::from_millis(120), "it waits as it is asked to");
    assert!(client.receives_nothing());
}

#[test]
fn a_stream_is_asked_for_a_bounded_number_of_times() {
    let server = HttpServer::start(|received, stream| {
        match (received.method.as_str(), received.json()["method"].as_str()) {
            ("GET", _) => {
                begin_events(stream, &[])?;
                broken()
            }
            (_, Some("tools/call")) => {
                begin_events(stream, &[])?;
                stream.write_all(b"id: 1\nretry: 1\ndata:\n\n")?;
                broken()
            }
            _ => default_response(received, stream),
        }
    });
    let mut client = Client::connect(&server);
    client.request(super::client::INITIALIZE);
    let heard = client.request(&call(1));
    assert!(heard["error"]["message"].as_str().unwrap().contains("incomplete response"), "{heard}");
    let resumed = server
        .asked()
        .iter()
        .filter(|received| received.header("last-event-id") == Some("1"))
        .count();
    assert_eq!(resumed, 5);
}

#[test]
fn the_stream_of_what_is_said_unasked_is_read_again_and_given_up() {
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let server = HttpServer::start(move |received, stream| {
        if received.method != "GET" {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => {
                stream.write_all(b"id: a\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")?;
            }
            1 => assert_eq!(received.header("last-event-id"), Some("a")),
            _ => {}
        }
        broken()
    });
    let mut client = Client::connect(&server);
    client.initialize();
    assert_eq!(client.receive()["method"], "notifications/tools/list_changed");
    let began = Instant::now();
    while opened.load(Ordering::SeqCst) < 6 && began.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(10));
    }
    // The proxy sends no further request.
    thread::sleep(Duration::from_millis(400));
    assert_eq!(opened.load(Ordering::SeqCst), 6);
    assert_eq!(client.request(&call(1)), answer(&json!(1)));
}

#[test]
fn a_cancelled_request_in_a_session_is_forwarded_and_not_answered() {
    let server = HttpServer::start(|received, stream| {
        if received.json()["method"] == "tools/call" && received.json()["id"] == 1 {
            thread::sleep(Duration::from_secs(3));
        }
        default_response(received, stream)
    });
    let mut client = Client::connect(&server);
    client.initialize();
    client.send(&call(1));
    thread::sleep(Duration::from_millis(100));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(client.request(&call(2)), answer(&json!(2)));
    assert!(client.receives_nothing());
    let resumed = server
        .asked()
        .iter()
        .any(|received| received.json()["method"] == "notifications/cancelled");
    assert!(resumed);
}

#[test]
fn a_stream_that_is_asked_for_again_and_never_comes_is_an_error_of_the_request() {
    let server = HttpServer::start(|received, stream| {
        match (received.method.as_str(), received.json()["method"].as_str()) {
            ("GET", _) if received.header("last-event-id").is_some() => {
                thread::sleep(Duration::from_secs(8));
                Ok(())
            }
            (_, Some("tools/call")) => {
                begin_events(stream, &[])?;
                stream.write_all(b"id: 1\nretry: 1\ndata:\n\n")?;
                broken()
            }
            _ => default_response(received, stream),
        }
    });
    let options = Options { silence: Duration::from_millis(200), ..Options::default() };
    let mut client = Client::with(&server, options, &lro_core::config::Config::default());
    client.initialize();
    let began = Instant::now();
    let heard = client.request(&call(1));
    assert_eq!((&heard["id"], heard["error"].is_object()), (&json!(1), true), "{heard}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[test]
fn the_stream_that_was_given_up_is_read_again_when_the_server_is_there_again() {
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let server = HttpServer::start(move |received, stream| {
        if received.method != "GET" {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        if counted.fetch_add(1, Ordering::SeqCst) < 6 {
            stream.write_all(b"retry: 1\n\n")?;
            return broken();
        }
        stream.write_all(
            b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
        )?;
        thread::sleep(Duration::from_secs(2));
        broken()
    });
    let mut client = Client::connect(&server);
    client.initialize();
    let began = Instant::now();
    while opened.load(Ordering::SeqCst) < 6 && began.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(client.receives_nothing());
    thread::sleep(Duration::from_millis(100));
    assert_eq!(client.request(&call(1)), answer(&json!(1)));
    assert_eq!(client.receive()["method"], "notifications/tools/list_changed");
}
