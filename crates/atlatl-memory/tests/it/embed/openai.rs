//! A well-behaved endpoint: the requests it gets, and how its responses are used.

use std::time::{Duration, Instant};

use atlatl_memory::embed::{EmbedError, Embedder as _, OpenAi, OpenAiLimits, open};
use serde_json::json;

use super::contract;
use super::endpoint::{FakeEndpoint, Reply, answer};

pub(crate) const KEY: &str = "sk-very-secret-0123456789";

/// Limits for tests: the defaults without delays.
pub(crate) fn limits() -> OpenAiLimits {
    let mut limits = OpenAiLimits::default();
    limits.wait = Duration::from_millis(1);
    limits
}

pub(crate) fn connect(endpoint: &FakeEndpoint) -> Result<OpenAi, EmbedError> {
    connect_within(endpoint, limits())
}

pub(crate) fn connect_within(
    endpoint: &FakeEndpoint,
    limits: OpenAiLimits,
) -> Result<OpenAi, EmbedError> {
    OpenAi::open(&endpoint.url().parse().unwrap(), "small", Some(KEY.to_owned()), limits)
}

#[test]
fn a_good_endpoint_keeps_the_contract() {
    let endpoint = FakeEndpoint::good();
    let choice = format!("openai:{}#small", endpoint.url()).parse().unwrap();
    let embedder = open(&choice, None).unwrap().unwrap();
    assert_eq!((embedder.model(), embedder.dimensions()), ("small", 4));
    contract::run(&*embedder);
    assert!(endpoint.asked().iter().all(|asked| !asked.head.contains("authorization")));
}

#[test]
fn the_question_is_that_of_the_api() {
    let endpoint = FakeEndpoint::good();
    connect(&endpoint).unwrap().embed(&["one", "\"two\"\n"]).unwrap();
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 2, "one to learn the dimensions, one to embed");
    assert!(asked[1].head.starts_with("post /v1/embeddings http/1.1\r\n"), "{}", asked[1].head);
    assert!(asked[1].head.contains("content-type: application/json\r\n"));
    assert!(asked[1].head.contains(&format!("authorization: bearer {KEY}\r\n")));
    assert_eq!(asked[1].body, json!({"model": "small", "input": ["one", "\"two\"\n"]}));
}

#[test]
fn many_texts_go_in_batches_and_come_back_in_order() {
    let endpoint = FakeEndpoint::good();
    let embedder = connect(&endpoint).unwrap();
    let texts: Vec<String> = (0..150).map(|n| format!("text {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = embedder.embed(&texts).unwrap();
    let sizes: Vec<usize> = endpoint.asked().iter().map(|asked| asked.texts().len()).collect();
    assert_eq!(sizes, [1, 64, 64, 22]);
    assert_eq!(vectors[149], embedder.embed(&["text 149"]).unwrap()[0]);

    let half = "x".repeat(200 << 10);
    embedder.embed(&[&half, &half, "y"]).unwrap();
    let sizes: Vec<usize> = endpoint.asked()[5..].iter().map(|asked| asked.texts().len()).collect();
    assert_eq!(sizes, [1, 2], "256 KiB of text in one request");
}

#[test]
fn answers_are_sorted_by_their_index() {
    let endpoint = FakeEndpoint::start(|before, asked| {
        let mut right: serde_json::Value = serde_json::from_str(&answer(&asked.texts())).unwrap();
        if before % 2 == 0 {
            right["data"].as_array_mut().unwrap().reverse();
        }
        Some(Reply(200, "", right.to_string()))
    });
    let embedder = connect(&endpoint).unwrap();
    let texts = ["one", "two", "three"];
    let in_order = embedder.embed(&texts).unwrap();
    assert_eq!(in_order, embedder.embed(&texts).unwrap());
    assert_eq!(in_order[2], embedder.embed(&["three"]).unwrap()[0]);
}

#[test]
fn who_is_busy_is_asked_again() {
    let endpoint = FakeEndpoint::start(|before, asked| match before {
        0 => Some(Reply(429, "Retry-After: 0\r\n", "slow down".to_owned())),
        1 => Some(Reply(503, "", String::new())),
        3 => None,
        _ => Some(Reply(200, "", answer(&asked.texts()))),
    });
    let embedder = connect(&endpoint).unwrap();
    assert_eq!(endpoint.asked().len(), 3);
    embedder.embed(&["after a broken connection"]).unwrap();
    assert_eq!(endpoint.asked().len(), 5);
}

#[test]
fn who_stays_busy_is_left_alone() {
    let endpoint =
        FakeEndpoint::start(|_, _| Some(Reply(503, "", "maintenance until noon".to_owned())));
    let error = connect(&endpoint).unwrap_err();
    let EmbedError::Unreachable { why, source: Some(source), .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((why.as_str(), &*source.to_string()), ("status 503", "maintenance until noon"));
    assert_eq!(endpoint.asked().len(), 3);
}

#[test]
fn who_asks_for_an_hour_is_left_alone_at_once() {
    let endpoint = FakeEndpoint::start(|_, _| {
        Some(Reply(429, "Retry-After: 3600\r\n", r#"{"error":{"message":"quota"}}"#.to_owned()))
    });
    let error = connect(&endpoint).unwrap_err();
    assert_eq!(error.to_string(), "cannot reach the embedding endpoint: status 429");
    let message = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(message.as_deref(), Some("quota"));
    assert_eq!(endpoint.asked().len(), 1);
}

#[test]
fn who_is_slow_is_given_up_in_time() {
    let endpoint = FakeEndpoint::start(|_, asked| {
        std::thread::sleep(Duration::from_secs(20));
        Some(Reply(200, "", answer(&asked.texts())))
    });
    let mut limits = limits();
    limits.timeout = Duration::from_millis(200);
    let started = Instant::now();
    let error = connect_within(&endpoint, limits).unwrap_err();
    assert!(matches!(error, EmbedError::Unreachable { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(endpoint.asked().len(), 1);
}
