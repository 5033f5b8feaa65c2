//! The restrictions of workers, and that no worker survives its query.

use std::process::Command;
use std::time::{Duration, Instant};

use lro_query::worker::{Program, Workers};
use lro_query::{Cancel, ErrorClass, Limits, MemoryLimit, QueryError, QueryRequest, jq, sql};

use crate::fixture::{Records, ask_jq, lines, workers};
use crate::hostile::SECRET;

/// Child processes that are workers, including zombies.
fn children() -> Vec<String> {
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        if rest.split_whitespace().nth(1) == Some(&me) {
            found.push(format!("{name}) {}", rest.split_whitespace().next().unwrap()));
        }
    }
    found
}

fn no_children_within(wait: Duration) {
    let until = Instant::now() + wait;
    while !children().is_empty() {
        assert!(Instant::now() < until, "left behind: {:?}", children());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_program_that_did_not_enter_is_not_executed_again() {
    assert!(Program::itself().is_none());
}

#[test]
fn a_program_that_is_no_worker_is_found_out() {
    let records = Records::memories(1);
    let query = jq::JqQuery::each(".");
    let ask = QueryRequest::jq(&query, records.source());
    for program in ["/bin/true", "/bin/echo", "/does/not/exist"] {
        let workers = Workers::new(Program::at(program), 1);
        let error = workers.run(&ask, &Limits::default(), &Cancel::default()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Unavailable, "{program}: {error:?}");
    }
    no_children_within(Duration::from_secs(1));
}

#[test]
fn n5_each_way_to_die_has_its_class() {
    let records = Records::memories(3);
    let limits = Limits::default().wall(Duration::from_millis(400));
    for (filter, class) in [
        ("until(false; .)", ErrorClass::Time),
        ("\"a\" * 3000000000", ErrorClass::Memory),
        ("def f: 1 + f; f", ErrorClass::Depth),
        ("\"x\" * 2000000", ErrorClass::Output),
        (".[", ErrorClass::Syntax),
        (".id | error", ErrorClass::Runtime),
    ] {
        let query = jq::JqQuery::each(filter);
        let result =
            workers().run(&QueryRequest::jq(&query, records.source()), &limits, &Cancel::default());
        assert_eq!(result.unwrap_err().class(), class, "{filter}");
    }
    no_children_within(Duration::from_secs(1));
}

#[test]
fn n5_memory_is_bounded_as_configured() {
    let records = Records::memories(1);
    let limits = Limits::default().wall(Duration::from_secs(20));
    let small = limits.clone().memory(MemoryLimit::Bytes(32 << 20));
    let query = jq::JqQuery::each("[range(12000000)] | length");
    let ask = QueryRequest::jq(&query, records.source());
    assert_eq!(
        workers().run(&ask, &small, &Cancel::default()).unwrap_err().class(),
        ErrorClass::Memory
    );
    assert_eq!(workers().run(&ask, &limits, &Cancel::default()).unwrap().given, 1);
    let query = sql::SqlQuery::new(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 400000)
         SELECT count(DISTINCT printf('%0100d', i)) AS n FROM n",
    );
    let ask = QueryRequest::sql(&query, records.source());
    assert_eq!(
        workers().run(&ask, &small, &Cancel::default()).unwrap_err().class(),
        ErrorClass::Memory
    );
    let answer = workers().run(&ask, &limits, &Cancel::default()).unwrap();
    assert_eq!(lines(&answer), ["{\"n\":400000}"]);
}

#[test]
fn n5_a_cancelled_query_ends_at_once() {
    let records = Records::memories(3);
    let query = jq::JqQuery::each("until(false; .)");
    let cancel = Cancel::default();
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            cancel.cancel();
        });
        let ask = QueryRequest::jq(&query, records.source());
        let error = workers().run(&ask, &Limits::default(), &cancel).unwrap_err();
        assert!(matches!(error, QueryError::Cancelled));
    });
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
    no_children_within(Duration::from_secs(1));
}

#[test]
fn at_most_so_many_workers_run_at_once() {
    let records = Records::memories(3);
    let query = jq::JqQuery::each("until(false; .)");
    let workers = Workers::new(Program::at(env!("CARGO_BIN_EXE_lro-worker")), 2);
    let limits = Limits::default().wall(Duration::from_millis(300));
    let mut most = 0;
    std::thread::scope(|scope| {
        let asks: Vec<_> = (0..6)
            .map(|_| {
                let ask = QueryRequest::jq(&query, records.source());
                let (workers, limits) = (workers.clone(), limits.clone());
                scope.spawn(move || workers.run(&ask, &limits, &Cancel::default()).unwrap_err())
            })
            .collect();
        while asks.iter().any(|ask| !ask.is_finished()) {
            most = most.max(children().len());
            std::thread::sleep(Duration::from_millis(10));
        }
        let errors: Vec<_> = asks.into_iter().map(|ask| ask.join().unwrap()).collect();
        let busy = errors.iter().filter(|error| matches!(error, QueryError::Busy)).count();
        assert!(busy >= 1, "{errors:?}");
        assert!(errors.iter().any(|error| error.class() == ErrorClass::Time));
    });
    assert!(most <= 2, "{most} at once");
    no_children_within(Duration::from_secs(1));
}

