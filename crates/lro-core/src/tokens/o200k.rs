//! The o200k tokenizer, on tables that are read in place.
//!
//! The vocabulary is a double-array trie of 2 MB in the program's read-only data: nothing is built
//! at run time, pages are read when a text needs them, and processes share them. Text is split as
//! the encoding prescribes, and each piece is encoded by the algorithm of the `bpe` crate: the
//! longest token first, a shorter one where byte-pair encoding would have merged across its end.
//! That is linear in the length of the piece. docs/decisions/0024-tokenizer.md compares both.

use super::split::Pieces;
use super::{Tokenizer, TokenizerFailed, Tokens};

/// Units of the trie, as `build/trie.rs` lays them out.
static UNITS: &[[u8; 4]] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.trie")).as_chunks().0;
/// For each token, by rank, the length of the left one of the two that it is merged from.
static SPLITS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.splits"));

const LABEL: u32 = 0x1ff;
const LEAF: u32 = 1 << 9;
const TERMINAL: u32 = 1 << 10;
const VALUE_SHIFT: u32 = 11;

/// The length of the longest token, in bytes.
const MAX_TOKEN_LEN: usize = 128;

/// The o200k vocabulary (GPT-4o and later), our yardstick for "real" tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct O200k;

impl Tokenizer for O200k {
    fn count_till(&self, text: &str, limit: u64) -> Result<Option<Tokens>, TokenizerFailed> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if text.len().div_ceil(MAX_TOKEN_LEN) > limit {
            return Ok(None);
        }
        let mut encoder = Encoder::default();
        let mut count = 0;
        for piece in Pieces::new(text) {
            match encoder.count(piece.as_bytes(), limit - count) {
                Some(more) => count += more,
                None => return Ok(None),
            }
        }
        Ok(Some(Tokens(count as u64)))
    }
}

/// A token in a text: its length and its rank, by which it is merged.
#[derive(Debug, Clone, Copy)]
struct Token {
    len: usize,
    rank: u32,
}

/// Encodes pieces one after the other.
#[derive(Debug, Default)]
struct Encoder {
    /// Lengths of the tokens so far, at most [`MAX_TOKEN_LEN`] each.
    lens: Vec<u8>,
    /// A bit for each position of the piece from which no encoding continues.
    dead_ends: Vec<u64>,
    boundaries: BoundaryCache,
    prefixes: PrefixCache,
}

impl Encoder {
    /// The number of tokens of `piece`, or nothing if it exceeds `limit`.
    fn count(&mut self, piece: &[u8], limit: usize) -> Option<usize> {
        let mut next = longest(piece)?;
        if next.len == piece.len() {
            return (limit > 0).then_some(1);
        }
        self.lens.clear();
        self.dead_ends.clear();
        self.dead_ends.resize(piece.len() / 64 + 1, 0);
        let (mut at, mut last) = (0, None::<Token>);
        while at < piece.len() {
            let fits = !self.is_dead_end(at + next.len)
                && last.is_none_or(|last| self.boundaries.get(piece, at, last, next));
            if fits {
                self.lens.push(u8::try_from(next.len).unwrap_or(u8::MAX));
                // What follows can change the last few tokens, never so many.
                if self.lens.len() > limit.saturating_add(MAX_TOKEN_LEN) {
                    return None;
                }
                at += next.len;
                last = Some(next);
                next = longest(&piece[at..]).unwrap_or(next);
            } else if let Some(shorter) = self.prefixes.get(piece, at, next) {
                next = shorter;
            } else {
                // No token continues from here: back to before the last one, which was too long.
                self.dead_ends[at / 64] |= 1 << (at % 64);
                next = last?;
                self.lens.pop();
                at -= next.len;
                last = self.lens.last().and_then(|len| token(&piece[at - usize::from(*len)..at]));
            }
        }
        (self.lens.len() <= limit).then_some(self.lens.len())
    }

    fn is_dead_end(&self, at: usize) -> bool {
        self.dead_ends[at / 64] & (1 << (at % 64)) != 0
    }
}

/// The number of entries of each cache, as a power of two.
const CACHE_BITS: u32 = 12;

