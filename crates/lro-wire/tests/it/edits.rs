//! An edit changes what it names and no other byte.

use lro_wire::edit::{Edits, merge};
use lro_wire::{Message, Object};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn members_are_added_replaced_and_left_alone() {
    for (text, patch, expected) in [
        ("{}", json!({"a": 1}), r#"{"a":1}"#),
        ("{ }", json!({"a": 1}), r#"{ "a":1}"#),
        (r#"{"a" : 1e2 }"#, json!({"b": 2, "c": 3}), r#"{"a" : 1e2 ,"b":2,"c":3}"#),
        (
            r#"{"a": {"x": 12345678901234567890.10}}"#,
            json!({"a": {"y": null}}),
            r#"{"a": {"x": 12345678901234567890.10,"y":null}}"#,
        ),
        (r#"{"a": 1, "b": 2}"#, json!({"a": {"y": 1}}), r#"{"a": {"y":1}, "b": 2}"#),
        (r#"{"\u0061": 1}"#, json!({"a": 2}), r#"{"\u0061": 2}"#),
        // Found by the fuzz target `frame`: white space around an object.
        ("{}\n", json!({"a": 1}), "{\"a\":1}\n"),
        ("\r\n\t {\"a\": 1} ", json!({"b": 2, "c": 3}), "\r\n\t {\"a\": 1,\"b\":2,\"c\":3} "),
    ] {
        assert_eq!(merge(text, &patch).as_deref(), Some(expected), "{text}");
    }
    assert_eq!(merge("[]", &json!({"a": 1})), None);
    assert_eq!(merge("nothing", &json!({"a": 1})), None);
}

#[test]
fn elements_are_added_behind_the_last() {
    for (text, expected) in
        [("[]", "[7,8]"), ("[ ]", "[ 7,8]"), ("[1, 2 ]", "[1, 2 ,7,8]"), (" []\n", " [7,8]\n")]
    {
        let mut edits = Edits::new(text);
        edits.add_element(text, "7");
        edits.add_element(text, "8");
        assert_eq!(edits.applied(), expected);
    }
}

#[test]
fn several_edits_do_not_disturb_each_other() {
    let text = r#"{"params": {"arguments": {"a": "one", "b": "two"}, "_meta": {}}}"#;
    let params = Message::read(text).unwrap().params().unwrap();
    let arguments = Object::read(params.get("arguments").unwrap().get()).unwrap();
    let mut edits = Edits::new(text);
    edits.add_member(params.get("_meta").unwrap().get(), "m", "1");
    edits.replace(arguments.get("b").unwrap().get(), "[]");
    edits.replace(arguments.get("a").unwrap().get(), "{}");
    assert_eq!(
        edits.applied(),
        r#"{"params": {"arguments": {"a": {}, "b": []}, "_meta": {"m":1}}}"#
    );
}

#[test]
#[should_panic(expected = "only a slice of the text itself")]
fn what_is_not_of_the_text_cannot_be_replaced() {
    Edits::new("{}").replace("elsewhere", "x");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\é\u{202e}]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The reference implementation of merging, on values.
fn merged(mut value: Value, patch: &Value) -> Value {
    for (name, new) in patch.as_object().unwrap() {
        let there = &mut value[name];
        if there.is_object() && new.is_object() {
            *there = merged(there.take(), new);
        } else {
            *there = new.clone();
        }
    }
    value
}

proptest! {
    #[test]
    fn merging_text_is_merging_values(
        members in proptest::collection::btree_map("[a-d]{1,2}", json_value(), 0..4),
        patch in proptest::collection::btree_map("[a-d]{1,2}", json_value(), 0..3),
        pretty in any::<bool>(),
    ) {
        let value = Value::Object(members.into_iter().collect());
        let patch = Value::Object(patch.into_iter().collect());
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let read: Value = serde_json::from_str(&merge(&text, &patch).unwrap()).unwrap();
        prop_assert_eq!(read, merged(value, &patch));
    }
}
