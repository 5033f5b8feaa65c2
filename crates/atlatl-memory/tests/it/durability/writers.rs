//! The writers: four threads over two open stores of one file that put, update and delete forever.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, MemoryStore, OnConflict, Order, SqliteStore};
use mif::{Memory, MemoryId, MemoryType};
use testkit::SplitMix64;

use super::ledger::{self, Operation};

pub(super) const WRITERS: u64 = 4;

/// A memory whose text is derived from its number and version, with a unique word.
pub(super) fn memory(id: u64, version: u64) -> Memory {
    let created = format!("2026-01-15T10:{:02}:{:02}Z", id / 60 % 60, id % 60);
    let filler = "some words to fill pages ".repeat(usize::try_from(id % 40).unwrap());
    let content = format!("{} {filler}", word(id, version));
    let id = MemoryId::from_u128(u128::from(id));
    let mut memory =
        Memory::new(id, MemoryType::Semantic, content, created.parse().unwrap()).unwrap();
    memory.tags = Some(vec!["kept".to_owned(), format!("version{version}")]);
    memory
}

pub(super) fn word(id: u64, version: u64) -> String {
    format!("k{id}v{version}")
}

/// Returns the number and version of a memory.
pub(super) fn numbers(memory: &Memory) -> (u64, u64) {
    let word = memory.content.split(' ').next().unwrap();
    let (id, version) = word[1..].split_once('v').unwrap();
    (id.parse().unwrap(), version.parse().unwrap())
}

/// Returns every memory of a store.
pub(super) fn everything(store: &dyn MemoryStore) -> Vec<Memory> {
    let mut any = Filter::default();
    any.status = None;
    let now = "2026-06-01T00:00:00Z".parse().unwrap();
    store.list(&any, Order::Oldest, None, usize::MAX - 1, now).wait().unwrap().memories
}

/// Writes until the process is killed.
pub(super) fn run(path: &Path, seed: u64) {
    let stores = [SqliteStore::open(path).unwrap(), SqliteStore::open(path).unwrap()];
    let there: BTreeMap<u64, u64> = everything(&stores[0]).iter().map(numbers).collect();
    let next = there.keys().next_back().map_or(0, |last| last / WRITERS + 1);
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let mine = there.iter().filter(|(id, _)| **id % WRITERS == number);
            let mut writer = Writer {
                number,
                store: &stores[usize::from(number >= WRITERS / 2)],
                random: SplitMix64::new(seed ^ number),
                mine: mine.map(|(id, version)| (*id, *version)).collect(),
                next,
            };
            scope.spawn(move || {
                loop {
                    writer.step();
                }
            });
        }
    });
}

struct Writer<'a> {
    number: u64,
    store: &'a SqliteStore,
    random: SplitMix64,
    /// The version of each memory of this writer.
    mine: BTreeMap<u64, u64>,
    next: u64,
}

impl Writer<'_> {
    fn step(&mut self) {
        match self.random.below(10) {
            0..=2 => self.put(1),
            3 | 4 => {
                let n = 2 + self.random.below(20);
                self.put(n);
            }
            5 | 6 => self.replace(),
            7 => self.update(),
            _ => self.delete(),
        }
    }

    /// Reports the start, runs the operation, and reports its end, in this order and each in one
    /// write.
    fn told(&mut self, operation: &Operation, act: impl FnOnce(&SqliteStore)) {
        say(&ledger::line(self.number, operation));
        act(self.store);
        say(&format!("did {}\n", self.number));
        for (id, version) in operation {
            match version {
                0 => self.mine.remove(id),
                _ => self.mine.insert(*id, *version),
            };
        }
    }

    fn put(&mut self, n: usize) {
        let operation: Operation =
            (0..n as u64).map(|i| ((self.next + i) * WRITERS + self.number, 1)).collect();
        self.next += n as u64;
        self.told(&operation, |store| put(store, &operation));
    }

    /// Replaces some memories, including new ones.
    fn replace(&mut self) {
        let mut operation: Operation =
            self.some(5).into_iter().map(|(id, version)| (id, version + 1)).collect();
        operation.push((self.next * WRITERS + self.number, 1));
        self.next += 1;
        self.told(&operation, |store| put(store, &operation));
    }

    fn update(&mut self) {
        let Some((id, version)) = self.some(1).pop() else { return };
        self.told(&vec![(id, version + 1)], |store| {
            let new = memory(id, version + 1);
            let same = new.clone();
            let changed =
                store.update(&new.id, Box::new(move |_| Ok(same.clone()))).wait().unwrap();
            assert_eq!(changed, Some(new));
        });
    }

    fn delete(&mut self) {
        let Some((id, version)) = self.some(1).pop() else { return };
        self.told(&vec![(id, 0)], |store| {
            assert!(store.delete(&memory(id, version).id).wait().unwrap());
        });
    }

    fn some(&mut self, most: usize) -> Vec<(u64, u64)> {
        if self.mine.is_empty() {
            return Vec::new();
        }
        let from = self.random.below(self.mine.len());
        self.mine.iter().skip(from).take(most).map(|(id, version)| (*id, *version)).collect()
    }
}

fn put(store: &SqliteStore, operation: &[(u64, u64)]) {
    let memories: Vec<Memory> =
        operation.iter().map(|(id, version)| memory(*id, *version)).collect();
    store.put(&memories, OnConflict::Replace).wait().unwrap();
}

/// One write, which a pipe accepts whole: standard error is unbuffered.
fn say(line: &str) {
    assert!(line.len() < 4096, "a pipe takes this much at once");
    std::io::stderr().lock().write_all(line.as_bytes()).unwrap();
}
