//! A run that is killed resumes, and ends with the same samples as one that was not.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use evidence::score::score;
use evidence::transcript::Transcript;
use tempfile::TempDir;

use crate::fixture::{program, read};

/// The samples after which the run is killed.
const KILLED_AFTER: usize = 12;
const SAMPLES: usize = 50;
const TIMEOUT: Duration = Duration::from_mins(1);

fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evidence"));
    command
        .args(["run", "--suite", "local-model", "--agent", "scripted:oracle-native-sql"])
        .args(["--n", "50", "--tasks", "10", "--dir"])
        .arg(directory)
        .arg("--bin")
        .arg(program().parent().unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What must not depend on when a run was killed.
fn essence(transcripts: &[Transcript]) -> Vec<String> {
    let mut samples: Vec<String> = transcripts
        .iter()
        .map(|transcript| {
            let tools: Vec<&str> = transcript.calls.iter().map(|call| call.tool.as_str()).collect();
            let Transcript { sample, given, ending, turns, max_turns, .. } = transcript;
            let correct = score(transcript).correct;
            format!("{sample:?} {given:?} {ending:?} {turns} {max_turns} {correct} {tools:?}")
        })
        .collect();
    samples.sort();
    samples
}

#[test]
fn a_killed_run_resumes() {
    let (killed, whole) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = killed.path().join("transcripts-local-model.jsonl");
    let mut run = command(killed.path()).spawn().unwrap();
    let started = Instant::now();
    let lines = || fs::read_to_string(&file).unwrap_or_default().lines().count();
    while lines() < KILLED_AFTER {
        assert!(started.elapsed() < TIMEOUT, "the run does not go on");
        thread::sleep(Duration::from_millis(5));
    }
    // SIGKILL.
    run.kill().unwrap();
    run.wait().unwrap();
    let before = lines();
    assert!(before < SAMPLES, "the run was not killed in time");
    // A write that did not finish.
    let mut partial = OpenOptions::new().append(true).open(&file).unwrap();
    partial.write_all(b"{\"sample\":{\"suite\":\"local-mo").unwrap();
    drop(partial);

    assert!(command(killed.path()).status().unwrap().success());
    assert!(command(whole.path()).status().unwrap().success());
    let resumed = read(&file);
    assert_eq!(resumed.len(), SAMPLES, "no sample twice, and none is missing");
    assert_eq!(
        essence(&resumed),
        essence(&read(&whole.path().join("transcripts-local-model.jsonl")))
    );
    // A third time, nothing is left to do.
    let bytes = fs::read(&file).unwrap();
    assert!(command(killed.path()).status().unwrap().success());
    assert_eq!(fs::read(&file).unwrap(), bytes);
}
