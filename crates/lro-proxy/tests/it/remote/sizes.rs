//! Responses of any size, split at any byte.

use std::io::Write;

use lro_core::config::Config;
use proptest::prelude::*;
use serde_json::json;
use testkit::http::{HttpServer, begin_events};

use super::client::{Client, answer, call, default_response};

/// A server that writes a stream in the chunks that the call names.
fn in_pieces() -> HttpServer {
    HttpServer::start(|received, stream| {
        let message = received.json();
        if message["method"] != "tools/call" {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        let events = format!(
            ": é\r\nid: 1\r\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"data\":\"é\"}}}}\r\n\r\ndata: {}\r\n\r\n",
            answer(&message["id"])
        );
        let cuts = message["params"]["arguments"]["cuts"].as_array().cloned().unwrap_or_default();
        let mut from = 0;
        for cut in cuts.iter().filter_map(serde_json::Value::as_u64) {
            let cut = usize::try_from(cut).unwrap().clamp(from, events.len());
            stream.write_all(&events.as_bytes()[from..cut])?;
            stream.flush()?;
            from = cut;
        }
        stream.write_all(&events.as_bytes()[from..])?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    })
}

fn cut_at(id: u32, cuts: &[usize]) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "arguments": {"cuts": cuts}}}).to_string()
}

#[test]
fn a_stream_cut_at_every_offset_is_answered_once() {
    let server = in_pieces();
    let mut client = Client::connect(&server);
    for offset in 0..230 {
        let id = u32::try_from(offset).unwrap();
        client.send(&cut_at(id, &[offset]));
        assert_eq!(client.receive()["params"]["data"], "é", "{offset}");
        assert_eq!(client.receive(), answer(&json!(id)), "{offset}");
    }
    assert!(client.receives_nothing());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn a_stream_cut_anywhere_is_answered_once(
        all in prop::collection::vec(prop::collection::vec(0usize..230, 0..12), 20)
    ) {
        let server = in_pieces();
        let mut client = Client::connect(&server);
        for (id, mut cuts) in (0..).zip(all) {
            cuts.sort_unstable();
            client.send(&cut_at(id, &cuts));
            prop_assert_eq!(&client.receive()["params"]["data"], "é");
            prop_assert_eq!(client.receive(), answer(&json!(id)));
        }
    }
}

#[test]
fn an_event_of_200_mb_is_stored_and_answered_with_its_descriptor() {
    const RECORD: &str =
        r#"{"n":1234567,"text":"a record of some length, as they are in large results"},"#;
    let server = HttpServer::start(|received, stream| {
        let message = received.json();
        if message["method"] != "tools/call" {
            return default_response(received, stream);
        }
        begin_events(stream, &[])?;
        write!(
            stream,
            "data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[],\"structuredContent\":{{\"records\":[",
            message["id"]
        )?;
        let piece = RECORD.repeat(1000);
        for _ in 0..(200_000_000 / piece.len()) {
            stream.write_all(piece.as_bytes())?;
        }
        stream.write_all(b"{\"n\":0,\"text\":\"last\"}]}}}\n\n")?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    });
    let mut client = Client::with(&server, super::client::Options::default(), &Config::default());
    let heard = client.request(&call(1));
    let records = 200_000_000 / (RECORD.len() * 1000) * 1000 + 1;
    assert_eq!(heard["id"], 1);
    let descriptor = heard["result"]["structuredContent"].to_string();
    assert!(descriptor.len() < 10_000 && descriptor.contains(&records.to_string()), "{descriptor}");
    assert!(client.receives_nothing());
    assert_eq!(client.request(&call(2))["id"], 2);
}
