//! Engine: a pattern as two automata that are built while they run, forwards and backwards.

use std::ops::Range;

use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::{
    Anchored, HalfMatch, Input, MatchError, MatchErrorKind, MatchKind, Span, meta,
};
use regex_syntax::hir::{Hir, HirKind};

use super::PatternError;

/// The largest automaton that a pattern may need before it runs.
const NFA_BYTES: usize = 4 << 20;
/// How much of the running automaton is kept: as much as the `regex` crate keeps.
const CACHE_BYTES: usize = 2 << 20;
/// How often that may be filled for one text. Filling it takes some tens of milliseconds.
const CACHE_FILLS: usize = 4;
/// How many places of a pattern are tried for a literal.
const INNER_PARTS: usize = 16;
/// The most steps of a simulation; some tenths of a second.
const SIMULATION_STEPS: usize = 20_000_000;

/// A pattern, ready to be searched for by any number of threads.
pub(crate) struct Engine {
    pub(super) forward: DFA,
    pub(super) reverse: DFA,
    /// Finds what every match begins with.
    pub(super) prefix: Option<Prefilter>,
    /// Whether a word ends between two characters that are not ASCII is more than the automata
    /// can tell. Where a pattern asks for it, short texts are decided by simulation.
    simulation: Option<meta::Regex>,
    states: usize,
    /// Finds what stands inside every match, where that is faster than looking for matches.
    inside: Option<Prefilter>,
}

/// What one thread needs to search.
pub(crate) struct Scratch {
    pub(super) forward: Cache,
    pub(super) reverse: Cache,
}

/// Where a line may be that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The line around this place does.
    Certain(usize),
    /// The line around this place must be looked at alone; none before it does.
    Perhaps(usize),
}

