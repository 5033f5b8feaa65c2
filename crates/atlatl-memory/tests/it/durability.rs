//! Durability: a writing process is killed, and every acknowledged write must be stored.
//!
//! `SIGKILL` ends a process between any two instructions, but not the machine: the kernel keeps
//! what it has accepted. That a commit waits for the disk is a setting of the engine, which no kill
//! can test.

mod ledger;
mod survey;
mod writers;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::SplitMix64;

use self::ledger::Ledger;

const CHILD: &str = "ATLATL_TEST_DURABILITY_STORE";
const SEED: &str = "ATLATL_TEST_DURABILITY_SEED";
/// The number of kills per store.
const KILLS_A_STORE: u32 = 10;

/// The number of kills: from the environment in the long run, otherwise a few.
fn kills() -> u32 {
    std::env::var("ATLATL_SOAK_CASES").map_or(8, |cases| cases.parse().unwrap())
}

/// The body of the process that is killed. It does nothing in an ordinary run.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(store) = std::env::var_os(CHILD) else { return };
    writers::run(Path::new(&store), std::env::var(SEED).unwrap().parse().unwrap());
}

#[test]
#[expect(clippy::print_stdout, reason = "the record of a long run keeps this line")]
fn f44_acknowledged_is_durable_through_kills() {
    let mut random = SplitMix64::new(44);
    let (mut told, mut torn, mut looked) = (Told::default(), survey::Torn::default(), 0);
    let begun = Instant::now();
    let mut home = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::default();
    for kill in 0..kills() {
        if kill % KILLS_A_STORE == 0 {
            home = tempfile::tempdir().unwrap();
            ledger = Ledger::default();
        }
        let path = home.path().join("memory.db");
        let wait = Duration::from_micros(5_000 + random.next_u64() % 295_000);
        for line in lines_until_killed(&path, random.next_u64(), wait) {
            ledger.read(&line);
        }
        told.add(&ledger);
        let (found, stored) = survey::check(&path, &mut ledger);
        torn.add(&found);
        looked += stored;
    }
    assert!(told.acknowledged > u64::from(kills()), "it was killed while it wrote: {told:?}");
    println!(
        "soak: {} kills, {} operations acknowledged ({} batches, {} changes, {} removals), 0 lost, \
         0 phantoms; of {} under way {} were there whole and {} not at all; {looked} memories read \
         and found by their word; {:.0} s",
        kills(),
        told.acknowledged,
        told.batches,
        told.changes,
        told.removals,
        torn.whole + torn.absent,
        torn.whole,
        torn.absent,
        begun.elapsed().as_secs_f64(),
    );
}

/// The number of acknowledged operations over all kills.
#[derive(Debug, Default)]
struct Told {
    acknowledged: u64,
    batches: u64,
    changes: u64,
    removals: u64,
}

impl Told {
    fn add(&mut self, ledger: &Ledger) {
        for operation in &ledger.done {
            self.acknowledged += 1;
            self.batches += u64::from(operation.len() > 1);
            self.changes += operation.iter().filter(|(_, version)| *version > 1).count() as u64;
            self.removals += operation.iter().filter(|(_, version)| *version == 0).count() as u64;
        }
    }
}

/// Starts the writers, kills them `wait` after their first line, and returns their output.
fn lines_until_killed(store: &Path, seed: u64, wait: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD, store)
        .env(SEED, seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let (begun, begins) = std::sync::mpsc::channel();
    // A full pipe blocks the writers; what is in it when they die can still be read.
    let reader = std::thread::spawn(move || read(said, &begun));
    begins.recv().expect("the writers begin");
    std::thread::sleep(wait);
    kill(&mut child);
    reader.join().unwrap()
}

fn read(said: BufReader<ChildStderr>, begun: &std::sync::mpsc::Sender<()>) -> Vec<String> {
    let mut lines = Vec::new();
    for line in said.lines() {
        let line = line.unwrap();
        let ours = line.starts_with("try ") || line.starts_with("did ");
        assert!(ours, "the writers failed: {line}");
        if lines.is_empty() {
            let _ = begun.send(());
        }
        lines.push(line);
    }
    lines
}

fn kill(child: &mut Child) {
    use std::os::unix::process::ExitStatusExt;
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "it was killed, it did not end");
}