#[test]
fn sixty_four_queries_at_once_are_all_answered() {
    let records = Records::memories(200);
    let workers = workers();
    std::thread::scope(|scope| {
        let asks: Vec<_> = (0..64)
            .map(|n| {
                let (workers, records) = (workers.clone(), &records);
                scope.spawn(move || {
                    let query = jq::JqQuery::each(format!("select(.id == \"m{n:06}\") | .title"));
                    let ask = QueryRequest::jq(&query, records.source());
                    let answer = workers.run(&ask, &Limits::default(), &Cancel::default()).unwrap();
                    assert_eq!(lines(&answer), [format!("\"Title {n}\"")]);
                })
            })
            .collect();
        for ask in asks {
            ask.join().unwrap();
        }
    });
    no_children_within(Duration::from_secs(1));
}

#[test]
fn a_query_that_is_too_long_is_not_started() {
    let records = Records::memories(1);
    let error = ask_jq(&records, &jq::JqQuery::each(" ".repeat(8193))).unwrap_err();
    assert!(matches!(error, QueryError::TooLong { bytes: 8193, limit: 8192 }));
    let big = jq::JqQuery::each(".").with("x", "y".repeat(300_000)).unwrap();
    assert!(matches!(ask_jq(&records, &big).unwrap_err(), QueryError::TooLong { .. }));
}

/// Inspects a worker from outside while it runs.
#[test]
fn f39_a_worker_has_no_environment_no_privileges_and_no_way_out() {
    let records = Records::memories(3);
    let query = jq::JqQuery::each("until(false; .)");
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let ask = QueryRequest::jq(&query, records.source());
            workers().run(&ask, &Limits::default(), &cancel).unwrap_err()
        });
        std::thread::sleep(Duration::from_millis(200));
        let me = std::process::id().to_string();
        let worker = std::fs::read_dir("/proc").unwrap().flatten().find(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest).to_owned();
            rest.split_whitespace().nth(1) == Some(me.as_str())
        });
        let worker = worker.expect("a worker runs").path();
        let read = |name: &str| std::fs::read_to_string(worker.join(name)).unwrap();
        assert_eq!(read("environ"), "");
        assert!(read("cmdline").starts_with("lro-query-worker\0"));
        assert_eq!(std::fs::read_link(worker.join("cwd")).unwrap().to_str(), Some("/"));
        assert!(read("status").contains("NoNewPrivs:\t1"));
        let limits = read("limits");
        let limit = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            line[26..].split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(limit("Max file size"), ["0", "0"]);
        assert_eq!(limit("Max core file size"), ["0", "0"]);
        assert_eq!(limit("Max processes"), ["0", "0"]);
        assert_eq!(limit("Max open files"), ["22", "22"]);
        assert_eq!(limit("Max cpu time"), ["12", "12"]);
        let space: u64 = limit("Max address space")[0].parse().unwrap();
        assert!(space < 600 << 20, "{space}");
        let open: Vec<_> = std::fs::read_dir(worker.join("fd"))
            .unwrap()
            .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap())
            .collect();
        // The process that started the tests may have left descriptors open, but no files.
        let files: Vec<_> = open.iter().filter(|path| path.starts_with("/")).collect();
        let harmless = |path: &std::path::Path| {
            path.starts_with("/dev") || path.starts_with("/memfd:lro-records (deleted)")
        };
        assert!(files.iter().all(|path| harmless(path)), "{open:?}");
        cancel.cancel();
        assert!(matches!(asked.join().unwrap(), QueryError::Cancelled));
    });
}

#[test]
fn g08_every_thread_of_a_worker_is_filtered() {
    let records = Records::memories(3);
    let query = jq::JqQuery::each("until(false; .)");
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let ask = QueryRequest::jq(&query, records.source());
            workers().run(&ask, &Limits::default(), &cancel).unwrap_err()
        });
        // Wait until the worker runs the query, with a filter on all of its threads.
        let until = Instant::now() + Duration::from_secs(5);
        let mut modes = Vec::new();
        while modes.len() < 2 || modes.iter().any(|mode| mode != "Seccomp:\t2") {
            assert!(Instant::now() < until, "{modes:?}");
            std::thread::sleep(Duration::from_millis(20));
            modes = seccomp_modes();
        }
        cancel.cancel();
        assert!(matches!(asked.join().unwrap(), QueryError::Cancelled));
    });
}

/// The `Seccomp` line in the status of each thread of our workers.
fn seccomp_modes() -> Vec<String> {
    let me = format!("PPid:\t{}", std::process::id());
    let status = |dir: &std::path::Path| std::fs::read_to_string(dir.join("status"));
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let workers = processes.filter(|dir| status(dir).is_ok_and(|text| text.contains(&me)));
    let threads = workers.flat_map(|dir| std::fs::read_dir(dir.join("task")).into_iter().flatten());
    let texts = threads.flatten().filter_map(|thread| status(&thread.path()).ok());
    let line =
        |text: &str| text.lines().find(|line| line.starts_with("Seccomp:")).map(str::to_owned);
    texts.filter_map(|text| line(&text)).collect()
}

#[test]
fn f39_the_parents_environment_stays_there() {
    // The test restarts its own process with the secret in the environment.
    if std::env::var("LRO_TEST_SECRET").is_err() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::f39_the_parents_environment_stays_there"])
            .env("LRO_TEST_SECRET", SECRET)
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let records = Records::memories(2);
    for filter in
        ["$ENV", "env", "$ENV.LRO_TEST_SECRET", "[paths]", "getpath([\"ENV\"])", "$params"]
    {
        let told = match ask_jq(&records, &jq::JqQuery::each(filter)) {
            Ok(answer) => answer.text().into_owned(),
            Err(error) => format!("{error:?} {error} {}", error.hint()),
        };
        assert!(!told.contains(SECRET), "{filter}: {told}");
    }
}
