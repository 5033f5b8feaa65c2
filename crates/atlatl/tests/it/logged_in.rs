//! `atlatl proxy --url` at a server that wants a login.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::authority::Authority;

use crate::login::{log_in, program};
use crate::program::Program;
use crate::proxied::Proxied;

fn echo(client: &mut Proxied, text: &str) -> Value {
    client.call("echo", &json!({"text": text}))
}

fn proxy(program: &Program, url: &str) -> Proxied {
    Proxied::of(program.command(&["proxy", "--url", url]))
}

#[test]
fn a_headless_run_that_needs_a_login_says_exactly_what_to_run() {
    let authority = Authority::start();
    let (program, mcp) = (program(), authority.mcp());
    let mut child = program
        .command(&["proxy", "--url", &mcp])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for id in [1, 2] {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        writeln!(input, "{call}").unwrap();
    }
    let mut answers: Vec<Value> = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .take(2)
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let told =
        format!("{mcp} requires a login: run `atlatl login {mcp}`, or pass a key with --header");
    for (id, answer) in (1..).zip(&answers) {
        assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!(id), &json!(told)));
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches(&told).count(), 1, "once: {said}");
    assert!(!program.path("opened").exists(), "no browser is opened by itself");
    // The command in the message works unchanged.
    let command = told.split('`').nth(1).unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert_eq!(log_in(&program, &words).status, 0);
    let mut client = proxy(&program, &mcp);
    assert!(echo(&mut client, "hello")["result"].to_string().contains("hello"));
}

#[test]
fn a_login_that_is_made_while_the_proxy_runs_is_used() {
    let authority = Authority::start();
    let (program, mcp) = (program(), authority.mcp());
    let mut client = proxy(&program, &mcp);
    assert!(echo(&mut client, "a")["error"].is_object());
    assert_eq!(log_in(&program, &["login", &mcp]).status, 0);
    let answer = echo(&mut client, "b");
    assert!(answer["result"].to_string().contains('b'), "{answer}");
}

#[test]
fn a_token_that_expires_or_is_revoked_is_renewed_and_the_client_notices_nothing() {
    let authority = Authority::start();
    let (program, mcp) = (program(), authority.mcp());
    assert_eq!(log_in(&program, &["login", &mcp]).status, 0);
    let mut client = proxy(&program, &mcp);
    assert!(echo(&mut client, "a")["result"].is_object());
    authority.ledger().revoke_access();
    let answer = echo(&mut client, "b");
    assert!(answer["result"].to_string().contains('b'), "{answer}");
    assert_eq!(authority.counts().refreshes, 1);
    // Not only the token, the whole login: what to run is said.
    authority.ledger().revoke_all();
    let answer = echo(&mut client, "c");
    let told = answer["error"]["message"].as_str().unwrap();
    assert!(told.contains(&format!("run `atlatl login {mcp}`")), "{told}");
    assert_eq!(authority.counts().violations, 0, "{:?}", authority.ledger().refusals);
}

#[test]
fn f40_many_proxies_share_a_login_and_renew_it_once() {
    let authority = Authority::start();
    let (program, mcp) = (program(), authority.mcp());
    assert_eq!(log_in(&program, &["login", &mcp]).status, 0);
    let mut clients: Vec<Proxied> = (0..16).map(|_| proxy(&program, &mcp)).collect();
    for client in &mut clients {
        assert!(echo(client, "a")["result"].is_object());
    }
    authority.ledger().revoke_access();
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                let answer = echo(client, "b");
                assert!(answer["result"].is_object(), "{answer}");
            });
        }
    });
    assert_eq!((authority.counts().refreshes, authority.counts().reuses), (1, 0));
}

#[test]
fn a_configured_header_is_used_in_place_of_a_login() {
    let authority = Authority::start();
    let (program, mcp) = (program(), authority.mcp());
    assert_eq!(log_in(&program, &["login", &mcp]).status, 0);
    let header = ["proxy", "--url", &mcp, "--header", "Authorization: Bearer of-my-own"];
    let mut client = Proxied::of(program.command(&header));
    let answer = echo(&mut client, "a");
    assert_eq!(answer["error"]["data"]["status"], 401, "{answer}");
    assert_eq!(authority.ledger().seen.last().map(String::as_str), Some("Bearer of-my-own"));
    assert_eq!(authority.counts().refreshes, 0);
    // Nothing is left running.
    drop(client);
    thread::sleep(Duration::from_millis(10));
    let left = Command::new("pgrep").args(["-f", &mcp]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}
