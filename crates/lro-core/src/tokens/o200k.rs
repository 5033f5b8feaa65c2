//! The o200k tokenizer, on tables that are read in place.
//!
//! The vocabulary is a double-array trie of 2 MB in the program's read-only data: nothing is built
//! at run time, pages are loaded when a text needs them, and processes share them. Each piece of
//! text is encoded by the algorithm of the `bpe` crate: the longest token first, a shorter one where
//! byte-pair encoding would have merged across its end. That is linear in the length of the piece.
//! docs/decisions/0024-tokenizer.md compares both.
//!
//! The encoding defines the split into pieces as a regular expression. At each position, the first of
//! these alternatives that matches is a piece:
//!
//! 1. `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
//! 2. `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
//! 3. `\p{N}{1,3}`
//! 4. ` ?[^\s\p{L}\p{N}]+[\r\n/]*`
//! 5. `\s*[\r\n]+`
//! 6. `\s+(?!\S)`
//! 7. `\s+`
//!
//! [`Pieces`] is written by hand and needs no automaton, which would be built at run time and kept.

use super::{Tokenizer, TokenizerFailed, Tokens};

/// Units of the trie, as `build/tables.rs` lays them out.
static UNITS: &[[u8; 4]] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.trie")).as_chunks().0;
/// For each token, by rank, the length of the left of the two tokens it is merged from.
static SPLITS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.splits"));

const LABEL: u32 = 0x1ff;
const LEAF: u32 = 1 << 9;
const TERMINAL: u32 = 1 << 10;
const VALUE_SHIFT: u32 = 11;

/// The length of the longest token, in bytes.
const MAX_TOKEN_LEN: usize = 128;

/// The o200k vocabulary (GPT-4o and later), the reference for "real" tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct O200k;

impl Tokenizer for O200k {
    fn count_till(&self, text: &str, limit: u64) -> Result<Option<Tokens>, TokenizerFailed> {
        if self.always_exceeds(text.len() as u64, limit) {
            return Ok(None);
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
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

    fn always_exceeds(&self, bytes: u64, limit: u64) -> bool {
        bytes.div_ceil(MAX_TOKEN_LEN as u64) > limit
    }
}

/// A token: its length in bytes and its merge rank.
#[derive(Debug, Clone, Copy)]
struct Token {
    len: usize,
    rank: u32,
}

/// Counts the tokens of pieces, with buffers and caches that are reused.
#[derive(Debug, Default)]
struct Encoder {
    /// The lengths of the tokens so far, at most [`MAX_TOKEN_LEN`] each.
    lens: Vec<u8>,
    /// One bit per position of the piece, set if no encoding continues from there.
    dead_ends: Vec<u64>,
    boundaries: BoundaryCache,
    prefixes: PrefixCache,
}

impl Encoder {
    /// The number of tokens of `piece`, or `None` if it exceeds `limit`.
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
                // The rest of the piece can change the last few tokens, but never this many.
                if self.lens.len() > limit.saturating_add(MAX_TOKEN_LEN) {
                    return None;
                }
                at += next.len;
                last = Some(next);
                next = longest(&piece[at..]).unwrap_or(next);
            } else if let Some(shorter) = self.prefixes.get(piece, at, next) {
                next = shorter;
            } else {
                // No token continues from here: backtrack before the last one, which was too long.
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

/// The number of entries of each cache, as a power of two (log2).
const CACHE_BITS: u32 = 12;

/// The entry of a cache for `key`. A cache is allocated at first use.
fn entry<T: Default + Clone>(entries: &mut Vec<T>, key: u64) -> &mut T {
    entries.resize(1 << CACHE_BITS, T::default());
    // Fibonacci hashing: the highest bits of the product.
    let slot = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CACHE_BITS);
    &mut entries[usize::try_from(slot).unwrap_or_default()]
}

/// A cache of [`is_boundary`], which depends on the two tokens only: repetitive text needs few
/// entries, many times.
///
/// An entry holds both ranks, the result in bit 1, and bit 0 set.
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

/// A cache of the longest proper prefix of a token that is itself a token.
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

/// Whether byte-pair encoding leaves a boundary at `at` between two tokens: it merges nothing across
/// the boundary before it has built both of them. Undoes their merges, the latest first.
fn is_boundary(piece: &[u8], at: usize, mut left: Token, mut right: Token) -> bool {
    // Ranks below this were merged before the current tokens at the boundary.
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

/// The length of the left of the two tokens that a token is merged from.
fn split_len(rank: u32) -> Option<usize> {
    SPLITS.get(rank as usize).map(|len| usize::from(*len)).filter(|len| *len > 0)
}

/// The token that is exactly `bytes`.
fn token(bytes: &[u8]) -> Option<Token> {
    longest(bytes).filter(|token| token.len == bytes.len())
}

/// The longest token that is a prefix of `text`.
fn longest(text: &[u8]) -> Option<Token> {
    let mut node = unit(0);
    let mut longest = None;
    for (byte, len) in text.iter().zip(1..) {
        node = unit(base(node) + 1 + usize::from(*byte));
        if node & LABEL != u32::from(*byte) {
            break;
        }
        if node & LEAF != 0 {
            return Some(Token { len, rank: node >> VALUE_SHIFT });
        }
        if node & TERMINAL != 0 {
            longest = Some((len, base(node)));
        }
    }
    longest.map(|(len, at)| Token { len, rank: unit(at) >> VALUE_SHIFT })
}

fn base(node: u32) -> usize {
    (node >> VALUE_SHIFT) as usize
}

/// A unit of the trie; the table has one for every byte after every base.
fn unit(at: usize) -> u32 {
    UNITS.get(at).map_or(LABEL, |unit| u32::from_le_bytes(*unit))
}

/// The classes of characters in the expression; `build/tables.rs` uses the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// None of the following.
    Other,
    /// `\p{Lu}` and `\p{Lt}`.
    Upper,
    /// `\p{Ll}`.
    Lower,
    /// `\p{Lm}` and `\p{Lo}`.
    Letter,
    /// `\p{M}`.
    Mark,
    /// `\p{N}`.
    Number,
    /// `\s` without line breaks.
    Space,
    /// `[\r\n]`.
    LineBreak,
}

impl Class {
    /// All classes, by number.
    const ALL: [Self; 8] = [
        Self::Other,
        Self::Upper,
        Self::Lower,
        Self::Letter,
        Self::Mark,
        Self::Number,
        Self::Space,
        Self::LineBreak,
    ];

    fn from_char(character: char) -> Self {
        const BLOCK: usize = 128;
        static INDEX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.index"));
        static BLOCKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.blocks"));
        let code = character as usize;
        let block = usize::from(INDEX[code / BLOCK]);
        Self::ALL[usize::from(BLOCKS[block * BLOCK + code % BLOCK])]
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
    fn starts_word(self) -> bool {
        matches!(self, Self::Upper | Self::Letter | Self::Mark)
    }

    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
    fn continues_word(self) -> bool {
        matches!(self, Self::Lower | Self::Letter | Self::Mark)
    }

    /// `[^\r\n\p{L}\p{N}]`
    fn precedes_word(self) -> bool {
        matches!(self, Self::Other | Self::Mark | Self::Space)
    }

    /// `[^\s\p{L}\p{N}]`
    fn is_symbol(self) -> bool {
        matches!(self, Self::Other | Self::Mark)
    }

    /// `\s`
    fn is_space(self) -> bool {
        matches!(self, Self::Space | Self::LineBreak)
    }
}

/// The pieces of a text, in order and without gaps.
#[derive(Debug)]
pub(super) struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Pieces<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: text }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let text = self.rest;
        let first = text.chars().next()?;
        let (piece, rest) = text.split_at(piece_len(text, first));
        self.rest = rest;
        Some(piece)
    }
}

