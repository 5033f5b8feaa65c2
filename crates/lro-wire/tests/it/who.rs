//! Identification of clients in both protocol generations.

use lro_wire::Message;
use lro_wire::protocol::{ProtocolGeneration, is_proxy, progress_token};

fn message(json: &str) -> Message<'_> {
    Message::read(json).unwrap()
}

#[test]
fn the_era_shows_in_a_request() {
    let modern = r#"{"id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    assert_eq!(
        ProtocolGeneration::from_request(&message(modern)),
        Some(ProtocolGeneration::Stateless)
    );
    assert_eq!(
        ProtocolGeneration::from_request(&message(r#"{"id":1,"method":"initialize"}"#)),
        Some(ProtocolGeneration::Sessions)
    );
    assert_eq!(
        ProtocolGeneration::from_request(&message(r#"{"id":1,"method":"server/discover"}"#)),
        Some(ProtocolGeneration::Stateless)
    );
    assert_eq!(
        ProtocolGeneration::from_request(&message(r#"{"id":1,"method":"tools/list"}"#)),
        None
    );
}

#[test]
fn a_proxy_is_seen_in_either_signal_of_either_era() {
    for json in [
        r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x","proxy":true}}}"#,
        r#"{"id":1,"method":"initialize","params":{"capabilities":{"experimental":{"dev.atlatl/lro":{"proxy":true}}}}}"#,
        r#"{"id":1,"method":"initialize","params":{"capabilities":{"extensions":{"dev.atlatl/lro":{"proxy":true}}}}}"#,
        r#"{"id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"proxy":true}}}}"#,
        r#"{"id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"dev.atlatl/lro":{"proxy":true}}}}}}"#,
    ] {
        assert!(is_proxy(&message(json)), "{json}");
    }
    for json in [
        r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x","proxy":"true"}}}"#,
        r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"proxy"}}}"#,
        r#"{"id":1,"method":"tools/call","params":{"clientInfo":{"proxy":true}}}"#,
        r#"{"id":1,"method":"tools/call"}"#,
    ] {
        assert!(!is_proxy(&message(json)), "{json}");
    }
}

#[test]
fn a_progress_token_is_kept_as_it_is_spelled() {
    let with = r#"{"id":1,"method":"tools/call","params":{"_meta":{"progressToken":1.0}}}"#;
    assert_eq!(progress_token(&message(with)), Some("1.0"));
    let without = r#"{"id":1,"method":"tools/call","params":{"_meta":{"progressToken":null}}}"#;
    assert_eq!(progress_token(&message(without)), None);
}
