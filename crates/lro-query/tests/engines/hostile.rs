//! The checks that apply to every hostile query.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lro_query::{Answer, Cancel, ErrorClass, Limits, QueryError, QueryRequest};

use crate::fixture::workers;

/// The time limit: short, because many of these queries never end.
pub(crate) const WALL: Duration = Duration::from_millis(500);
/// How long after the time limit an answer may come: the figure of the threat table.
const GRACE: Duration = Duration::from_millis(250);
/// How much the parent may grow during all queries, in bytes.
const GROWTH: u64 = 8 << 20;

/// A secret in the parent's environment and in a file beside it; no answer may contain it.
pub(crate) const SECRET: &str = "s3cr3t-of-the-parent-7f1c";

/// The expected outcome of a hostile query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// An error of this class.
    Ends(ErrorClass),
    /// An error of one of these classes, depending on the machine.
    Either(&'static [ErrorClass]),
    /// An answer within the limits.
    Answers,
    /// An answer or an error, depending on the speed of the machine.
    Bounded,
}

/// The environment variables with the secret and its directory.
const SECRET_VARIABLE: &str = "LRO_TEST_SECRET";
const DIRECTORY_VARIABLE: &str = "LRO_TEST_BATTERY";
const SECRET_NAME: &str = "secret";

pub(crate) struct Battery {
    before: u64,
    directory: PathBuf,
    count: usize,
    wrong: Vec<String>,
}

impl Battery {
    /// Runs a list of queries in one parent process of its own, with the secret in its environment and
    /// a file with the secret in its otherwise empty working directory.
    ///
    /// `test` is the name of the calling test, which the process executes again.
    pub(crate) fn run(test: &str, at_least: usize, tries: impl FnOnce(&mut Self)) {
        if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) {
            assert_eq!(std::env::var(SECRET_VARIABLE).unwrap(), SECRET);
            let directory = PathBuf::from(directory);
            let mut battery = Self { before: resident(), directory, count: 0, wrong: Vec::new() };
            tries(&mut battery);
            return battery.end(at_least);
        }
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join(SECRET_NAME);
        std::fs::write(&secret, SECRET).unwrap();
        let mut parent = Command::new(std::env::current_exe().unwrap());
        parent.args(["--exact", test, "--nocapture"]).current_dir(directory.path());
        parent.env(SECRET_VARIABLE, SECRET).env(DIRECTORY_VARIABLE, directory.path());
        for place in ["HOME", "TMPDIR", "SQLITE_TMPDIR", "XDG_CACHE_HOME"] {
            parent.env(place, directory.path());
        }
        let ran = parent.stdin(Stdio::null()).output().unwrap();
        let (said, complained) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{}\n{said}\n{complained}", ran.status);
        assert!(said.contains("1 passed"), "{test} is no test: {said}");
        assert!(!said.contains(SECRET) && !complained.contains(SECRET), "the secret is out");
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "something was written: {left:?}");
        assert_eq!(std::fs::read_to_string(secret).unwrap(), SECRET);
    }

    pub(crate) fn secret_file(&self) -> String {
        self.directory.join(SECRET_NAME).display().to_string()
    }

    pub(crate) fn try_one(&mut self, ask: &QueryRequest<'_>, what: &str, fate: Fate) {
        let limits = Limits::default().wall(WALL);
        let started = Instant::now();
        let result = workers().run(ask, &limits, &Cancel::default());
        let took = started.elapsed();
        assert!(took <= WALL + GRACE, "{what}: took {took:?}");
        assert!(!describe(&result).contains(SECRET), "{what}: the secret is out");
        let right = match (fate, &result) {
            (Fate::Bounded, Err(_)) => true,
            (Fate::Answers | Fate::Bounded, Ok(answer)) => answer.lines.len() <= 1 << 20,
            (Fate::Ends(class), Err(error)) => error.class() == class,
            (Fate::Either(classes), Err(error)) => classes.contains(&error.class()),
            _ => false,
        };
        if !right {
            let came: String = describe(&result).chars().take(200).collect();
            self.wrong.push(format!("{what}: expected {fate:?}, came {came}"));
        }
        if let Err(error) = &result {
            assert!(!error.hint().is_empty(), "{what}");
        }
        self.count += 1;
    }

    /// Checks the parent afterwards.
    fn end(self, at_least: usize) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        assert!(self.count >= at_least, "{} tried", self.count);
        let grown = resident().saturating_sub(self.before);
        assert!(grown <= GROWTH, "the parent grew by {grown} bytes");
    }
}

fn describe(result: &Result<Answer, QueryError>) -> String {
    match result {
        Ok(answer) => {
            format!("{}{:?}{:?}", answer.text(), answer.failed, answer.unknown_fields)
        }
        Err(error) => format!("{error}{error:?}{}", error.hint()),
    }
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Patterns have a list of their own, in the other test program.
#[test]
fn n5_there_are_at_least_150_hostile_filters_and_statements() {
    let (filters, statements) =
        (crate::hostile_jq::FILTERS.len(), crate::hostile_sql::STATEMENTS.len());
    assert!(filters >= 100 && statements >= 80, "{filters} filters, {statements} statements");
}
