//! Admission: every combination of `Host`, `Origin`, media type and method.

use atlatl_server::http::{HttpOptions, ListenError, listen};

use super::served::Served;
use crate::fixture::Place;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// Header values, each as often as it is sent, and whether a server may accept them.
type Values = [(&'static [&'static str], bool)];

const HOSTS: &Values = &[
    (&["127.0.0.1:7171"], true),
    (&["127.0.0.1"], true),
    (&["localhost:80"], true),
    (&["LocalHost"], true),
    (&["[::1]:7171"], true),
    (&["memory.example"], true),
    (&["Memory.Example:8443"], true),
    (&["fixed.example:8443"], true),
    (&["fixed.example:8444"], false),
    (&["fixed.example"], false),
    (&["evil.example"], false),
    (&["localhost.evil.example"], false),
    (&["127.0.0.1.evil.example:7171"], false),
    (&["memory.example.evil.example"], false),
    (&["evil-memory.example"], false),
    (&["127.0.0.1:99999"], false),
    (&["0.0.0.0:7171"], false),
    (&["127.0.0.2"], false),
    (&[], false),
    (&["localhost", "evil.example"], false),
    (&["evil.example", "localhost"], false),
];

const ORIGINS: &Values = &[
    (&[], true),
    (&["https://app.example"], true),
    (&["http://localhost:5173"], false),
    (&["https://127.0.0.1"], false),
    (&["http://[::1]:7171"], false),
    (&["http://app.example"], false),
    (&["https://app.example:444"], false),
    (&["https://app.example.evil.example"], false),
    (&["null"], false),
    (&["http://evil.example"], false),
    (&["http://localhost.evil.example"], false),
    (&["http://localhost:80@evil.example"], false),
    (&["file://localhost"], false),
    (&["localhost"], false),
    (&["https://app.example", "http://evil.example"], false),
];

const TYPES: &Values = &[
    (&["application/json"], true),
    (&["application/json; charset=utf-8"], true),
    (&["Application/JSON"], true),
    (&[], false),
    (&["text/plain"], false),
    (&["application/x-www-form-urlencoded"], false),
    (&["multipart/form-data; boundary=application/json"], false),
    (&["text/plain; application/json"], false),
    (&["application/jsonx"], false),
    (&["application/json", "text/plain"], false),
];

const METHODS: [&str; 7] = ["POST", "GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"];

/// The expected response at `/mcp`, by the rules of the documentation and not by the code.
fn expected(host: bool, origin: (&[&str], bool), media_type: bool, method: &str) -> u16 {
    match method {
        _ if !host || !origin.1 => 403,
        "OPTIONS" if !origin.0.is_empty() => 204,
        "POST" | "PUT" if !media_type => 415,
        "POST" => 200,
        _ => 405,
    }
}

#[test]
fn host_origin_type_and_method_are_judged_together_in_every_combination() {
    let place = Place::new();
    let mut options = HttpOptions::default();
    options.allowed_hosts = vec!["memory.example".to_owned(), "fixed.example:8443".to_owned()];
    options.allowed_origins = vec!["https://app.example".to_owned()];
    let served = Served::with(&place, options);
    let (mut asked, mut wrong) = (0, Vec::new());
    for (host, host_is_fine) in HOSTS {
        for origin in ORIGINS {
            for (media_type, type_is_fine) in TYPES {
                // If the first two are rejected, the others need not all be tried.
                let refused = !host_is_fine || !origin.1;
                let methods = if refused && !type_is_fine { &METHODS[..1] } else { &METHODS };
                for method in methods {
                    let named = |name, values: &[&'static str]| -> Vec<(&str, &str)> {
                        values.iter().map(|value| (name, *value)).collect()
                    };
                    let headers = [
                        named("Host", host),
                        named("Origin", origin.0),
                        named("Content-Type", media_type),
                    ]
                    .concat();
                    let body = if matches!(*method, "POST" | "PUT" | "PATCH") { PING } else { "" };
                    let answer = served.bare(method, "/mcp", &headers, body);
                    let expected = expected(*host_is_fine, *origin, *type_is_fine, method);
                    let shown = answer.header("access-control-allow-origin");
                    let shown_right = match origin.0 {
                        [one] if !refused => shown == Some(*one),
                        _ => shown.is_none(),
                    };
                    if answer.status != expected || !shown_right {
                        wrong.push(format!("{method} {headers:?}: {} {shown:?}", answer.status));
                    }
                    asked += 1;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked}: {wrong:#?}", wrong.len());
    assert!(asked > 2000, "{asked}");
}

#[test]
fn the_door_guards_every_path() {
    let place = Place::new();
    let served = Served::start(&place);
    for path in
        ["/", "/mcp", "/v1/memories", "/v1/search", "/metrics", "/healthz", "/readyz", "/nowhere"]
    {
        served.bare("GET", path, &[("Host", "evil.example")], "").is_problem(403);
        let page = [("Host", "localhost"), ("Origin", "http://evil.example")];
        served.bare("GET", path, &page, "").is_problem(403);
    }
}

#[test]
fn without_tokens_the_server_listens_on_this_machine_only() {
    for address in ["0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"] {
        let refused = listen(address, false);
        assert!(matches!(refused, Err(ListenError::OpenToAll { .. })), "{address}: {refused:?}");
    }
    for address in ["127.0.0.1:0", "127.0.0.9:0", "localhost:0"] {
        assert!(listen(address, false).is_ok(), "{address}");
    }
    assert!(listen("0.0.0.0:0", true).is_ok());
    for odd in ["", "7171", "localhost", "127.0.0.1:99999", "http://127.0.0.1:1"] {
        assert!(matches!(listen(odd, true), Err(ListenError::NoAddress { .. })), "{odd}");
    }
    let taken = listen("127.0.0.1:0", false).unwrap();
    let again = listen(&taken.address().unwrap().unwrap().to_string(), false);
    assert!(matches!(again, Err(ListenError::Bind { .. })));
}
