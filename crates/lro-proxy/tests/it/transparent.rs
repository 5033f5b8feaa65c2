//! f15: messages that are not intercepted pass byte for byte and in order.

use lro_proxy::{Forward, Relay};
use lro_wire::{Message, Messages};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use crate::fixture::Fixture;

/// JSON in the spelling of hostile servers and clients.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        "\"([a-z \u{e9}\u{202e}\u{1F600}]|\\\\u[0-9a-f]{4}|\\\\n|\\\\\")*\"",
    ];
    let space = prop_oneof![Just(""), Just(" "), Just("\t")];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let member = ("[a-c_/\u{e9}]{0,3}", space.clone(), inner.clone())
            .prop_map(|(name, space, value)| format!("\"{name}\":{space}{value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
            proptest::collection::vec(member, 0..4)
                .prop_map(|all| format!("{{{}}}", all.join(" ,"))),
        ]
    })
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u32..50).prop_map(|n| n.to_string()),
        Just("1.0".to_owned()),
        Just("null".to_owned()),
        Just("12345678901234567890".to_owned()),
        "\"[a-z\\\\n]{0,3}\"",
        json(),
    ]
}

/// Methods of both protocol generations, known and unknown. The relay changes `initialize`, `tools/list` and
/// calls of extraction tools; other tests cover them.
fn method() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("tools/call"),
        Just("ping"),
        Just("resources/read"),
        Just("prompts/get"),
        Just("notifications/progress"),
        Just("notifications/message"),
        Just("notifications/tasks"),
        Just("tasks/get"),
        Just("tasks/cancel"),
        Just("sampling/createMessage"),
        Just("elicitation/create"),
        Just("roots/list"),
        Just("logging/setLevel"),
        Just("subscriptions/listen"),
        Just("completion/complete"),
        Just("x/unknown"),
        Just(""),
        Just("\\u0070ing"),
        Just("notifications/cancelled"),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let request = (id(), method(), json()).prop_map(|(id, method, params)| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    });
    let call = (id(), json(), json()).prop_map(|(id, arguments, meta)| {
        format!(r#"{{"id": {id}, "params":{{"_meta":{meta},"name":"t","arguments":{arguments}}}, "method":"tools/call","jsonrpc":"2.0"}}"#)
    });
    let notification = (method(), json()).prop_map(|(method, params)| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"extra":[]}}"#)
    });
    let result = (id(), json(), json()).prop_map(|(id, result, extra)| {
        format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id},"x":{extra}}}"#)
    });
    let tool_result = (id(), json(), json()).prop_map(|(id, structured, meta)| {
        format!(r#"{{"result":{{"content":[{{"type":"text","text":"t"}},{meta}],"structuredContent":{structured},"_meta":{meta}}},"id":{id}}}"#)
    });
    let error = (id(), json()).prop_map(|(id, data)| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"m","data":{data}}}}}"#
        )
    });
    let message = prop_oneof![request, call, notification, result, tool_result, error];
    let batch = proptest::collection::vec(message.clone(), 0..4)
        .prop_map(|messages| format!("[{}]", messages.join(", ")));
    let ending = prop_oneof![8 => Just("\n"), 1 => Just("\r\n"), 1 => Just(" \n")];
    (prop_oneof![8 => message, 1 => batch, 1 => json(), 1 => "[^\n]{0,20}"], ending)
        .prop_map(|(text, ending)| text + ending)
}

fn cases() -> u32 {
    // 100 000 by `cargo xtask soak transparency`.
    std::env::var("ATLATL_SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3000)
}

/// Sends the request that `line` answers, and returns the expected decision on the line. `None` if it answers a
/// request twice.
fn ask(relay: &Relay, line: &str) -> Option<Forward> {
    let messages = match Messages::read(line.trim_end()) {
        Some(Messages::One(message)) => vec![message],
        Some(Messages::Batch(batch)) => {
            batch.into_iter().filter_map(|(_, message)| message).collect()
        }
        // No client reads it as a message.
        _ => {
            let is_skipped = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
            let is_json = line.trim_start_matches(is_skipped).starts_with(['{', '[']);
            return Some(if is_json { Forward::Dropped } else { Forward::Unchanged });
        }
    };
    let mut keys = Vec::new();
    for id in messages.iter().filter_map(Message::id) {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        relay.from_client(request.as_bytes());
        keys.push(id.key());
    }
    let all = keys.len();
    let unique: std::collections::HashSet<_> = keys.into_iter().collect();
    (unique.len() == all).then_some(Forward::Unchanged)
}

fn untouched(relay: &Relay, lines: &[(bool, String)]) -> Result<(), TestCaseError> {
    for (from_client, line) in lines {
        if *from_client {
            let outcome = relay.from_client(line.as_bytes());
            prop_assert_eq!(outcome.forward, Forward::Unchanged, "{}", line);
            prop_assert!(outcome.calls.is_empty() && outcome.replies.is_empty());
        } else {
            let Some(expected) = ask(relay, line) else { continue };
            prop_assert_eq!(relay.from_server(line.as_bytes()), expected, "{}", line);
        }
    }
    Ok(())
}

#[test]
fn f15_messages_of_both_eras_pass_unchanged() {
    let fixture = Fixture::new();
    let config = Cases { cases: cases(), failure_persistence: None, ..Cases::default() };
    TestRunner::new(config)
        .run(&proptest::collection::vec((any::<bool>(), line()), 1..4), |lines| {
            untouched(&fixture.relay, &lines)
        })
        .unwrap();
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let relay = Fixture::new().relay;
    for line in [&b"\xff\xfe\n"[..], b"{\"id\":1,\"result\":\"\xc3\"}\n", b"\0\n", b"\n", b""] {
        relay.from_client(br#"{"id":1,"method":"ping"}"#);
        assert_eq!(relay.from_server(line), Forward::Unchanged);
        assert_eq!(relay.from_client(line).forward, Forward::Unchanged);
    }
}
