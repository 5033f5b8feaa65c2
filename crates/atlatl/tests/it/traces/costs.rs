//! What traces cost: nothing where no collector is named, and no time where it is slow or away.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::asking::{Asker, request};
use super::collector::Collector;
use crate::program::Program;
use crate::serving::Serving;

/// More than may wait for the collector.
const MANY: usize = 3000;

/// How long many requests take, and then the end.
fn time(program: &Program) -> (Duration, Duration) {
    let mut serving = Serving::start(program, &[]);
    let mut asker = Asker::of(&serving);
    let began = Instant::now();
    for _ in 0..MANY {
        assert_eq!(asker.ask(&[], &request("ping", &json!({})))["result"], json!({}));
    }
    drop(asker);
    let asked = began.elapsed();
    let began = Instant::now();
    assert!(serving.end_by("-TERM").success());
    (asked, began.elapsed())
}

#[test]
fn a_collector_that_is_away_or_never_answers_keeps_no_request_and_no_end() {
    let (without, ended) = time(&Program::new());
    // It is bound and listens, and nobody ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for collector in [silent.local_addr().unwrap(), closed] {
        let url = format!("http://{collector}");
        let program = Program::new()
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
            .variable("OTEL_BSP_SCHEDULE_DELAY", "50");
        let (asked, end) = time(&program);
        assert!(asked < without * 3 + Duration::from_secs(2), "{asked:?}, without {without:?}");
        assert!(end < ended + Duration::from_secs(3), "{end:?}, without {ended:?}");
    }
    // It was really asked: a connection waits.
    silent.set_nonblocking(true).unwrap();
    assert!(silent.accept().is_ok());
}

/// Whether the server has the thread that sends spans.
fn sends(serving: &Serving) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", serving.id())).unwrap().flatten();
    let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.any(|name| name.starts_with("OpenTelemetry"))
}

#[test]
fn without_a_collector_there_is_no_thread_and_nothing_is_sent() {
    let collector = Collector::start();
    let url = collector.url();
    for variables in [
        &[][..],
        &[("OTEL_SERVICE_NAME", "x"), ("OTEL_TRACES_EXPORTER", "otlp")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_SDK_DISABLED", "true")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_TRACES_EXPORTER", "none")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:secret@b c/")],
    ] {
        let program = variables
            .iter()
            .fold(Program::new(), |program, (name, value)| program.variable(name, value));
        let mut serving = Serving::start(&program, &[]);
        Asker::of(&serving).ask(&[], &request("ping", &json!({})));
        assert!(!sends(&serving), "{variables:?}");
        assert!(!serving.said.contains("secret"), "{}", serving.said);
        let wrong = variables.iter().any(|(_, value)| *value == "grpc" || value.contains("secret"));
        assert_eq!(serving.said.contains("no traces are sent"), wrong, "{}", serving.said);
        assert!(serving.end_by("-TERM").success());
    }
    assert_eq!(collector.posts(), 0);
    // The same with one, so that the rest shows something.
    let path = format!("{url}/own/path");
    let program = Program::new().variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &path);
    let mut serving = Serving::start(&program, &[]);
    Asker::of(&serving).ask(&[], &request("ping", &json!({})));
    assert!(sends(&serving));
    assert!(serving.end_by("-TERM").success());
    assert_eq!(collector.heads("x")[0].0, "/own/path");
    assert_eq!(collector.spans()[0].name, "ping");
}
