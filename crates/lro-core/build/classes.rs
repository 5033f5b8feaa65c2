//! The classes of characters that text is split by.

use std::collections::HashMap;

use regex_syntax::hir::{Class, HirKind};

/// Characters per block of the table.
const BLOCK: usize = 128;

/// The table in two steps: for each block of characters its number, and the blocks, one byte for
/// each character. The numbers of the classes are those of `src/tokens/split.rs`.
pub(crate) fn tables() -> (Vec<u8>, Vec<u8>) {
    let mut classes = vec![0; 0x11_0000];
    for (pattern, class) in [
        (r"[\p{Lu}\p{Lt}]", 1),
        (r"\p{Ll}", 2),
        (r"[\p{Lm}\p{Lo}]", 3),
        (r"\p{M}", 4),
        (r"\p{N}", 5),
        (r"\s", 6),
        (r"[\r\n]", 7),
    ] {
        for (from, to) in ranges(pattern) {
            classes[from..=to].fill(class);
        }
    }
    let mut numbers: HashMap<&[u8], u8> = HashMap::new();
    let (mut index, mut blocks) = (Vec::new(), Vec::new());
    for block in classes.chunks(BLOCK) {
        let next = u8::try_from(numbers.len()).expect("at most 256 different blocks");
        index.push(*numbers.entry(block).or_insert_with(|| {
            blocks.extend(block);
            next
        }));
    }
    (index, blocks)
}

fn ranges(pattern: &str) -> Vec<(usize, usize)> {
    let parsed = regex_syntax::parse(pattern).expect("the pattern is valid");
    match parsed.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().map(|range| (range.start() as usize, range.end() as usize)).collect()
        }
        other => unreachable!("{pattern} is a class of characters: {other:?}"),
    }
}
