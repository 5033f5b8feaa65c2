//! A writer is killed at a random moment, and the next start deletes its leftovers.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lro_spool::Spool;
use testkit::SplitMix64;

use crate::fixture::{ROWS, at, cases, entries, id, private, put, visible, whole};

const CHILD: &str = "ATLATL_TEST_WRITER_DIR";
const SEED: &str = "ATLATL_TEST_WRITER_SEED";

/// What a child process does until it is killed; nothing in an ordinary run.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let spool = private(Path::new(&path));
    for n in 0.. {
        put(&spool, id(seed << 32 | n), ROWS).unwrap();
    }
}

fn writer(path: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_writes_until_it_is_killed"])
        .env(CHILD, path)
        .env(SEED, seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_writer_leaves_no_torn_file_and_nothing_after_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let mut random = SplitMix64::new(42);
    let kills = cases(30);
    let (mut whole_ones, mut cleared, mut slowest) = (0, 0, Duration::ZERO);
    for seed in 1..=kills as u64 {
        let mut child = writer(&path, seed);
        while !path.exists() || entries(&path).is_empty() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let left = entries(&path);
        let visible = visible(&path);
        for name in &visible {
            assert!(left.contains(&format!("{name}.meta.json")), "{name} has no sidecar");
        }
        let started = Instant::now();
        let spool = private(&path);
        slowest = slowest.max(started.elapsed());
        let results = spool.list().unwrap();
        assert_eq!(results.len(), visible.len(), "every visible file is a whole result");
        for listed in &results {
            assert_eq!(whole(&spool, listed.id()), ROWS);
        }
        let expected: usize = results.iter().map(|r| 2 + r.sidecar.parts.len()).sum();
        let now = entries(&path);
        assert_eq!(now.len(), expected, "{now:?}");
        cleared += left.len() - now.len();
        whole_ones += results.len();
        spool.sweep(at(3_600_000)).unwrap();
        assert!(entries(&path).is_empty());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    eprintln!("soak: {kills} kills, {whole_ones} whole results, {cleared} leftovers cleared");
}
