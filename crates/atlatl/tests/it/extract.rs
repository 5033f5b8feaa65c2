//! `atlatl extract`: queries on stored results from the command line.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::program::{Program, Run};

/// Stores 200 memories and returns the reference.
fn memories(program: &Program) -> String {
    let memories = crate::offload::memories(200, mif::DetailLevel::Full);
    let run = program.run_with_input(&["offload"], memories.as_bytes());
    run.json()["lro"]["ref"].as_str().unwrap().to_owned()
}

fn store(program: &Program, result: &str) -> String {
    let args = ["offload", "--tool", "get_rows", "--set", "proxy.threshold_tokens=1"];
    let run = program.run_with_input(&args, result.as_bytes());
    run.json()["lro"]["ref"].as_str().unwrap().to_owned()
}

fn ask(program: &Program, reference: &str, args: &[&str]) -> Run {
    let run = program.run(&[&["extract", reference], args].concat());
    assert_eq!(run.status, 0, "{run}");
    run
}

const COUNT: &str = "SELECT memory_type, count(*) AS n FROM results GROUP BY 1 ORDER BY n DESC";

#[test]
fn a_question_in_sql_is_answered_in_every_form() {
    let program = Program::new();
    let reference = memories(&program);
    let sql = |output: &str| ask(&program, &reference, &["--sql", COUNT, "--format", output]);
    insta::assert_snapshot!(sql("table"), @"
    status: 0
    --- stdout
    memory_type  n
    semantic     78
    procedural   65
    episodic     57
    --- stderr
    note: 3 of 3 rows
    ");
    insta::assert_snapshot!(sql("csv"), @"
    status: 0
    --- stdout
    memory_type,n
    semantic,78
    procedural,65
    episodic,57
    --- stderr
    note: 3 of 3 rows
    ");
    let jsonl = sql("jsonl").stdout;
    let rows: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(sql("json").json(), Value::Array(rows));
}

/// Spec V6: with an empty environment, no shell, jq or rg can be found.
#[test]
fn v6_every_way_of_asking_works_without_any_other_program() {
    let program = Program::new();
    let reference = memories(&program);
    for args in [
        &["--recipe", "1"][..],
        &["--recipe", "2", "--param", "namespace=_semantic"],
        &["--query", ".title"],
        &["--query", "group_by(.namespace) | length", "--whole"],
        &["--query", "select(.namespace == $n) | .id", "--param", "n=_public"],
        &["--sql", COUNT],
        &["--search", "postgres", "--context", "1"],
        &["--read", "0..100"],
        &["--read", "records:0..2"],
    ] {
        let run = ask(&program, &reference, args);
        assert!(!run.stdout.trim().is_empty() && run.stdout.trim() != "[]", "{args:?}: {run}");
        assert!(run.stderr.starts_with("note: "), "{run}");
    }
}

#[test]
fn f03_how_many_of_how_many_is_said() {
    let program = Program::new();
    let reference = memories(&program);
    let run = ask(&program, &reference, &["--query", ".id", "--limit", "3", "--offset", "10"]);
    assert_eq!(run.json().as_array().unwrap().len(), 3);
    assert_eq!(run.stderr, "note: 3 of 200 values; continue with --offset 13\n");
}

#[test]
fn g33_numbers_keep_their_digits_in_csv_and_table() {
    let program = Program::new();
    let rows = r#"[{"id":123456789012345678901234567893,"p":1.50,"x":{"y":[1e400,-0.0]}},
        {"id":2,"p":0.10,"p":0.20,"x":null}]"#;
    let args = ["offload", "--tool", "get_rows", "--set", "proxy.threshold_tokens=1"];
    let run = program.run_with_input(&args, rows.as_bytes());
    // The numbers of the preview do not fit into a float.
    let reference = run.stdout.split('"').find(|word| word.starts_with("lro:")).unwrap();
    for form in ["csv", "table"] {
        let run = ask(&program, reference, &["--query", ".id, .p", "--format", form]);
        let lines: Vec<&str> = run.stdout.lines().map(str::trim_end).collect();
        assert_eq!(lines[..3], ["value", "123456789012345678901234567893", "1.50"], "{run}");
    }
    let run = ask(&program, reference, &["--query", ".", "--format", "csv"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let nested = r#""{""y"":[1e400,-0.0]}""#;
    assert_eq!(lines[1], format!("123456789012345678901234567893,1.50,{nested},"), "{run}");
}

#[test]
fn g16_matches_are_counted_and_ends_are_read() {
    let program = Program::new();
    let rows: Vec<String> = (0..60)
        .map(|n| format!(r#"{{"id":{n},"level":"{}"}}"#, ["INFO", "ERROR"][n % 2]))
        .collect();
    let reference = store(&program, &format!(r#"{{"next":"p2","items":[{}]}}"#, rows.join(",")));
    let counted = ask(&program, &reference, &["--search", "level\":\"(\\w+)", "--group-by", "1"]);
    assert_eq!(
        counted.json(),
        json!([{"value": "ERROR", "count": 30}, {"value": "INFO", "count": 30}])
    );
    let last = ask(&program, &reference, &["--search", "ERROR", "--offset", "-1", "--json"]);
    assert_eq!(last.json()[0]["line"], 59);
    let page = ["--search", "ERROR", "--offset", "2", "--limit", "1"];
    let page = ask(&program, &reference, &page);
    assert!(page.stderr.contains("1 of 30 matching lines; continue with --offset 3"), "{page}");
    let tail = ask(&program, &reference, &["--read", "records:-1.."]);
    assert_eq!(tail.stdout.trim(), rows[59]);
    let tail = ask(&program, &reference, &["--read", "records:-2..", "--json"]);
    assert_eq!(tail.json()[1]["id"], 59);
    let tail = ask(&program, &reference, &["--read", "records:-2..", "--format", "csv"]);
    assert_eq!(tail.stdout.lines().collect::<Vec<_>>(), ["id,level", "58,INFO", "59,ERROR"]);
    let begin = ask(&program, &reference, &["--read", "0..7", "--json"]);
    assert_eq!(begin.json().as_str().map(str::len), Some(7), "{begin}");
    let original = ask(&program, &reference, &["--query", ".next", "--target", "original"]);
    assert_eq!(original.json(), json!(["p2"]));
}

#[test]
fn two_results_are_compared() {
    let program = Program::new();
    let new = store(&program, r#"[{"id":1},{"id":2},{"id":3}]"#);
    let old = store(&program, r#"[{"id":1},{"id":3}]"#);
    let sql = "SELECT id FROM results EXCEPT SELECT id FROM old";
    let with = format!("old={old}");
    let run = ask(&program, &new, &["--sql", sql, "--with", &with]);
    assert_eq!(run.json(), json!([{"id": 2}]));
}

#[test]
fn what_is_wrong_is_said_with_a_hint() {
    let program = Program::new();
    let reference = store(&program, r#"[{"id":1,"title":"a"},{"id":2,"title":"b"}]"#);
    let fails = |args: &[&str]| {
        let run = program.run(&[&["extract", &reference], args].concat());
        assert_ne!(run.status, 0, "{run}");
        run.stderr
    };
    insta::assert_snapshot!(fails(&["--sql", "SELECT titel FROM results"]), @r#"
    error: the query cannot be run: no such column: titel
    hint: Nearest columns: "title".
    "#);
    insta::assert_snapshot!(fails(&["--sql", "DROP TABLE results"]), @"
    error: the query cannot be run: only read-only statements are allowed
    hint: A query only reads records and its parameters: no environment, files, clock, randomness or writing. Pass anything else, such as the current time, as a parameter.
    ");
    insta::assert_snapshot!(fails(&["--query", "$ENV.HOME"]), @"
    error: the query cannot be run: `$ENV` is not allowed
    hint: A query only reads records and its parameters: no environment, files, clock, randomness or writing. Pass anything else, such as the current time, as a parameter.
    ");
    insta::assert_snapshot!(fails(&["--query", "last(range(1e15))", "--timeout", "0.3"]), @"
    error: the query ran longer than 300 ms
    hint: Raise --timeout, or omit it and end the query with Ctrl-C.
    ");
    insta::assert_snapshot!(fails(&["--recipe", "1"]), @"
    error: recipes work only on memories, and this result has none
    hint: Use --query or --sql.
    ");
    insta::assert_snapshot!(fails(&["--read", "5"]), @"
    error: --read 5: invalid range
    hint: --read 0..2000, --read lines:10..20, --read records:5.., --read lines:-20..
    ");
    assert!(fails(&[]).contains("required"));
}

#[test]
fn a_further_text_is_read_by_its_number() {
    let program = Program::new();
    let rows: Vec<Value> = (0..40).map(|n| json!({"n": n})).collect();
    let result = json!({"content": [
        {"type": "text", "text": serde_json::to_string(&rows).unwrap()},
        {"type": "text", "text": "and a word beside it"},
    ]});
    let reference = store(&program, &result.to_string());
    let run = ask(&program, &reference, &["--read", "6..10", "--part", "1"]);
    assert_eq!((&*run.stdout, &*run.stderr), ("word", "note: 4 of 20 characters\n"));
    let run = program.run(&["extract", &reference, "--read", "0..9", "--part", "2"]);
    assert_eq!(run.status, 1, "{run}");
    assert_eq!(
        run.stderr,
        "error: no part 2\nhint: Text parts are --part 1 to 1; without --part you read the data.\n"
    );
    let run = program.run(&["extract", &reference, "--recipe", "1", "--part", "1"]);
    assert_eq!(run.status, 2, "{run}");
}

/// `query.wall_ms` applies to models; a query on the command line runs until it is interrupted.
#[test]
fn g74_a_person_has_no_time_limit_and_an_interrupt_ends_the_worker() {
    let program = Program::new().variable("ATLATL_QUERY__WALL_MS", "200");
    let reference = store(&program, r#"[{"id":1},{"id":2}]"#);
    let mut child = program
        .command(&["extract", &reference, "--query", "last(range(1e15))", "--limit", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let worker = wait_for(|| children(child.id()).into_iter().next()).expect("a worker");
    // Six times the limit for models.
    thread::sleep(Duration::from_millis(1200));
    assert!(child.try_wait().unwrap().is_none(), "the query was ended");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = wait_for(|| child.try_wait().unwrap());
    assert_eq!(ended.and_then(|status| status.signal()), Some(2), "{ended:?}");
    let gone = wait_for(|| (!is_running(worker)).then_some(()));
    assert!(gone.is_some(), "the worker goes on");
}

/// Polls for ten seconds at most.
fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = ask();
        if answer.is_some() || Instant::now() >= until {
            return answer;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The child processes of `parent`.
fn children(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[test]
fn an_extraction_is_in_the_ledger_without_contents() {
    let program = Program::new();
    let reference = memories(&program);
    ask(&program, &reference, &["--recipe", "3", "--param", "keyword=postgres"]);
    let ledger =
        std::fs::read_to_string(program.path("home/.local/state/atlatl/ledger.jsonl")).unwrap();
    let line = ledger.lines().find(|line| line.contains("ResultExtracted")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["way"], &line["records"]), (&json!("recipe"), &json!(200)));
    assert!(line["given"].as_u64() > Some(0) && !ledger.contains("postgres"), "{line}");
}