/// The entry of a cache for `key`. A cache takes its memory when it is first needed.
fn entry<T: Default + Clone>(entries: &mut Vec<T>, key: u64) -> &mut T {
    entries.resize(1 << CACHE_BITS, T::default());
    // Fibonacci hashing: the highest bits of the product.
    let slot = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CACHE_BITS);
    &mut entries[usize::try_from(slot).unwrap_or_default()]
}

/// The latest answers of [`is_boundary`], which depends on the two tokens alone: a text that
/// repeats itself asks for few of them, many times.
///
/// An entry has both ranks, the answer in bit 1, and bit 0 set.
#[derive(Debug, Default)]
struct BoundaryCache(Vec<u64>);

impl BoundaryCache {
    fn get(&mut self, piece: &[u8], at: usize, left: Token, right: Token) -> bool {
        let key = u64::from(left.rank) << 32 | u64::from(right.rank) << 2 | 1;
        let entry = entry(&mut self.0, key);
        if *entry & !2 != key {
            *entry = key | u64::from(is_boundary(piece, at, left, right)) << 1;
        }
        *entry & 2 != 0
    }
}

/// The longest tokens that the latest tokens begin with, other than themselves.
#[derive(Debug, Default)]
struct PrefixCache(Vec<Option<(u32, Option<Token>)>>);

impl PrefixCache {
    fn get(&mut self, piece: &[u8], at: usize, token: Token) -> Option<Token> {
        match entry(&mut self.0, u64::from(token.rank)) {
            Some((rank, prefix)) if *rank == token.rank => *prefix,
            other => {
                let prefix = longest(&piece[at..at + token.len - 1]);
                *other = Some((token.rank, prefix));
                prefix
            }
        }
    }
}

/// Whether byte-pair encoding leaves a boundary at `at` between two tokens, that is, merges
/// nothing across it before it has made both of them. Undoes their merges, the latest first.
fn is_boundary(piece: &[u8], at: usize, mut left: Token, mut right: Token) -> bool {
    // Ranks below this one were merged before what is across the boundary now.
    let mut limit = u32::MAX;
    loop {
        let across = token(&piece[at - left.len..at + right.len]);
        let merged = across.filter(|token| split_len(token.rank) == Some(left.len));
        if merged.is_some_and(|token| token.rank < limit) {
            return false;
        }
        let undo_left = || {
            let part = token(&piece[at - left.len + split_len(left.rank)?..at])?;
            Some((left.rank, part, right))
        };
        let undo_right = || {
            let part = token(&piece[at..at + split_len(right.rank)?])?;
            // Of two merges of one rank, the left one comes first.
            Some((right.rank + 1, left, part))
        };
        let undone = if left.rank > right.rank {
            undo_left().or_else(undo_right)
        } else {
            undo_right().or_else(undo_left)
        };
        let Some(parts) = undone else { return true };
        (limit, left, right) = parts;
    }
}

/// The length of the left one of the two tokens that a token is merged from.
fn split_len(rank: u32) -> Option<usize> {
    SPLITS.get(rank as usize).map(|len| usize::from(*len)).filter(|len| *len > 0)
}

/// The token that is exactly `bytes`.
fn token(bytes: &[u8]) -> Option<Token> {
    longest(bytes).filter(|token| token.len == bytes.len())
}

/// The longest token that `text` begins with.
fn longest(text: &[u8]) -> Option<Token> {
    let mut node = unit(0);
    let mut found = None;
    for (byte, len) in text.iter().zip(1..) {
        node = unit(base(node) + 1 + usize::from(*byte));
        if node & LABEL != u32::from(*byte) {
            break;
        }
        if node & LEAF != 0 {
            return Some(Token { len, rank: node >> VALUE_SHIFT });
        }
        if node & TERMINAL != 0 {
            found = Some((len, base(node)));
        }
    }
    found.map(|(len, at)| Token { len, rank: unit(at) >> VALUE_SHIFT })
}

fn base(node: u32) -> usize {
    (node >> VALUE_SHIFT) as usize
}

/// A unit of the trie. The table has one for every byte after every base.
fn unit(at: usize) -> u32 {
    UNITS.get(at).map_or(LABEL, |unit| u32::from_le_bytes(*unit))
}
