//! A log file per process of what it did.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use chrono::{DateTime, Utc};
use lro_core::ResultId;

/// A result whose commit returned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub(super) id: ResultId,
    /// What its payload was made from.
    pub(super) seed: u64,
    pub(super) expires_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Line {
    Stored(Stored),
    /// One of its own was read back.
    Read,
    /// There was no room.
    Full,
    /// A sweep told of it as expired.
    Told(ResultId),
}

pub(super) struct Ledger(File);

impl Ledger {
    pub(super) fn new(home: &Path, process: u64) -> Self {
        Self(File::create_new(home.join(format!("{process}.ledger"))).unwrap())
    }

    pub(super) fn write(&mut self, line: Line) {
        let line = match line {
            Line::Stored(Stored { id, seed, expires_at }) => {
                format!("stored {id} {seed} {}\n", expires_at.to_rfc3339())
            }
            Line::Read => "read\n".to_owned(),
            Line::Full => "full\n".to_owned(),
            Line::Told(id) => format!("told {id}\n"),
        };
        self.0.write_all(line.as_bytes()).unwrap();
    }
}

/// What all of them said.
pub(super) fn all(home: &Path) -> Vec<Line> {
    let files = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    let ledgers = files.filter(|path| path.extension().is_some_and(|end| end == "ledger"));
    ledgers
        .flat_map(|path| fs::read_to_string(path).unwrap().lines().map(parse).collect::<Vec<_>>())
        .collect()
}

fn parse(line: &str) -> Line {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["stored", id, seed, expires_at] => Line::Stored(Stored {
            id: id.parse().unwrap(),
            seed: seed.parse().unwrap(),
            expires_at: expires_at.parse().unwrap(),
        }),
        ["read"] => Line::Read,
        ["full"] => Line::Full,
        ["told", id] => Line::Told(id.parse().unwrap()),
        _ => panic!("{line}"),
    }
}