impl Engine {
    pub(super) fn new(hir: &Hir) -> Result<Self, PatternError> {
        let nfa = |reverse| -> Result<NFA, PatternError> {
            let config = thompson::Config::new()
                .utf8(false)
                .reverse(reverse)
                .nfa_size_limit(Some(NFA_BYTES))
                .which_captures(WhichCaptures::None);
            let built = thompson::Compiler::new().configure(config).build_from_hir(hir);
            built.map_err(|_| PatternError::TooLarge)
        };
        let config = Config::new()
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(CACHE_FILLS))
            .minimum_bytes_per_state(None);
        let prefix = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, hir);
        let has_fast_prefix = prefix.as_ref().is_some_and(Prefilter::is_fast);
        let dfa = |config, nfa| {
            Builder::new().configure(config).build_from_nfa(nfa).map_err(|_| PatternError::TooLarge)
        };
        let forward = nfa(false)?;
        let states = forward.states().len();
        let simulation = hir.properties().look_set().contains_word_unicode().then(|| {
            let config = meta::Config::new()
                .hybrid(false)
                .dfa(false)
                .utf8_empty(false)
                .nfa_size_limit(Some(NFA_BYTES))
                .which_captures(WhichCaptures::Implicit);
            let built = meta::Builder::new().configure(config).build_from_hir(hir);
            built.map_err(|_| PatternError::TooLarge)
        });
        let with_prefix =
            config.clone().specialize_start_states(prefix.is_some()).prefilter(prefix.clone());
        Ok(Self {
            forward: dfa(with_prefix, forward)?,
            prefix,
            reverse: dfa(config.match_kind(MatchKind::All), nfa(true)?)?,
            simulation: simulation.transpose()?,
            states,
            inside: if has_fast_prefix { None } else { inner_literal(hir) },
        })
    }

    pub(crate) fn scratch(&self) -> Scratch {
        Scratch { forward: self.forward.create_cache(), reverse: self.reverse.create_cache() }
    }

    /// The first place from `from` on, which begins a line, in a text of many lines.
    pub(crate) fn first_place(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Place>, PatternError> {
        if let Some(inside) = &self.inside {
            let found = inside.find(text, Span::from(from..text.len()));
            return Ok(found.map(|found| Place::Perhaps(found.start)));
        }
        let input = Input::new(text).range(from..).earliest(true);
        match self.forward(scratch, &input) {
            Ok(end) => Ok(end.map(|end| Place::Certain(end.offset()))),
            Err(error) => match *error.kind() {
                MatchErrorKind::Quit { offset, .. } => Ok(Some(Place::Perhaps(offset))),
                _ => Err(PatternError::TooCostly),
            },
        }
    }

    /// Whether there is a match in a text of its own.
    pub(crate) fn is_match(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
    ) -> Result<bool, PatternError> {
        if let Some(inside) = &self.inside
            && inside.find(text, Span::from(0..text.len())).is_none()
        {
            return Ok(false);
        }
        match self.forward(scratch, &Input::new(text).earliest(true)) {
            Ok(end) => Ok(end.is_some()),
            Err(error) => match error.kind() {
                MatchErrorKind::Quit { .. } => Ok(self.simulate(text)?.is_some()),
                _ => Err(PatternError::TooCostly),
            },
        }
    }

    /// Where the leftmost match in a text of its own lies.
    pub(crate) fn find(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
    ) -> Result<Option<Range<usize>>, PatternError> {
        match self.ends(scratch, text) {
            Ok(range) => Ok(range),
            Err(error) => match error.kind() {
                MatchErrorKind::Quit { .. } => self.simulate(text),
                _ => Err(PatternError::TooCostly),
            },
        }
    }

    fn ends(&self, scratch: &mut Scratch, text: &[u8]) -> Result<Option<Range<usize>>, MatchError> {
        let Some(end) = self.forward(scratch, &Input::new(text))? else { return Ok(None) };
        let end = end.offset();
        let input = Input::new(text).range(..end).anchored(Anchored::Yes);
        forget_fills(&mut scratch.reverse, &self.reverse);
        let start = self.reverse.try_search_rev(&mut scratch.reverse, &input)?;
        // Backwards from the end of a match its start is always found.
        Ok(Some(start.map_or(end, |start| start.offset())..end))
    }

    fn forward(
        &self,
        scratch: &mut Scratch,
        input: &Input<'_>,
    ) -> Result<Option<HalfMatch>, MatchError> {
        forget_fills(&mut scratch.forward, &self.forward);
        self.forward.try_search_fwd(&mut scratch.forward, input)
    }

    /// Whether a text of so many bytes can be decided by [`simulate`](Self::simulate).
    pub(crate) fn can_simulate(&self, bytes: u64) -> bool {
        let steps = (self.states as u64).saturating_mul(bytes);
        self.simulation.is_some() && steps <= SIMULATION_STEPS as u64
    }

    /// Where the leftmost match in a text of its own is, by simulation.
    pub(crate) fn simulate(&self, text: &[u8]) -> Result<Option<Range<usize>>, PatternError> {
        match &self.simulation {
            Some(regex) if self.states.saturating_mul(text.len()) <= SIMULATION_STEPS => {
                Ok(regex.find(text).map(|found| found.range()))
            }
            _ => Err(PatternError::TooCostly),
        }
    }
}

/// What earlier texts filled the cache with does not count against this one.
pub(super) fn forget_fills(cache: &mut Cache, dfa: &DFA) {
    if cache.clear_count() > 0 {
        cache.reset(dfa);
    }
}

/// What every match has somewhere behind its beginning: the longest literal that the rest of the
/// pattern begins with, wherever it may be divided.
fn inner_literal(hir: &Hir) -> Option<Prefilter> {
    let mut hir = hir;
    while let HirKind::Capture(capture) = hir.kind() {
        hir = &capture.sub;
    }
    let HirKind::Concat(parts) = hir.kind() else { return None };
    (1..parts.len())
        .take(INNER_PARTS)
        .filter_map(|from| {
            let rest = Hir::concat(parts[from..].to_vec());
            Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &rest)
        })
        .filter(Prefilter::is_fast)
        .max_by_key(Prefilter::max_needle_len)
}
