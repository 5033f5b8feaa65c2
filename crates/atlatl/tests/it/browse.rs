//! `atlatl results show` on a pseudo-terminal: keys in, screen contents out.

use std::fmt::Write as _;
use std::io::Read as _;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::person::{ENTERED, Person, SCREEN_TIMEOUT, screen};
use crate::program::{Program, terminal};

pub(crate) fn records(count: usize) -> String {
    (0..count).fold(String::new(), |mut lines, n| {
        let price = (n * 37) % 101;
        writeln!(lines, r#"{{"n":{n},"name":"thing_{n}","price":{price}}}"#).unwrap();
        lines
    })
}

pub(crate) fn store(program: &Program, result: &str) -> String {
    let args = ["offload", "--set", "proxy.threshold_tokens=1", "--tool", "list_things"];
    let run = program.run_with_input(&args, result.as_bytes());
    run.json()["lro"]["ref"].as_str().unwrap().to_owned()
}

#[test]
fn a_stored_result_is_scrolled_sorted_filtered_and_looked_into() {
    let program = Program::new();
    let reference = store(&program, &records(5000));
    let mut person = Person::at(&program, &["results", "show", &reference]);
    person.sees("of 5,000");
    assert!(person.is_raw() && person.shown().contains(ENTERED));
    let first = screen(&person.shown());
    assert!(first.contains("list_things") && first.contains("5,000 records"), "{first}");
    assert!(first.contains("thing_0") && !first.contains("thing_100"), "{first}");
    person.presses("G");
    person.sees("thing_4999");
    person.presses("g");
    person.sees("\n1 0 thing_0");
    // 101 prices: the first record with none, the 101st, …
    person.presses("lls");
    person.sees("price\u{2191}\n1 0 thing_0 0\n102 101 thing_101 0");
    person.presses("s");
    person.sees("price\u{2193}\n");
    person.sees(" 100\n");
    person.presses(":price > 99 and name like 'thing_4%'\r");
    person.sees(":price > 99 and name like 'thing_4%'");
    person.waits(|screen| !screen.contains("of 5,000"), "fewer records");
    let filtered = screen(&person.shown());
    assert!(filtered.lines().skip(2).take(5).all(|line| line.ends_with(" 100")), "{filtered}");
    person.presses(":prize > 1\r");
    person.sees("no such column: prize. Nearest columns: \"price\".");
    person.presses("\r");
    person.sees("\"price\": 100\n}");
    person.presses("q");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
fn a_search_and_a_statement_find_what_they_look_for() {
    let program = Program::new();
    let reference = store(&program, &records(3000));
    let mut person = Person::at(&program, &["results", "show", &reference]);
    person.sees("of 3,000");
    person.presses("/THING_2[0]77\r");
    person.sees("thing_2077");
    person.presses(":select count(*) as how_many from results\r");
    person.sees("how_many");
    person.presses("\u{3}");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
fn a_signal_gives_the_terminal_back_before_it_ends_the_program() {
    use std::os::unix::process::ExitStatusExt as _;
    let program = Program::new();
    let reference = store(&program, &records(300));
    let mut person = Person::at(&program, &["results", "show", &reference]);
    person.sees("of 300");
    let id = rustix::process::Pid::from_child(&person.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(person.leaves().signal(), Some(15));
}

#[test]
fn text_is_a_pager_and_a_smaller_window_is_drawn_again() {
    let program = Program::new();
    let lines = (0..500).map(|n| format!("line {n} \u{1b}[31mred\n")).collect::<Vec<_>>();
    let reference = store(&program, &lines.concat());
    let mut person = Person::at(&program, &["results", "show", &reference]);
    person.sees("line 0 <U+001B>[31mred");
    assert!(!person.shown().contains("\u{1b}[31m"), "{:?}", person.shown());
    let size = Winsize { ws_row: 5, ws_col: 30, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&person.terminal, size).unwrap();
    person.sees("1\u{2013}3 of 500");
    person.presses("s");
    person.sees("sorting needs records");
    person.presses("q");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
fn a_result_that_is_cleaned_away_stays_open_until_it_is_left() {
    let program = Program::new();
    let reference = store(&program, &records(2000));
    let mut person = Person::at(&program, &["results", "show", &reference]);
    person.sees("of 2,000");
    let file = program.run(&["results", "path", &reference]).stdout;
    let file =
        file.trim().replace("[DIR]", program.path("").to_str().unwrap().trim_end_matches('/'));
    std::fs::remove_file(&file).unwrap();
    person.presses("G");
    person.sees("thing_1999");
    // The file is unlinked, so no other process can open it.
    person.presses(":price > 99\r");
    let said = |screen: &str| screen.replace('\n', " ").contains("Repeat the call");
    person.waits(said, "what to do");
    person.presses("q");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
fn a_pipe_an_asked_form_and_plain_print_as_ever() {
    let program = Program::new();
    let reference = store(&program, &records(40));
    let show = ["results", "show", &reference];
    // In a pipe, TERM has no effect.
    let piped = program.run(&[&show[..], &["--json"]].concat());
    assert_eq!(piped.json()["records"], 40);
    assert!(!piped.stdout.contains('\u{1b}') && piped.status == 0);
    let human = program.run(&show);
    assert!(human.stdout.starts_with("result   lro:"), "{human}");
    assert_eq!(program.run(&[&show[..], &["--plain"]].concat()).stdout, human.stdout);
    // The spelling of an earlier version.
    let former = program.run(&[&show[..], &["--output", "json"]].concat());
    assert_eq!(former.stdout, piped.stdout);
    // On a terminal.
    for (more, begins) in [("--plain", "result   lro:"), ("--json", "{")] {
        let mut person = Person::at(&program, &[&show[..], &[more]].concat());
        let last = if more == "--plain" { "of 40 records" } else { "preview_cut" };
        assert!(person.child.wait().unwrap().success());
        let since = Instant::now();
        while !person.shown().contains(last) && since.elapsed() < SCREEN_TIMEOUT {
            thread::sleep(Duration::from_millis(20));
        }
        let shown = person.shown();
        assert!(shown.starts_with(begins) && !shown.contains(ENTERED), "{shown:?}");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let program = Program::new();
    let reference = store(&program, &records(50));
    ends_with_its_terminal(&program, &["results", "show", &reference], "thing_3");
    ends_with_its_terminal(&program, &[], "list_things");
}

/// Takes the terminal away when `text` is on it.
fn ends_with_its_terminal(program: &Program, args: &[&str], text: &str) {
    let (hand, end) = terminal();
    let stdio = || Stdio::from(end.try_clone().unwrap());
    let mut command = program.command(args);
    command.env("TERM", "xterm-256color").stdin(stdio()).stdout(stdio()).stderr(stdio());
    let mut child = command.spawn().unwrap();
    drop((end, command));
    let mut seen = Vec::new();
    let mut eye = hand.try_clone().unwrap();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let mut buffer = [0; 4096];
        let read = eye.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..read]);
    }
    // It gets no SIGHUP: this is not its controlling terminal.
    drop((hand, eye));
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(since.elapsed() < SCREEN_TIMEOUT, "it goes on without a terminal");
        thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn cells_are_copied_and_records_written_to_a_file() {
    let program = Program::new();
    let reference = store(&program, &records(300));
    let mut person = Person::at(&program, &["results", "show", &reference]);
    person.sees("of 300");
    person.presses("jly");
    person.sees("copied 7 characters");
    let sequence = format!("\u{1b}]52;c;{}\u{7}", BASE64_STANDARD.encode("thing_1"));
    assert!(person.shown().contains(&sequence), "{:?}", person.shown());
    // The offered name is replaced by another.
    person.presses("e\u{15}out.jsonl\r");
    person.sees("wrote 300 records to out.jsonl");
    let written = program.path("work/out.jsonl");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), records(300));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&written).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    person.presses("e\u{15}out.jsonl\r");
    person.sees("cannot create out.jsonl: File exists");
    person.presses("v");
    person.sees("name: 300 values");
    person.presses("\r");
    person.sees("1\u{2013}1 of 1");
    person.presses("q");
    assert_eq!(person.leaves().code(), Some(0));
}
