//! Bearer tokens: the right one is accepted, and nothing similar.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use atlatl_server::http::{BearerTokens, HttpOptions};

use super::served::Served;
use crate::fixture::Place;

const TOKEN: &str = "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";
const SECOND: &str = "A-second_token.of~the+same/file==00";

fn file(dir: &tempfile::TempDir, text: &str, mode: u32) -> PathBuf {
    let path = dir.path().join("tokens");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// Values of `Authorization` headers that must be rejected, each as often as it is sent.
fn wrong() -> Vec<Vec<String>> {
    let swapped = TOKEN.replacen("q7", "7q", 1);
    let near: String = TOKEN.chars().rev().collect();
    let base64 = "cTdadDJtWGM5THc0Ums4VmIxTnM2SGQzSmY1R3AwWWE=";
    [
        // Nothing, or an empty value.
        vec![],
        vec![String::new()],
        vec!["Bearer".to_owned()],
        vec!["Bearer ".to_owned()],
        vec!["Bearer null".to_owned()],
        vec!["Bearer undefined".to_owned()],
        vec!["Bearer *".to_owned()],
        // Another scheme.
        vec![TOKEN.to_owned()],
        vec![format!("Basic {TOKEN}")],
        vec![format!("Basic {base64}")],
        vec![format!("Token {TOKEN}")],
        vec![format!("Bearer: {TOKEN}")],
        vec![format!("Bearer={TOKEN}")],
        vec![format!("Bearer{TOKEN}")],
        vec![format!("Bearer,{TOKEN}")],
        vec![format!("Bear {TOKEN}")],
        vec![format!("BearerX {TOKEN}")],
        vec![format!("Bearer\t{TOKEN}")],
        vec![format!("Digest token=\"{TOKEN}\"")],
        // Another token.
        vec![format!("Bearer {}", TOKEN.to_lowercase())],
        vec![format!("Bearer {}", TOKEN.to_uppercase())],
        vec![format!("Bearer {swapped}")],
        vec![format!("Bearer {near}")],
        vec![format!("Bearer {base64}")],
        vec![format!("Bearer {}", &TOKEN[1..])],
        vec![format!("Bearer {}", &TOKEN[..TOKEN.len() - 1])],
        vec![format!("Bearer {}", &TOKEN[..16])],
        vec![format!("Bearer x{TOKEN}")],
        vec![format!("Bearer {TOKEN}x")],
        vec![format!("Bearer {TOKEN}=")],
        vec![format!("Bearer {TOKEN}{TOKEN}")],
        vec![format!("Bearer {TOKEN}{SECOND}")],
        vec![format!("Bearer {}", "x".repeat(TOKEN.len()))],
        vec![format!("Bearer {}", "x".repeat(8000))],
        vec!["Bearer # ours".to_owned()],
        // White space and quotes.
        vec![format!("Bearer \t{TOKEN}")],
        vec![format!("Bearer {TOKEN} x")],
        vec![format!("Bearer {TOKEN} {SECOND}")],
        vec![format!("Bearer {TOKEN},{SECOND}")],
        vec![format!("Bearer {} {}", &TOKEN[..10], &TOKEN[10..])],
        vec![format!("Bearer \"{TOKEN}\"")],
        vec![format!("Bearer '{TOKEN}'")],
        vec![format!("Bearer <{TOKEN}>")],
        vec![format!("Bearer {TOKEN};")],
        vec![format!("Bearer \u{a0}{TOKEN}")],
        vec![format!("Bearer %{TOKEN}")],
        vec![format!("Bearer Bearer {TOKEN}")],
        // Twice: an intermediary may have read the other one.
        vec![format!("Bearer {TOKEN}"), format!("Bearer {TOKEN}")],
        vec![format!("Bearer {TOKEN}"), "Bearer x".to_owned()],
        vec!["Bearer x".to_owned(), format!("Bearer {TOKEN}")],
    ]
    .into()
}

#[test]
fn only_the_right_token_opens_and_none_is_ever_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &format!("# ours\n{TOKEN}\n\n{SECOND}\n"), 0o600);
    let mut options = HttpOptions::default();
    options.tokens = Some(BearerTokens::read(&path, [3; 32]).unwrap());
    assert!(!format!("{:?}", options.tokens).contains(TOKEN));
    let place = Place::new();
    let served = Served::with(&place, options);
    let paths = ["/v1/memories", "/metrics", "/openapi.json", "/v1/offloads/x", "/mcp"];
    let ask = |path: &str, values: &[&str]| {
        let headers: Vec<(&str, &str)> =
            values.iter().map(|value| ("Authorization", *value)).collect();
        let body = if path == "/mcp" { r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"# } else { "" };
        let answer = served.ask(if body.is_empty() { "GET" } else { "POST" }, path, &headers, body);
        let all = format!("{:?} {}", answer.headers, answer.text());
        for token in [TOKEN, SECOND] {
            assert!(!all.contains(&token[..16]), "{all}");
        }
        answer
    };
    let wrong = wrong();
    assert!(wrong.len() >= 40, "{}", wrong.len());
    for values in &wrong {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        for path in paths {
            let answer = ask(path, &values);
            answer.is_problem(401);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    // RFC 9110: the scheme is case-insensitive, and spaces may follow it.
    for right in [TOKEN, SECOND] {
        for value in [
            format!("Bearer {right}"),
            format!("bearer {right}"),
            format!("BEARER  {right}"),
            format!("Bearer {right}  "),
        ] {
            assert_eq!(ask("/v1/memories", &[&value]).status, 200, "{value}");
            assert_eq!(ask("/mcp", &[&value]).status, 200, "{value}");
        }
    }
    // In a URL it would appear in logs.
    for query in ["access_token", "token", "authorization"] {
        ask(&format!("/v1/memories?{query}={TOKEN}"), &[]).is_problem(401);
    }
    for open in ["/healthz", "/readyz"] {
        assert_eq!(ask(open, &[]).text(), "ok\n");
    }
}
