//! Every request gets exactly one response, whatever the server does wrong.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{HttpServer, begin_events, reply, reply_json};

use super::client::{Client, Options, answer, call, default_response, stateless_request};
use crate::fixture::{long_text, reference};

/// Calls a tool of a server that responds with `does`; returns the error, the only message that the client
/// receives.
fn fault(
    does: impl Fn(&Value, &mut std::net::TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> Value {
    let server =
        HttpServer::start(move |received, stream| match received.json()["method"].as_str() {
            Some("tools/call") => does(&received.json()["id"], stream),
            _ => default_response(received, stream),
        });
    let options = Options { silence: Duration::from_millis(400), ..Options::default() };
    let mut client = Client::with(&server, options, &lro_core::config::Config::default());
    for (id, request) in
        [(7, call(7)), (8, stateless_request(8, "tools/call", json!({"name": "t"})))]
    {
        let heard = client.request(&request);
        assert_eq!(heard["id"], id, "{heard}");
        assert!(heard["error"]["code"].is_number(), "{heard}");
        if id == 8 {
            assert!(client.receives_nothing());
            // The next request succeeds.
            client.initialize();
            let (code, took) = client.disconnect();
            assert!(code == 0 && took < Duration::from_secs(1), "{code} {took:?}");
            return heard["error"].clone();
        }
    }
    unreachable!()
}

#[test]
fn a_page_in_place_of_an_answer_is_an_error_of_the_request() {
    for status in ["502 Bad Gateway", "200 OK", "404 Not Found", "413 Content Too Large"] {
        let html = b"<html><body>secret words of a page</body></html>";
        let error =
            fault(move |_, stream| reply(stream, status, &[("Content-Type", "text/html")], html));
        assert!(!error.to_string().contains("secret words"), "{error}");
        let reason = error["message"].as_str().unwrap();
        assert!(reason.starts_with("http://127.0.0.1:"), "{reason}");
        if status != "200 OK" {
            assert_eq!(error["data"]["status"].to_string(), status[..3]);
        }
    }
}

#[test]
fn the_detail_of_an_error_status_is_reported_on_one_line() {
    for (kind, detail, reason) in [
        (
            "application/problem+json",
            "the token is not one of ours",
            "the token is not one of ours",
        ),
        ("application/json; charset=utf-8", "a\n\u{1b}[2Jb\u{202e}", "a <U+001B>[2Jb<U+202E>"),
        ("application/problem+json", &*"x".repeat(5000), &*format!("{}…", "x".repeat(200))),
    ] {
        let body = json!({"status": 401, "title": "Unauthorized", "detail": detail}).to_string();
        let error = fault(move |_, stream| {
            reply(stream, "401 Unauthorized", &[("Content-Type", kind)], body.as_bytes())
        });
        let message = error["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("returned 401 Unauthorized: {reason}")), "{message}");
        assert_eq!(error["data"]["status"], 401);
    }
    let error = fault(|_, stream| {
        let kind = [("Content-Type", "application/problem+json")];
        reply(stream, "404 Not Found", &kind, br#"{"detail":7}"#)
    });
    assert!(
        error["message"].as_str().unwrap().ends_with("404 Not Found without a message"),
        "{error}"
    );
}

#[test]
fn an_answer_that_never_comes_is_an_error_of_the_request() {
    let error = fault(|_, _| {
        thread::sleep(Duration::from_secs(5));
        Ok(())
    });
    assert!(
        error["message"].as_str().unwrap().contains("for 0 s (proxy.silence_seconds)"),
        "{error}"
    );
    // Half of the response arrived.
    let error = fault(|_, stream| {
        begin_events(stream, &[])?;
        stream.write_all(b"data: {\"jsonrpc\":\"2.0\",")?;
        thread::sleep(Duration::from_secs(5));
        Ok(())
    });
    assert!(error["message"].as_str().unwrap().contains("no data from"), "{error}");
}

#[test]
fn a_stream_that_breaks_off_in_an_event_is_an_error_of_the_request() {
    for whole in [false, true] {
        let error = fault(move |id, stream| {
            begin_events(stream, &[])?;
            let event = format!("data: {}\n", answer(id));
            stream.write_all(if whole { event.as_bytes() } else { &event.as_bytes()[..20] })?;
            Err(io::ErrorKind::ConnectionAborted.into())
        });
        assert!(error["message"].as_str().unwrap().contains("incomplete response"), "{error}");
    }
    // A body that is shorter than its Content-Length.
    let error = fault(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"jsonrpc\"")?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    assert!(error["message"].as_str().unwrap().contains("incomplete response"), "{error}");
    // Not HTTP.
    let error = fault(|_, stream| {
        stream.write_all(b"hello, who is there?\r\n\r\n")?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    assert!(error["message"].as_str().unwrap().contains("cannot reach"), "{error}");
}

#[test]
fn an_error_without_the_id_is_the_error_of_the_request() {
    for id in [json!(null), json!(99), json!("x")] {
        let error = fault(move |_, stream| {
            let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no", "data": {"big": 12_345_678_901_234_567_890_u64}}});
            reply_json(stream, "400 Bad Request", &body)
        });
        assert_eq!(
            error,
            json!({"code": -32000, "message": "no", "data": {"big": 12_345_678_901_234_567_890_u64}})
        );
    }
}

#[test]
fn an_answer_to_another_question_is_none() {
    let error = fault(|_, stream| reply_json(stream, "200 OK", &answer(&json!(99))));
    assert!(error["message"].as_str().unwrap().contains("incomplete response"), "{error}");
}

#[test]
fn an_answer_that_comes_twice_is_heard_once() {
    let server = HttpServer::start(|received, stream| {
        let message = received.json();
        if message["method"] != "tools/call" {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        let event = format!("data: {}\n\n", answer(&message["id"]));
        stream.write_all(event.repeat(3).as_bytes())?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut client = Client::connect(&server);
    assert_eq!(client.request(&call(1)), answer(&json!(1)));
    assert!(client.receives_nothing());
    assert_eq!(client.request(&call(1)), answer(&json!(1)));
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_so_at_once() {
    let server = HttpServer::start(default_response);
    let mut client = Client::connect(&server);
    client.initialize();
    drop(server);
    thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    let heard = client.request(&call(5));
    assert!(heard["error"]["message"].as_str().unwrap().contains("cannot reach"), "{heard}");
    assert!(began.elapsed() < Duration::from_secs(2));
    let (code, took) = client.disconnect();
    assert!(code == 0 && took < Duration::from_secs(1), "{code} {took:?}");
}

#[test]
fn f15_what_comes_before_an_answer_comes_in_order_and_as_it_came() {
    let reason = [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1,"_meta":{"a":12345678901234567890,"a":0.70}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"é \u00e9","unknown":[1e400]}}"#,
        r#"{"jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{"messages":[]}}"#,
    ];
    let server = HttpServer::start(move |received, stream| {
        let message = received.json();
        if message["method"] != "tools/call" {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        for line in reason {
            write!(stream, "data: {line}\n\n")?;
        }
        write!(
            stream,
            "data: {{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"content\":[],\"_meta\":{{\"n\":1.0}}}}}}\n\n"
        )?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut client = Client::connect(&server);
    client.send(&call(3));
    for line in reason {
        assert_eq!(client.line(), line);
    }
    assert_eq!(
        client.line(),
        r#"{"jsonrpc":"2.0","id":3,"result":{"content":[],"_meta":{"n":1.0}}}"#
    );
    // The client's response to the server's request is a separate message.
    client.send(r#"{"jsonrpc":"2.0","id":0,"result":{"role":"assistant"}}"#);
    client.request(&call(4));
    let received = server.asked();
    let answered =
        received.iter().find(|received| received.json()["result"]["role"] == "assistant");
    assert!(answered.is_some());
}

#[test]
fn lines_in_an_answer_become_one_line() {
    let server = HttpServer::start(|received, stream| {
        let message = received.json();
        if message["method"] != "tools/call" {
            return default_response(received, stream);
        }
        let pretty =
            serde_json::to_string_pretty(&answer(&message["id"])).unwrap().replace('\n', "\r\n");
        if message["id"] == 1 {
            return reply(
                stream,
                "200 OK",
                &[("Content-Type", "application/json; charset=utf-8")],
                pretty.as_bytes(),
            );
        }
        begin_events(stream, &[])?;
        for line in pretty.lines() {
            writeln!(stream, "data: {line}")?;
        }
        stream.write_all(b"\n")?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut client = Client::connect(&server);
    for id in [1, 2] {
        assert_eq!(client.request(&call(id)), answer(&json!(id)));
    }
}

#[test]
fn a_large_answer_is_stored_in_either_form() {
    let text = long_text();
    let server = HttpServer::start(move |received, stream| {
        let message = received.json();
        if message["method"] != "tools/call" {
            return default_response(received, stream);
        }
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": text}]}});
        if message["id"] == 1 {
            return reply_json(stream, "200 OK", &body);
        }
        begin_events(stream, &[])?;
        write!(stream, "data: {body}\n\n")?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut client = Client::connect(&server);
    for id in [1, 2] {
        let heard = client.request(&call(id));
        assert!(reference(&heard["result"]).starts_with("lro:"), "{heard}");
    }
}

#[test]
fn an_id_that_is_used_again_at_once_gets_its_own_answer() {
    let server = HttpServer::start(|received, stream| {
        let message = received.json();
        if message["method"] != "tools/call" {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        write!(stream, "data: {}\n\n", answer(&message["id"]))?;
        // The first stream is still open when the second request is sent.
        thread::sleep(Duration::from_millis(300));
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut client = Client::connect(&server);
    for _ in 0..5 {
        assert_eq!(client.request(&call(1)), answer(&json!(1)));
    }
    assert!(client.receives_nothing());
}

#[test]
fn what_is_no_message_is_not_heard() {
    let error = fault(|_, stream| reply_json(stream, "200 OK", &json!("ok")));
    assert!(error["message"].as_str().unwrap().contains("incomplete response"), "{error}");
    let error = fault(|_, stream| {
        begin_events(stream, &[])?;
        stream.write_all(
            b"event: ping\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\ndata: 12:00\n\n",
        )?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    assert!(error["message"].as_str().unwrap().contains("incomplete response"), "{error}");
}

#[test]
fn a_message_that_is_not_text_is_reported_and_not_sent() {
    let server = HttpServer::start(default_response);
    let mut client = Client::connect(&server);
    client.send_bytes(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\xFF\"}}\n",
    );
    assert_eq!(client.receive()["error"]["code"], -32700);
    assert!(server.asked().is_empty());
}

#[test]
fn a_notification_that_is_accepted_late_is_not_lost_and_blocks_no_request() {
    let server = HttpServer::start(|received, stream| {
        if received.json()["method"] == "notifications/roots/list_changed" {
            thread::sleep(Duration::from_millis(5500));
        }
        default_response(received, stream)
    });
    let mut client = Client::connect(&server);
    client.initialize();
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    // The next message waits for it for a limited time.
    let began = Instant::now();
    assert_eq!(client.request(&call(1)), answer(&json!(1)));
    assert!(began.elapsed() > Duration::from_secs(4) && began.elapsed() < Duration::from_secs(7));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let (code, took) = client.disconnect();
    assert!(code == 0 && took < Duration::from_secs(1), "{code} {took:?}");
}

#[test]
fn cancelling_one_of_several_leaves_the_others() {
    let server = HttpServer::start(|received, stream| {
        let message = received.json();
        if !message.is_array() {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        thread::sleep(Duration::from_millis(300));
        write!(stream, "data: {}\n\n", answer(&json!(2)))?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let mut client = Client::connect(&server);
    client.send(&format!("[{},{}]", call(1), call(2)));
    thread::sleep(Duration::from_millis(50));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(client.receive(), answer(&json!(2)));
    assert!(client.receives_nothing());
}
