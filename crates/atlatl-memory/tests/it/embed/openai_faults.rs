//! Endpoints that refuse, answer with invalid data, redirect, or echo the key.

use std::error::Error;
use std::fmt::Write as _;
use std::net::TcpListener;

use atlatl_memory::embed::{EmbedError, Embedder as _, OpenAi, OpenAiLimits};

use super::endpoint::{FakeEndpoint, Reply, answer};
use super::openai::{KEY, connect, connect_within, limits};

/// Returns the error with its sources, as text and as `Debug`.
fn told(error: &EmbedError) -> String {
    let mut told = format!("{error} {error:?}");
    let mut below = error.source();
    while let Some(error) = below {
        write!(told, " {error} {error:?}").unwrap();
        below = error.source();
    }
    told
}

#[test]
fn nonsense_is_found_out() {
    for (answer, expected) in [
        ("", "line 1"),
        ("<html>", "line 1"),
        ("{}", "not a list"),
        (r#"{"data":[]}"#, "0 vectors for 2 texts"),
        (r#"{"data":[{"index":0,"embedding":[1,2,3,4]}]}"#, "1 vectors for 2 texts"),
        (&two(0, "[1,2,3,4]", 0, "[1,2,3,4]"), "index 0 twice"),
        (&two(0, "[1,2,3,4]", 2, "[1,2,3,4]"), "index 2"),
        (&two(0, "[1,2,3,4]", -1, "[1,2,3,4]"), "not a list"),
        (&two(0, "[1,2,3,4]", 1, "[1,2,3]"), "3 dimensions where there were 4"),
        (&two(0, "[1,2,3,4,5]", 1, "[1,2,3,4,5]"), "5 dimensions where there were 4"),
        (&two(0, "[1,2,3,4]", 1, "[0,0,0,0]"), "vector 1 is empty, all zeros or not finite"),
        (&two(0, "[1,2,3,1e39]", 1, "[1,2,3,4]"), "vector 0 is empty, all zeros or not finite"),
        (&two(0, "[1,2,3,1e400]", 1, "[1,2,3,4]"), "not a list"),
        (&two(0, "[1,2,3,NaN]", 1, "[1,2,3,4]"), "not a list"),
        (&two(0, "[1,2,3,null]", 1, "[1,2,3,4]"), "not a list"),
        (&two(0, "\"AACAPw==\"", 1, "[1,2,3,4]"), "not a list"),
    ] {
        let nonsense = answer.to_owned();
        let endpoint = FakeEndpoint::start(move |before, asked| {
            let right = super::endpoint::answer(&asked.texts());
            Some(Reply(200, "", if before == 0 { right } else { nonsense.clone() }))
        });
        let error = connect(&endpoint).unwrap().embed(&["one", "two"]).unwrap_err();
        assert!(matches!(error, EmbedError::InvalidResponse { .. }), "{answer}: {error}");
        assert!(error.to_string().contains(expected), "{answer}: {error}");
        assert_eq!(endpoint.asked().len(), 2, "nonsense is not asked for again");
    }
}

#[test]
fn huge_numbers_that_are_finite_are_no_nonsense() {
    let endpoint = FakeEndpoint::start(|_, _| {
        Some(Reply(200, "", r#"{"data":[{"index":0,"embedding":[3e38,0,-3e38]}]}"#.to_owned()))
    });
    let vector = &connect(&endpoint).unwrap().embed(&["x"]).unwrap()[0];
    assert!((vector[0] - 0.5_f32.sqrt()).abs() < 1e-6, "{vector:?}");
}

#[test]
fn an_endless_answer_is_not_read_to_its_end() {
    let endpoint = FakeEndpoint::start(|_, _| Some(Reply(200, "", " ".repeat(100_000))));
    let mut limits = limits();
    limits.answer_bytes = 10_000;
    let error = connect_within(&endpoint, limits).unwrap_err();
    assert!(error.to_string().ends_with("more than 10000 bytes"), "{error}");
}

#[test]
fn a_refusal_is_reported_once_and_short() {
    let endpoint = FakeEndpoint::start(|_, _| {
        let message = format!("no model\\n`small`\\u0007 {}", "here ".repeat(1000));
        Some(Reply(404, "", format!(r#"{{"error":{{"message":"{message}","code":null}}}}"#)))
    });
    let error = connect(&endpoint).unwrap_err();
    let EmbedError::Refused { status, message } = &error else { panic!("{error}") };
    assert_eq!(*status, 404);
    assert!(message.starts_with("no model `small` here here"), "{message}");
    assert_eq!(message.chars().count(), 300);
    assert_eq!(endpoint.asked().len(), 1);
}

#[test]
fn the_key_is_never_repeated() {
    for status in [200, 302, 400, 401, 429, 500] {
        for body in [
            format!("wrong key {KEY}"),
            format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#),
            format!("{}{KEY}", "x".repeat(290)),
            format!(r#"{{"data":[{{"index":0,"embedding":["{KEY}"]}}]}}"#),
            format!(r#"{{"data":"{KEY}"}}"#),
        ] {
            let headers = "Retry-After: 0\r\nLocation: /sk-very-secret-0123456789\r\n";
            let endpoint =
                FakeEndpoint::start(move |_, _| Some(Reply(status, headers, body.clone())));
            let told = told(&connect(&endpoint).unwrap_err());
            assert!(!told.contains("sk-very"), "{told}");
        }
    }
    let embedder = connect(&FakeEndpoint::good()).unwrap();
    let debug = format!("{embedder:?} {embedder:#?}");
    assert!(debug.contains("small") && !debug.contains("sk-very"), "{debug}");
}

#[test]
fn a_key_that_no_header_can_carry_is_not_sent_or_told() {
    let endpoint = FakeEndpoint::good();
    for key in ["", "two words", "line\r\nX-Injected: yes", "schlüssel"] {
        let url = endpoint.url().parse().unwrap();
        let error = OpenAi::open(&url, "m", Some(key.to_owned()), limits()).unwrap_err();
        assert!(matches!(error, EmbedError::InvalidKey), "{error}");
        assert!(key.is_empty() || !told(&error).contains(key));
    }
    assert!(endpoint.asked().is_empty());
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = FakeEndpoint::good();
    let location = format!("Location: {}/embeddings\r\n", elsewhere.url());
    let location: &'static str = Box::leak(location.into_boxed_str());
    for status in [301, 302, 303, 307, 308] {
        let endpoint =
            FakeEndpoint::start(move |_, _| Some(Reply(status, location, String::new())));
        let error = connect(&endpoint).unwrap_err();
        let EmbedError::Refused { status: found, .. } = &error else { panic!("{error}") };
        assert_eq!(*found, status);
        assert_eq!(endpoint.asked().len(), 1);
    }
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn a_closed_port_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}").parse().unwrap();
    let error = OpenAi::open(&url, "m", None, limits()).unwrap_err();
    assert!(matches!(error, EmbedError::Unreachable { source: Some(_), .. }), "{error}");
}

/// TLS is set up without a panic, and does not fall back to plain text.
#[test]
fn https_is_not_spoken_with_who_does_not() {
    let endpoint = FakeEndpoint::good();
    let url = format!("https://127.0.0.1:{}", endpoint.port()).parse().unwrap();
    let mut limits: OpenAiLimits = limits();
    limits.timeout = std::time::Duration::from_secs(2);
    let error = OpenAi::open(&url, "m", None, limits).unwrap_err();
    assert!(matches!(error, EmbedError::Unreachable { source: Some(_), .. }), "{error}");
    assert!(endpoint.asked().is_empty());
}

#[test]
fn a_wrong_answer_to_the_first_question_opens_nothing() {
    let endpoint = FakeEndpoint::start(|_, _| Some(Reply(200, "", answer(&["one", "two"]))));
    let error = connect(&endpoint).unwrap_err();
    assert!(error.to_string().contains("2 vectors for 1 texts"), "{error}");
}

fn two(first: i32, one: &str, second: i32, other: &str) -> String {
    let item = |index, embedding| format!(r#"{{"index":{index},"embedding":{embedding}}}"#);
    format!(r#"{{"data":[{},{}]}}"#, item(first, one), item(second, other))
}
