//! How clients start servers, beside the command.

use atlatl_lro::clients::{LaunchSpec, ServerTable, launches};

use crate::{CODEX, OPENCODE, SERVERS};

fn of(text: &str, place: &ServerTable) -> Vec<LaunchSpec> {
    launches(text, place).unwrap()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn variables_directory_and_switch_are_read_in_every_notation() {
    let json = r#"{"mcpServers": {
        "a": {"command": "x", "env": {"K": "v", "N": 1}, "cwd": "/w"}, // a number is no text
        "b": {"command": "x", "disabled": true},
    }}"#;
    let all = of(json, &SERVERS);
    assert_eq!(all[0].env, [pair("K", "v")]);
    assert_eq!((all[0].cwd.as_deref(), all[0].enabled), (Some("/w"), true));
    assert_eq!((all[1].name.as_str(), all[1].enabled), ("b", false));

    let toml =
        "[mcp_servers.a]\ncommand = \"x\"\nenabled = false\n[mcp_servers.a.env]\nK = \"v\"\n";
    let all = of(toml, &CODEX);
    assert_eq!((all[0].env.clone(), all[0].enabled), (vec![pair("K", "v")], false));

    let json = r#"{"mcp": {"a": {"command": ["x"], "environment": {"K": "v"}, "enabled": true}}}"#;
    let all = of(json, &OPENCODE);
    assert_eq!((all[0].env.clone(), all[0].enabled), (vec![pair("K", "v")], true));
}
