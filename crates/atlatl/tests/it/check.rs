//! `atlatl config check`, and the errors of other commands for an invalid configuration.

use crate::program::Program;

const WRONG: &str = "\
[prompt.offload]
treshold_tokens = 5
ttl_seconds = 0
enabled = \"yes\"

[promt.offload]
";

#[test]
fn a_right_configuration_for_a_person() {
    let run = Program::new()
        .file("work/atlatl.toml", "proxy.ttl_seconds = 60\n")
        .run(&["config", "check"]);
    assert_eq!(run.lines("home"), ["[DIR]/home/.config/atlatl/config.toml: not found"]);
    assert_eq!(run.lines("atlatl.toml"), ["atlatl.toml: ok"]);
    assert_eq!(run.stderr, "");
    assert_eq!(run.status, 0);
}

#[test]
fn a_right_configuration_for_a_program() {
    insta::assert_snapshot!(Program::new().run(&["config", "check", "--json"]), @r#"
    status: 0
    --- stdout
    {
      "valid": true,
      "problems": []
    }
    --- stderr
    "#);
}

#[test]
fn all_problems_for_a_person() {
    let program = Program::new()
        .file("work/atlatl.toml", WRONG)
        .variable("ATLATL_PROMPT__OFFLOAD__TRESHOLD", "5");
    let check = program.run(&["config", "check"]);
    insta::assert_snapshot!(check, @r#"
    status: 2
    --- stdout
    --- stderr
    error: atlatl.toml:2: unknown key `prompt.offload.treshold_tokens`
    hint: did you mean `prompt.offload.threshold_tokens`?
    error: atlatl.toml:3: `prompt.offload.ttl_seconds` is 0, expected a whole number of at least 1
    hint: leave it out for the default, 3600
    error: atlatl.toml:4: `prompt.offload.enabled` is "yes", expected true or false
    hint: leave it out for the default, true
    error: atlatl.toml:6: unknown section `[promt]`
    hint: did you mean `[prompt]`?
    error: ATLATL_PROMPT__OFFLOAD__TRESHOLD: unknown environment variable
    hint: did you mean ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS?
    "#);
    let show = program.run(&["config", "show"]);
    assert_eq!(show.to_string(), check.to_string());
}

#[test]
fn all_problems_for_a_program() {
    let run = Program::new()
        .file("work/atlatl.toml", "\n[zebra]\n")
        .variable("ATLATL_PROXY__TOOL", "all")
        .run(&["config", "check", "--json"]);
    insta::assert_snapshot!(run, @r#"
    status: 2
    --- stdout
    {
      "valid": false,
      "problems": [
        {
          "origin": {
            "layer": "project",
            "file": "atlatl.toml",
            "line": 2
          },
          "message": "atlatl.toml:2: unknown section `[zebra]`",
          "hint": "`atlatl config schema` lists every key"
        },
        {
          "origin": {
            "layer": "environment",
            "variable": "ATLATL_PROXY__TOOL"
          },
          "message": "ATLATL_PROXY__TOOL: unknown environment variable",
          "hint": "did you mean ATLATL_PROXY__TOOLS?"
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn one_file_is_checked_alone() {
    let program = Program::new()
        .file("work/atlatl.toml", WRONG)
        .file("work/right.toml", "prompt.offload.enabled = false\n")
        .file("work/wrong.toml", "prompt = 5\n[prompt\n")
        .variable("ATLATL_NONSENSE", "1");
    let right = program.run(&["config", "check", "right.toml"]);
    insta::assert_snapshot!(right, @"
    status: 0
    --- stdout
    right.toml: ok
    --- stderr
    ");
    let wrong = program.run(&["config", "check", "wrong.toml"]);
    insta::assert_snapshot!(wrong, @"
    status: 2
    --- stdout
    --- stderr
    error: wrong.toml:2: not TOML: unclosed table, expected `]`
    error: wrong.toml:2: not TOML: duplicate key
    ");
    let none = program.run(&["config", "check", "none.toml"]);
    insta::assert_snapshot!(none, @"
    status: 2
    --- stdout
    --- stderr
    error: none.toml: cannot be read: No such file or directory (os error 2)
    ");
}

#[test]
fn a_wrong_flag_is_an_error() {
    let run = Program::new().run(&["config", "show", "--set", "proxy.references=all"]);
    insta::assert_snapshot!(run, @r#"
    status: 2
    --- stdout
    --- stderr
    error: --set: `proxy.references` is "all", expected "off", "same-server" or "any"
    hint: leave it out for the default, "same-server"
    "#);
}
