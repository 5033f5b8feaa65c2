//! The questions of `bench/questions/`, asked of the built program. `cargo xtask bench questions` records a
//! run and writes docs/questions.md.

use std::path::{Path, PathBuf};

use lro_core::{O200k, Tokenizer as _};
use tempfile::TempDir;
use testkit::questions::{
    Battery, Session, disagreements, failed_attempts, misses, recovered, second_opinion,
};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/questions")
}

fn server() -> PathBuf {
    testkit::tool::built_program("questions-server", "testkit")
}

#[test]
fn answers_agree_with_the_data_and_with_a_second_program() {
    testkit::tool::require("python3");
    let batteries = Battery::read_all(&directory()).unwrap();
    let dumped = TempDir::new().unwrap();
    let second = second_opinion(&server(), &directory().join("answers.py"), dumped.path()).unwrap();
    let findings = disagreements(&batteries, &second);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn the_battery_is_as_large_as_issue_23_requires() {
    let batteries = Battery::read_all(&directory()).unwrap();
    assert!(batteries.len() >= 14, "{} kinds", batteries.len());
    for battery in &batteries {
        assert!(
            battery.questions.len() >= 6,
            "{}: {} questions",
            battery.kind,
            battery.questions.len()
        );
    }
    let attempts: usize = batteries.iter().map(|battery| battery.attempts.len()).sum();
    assert!(attempts >= 80, "{attempts} wrong attempts");
}

#[test]
fn g10_to_g19_questions_take_one_call_and_wrong_attempts_are_understood_or_corrected() {
    let batteries = Battery::read_all(&directory()).unwrap();
    let sandbox = TempDir::new().unwrap();
    let count = |text: &str| O200k.count_till(text, u64::MAX).unwrap().unwrap().0;
    let program = Path::new(env!("CARGO_BIN_EXE_atlatl"));
    let reports = Session::run_all(program, &server(), sandbox.path(), &batteries, &count).unwrap();
    assert_eq!(reports.len(), batteries.len());
    let (understood, attempts) = recovered(&reports);
    let failed = failed_attempts(&reports).join("\n\n");
    assert!(understood * 100 >= attempts * 95, "{understood} of {attempts}:\n{failed}");
    let misses = misses(&reports);
    assert!(misses.is_empty(), "{} misses:\n{}", misses.len(), misses.join("\n"));
}
