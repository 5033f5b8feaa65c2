//! Which value wins, and how the environment reaches the settings.

use serde_json::json;

use crate::program::Program;

/// The value and origin of the threshold.
fn threshold(program: &Program, args: &[&str]) -> String {
    let show = ["config", "show", "--origin"];
    let run = program.run(&[args, &show].concat());
    let lines = run.lines("prompt.offload.threshold_tokens");
    lines[0].split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

fn text(tokens: u32) -> String {
    format!("# mine\n[prompt.offload]\nthreshold_tokens = {tokens}\n")
}

/// The system's file is the one layer a test cannot have: the unit test of the settings has it.
#[test]
fn each_layer_is_above_the_one_before() {
    let program = Program::new();
    assert_eq!(threshold(&program, &[]), "1600 default");
    let program = program.file("home/.config/atlatl/config.toml", text(2));
    assert_eq!(threshold(&program, &[]), "2 [DIR]/home/.config/atlatl/config.toml:3");
    let program = program.file("work/atlatl.toml", text(3));
    assert_eq!(threshold(&program, &[]), "3 atlatl.toml:3");
    let program = program.variable("ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS", "4");
    assert_eq!(threshold(&program, &[]), "4 ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS");
    let flag = ["--set", "prompt.offload.threshold_tokens=5"];
    assert_eq!(threshold(&program, &flag), "5 --set");
}

#[test]
fn a_named_file_takes_the_place_of_the_others() {
    let program = Program::new()
        .file("home/.config/atlatl/config.toml", "proxy.ttl_seconds = 1\n")
        .file("work/atlatl.toml", "this is not TOML")
        .file("work/mine.toml", text(7));
    assert_eq!(threshold(&program, &["--config", "mine.toml"]), "7 mine.toml:3");
    let run = program.run(&["--config", "mine.toml", "config", "show", "--json"]);
    assert_eq!(run.json()["proxy"]["ttl_seconds"], 86400);
}

#[test]
fn the_users_file_is_where_the_variable_says() {
    let program = Program::new();
    let run = program.run(&["config", "check"]);
    assert_eq!(run.lines("home"), ["[DIR]/home/.config/atlatl/config.toml: not found"]);
    let run =
        program.variable("XDG_CONFIG_HOME", "/xdg").run(&["config", "check", "--output=human"]);
    assert_eq!(run.lines("xdg"), ["/xdg/atlatl/config.toml: not found"]);
}

#[test]
fn c2_environment_variables_reach_the_settings() {
    let run = Program::new()
        .variable("ATLATL_PROMPT__OFFLOAD__ENABLED", "false")
        .variable("ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS", "123")
        .variable("ATLATL_PROMPT__OFFLOAD__TTL_SECONDS", "18446744073709551615")
        .variable("ATLATL_PROMPT__OFFLOAD__OUTPUT_DIR", "456")
        .run(&["config", "show", "--json"]);
    let offload = &run.json()["prompt"]["offload"];
    assert_eq!(offload["enabled"], json!(false));
    assert_eq!(offload["threshold_tokens"], json!(123));
    assert_eq!(offload["ttl_seconds"], json!(u64::MAX));
    assert_eq!(offload["output_dir"], json!("456"));
}

#[test]
fn globs_keep_their_case_in_every_layer() {
    let run = Program::new()
        .file(
            "work/atlatl.toml",
            "[proxy.policy]\n\"Foo_*\" = \"inline\"\n\"foo_*\" = \"offload\"\n",
        )
        .variable("ATLATL_PROXY__POLICY__mcp__GitHub__getIssue", "inline")
        .run(&["config", "show", "--set", "proxy.policy.Bar*=offload", "--json"]);
    assert_eq!(
        run.json()["proxy"]["policy"],
        json!({
            "Foo_*": "inline",
            "foo_*": "offload",
            "mcp__GitHub__getIssue": "inline",
            "Bar*": "offload",
        })
    );
}