/// The length of the first piece of `text`.
fn piece_len(text: &str, first: char) -> usize {
    let class = Class::from_char(first);
    let after = first.len_utf8();
    let prefix = class.precedes_word().then_some(after);
    // Alternatives 1 and 2, each with the optional character before the word, then without.
    let word = prefix.and_then(|at| word_end(text, at));
    let word = word.or_else(|| word_end(text, 0));
    let upper = || prefix.and_then(|at| upper_end(text, at)).or_else(|| upper_end(text, 0));
    if let Some(end) = word.or_else(upper) {
        return end + contraction_len(&text[end..]);
    }
    if class == Class::Number {
        return text
            .char_indices()
            .take(3)
            .take_while(|(_, c)| Class::from_char(*c) == Class::Number)
            .fold(0, |_, (at, c)| at + c.len_utf8());
    }
    let symbols = if first == ' ' { after } else { 0 };
    let end = run_end(text, symbols, Class::is_symbol);
    if end > symbols {
        return end + text[end..].bytes().take_while(|byte| b"\r\n/".contains(byte)).count();
    }
    space_len(text)
}

/// Alternative 1 from `at` on, without the contraction.
fn word_end(text: &str, at: usize) -> Option<usize> {
    // Greedy with backtracking: the first set returns characters that are in both sets, one by one,
    // until the second set has one.
    let mut backtracked = None;
    for (offset, character) in text[at..].char_indices() {
        let class = Class::from_char(character);
        if !class.starts_word() {
            if class.continues_word() {
                return Some(run_end(text, at + offset, Class::continues_word));
            }
            break;
        }
        if class.continues_word() {
            backtracked = Some(at + offset + character.len_utf8());
        }
    }
    backtracked
}

/// Alternative 2 from `at` on, without the contraction, where alternative 1 does not match.
fn upper_end(text: &str, at: usize) -> Option<usize> {
    Some(run_end(text, at, Class::starts_word)).filter(|end| *end > at)
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
fn contraction_len(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\'') else { return 0 };
    let mut letters = rest.chars();
    match (letters.next(), letters.next()) {
        (Some('s' | 'S' | 't' | 'T' | 'm' | 'M' | 'd' | 'D'), _) => 2,
        // U+017F is a lower case of S.
        (Some('\u{17f}'), _) => 1 + '\u{17f}'.len_utf8(),
        (Some('r' | 'R' | 'v' | 'V'), Some('e' | 'E')) | (Some('l' | 'L'), Some('l' | 'L')) => 3,
        _ => 0,
    }
}

/// Alternatives 5 to 7.
fn space_len(text: &str) -> usize {
    let end = run_end(text, 0, Class::is_space);
    let run = &text[..end];
    if let Some(line_break) = run.rfind(['\r', '\n']) {
        return line_break + 1;
    }
    let last = run.chars().next_back().map_or(0, char::len_utf8);
    // The last of several spaces belongs to what follows.
    if end == text.len() || end == last { end } else { end - last }
}

/// The end of the run of characters from `at` on that satisfy `belongs`.
fn run_end(text: &str, at: usize, belongs: impl Fn(Class) -> bool) -> usize {
    let run =
        text[at..].char_indices().find(|(_, character)| !belongs(Class::from_char(*character)));
    run.map_or(text.len(), |(offset, _)| at + offset)
}
