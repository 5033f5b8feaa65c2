//! What every hostile query is measured by.

use std::time::{Duration, Instant};

use lro_query::{Answer, Ask, Cancel, Class, Limits, QueryError};

use crate::fixture::workers;

/// Short, so that a battery of endless ones is over soon.
pub(crate) const WALL: Duration = Duration::from_millis(500);
/// What an answer may come later: the figure of the threat table.
const GRACE: Duration = Duration::from_millis(250);
/// What the parent may grow by over a whole battery.
const GROWTH: u64 = 8 << 20;

/// In the parent's environment and in a file beside it; no answer may hold it.
pub(crate) const SECRET: &str = "s3cr3t-of-the-parent-7f1c";

/// What a hostile query may come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// An error of this class.
    Ends(Class),
    /// One of several, as the machine has it.
    Either(&'static [Class]),
    /// An answer, bounded like any other.
    Answers,
    /// An answer or an error, as fast as the machine is.
    Bounded,
}

pub(crate) struct Battery {
    before: u64,
    directory: tempfile::TempDir,
    count: usize,
    wrong: Vec<String>,
}

impl Battery {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("secret"), SECRET).unwrap();
        Self { before: resident(), directory, count: 0, wrong: Vec::new() }
    }

    pub(crate) fn secret_file(&self) -> String {
        self.directory.path().join("secret").display().to_string()
    }

    pub(crate) fn try_one(&mut self, ask: &Ask<'_>, what: &str, fate: Fate) {
        let limits = Limits::default().wall(WALL);
        let started = Instant::now();
        let result = workers().run(ask, &limits, &Cancel::default());
        let took = started.elapsed();
        assert!(took <= WALL + GRACE, "{what}: took {took:?}");
        assert!(!told(&result).contains(SECRET), "{what}: the secret is out");
        let right = match (fate, &result) {
            (Fate::Bounded, Err(_)) => true,
            (Fate::Answers | Fate::Bounded, Ok(answer)) => answer.lines.len() <= 1 << 20,
            (Fate::Ends(class), Err(error)) => error.class() == class,
            (Fate::Either(classes), Err(error)) => classes.contains(&error.class()),
            _ => false,
        };
        if !right {
            let came: String = told(&result).chars().take(200).collect();
            self.wrong.push(format!("{what}: expected {fate:?}, came {came}"));
        }
        if let Err(error) = &result {
            assert!(!error.hint().is_empty(), "{what}");
        }
        self.count += 1;
    }

    /// Looks at the parent and the directory afterwards.
    pub(crate) fn end(self, at_least: usize) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        assert!(self.count >= at_least, "{} tried", self.count);
        let grown = resident().saturating_sub(self.before);
        assert!(grown <= GROWTH, "the parent grew by {grown} bytes");
        let left: Vec<_> = std::fs::read_dir(self.directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "something was written");
        assert_eq!(std::fs::read_to_string(self.secret_file()).unwrap(), SECRET);
    }
}

fn told(result: &Result<Answer, QueryError>) -> String {
    match result {
        Ok(answer) => {
            format!("{}{:?}", answer.text(), answer.failed)
        }
        Err(error) => format!("{error}{error:?}{}", error.hint()),
    }
}

/// Bytes of memory that this process has in use.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
