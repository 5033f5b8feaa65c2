//! The ledger: what writers reported before and after each operation, and what must be stored.

use std::collections::BTreeMap;

/// The version that each memory gets; 0 deletes it.
pub(super) type Operation = Vec<(u64, u64)>;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The version that each memory must have; 0 if it must be deleted.
    pub(super) state: BTreeMap<u64, u64>,
    /// Operations that were started and not acknowledged, by writer.
    pub(super) under_way: BTreeMap<u64, Operation>,
    /// The number of acknowledged operations since the last survey.
    pub(super) done: Vec<Operation>,
}

impl Ledger {
    /// `try WRITER ID:VERSION…` before, `did WRITER` after.
    pub(super) fn read(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (word, writer) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        if word == "try" {
            let operation = words.map(|word| {
                let (id, version) = word.split_once(':').unwrap();
                (id.parse().unwrap(), version.parse().unwrap())
            });
            let before = self.under_way.insert(writer, operation.collect());
            assert_eq!(before, None, "a writer does one thing after the other");
        } else {
            let operation = self.under_way.remove(&writer).expect("begun before it was done");
            self.state.extend(operation.iter().copied());
            self.done.push(operation);
        }
    }
}

/// Formats an operation before it starts.
pub(super) fn line(writer: u64, operation: &[(u64, u64)]) -> String {
    let words = operation.iter().map(|(id, version)| format!(" {id}:{version}"));
    format!("try {writer}{}\n", words.collect::<String>())
}
