//! What commands print and draw on terminals of 60 to 200 columns.

use std::fmt::Write as _;

use crate::browse::{records, store};
use crate::person::Person;
use crate::program::Program;

const WIDTHS: [u16; 4] = [60, 80, 120, 200];
const ROWS: u16 = 24;

/// Two results, one of them asked.
fn with_results() -> Program {
    let program = Program::new();
    let reference = store(&program, &records(400));
    store(&program, &"a line of a log that is as long as such lines are\n".repeat(900));
    program.run(&["extract", &reference, "--sql", "SELECT max(price) FROM results"]);
    program
}

/// What `look` sees at each width.
fn at_all_widths(program: &Program, args: &[&str], look: impl Fn(Person) -> String) -> String {
    WIDTHS.iter().fold(String::new(), |mut all, width| {
        let shown = look(Person::with_size(program, args, (*width, ROWS)));
        let directory = program.path("work").display().to_string();
        let shown = steady(&shown.replace(&directory, "[DIR]/work"));
        writeln!(all, "-- {width} columns\n{shown}").unwrap();
        all
    })
}

/// The same text in every run, of the same width: references, times and ages are replaced.
fn steady(shown: &str) -> String {
    let mut steady = String::new();
    let mut in_path = false;
    for line in shown.lines() {
        // The path of a file: it has a random part and may be wrapped.
        in_path = (in_path || line.starts_with("path ")) && !line.is_empty();
        if in_path {
            continue;
        }
        let words = line.split_inclusive(' ').map(|word| {
            let bare = word.trim_end();
            let is_time = bare.len() == 8 && bare.bytes().filter(|byte| *byte == b':').count() == 2;
            match bare {
                _ if is_time => word.replace(bare, "00:00:00"),
                _ => match word.find("lro:01") {
                    Some(at) if word.len() >= at + 30 => {
                        format!("{}lro:01REFERENCE{:0>15}{}", &word[..at], 0, &word[at + 30..])
                    }
                    _ => word.to_owned(),
                },
            }
        });
        let line: String = words.collect();
        // Descriptors contain a path, which is different in each run, and so are their tokens.
        let figures = ["oken", "descriptors", "inline,", "net saving", "(no server)"];
        let line = if figures.iter().any(|word| line.contains(word)) {
            line.replace(|c: char| c.is_ascii_digit(), "0")
        } else {
            line
        };
        // On a busy machine, milliseconds have more digits.
        let line = if line.contains(" took ") { without_numbers(&line) } else { line };
        // A busy machine may take some seconds from command to command.
        let line = (1..10).fold(line, |line, n| line.replace(&format!("{n} s ago"), "0 s ago"));
        steady += line.trim_end();
        steady.push('\n');
    }
    steady
}

/// The line with `0` in place of each number.
fn without_numbers(line: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut text = String::new();
    for (at, c) in line.char_indices() {
        if !is_number(c) {
            text.push(c);
        } else if !line[..at].ends_with(is_number) {
            text.push('0');
        }
    }
    text
}

#[test]
fn g77_printed_tables_fit() {
    let program = with_results();
    for (name, args) in [
        ("results list", &["results", "list"][..]),
        ("results show", &["results", "show", "@2", "--plain"]),
        ("watch", &["watch", "--once"]),
        ("stats", &["stats"]),
        ("config get", &["config", "get", "proxy.threshold_tokens"]),
    ] {
        let shown = at_all_widths(&program, args, Person::prints);
        insta::assert_snapshot!(name.replace(' ', "_"), shown);
    }
}

#[test]
fn g77_the_home_screen_and_the_table_fit() {
    let program = with_results();
    let home = at_all_widths(&program, &[], |mut person| {
        person.sees_anywhere("list_things");
        // Both are found in the background.
        person.waits_for_lines(|lines| {
            !lines.contains("Saved   \u{2026}") && !lines.contains("Doctor  \u{2026}")
        });
        let shown = person.lines();
        person.presses("q");
        person.leaves();
        shown
    });
    insta::assert_snapshot!("home", home);
    let table = at_all_widths(&program, &["results", "show", "@2"], |mut person| {
        person.sees_anywhere("of 400");
        let shown = person.lines();
        person.presses("q");
        person.leaves();
        shown
    });
    insta::assert_snapshot!("table", table);
}
