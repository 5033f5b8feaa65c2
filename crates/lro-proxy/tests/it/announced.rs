//! Spec P6: the proxy announces itself and changes nothing else.

use lro_proxy::Forward;
use lro_wire::{Message, protocol};

use crate::fixture::Fixture;

fn sent(line: &str) -> String {
    match Fixture::new().relay.from_client(line.as_bytes()).forward {
        Forward::Unchanged => line.to_owned(),
        Forward::Changed(changed) => changed,
        Forward::Dropped => panic!("nothing goes on"),
    }
}

#[test]
fn p6_initialize_names_the_proxy_in_both_signals() {
    let line = r#"{"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"x","version":"1.0"},"more":0.70},"jsonrpc":"2.0","id":0}"#;
    let expected = r#"{"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"experimental":{"dev.atlatl/lro":{"proxy":true}}},"clientInfo":{"name":"x","version":"1.0","proxy":true},"more":0.70},"jsonrpc":"2.0","id":0}"#;
    let sent = sent(line);
    assert_eq!(sent, expected);
    assert!(protocol::is_proxy(&Message::read(&sent).unwrap()));
}

#[test]
fn p6_every_request_of_2026_07_28_names_the_proxy() {
    for method in ["server/discover", "tools/list", "tools/call", "resources/read"] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{"name":"t","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"x","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{"extensions":{{"a/b":{{}}}}}}}}}}}}"#
        );
        let expected = line
            .replace(r#""version":"1"}"#, r#""version":"1","proxy":true}"#)
            .replace(r#""a/b":{}}"#, r#""a/b":{},"dev.atlatl/lro":{"proxy":true}}"#);
        let sent = sent(&line);
        assert_eq!(sent, expected);
        assert!(protocol::is_proxy(&Message::read(&sent).unwrap()));
    }
}

#[test]
fn a_client_that_does_not_introduce_itself_is_not_introduced() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}"#,
    ] {
        assert_eq!(sent(line), line);
    }
}
