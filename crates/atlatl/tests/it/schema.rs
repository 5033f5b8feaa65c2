//! `atlatl config schema`.

use serde_json::json;

use crate::program::Program;

#[test]
fn the_schema_is_printed_whatever_the_configuration_is() {
    let run = Program::new().file("work/atlatl.toml", "wrong").run(&["config", "schema"]);
    assert_eq!((run.status, &*run.stderr), (0, ""));
    let schema = run.json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(
        schema["properties"]["prompt"]["properties"]["offload"]["properties"]["threshold_tokens"],
        json!({
            "type": "integer",
            "minimum": 1,
            "maximum": u32::MAX,
            "default": 1600,
            "description": "A memory result estimated above this many tokens is offloaded.",
        })
    );
}

#[test]
fn the_schema_takes_what_show_prints() {
    let program = Program::new().variable("ATLATL_PROXY__POLICY__Foo", "{ threshold_tokens = 5 }");
    let validator =
        jsonschema::validator_for(&program.run(&["config", "schema", "--json"]).json()).unwrap();
    let shown = program.run(&["config", "show", "--json"]).json();
    assert!(validator.is_valid(&shown), "{shown:#}");
}
