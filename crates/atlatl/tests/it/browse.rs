//! `atlatl results show` on a pseudo-terminal: keys in, screen contents out.

use std::{
    fmt::Write as _,
    fs::File,
    io::{Read as _, Write as _},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::program::{Program, terminal};

/// The time limit for an expected screen, for busy machines.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The sequences that enter and leave the alternate screen.
const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";

fn records(count: usize) -> String {
    (0..count).fold(String::new(), |mut lines, n| {
        let price = (n * 37) % 101;
        writeln!(lines, r#"{{"n":{n},"name":"thing_{n}","price":{price}}}"#).unwrap();
        lines
    })
}

fn store(program: &Program, result: &str) -> String {
    let args = ["offload", "--set", "proxy.threshold_tokens=1", "--tool", "list_things"];
    let run = program.run_with_input(&args, result.as_bytes());
    run.json()["lro"]["ref"].as_str().unwrap().to_owned()
}

/// A user of the program on a pseudo-terminal.
struct Person {
    hand: File,
    terminal: File,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Person {
    fn at(program: &Program, args: &[&str]) -> Self {
        let (hand, terminal) = terminal();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let child = program
            .command(args)
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut eye, into) = (hand.try_clone().unwrap(), Arc::clone(&shown));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = eye.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { hand, terminal, child, shown }
    }

    /// The output so far.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until `text` is on the screen.
    fn sees(&mut self, text: &str) {
        self.waits(|screen| screen.contains(text), text);
    }

    fn waits(&mut self, met: impl Fn(&str) -> bool, what: &str) {
        let since = Instant::now();
        loop {
            let screen = screen(&self.shown());
            if met(&screen) {
                return;
            }
            assert!(since.elapsed() < SCREEN_TIMEOUT, "{what:?} is not on the screen:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn presses(&mut self, keys: &str) {
        self.hand.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    /// Waits for the exit, and checks that the terminal is restored.
    fn leaves(mut self) -> std::process::ExitStatus {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(since.elapsed() < SCREEN_TIMEOUT, "it does not end");
            thread::sleep(Duration::from_millis(20));
        };
        assert!(!self.is_raw(), "the terminal is still raw");
        self.sees_end();
        status
    }

    fn sees_end(&self) {
        let since = Instant::now();
        while since.elapsed() < SCREEN_TIMEOUT {
            let shown = self.shown();
            if shown.contains(LEFT) && shown.ends_with("\u{1b}[?25h") {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the terminal was not given back: {:?}", self.shown());
    }
}

/// The lines of the screen: a minimal terminal emulator for the sequences that occur here.
fn screen(written: &str) -> String {
    let mut lines = vec![vec![' '; 80]; 24];
    let (mut x, mut y) = (0, 0);
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if let Some(command) = rest.strip_prefix('[').filter(|_| c == '\u{1b}') {
            let Some(end) = command.find(|c: char| c.is_ascii_alphabetic()) else { break };
            let mut numbers = command[..end].split(';').map(|n| n.parse::<usize>().unwrap_or(1));
            match command.as_bytes()[end] {
                b'H' => {
                    y = numbers.next().unwrap_or(1) - 1;
                    x = numbers.next().unwrap_or(1) - 1;
                }
                b'J' => lines.iter_mut().skip(y).for_each(|line| line.fill(' ')),
                b'K' => lines[y][x..].fill(' '),
                _ => {}
            }
            rest = &command[end + 1..];
        } else if let Some(cell) = lines.get_mut(y).and_then(|line| line.get_mut(x)) {
            *cell = c;
            x += 1;
        }
    }
    // Column widths do not matter here.
    let words = |line: Vec<char>| {
        line.into_iter().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    lines.into_iter().map(words).collect::<Vec<_>>().join("\n")
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
    let file = program.run(&["results", "path", &reference, "--output", "human"]).stdout;
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
    let piped = program.run(&show);
    assert_eq!(piped.json()["records"], 40);
    assert!(!piped.stdout.contains('\u{1b}') && piped.status == 0);
    let human = program.run(&[&show[..], &["--output", "human"]].concat());
    assert!(human.stdout.starts_with("result   lro:"), "{human}");
    assert_eq!(program.run(&[&show[..], &["--plain"]].concat()).stdout, piped.stdout);
    // On a terminal.
    for (more, begins) in [("--plain", "result   lro:"), ("--output=json", "{")] {
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
    let (hand, end) = terminal();
    let stdio = || Stdio::from(end.try_clone().unwrap());
    let mut command = program.command(&["results", "show", &reference]);
    command.env("TERM", "xterm-256color").stdin(stdio()).stdout(stdio()).stderr(stdio());
    let mut child = command.spawn().unwrap();
    drop((end, command));
    let mut seen = Vec::new();
    let mut eye = hand.try_clone().unwrap();
    while !String::from_utf8_lossy(&seen).contains("thing_3") {
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
