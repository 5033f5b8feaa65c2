//! Sweeper against writers and readers, with a clock that jumps both ways.
//!
//! A model knows what was stored until when; after every sweep the directory must agree with it.
//! Seeded: a failure is replayed exactly by its seed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use lro_core::ResultId;
use lro_core::records::Detected;
use lro_spool::{
    DirSpool, Spool, SpoolError, StoreRequest, StoreWriter, StoredResult, restore_payload,
};
use testkit::SplitMix64;

use crate::fixture::{ROWS, at, cases, fast, flat, what};

struct Model {
    random: SplitMix64,
    now: DateTime<Utc>,
    next: u64,
    /// Since when and until when.
    stored: BTreeMap<ResultId, (DateTime<Utc>, DateTime<Utc>)>,
    drafts: Vec<(ResultId, DateTime<Utc>, DateTime<Utc>, StoreWriter)>,
    readers: Vec<(ResultId, Box<dyn StoredResult>)>,
    foreign: Vec<std::path::PathBuf>,
    swept: usize,
}

impl Model {
    fn expired(&self, id: ResultId) -> bool {
        let (since, until) = self.stored[&id];
        self.now >= until && self.now >= since
    }

    fn step(&mut self, spool: &mut DirSpool, found: &Detected) {
        match self.random.below(16) {
            0..=3 => self.begin(spool, found),
            4..=5 => self.end(),
            6..=7 => self.read(spool),
            8 => {
                if !self.readers.is_empty() {
                    let reader = self.random.below(self.readers.len());
                    let (_, reader) = self.readers.swap_remove(reader);
                    whole(&*reader);
                }
            }
            9..=11 => self.sweep(spool),
            12 => self.plant(spool.path()),
            13 => *spool = flat(spool.path()),
            _ => self.jump(),
        }
    }

    fn begin(&mut self, spool: &DirSpool, found: &Detected) {
        self.next += 1;
        let made = self.now.timestamp_millis().unsigned_abs();
        let id = ResultId::new(made, u128::from(self.next));
        let ttl = std::time::Duration::from_secs(1 + self.random.below(7200) as u64);
        let what = StoreRequest { created_at: self.now, ttl, ..what("t", id, found) };
        let mut storing = StoreWriter::begin(spool, what).unwrap();
        storing.feed(ROWS).unwrap();
        self.drafts.push((id, self.now, self.now + ttl, storing));
    }

    fn end(&mut self) {
        if self.drafts.is_empty() {
            return;
        }
        let draft = self.random.below(self.drafts.len());
        let (id, since, until, storing) = self.drafts.swap_remove(draft);
        if self.random.chance(80) {
            storing.finish().unwrap();
            self.stored.insert(id, (since, until));
        }
    }

    fn read(&mut self, spool: &DirSpool) {
        let Some((&id, _)) = self.stored.iter().nth(self.random.below(self.stored.len().max(1)))
        else {
            return;
        };
        match spool.open(&id.into(), self.now) {
            Ok(reader) => {
                assert!(!self.expired(id));
                if self.readers.len() < 20 {
                    self.readers.push((id, reader));
                }
            }
            Err(SpoolError::Expired { .. }) => assert!(self.expired(id)),
            Err(error) => panic!("{error:?}"),
        }
    }

    fn sweep(&mut self, spool: &DirSpool) {
        let swept = spool.sweep(self.now).unwrap();
        assert!(swept.failures.is_empty() && swept.leftovers == 0, "{swept:?}");
        for gone in &swept.expired {
            assert!(self.expired(gone.id()), "{gone:?} at {}", self.now);
            assert!(!self.readers.iter().any(|(id, _)| *id == gone.id()), "{gone:?} is read");
            self.stored.remove(&gone.id());
        }
        self.swept += swept.expired.len();
        let left: Vec<_> = spool.list().unwrap().iter().map(lro_spool::ResultInfo::id).collect();
        assert!(left.iter().eq(self.stored.keys()), "as many as the model says");
        let read: std::collections::BTreeSet<_> = self.readers.iter().map(|(id, _)| *id).collect();
        let in_use: Vec<_> = left.iter().filter(|id| self.expired(**id)).collect();
        assert_eq!(swept.in_use, in_use.len());
        assert!(in_use.iter().all(|id| read.contains(id)), "what stays is being read");
        for path in &self.foreign {
            assert!(path.symlink_metadata().is_ok(), "{} is gone", path.display());
        }
    }

    /// Something with our name, and not ours.
    fn plant(&mut self, path: &Path) {
        if self.foreign.len() >= 100 {
            return;
        }
        self.next += 1;
        let id = ResultId::new(1_000, u128::from(self.next));
        let path = path.join(format!("atlatl-t-{id}.jsonl"));
        match self.random.below(3) {
            0 => fs::write(&path, "{\"n\":1}\n").unwrap(),
            1 => fs::create_dir(&path).unwrap(),
            _ => std::os::unix::fs::symlink("/etc/passwd", &path).unwrap(),
        }
        self.foreign.push(path);
    }

    fn jump(&mut self) {
        let by = i64::try_from(self.random.below(7_200_000)).unwrap();
        let by = if self.random.chance(35) { -by } else { by };
        self.now += TimeDelta::milliseconds(by);
    }
}

fn whole(reader: &dyn StoredResult) {
    let mut back = Vec::new();
    restore_payload(reader, &mut back).unwrap();
    assert_eq!(back, ROWS);
}

fn run(seed: u64, steps: usize) -> usize {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let mut spool = flat(home.path());
    let found = Detected::detect(ROWS);
    let mut model = Model {
        random: SplitMix64::new(seed),
        now: at(0),
        next: 0,
        stored: BTreeMap::new(),
        drafts: Vec::new(),
        readers: Vec::new(),
        foreign: Vec::new(),
        swept: 0,
    };
    for _ in 0..steps {
        model.step(&mut spool, &found);
    }
    model.readers.drain(..).for_each(|(_, reader)| whole(&*reader));
    model.drafts.clear();
    // A clock far ahead: everything goes, and what was planted stays.
    model.now = at(i64::from(i32::MAX) * 100);
    model.sweep(&spool);
    assert!(model.stored.is_empty());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), model.foreign.len());
    model.swept
}

#[test]
fn l4_sweeper_against_writers_readers_and_a_jumping_clock() {
    const STEPS: usize = 500;
    let steps = cases(4000);
    let mut swept = 0;
    for seed in 0..steps.div_ceil(STEPS) as u64 {
        swept += run(seed, STEPS);
    }
    assert!(swept > steps / 20, "{swept} results swept in {steps} steps");
    eprintln!("soak: {steps} steps, {swept} results expired, none too early, nothing foreign");
}
