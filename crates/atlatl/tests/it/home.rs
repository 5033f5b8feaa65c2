//! `atlatl` on a terminal, the list to choose from, and `@1`.

use crate::browse::{records, store};
use crate::person::{Person, screen};
use crate::program::Program;

#[test]
fn the_home_screen_lists_results_opens_them_and_says_what_was_saved() {
    let program = Program::new();
    store(&program, &records(40));
    store(&program, &"line of a log\n".repeat(900));
    let mut person = Person::at(&program, &[]);
    person.sees("STORED SERVER TOOL RECORDS SIZE");
    person.sees("Saved ");
    person.sees("tokens net in 7 days: 2 results (limit of 2 unknown), 0 answers");
    person.waits(|screen| !screen.contains("Doctor \u{2026}"), "the result of the checks");
    let shown = screen(&person.shown());
    assert!(shown.contains(" list_things text "), "{shown}");
    assert!(shown.contains("1 of 2"), "{shown}");
    // The latest is first.
    person.presses("\r");
    person.sees("line of a log");
    person.presses("q");
    person.sees("1 of 2");
    person.presses("j\r");
    person.sees("thing_3");
    person.presses("q");
    person.sees("STORED SERVER TOOL");
    person.presses("/nothing\r");
    person.sees("none of them contains this");
    person.presses("\u{1b}");
    person.sees("1 of 2");
    // A new result is there after r.
    store(&program, &records(7));
    person.presses("r");
    person.sees("of 3");
    person.presses("q");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
fn without_a_terminal_there_is_help() {
    let run = Program::new().run(&[]);
    assert_eq!(run.status, 2);
    assert!(run.stdout.is_empty() && run.stderr.contains("Usage: atlatl"), "{run}");
    let mut person = Person::with_term(&Program::new(), &[], "dumb");
    assert_eq!(person.child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_result_is_chosen_from_a_list_or_by_its_age() {
    let program = Program::new();
    let first = store(&program, &records(40));
    let second = store(&program, &records(50));
    let mut person = Person::at(&program, &["results", "show"]);
    person.sees("Stored results");
    person.presses("j\r");
    person.sees("of 40");
    person.presses("qq");
    assert_eq!(person.leaves().code(), Some(0));
    let shown = |at: &str| program.run(&["results", "show", at, "--json"]).json();
    assert_eq!(shown("@1")["ref"], *second);
    assert_eq!(shown("@2")["ref"], *first);
    let count = ["extract", "@2", "--sql", "SELECT count(*) AS n FROM results"];
    assert_eq!(program.run(&count).json()[0]["n"], 40);
    for (at, status, said) in [
        ("@3", 1, "error: @3: 2 results stored for this directory and scope"),
        ("@0", 2, "error: @0: not a number of a result"),
        ("@x", 2, "error: @x: not a number of a result"),
    ] {
        let run = program.run(&["results", "path", at]);
        assert_eq!(run.status, status, "{run}");
        assert!(run.stderr.starts_with(said), "{run}");
    }
    let none = program.run(&["results", "show"]);
    assert_eq!(none.status, 2, "{none}");
    assert!(none.stderr.contains("hint: atlatl results show @1"), "{none}");
}

#[test]
fn results_are_removed_one_by_one() {
    let program = Program::new();
    let first = store(&program, &records(40));
    let second = store(&program, &records(50));
    let run = program.run(&["results", "rm", "@2", &first]);
    assert_eq!((run.status, run.stdout.lines().count()), (0, 1), "{run}");
    assert!(run.stdout.starts_with(&format!("removed {first}, ")), "{run}");
    // None is removed if one does not exist.
    let run = program.run(&["results", "rm", &second, &first]);
    assert_eq!(run.status, 1, "{run}");
    assert_eq!(program.run(&["results", "list", "--json"]).json()[0]["ref"], *second);
    let mut person = Person::at(&program, &["results", "rm", &second]);
    person.sees("Remove 1 result");
    person.presses("n\r");
    person.sees("nothing was removed");
    assert_eq!(person.child.wait().unwrap().code(), Some(1));
    let mut person = Person::at(&program, &["results", "clean", "--all"]);
    person.sees("Remove 1 result of all your directories");
    person.presses("y\r");
    person.sees("removed 1 result");
    assert_eq!(person.child.wait().unwrap().code(), Some(0));
    assert!(program.run(&["results", "list", "--json"]).json().as_array().unwrap().is_empty());
}

#[test]
fn events_are_watched_as_they_happen() {
    let program = Program::new();
    store(&program, &records(40));
    let run = program.run(&["watch", "--once"]);
    assert_eq!(run.status, 0, "{run}");
    assert!(
        run.stdout.contains("list_things") && run.stdout.contains("stored: 40 records"),
        "{run}"
    );
    let event = program.run(&["watch", "--once", "--json", "--last", "1"]).json();
    assert_eq!(event["event"], "ResultOffloaded");
    assert!(program.run(&["watch", "--once", "--last", "0"]).stdout.is_empty());
    let mut person = Person::at(&program, &["watch", "--last", "0"]);
    person.sees("Ctrl-C ends it");
    let reference = store(&program, &records(60));
    person.sees("stored: 60 records");
    program.run(&["extract", &reference, "--sql", "SELECT count(*) FROM results"]);
    person.sees("answered sql: 1 of 1");
    person.child.kill().unwrap();
    person.child.wait().unwrap();
}
