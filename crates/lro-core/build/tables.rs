//! The tables of the o200k tokenizer: the vocabulary as a double-array trie, the split of each token
//! into the two it is merged from, and the classes of characters that text is split by.

use std::collections::{HashMap, HashSet};

use regex_syntax::hir::{Class, HirKind};

/// Low 9 bits of a unit that is free.
const FREE: u32 = 257;
/// Low 9 bits of a unit with the rank of a token that is a prefix of others.
const RANK: u32 = 256;
const LEAF: u32 = 1 << 9;
const TERMINAL: u32 = 1 << 10;
const VALUE_SHIFT: u32 = 11;

/// After a search with more attempts, the next one starts where it ended.
const MAX_TRIES: usize = 64;

/// A trie node. The label is the byte that leads to it from its parent.
struct Node {
    label: u8,
    rank: Option<u32>,
    children: Vec<usize>,
}

impl Node {
    /// The offsets of the units for the children and the rank of the node, from its base.
    fn offsets(&self, nodes: &[Self]) -> Vec<usize> {
        let rank = self.rank.map(|_| 0);
        let children = self.children.iter().map(|child| 1 + usize::from(nodes[*child].label));
        rank.into_iter().chain(children).collect()
    }
}

/// The units of the trie, little-endian, from rank to bytes in `tokens`.
///
/// A unit has the label of its node in bits 0 to 8; with [`LEAF`], its rank in the bits from
/// [`VALUE_SHIFT`] on; otherwise the base there, where the child by byte `b` is unit
/// `base + 1 + b` and, with [`TERMINAL`], unit `base` holds the rank. Unit 0 is the root.
pub(crate) fn double_array(tokens: &[&[u8]]) -> Vec<u8> {
    let nodes = trie(tokens);
    let mut array = Array::new();
    // The root comes first, and wide nodes before narrow ones, which fill the gaps.
    let mut inner: Vec<usize> =
        (0..nodes.len()).filter(|i| !nodes[*i].children.is_empty()).collect();
    inner.sort_by_key(|i| std::cmp::Reverse(nodes[*i].offsets(&nodes).len()));
    let bases: HashMap<usize, usize> =
        inner.iter().map(|i| (*i, array.place(&nodes[*i].offsets(&nodes)))).collect();
    let mut units = vec![FREE; array.next_free.len()];
    let value = |value: usize| u32::try_from(value).expect("fits 21 bits") << VALUE_SHIFT;
    let rank = |node: &Node| node.rank.map_or(0, |rank| rank << VALUE_SHIFT);
    let unit = |index: usize| {
        let node = &nodes[index];
        let flags = match (node.rank, bases.get(&index)) {
            (_, None) => LEAF | rank(node),
            (Some(_), Some(base)) => TERMINAL | value(*base),
            (None, Some(base)) => value(*base),
        };
        u32::from(node.label) | flags
    };
    units[0] = unit(0);
    for (index, base) in &bases {
        if nodes[*index].rank.is_some() {
            units[*base] = RANK | rank(&nodes[*index]);
        }
        for child in &nodes[*index].children {
            units[base + 1 + usize::from(nodes[*child].label)] = unit(*child);
        }
    }
    assert!(units.len() < 1 << (32 - VALUE_SHIFT), "a base fits its bits");
    units.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The nodes of the trie, the root first.
fn trie(tokens: &[&[u8]]) -> Vec<Node> {
    let mut sorted: Vec<(&[u8], u32)> = tokens.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let mut nodes = vec![Node { label: 0, rank: None, children: Vec::new() }];
    let mut path = vec![0];
    let mut last: &[u8] = &[];
    for (token, rank) in sorted {
        let shared = last.iter().zip(token).take_while(|(a, b)| a == b).count();
        path.truncate(shared + 1);
        for label in &token[shared..] {
            let parent = *path.last().expect("the root stays");
            let index = nodes.len();
            nodes[parent].children.push(index);
            nodes.push(Node { label: *label, rank: None, children: Vec::new() });
            path.push(index);
        }
        let node = path.last().expect("the root stays");
        nodes[*node].rank = Some(rank);
        last = token;
    }
    nodes
}

/// Allocates the units of each node, from a doubly linked list of free units.
struct Array {
    /// The next free unit of a free unit; 0 for all others.
    next_free: Vec<usize>,
    previous_free: Vec<usize>,
    taken_bases: HashSet<usize>,
    /// The search for free units starts here.
    cursor: usize,
    width: usize,
}

impl Array {
    fn new() -> Self {
        // Unit 0 is the root and the head of the list.
        Self {
            next_free: vec![1],
            previous_free: vec![0],
            taken_bases: HashSet::new(),
            cursor: 0,
            width: 0,
        }
    }

    /// Allocates the units at `offsets` from the returned base.
    fn place(&mut self, offsets: &[usize]) -> usize {
        if self.width != offsets.len() {
            (self.cursor, self.width) = (0, offsets.len());
        }
        let mut before = self.cursor;
        for tries in 0.. {
            let at = self.next_free[before];
            self.grow(at + 257);
            let base = at.checked_sub(offsets[0]).filter(|base| self.fits(*base, offsets));
            let Some(base) = base else {
                before = at;
                continue;
            };
            if tries > MAX_TRIES {
                self.cursor = before;
            }
            for offset in offsets {
                self.take(base + offset);
            }
            self.taken_bases.insert(base);
            return base;
        }
        unreachable!("the array grows until the units fit")
    }

    /// Bases are unique, so that a label alone identifies the parent of a unit.
    fn fits(&self, base: usize, offsets: &[usize]) -> bool {
        base > 0
            && !self.taken_bases.contains(&base)
            && offsets.iter().all(|offset| self.next_free[base + offset] != 0)
    }

    fn grow(&mut self, to: usize) {
        while self.next_free.len() <= to {
            self.previous_free.push(self.next_free.len() - 1);
            self.next_free.push(self.next_free.len() + 1);
        }
    }

    fn take(&mut self, at: usize) {
        let (before, after) = (self.previous_free[at], self.next_free[at]);
        self.grow(after);
        self.next_free[before] = after;
        self.previous_free[after] = before;
        self.next_free[at] = 0;
        if self.cursor == at {
            self.cursor = before;
        }
    }
}

/// For each token, the length of the left of the two tokens it is merged from; 0 for a single byte.
pub(crate) fn splits(tokens: &[&[u8]]) -> Vec<u8> {
    let ranks: HashMap<&[u8], u32> = tokens.iter().copied().zip(0..).collect();
    tokens.iter().zip(0..).map(|(token, rank)| split(token, rank, &ranks)).collect()
}

/// Merges the bytes of `token` as byte-pair encoding does, with lower ranks only.
fn split(token: &[u8], rank: u32, ranks: &HashMap<&[u8], u32>) -> u8 {
    let mut bounds: Vec<usize> = (0..=token.len()).collect();
    while bounds.len() > 3 {
        let merged = |i: &usize| ranks.get(&token[bounds[i - 1]..bounds[i + 1]]).copied();
        let best = (1..bounds.len() - 1).filter_map(|i| Some((merged(&i)?, i))).min();
        let (_, at) = best.filter(|(best, _)| *best < rank).expect("two tokens make each token");
        bounds.remove(at);
    }
    if bounds.len() == 3 { u8::try_from(bounds[1]).expect("tokens are short") } else { 0 }
}

/// Characters per block of the class table.
const BLOCK_CHARS: usize = 128;

/// A two-level table: the number of each block of characters, and the blocks with one byte per
/// character. `src/tokens/o200k.rs` uses the same numbers for the classes.
pub(crate) fn character_classes() -> (Vec<u8>, Vec<u8>) {
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
    for block in classes.chunks(BLOCK_CHARS) {
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
