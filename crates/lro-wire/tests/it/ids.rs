//! A response matches its request, however the server spells the id.

use lro_wire::{Id, JsonRpcError, Message, Messages};
use serde_json::value::RawValue;

fn id(json: &str) -> Id {
    Id::from_raw(&RawValue::from_string(json.to_owned()).unwrap())
}

#[test]
fn the_same_id_in_other_words_is_the_same() {
    for (one, other) in [
        ("1", "1.0"),
        ("1e2", "100"),
        ("-0", "0"),
        (r#""a""#, r#""\u0061""#),
        ("12345678901234567890", "12345678901234567000"),
    ] {
        assert_eq!(id(one), id(other));
    }
    for (one, other) in [("1", "\"1\""), ("1", "2"), (r#""a""#, r#""b""#), ("true", "1")] {
        assert_ne!(id(one), id(other));
    }
}

#[test]
fn a_failure_carries_the_id_as_it_was_spelled() {
    let failure = JsonRpcError::new(-32603, "gone \"away\"\n");
    assert_eq!(
        failure.response(&id("1.0")),
        r#"{"jsonrpc":"2.0","id":1.0,"error":{"code":-32603,"message":"gone \"away\"\n"}}"#
    );
}

#[test]
fn what_is_not_plainly_a_message_is_none() {
    for line in ["", "garbage", "7", "{\"id\":1,\"id\":2}", "{\"id\":1", "\u{0}"] {
        assert!(Messages::read(line).is_none(), "{line}");
    }
    let odd = Message::read(r#"{"id":null,"method":"x","params":[1]}"#).unwrap();
    assert!(!odd.is_request());
    assert!(odd.params().is_none());
    let Some(Messages::Batch(batch)) = Messages::read(r#" [{"id":1}, 7]"#) else { panic!() };
    assert_eq!(batch.len(), 2);
    assert!(batch[1].1.is_none());
}

#[test]
fn an_array_is_no_message() {
    // serde would take its elements for the members, in their order.
    for array in
        ["[]", "[1]", r#"[7,"ping"]"#, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "7"]
    {
        assert!(Message::read(array).is_none(), "{array}");
    }
}
