//! An invalid configuration: proxies run, and other commands report the errors.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::program::Program;
use crate::proxied::{Proxied, descriptor, fixture_server, reference};

const USER_FILE: &str = "home/.config/atlatl/config.toml";
const MISSPELT: &str = "[proxy]\ntreshold_tokens = 5\nttl_seconds = 0\ndir = 7\n";

/// Runs a server with its standard error in a file.
fn with_log(program: &Program, mut command: Command) -> (Proxied, std::path::PathBuf) {
    let log = program.path("stderr.log");
    let file = fs::File::create(&log).unwrap();
    command.stderr(Stdio::from(file));
    (Proxied::of_logged(command), log)
}

#[test]
fn g73_proxies_run_on_defaults_and_say_so() {
    let program = Program::new()
        .file(USER_FILE, MISSPELT)
        .variable("ATLATL_PROXY__TRESHOLD", "5")
        .variable("ATLATL_QUERY__WORKERS", "none");
    let server = fixture_server();
    let (mut proxy, log) = with_log(&program, program.command(&["proxy", "--", &server]));
    let answer = proxy.call("big", &json!({"bytes": 100_000}));
    let file = descriptor(&answer["result"])["lro"]["ref"].clone();
    assert!(file.is_string(), "{answer}");
    let said = fs::read_to_string(&log).unwrap();
    for part in [
        "config.toml:2: unknown key `proxy.treshold_tokens`; ignored",
        "config.toml:3: `proxy.ttl_seconds` is 0",
        "config.toml:4: `proxy.dir` is 7",
        "ATLATL_PROXY__TRESHOLD: unknown environment variable; ignored",
        "the configuration has 5 errors",
        "proxy.references has its strictest value",
        "atlatl config check",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (mut tools, log) = with_log(&program, program.command(&["tools"]));
    tools.initialize(&json!({}));
    let read = tools.call("read_large_output", &json!({"ref": reference(&answer), "end": 8}));
    assert!(read.to_string().contains("All work"), "{read}");
    assert!(fs::read_to_string(&log).unwrap().contains("the configuration has 5 errors"));
    assert!(tools.close().success());
    assert!(proxy.close().success());
    let doctor = program.run(&["doctor", "--no-start"]);
    assert_eq!(doctor.status, 1, "{doctor}");
    assert!(doctor.stdout.contains("proxies ignore invalid values"), "{doctor}");
}

#[test]
fn g73_a_file_that_is_no_toml_does_not_stop_a_proxy() {
    for (name, text) in [(USER_FILE, "[proxy\n"), ("work/atlatl.toml", "= 1"), (USER_FILE, "\u{0}")]
    {
        let program = Program::new().file(name, text);
        let mut proxy = Proxied::start(&program, &[], &[&fixture_server()]);
        proxy.initialize(&json!({}));
        assert!(proxy.close().success());
    }
}

#[test]
fn g73_everything_else_keeps_the_error() {
    let program = Program::new().file(USER_FILE, "[server]\nauth = 5\n");
    let server = fixture_server();
    for command in [
        &["serve"][..],
        &["serve", "--http", "127.0.0.1:0"],
        &["proxy", "--listen", "127.0.0.1:0", "--", &server],
        &["proxy", "--set", "proxy.tools=some", "--", &server],
        &["offload"],
        &["memory", "list"],
        &["config", "check"],
    ] {
        let run = program.run(command);
        assert_eq!(run.status, 2, "{command:?}: {run}");
    }
}
