//! An import that is killed and run again.

use std::{
    collections::HashSet,
    fs,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use super::{counts, exported};
use crate::program::Program;

/// How often it is killed at most.
const KILLS: u64 = 8;
/// Memories of one transaction.
const BATCH: u64 = 500;

/// Writes `n` notes: every second one a memory with an id of its own, the others plain.
fn notes(program: &Program, n: usize) {
    let memories = testkit::corpus::memories(n / 2, 42);
    for number in 0..n {
        let folder = program.path(&format!("work/notes/{:03}", number % 100));
        fs::create_dir_all(&folder).unwrap();
        let text = match memories.get(number / 2) {
            Some(memory) if number % 2 == 0 => memory.to_markdown(),
            Some(memory) => format!("# Note {number}\n\n{}\n", memory.content),
            None => format!("# Note {number}\n"),
        };
        fs::write(folder.join(format!("{number}.md")), text).unwrap();
    }
}

#[test]
fn import_survives_kills_and_makes_one_memory_of_each_file() {
    let n = std::env::var("ATLATL_SOAK_CASES").map_or(3000, |files| files.parse().unwrap());
    let program = Program::new();
    notes(&program, n);
    let total = n as u64;
    let (mut kills, mut there) = (Vec::new(), 0);
    let started = Instant::now();
    for _ in 0..KILLS {
        let mut child = program
            .command(&["memory", "import", "notes"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(getrandom::u64().unwrap() % (total / 8).max(1)));
        let killed = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        let run = program.run(&["memory", "list", "--status", "any", "--limit", "1", "--json"]);
        let now = run.json()["total_matches"].as_u64().unwrap();
        // What was acknowledged stays, and a transaction is there whole or not at all.
        assert!(now >= there, "{now} after {there}");
        assert!(now == total || now.is_multiple_of(BATCH), "{now} of {total}");
        there = now;
        if killed {
            kills.push(now);
        }
    }
    let resumed = Instant::now();
    let run = program.run(&["memory", "import", "notes", "--json"]);
    assert_eq!(counts(&run.json()), [total - there, there, 0, 0, 0], "{run}");
    let (resumed, seconds) = (resumed.elapsed(), started.elapsed().as_secs_f64());
    let again = Instant::now();
    let run = program.run(&["memory", "import", "notes", "--json"]);
    assert_eq!(counts(&run.json()), [0, total, 0, 0, 0], "{run}");
    let again = again.elapsed().as_secs_f64();

    let memories = exported(
        &program,
        &program.path("home/.local/share/atlatl/memory.db").display().to_string(),
    );
    let ids: HashSet<_> = memories.iter().map(|memory| memory.id.clone()).collect();
    assert_eq!((memories.len(), ids.len()), (n, n));
    let numbers: HashSet<&str> = memories
        .iter()
        .filter_map(|memory| memory.content.lines().next()?.strip_prefix("# Note "))
        .collect();
    assert_eq!(numbers.len(), n / 2);
    eprintln!(
        "soak: {n} files, killed {} times with {kills:?} stored; the last run took {:.1} s, all \
         together {seconds:.1} s; once more, all unchanged, {again:.1} s",
        kills.len(),
        resumed.as_secs_f64(),
    );
}
