//! Engine: a pattern as two automata that are built while they run, forwards and backwards.

use std::ops::{ControlFlow, Range};

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
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

// --- Stream: a search in a text that comes in windows, with memory that does not grow with it.
// ---
// --- The automata carry all that they know from one byte to the next, so a window is never looked at
// --- twice and a match of any length is found, wherever the windows are cut. Says exactly what
// --- [`Engine::find`] says of the same text.

/// Why a search in windows has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The pattern asks for a Unicode word boundary beside a character that is not ASCII, which
    /// only a simulation can tell.
    Quit,
    /// The pattern needs too many states on this text.
    TooCostly,
}

impl From<MatchError> for Stop {
    fn from(error: MatchError) -> Self {
        match error.kind() {
            MatchErrorKind::Quit { .. } => Self::Quit,
            _ => Self::TooCostly,
        }
    }
}

/// Finds where the leftmost match ends.
pub(crate) struct Forward<'e> {
    engine: &'e Engine,
    /// Whether any end of any match is good enough.
    earliest: bool,
    state: LazyStateID,
    /// How many bytes came before the window.
    read: u64,
    end: Option<u64>,
}

impl<'e> Forward<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        scratch: &mut Scratch,
        earliest: bool,
    ) -> Result<Self, Stop> {
        forget_fills(&mut scratch.forward, &engine.forward);
        let state = start(&engine.forward, &mut scratch.forward, None)?;
        Ok(Self { engine, earliest, state, read: 0, end: None })
    }

    /// Looks at the next window. Breaks when the rest of the text does not matter.
    pub(crate) fn feed(
        &mut self,
        scratch: &mut Scratch,
        window: &[u8],
    ) -> Result<ControlFlow<()>, Stop> {
        let (dfa, cache) = (&self.engine.forward, &mut scratch.forward);
        let mut at = 0;
        while at < window.len() {
            if self.state.is_start()
                && let Some(next) = self.candidate(window, at)
                && next > at
            {
                at = next;
                self.state = start(dfa, cache, Some(window[at - 1]))?;
                if at == window.len() {
                    break;
                }
            }
            self.state =
                dfa.next_state(cache, self.state, window[at]).map_err(|_| Stop::TooCostly)?;
            if self.state.is_tagged() {
                if self.state.is_match() {
                    // A match is known one byte behind its end.
                    self.end = Some(self.read + at as u64);
                    if self.earliest {
                        return Ok(ControlFlow::Break(()));
                    }
                } else if self.state.is_dead() {
                    return Ok(ControlFlow::Break(()));
                } else if self.state.is_quit() {
                    return Err(Stop::Quit);
                }
            }
            at += 1;
        }
        self.read += window.len() as u64;
        Ok(ControlFlow::Continue(()))
    }

    /// Where the next match can begin at the earliest; `None` where nothing says so. What may be a
    /// literal that the window cuts is a candidate too.
    fn candidate(&self, window: &[u8], at: usize) -> Option<usize> {
        let prefix = self.engine.prefix.as_ref()?;
        if let Some(found) = prefix.find(window, Span::from(at..window.len())) {
            return Some(found.start);
        }
        let cut = prefix.max_needle_len().saturating_sub(1);
        Some(window.len().saturating_sub(cut).max(at))
    }

    /// Ends the text, unless a window broke.
    pub(crate) fn finish(mut self, scratch: &mut Scratch) -> Result<Option<u64>, Stop> {
        if !(self.state.is_dead() || self.earliest && self.end.is_some()) {
            let (dfa, cache) = (&self.engine.forward, &mut scratch.forward);
            let state = dfa.next_eoi_state(cache, self.state).map_err(|_| Stop::TooCostly)?;
            if state.is_match() {
                self.end = Some(self.read);
            }
        }
        Ok(self.end)
    }
}

/// Finds where the match begins whose end is known.
pub(crate) struct Backward<'e> {
    dfa: &'e DFA,
    state: LazyStateID,
    /// The place of the last byte that was looked at.
    at: u64,
    start: Option<u64>,
}

impl<'e> Backward<'e> {
    /// Of a match that ends at `end`, where the text goes on with `next`.
    pub(crate) fn new(
        engine: &'e Engine,
        scratch: &mut Scratch,
        end: u64,
        next: Option<u8>,
    ) -> Result<Self, Stop> {
        let (dfa, cache) = (&engine.reverse, &mut scratch.reverse);
        forget_fills(cache, dfa);
        let input = Input::new(next.as_slice()).range(..0).anchored(Anchored::Yes);
        let state = dfa.start_state_reverse(cache, &input)?;
        Ok(Self { dfa, state, at: end, start: None })
    }

    /// Looks at the window that ends where the last one began. Breaks when what is before does not
    /// matter.
    pub(crate) fn feed(
        &mut self,
        scratch: &mut Scratch,
        window: &[u8],
    ) -> Result<ControlFlow<()>, Stop> {
        let cache = &mut scratch.reverse;
        for byte in window.iter().rev() {
            self.state =
                self.dfa.next_state(cache, self.state, *byte).map_err(|_| Stop::TooCostly)?;
            if self.state.is_tagged() {
                if self.state.is_match() {
                    self.start = Some(self.at);
                } else if self.state.is_dead() {
                    return Ok(ControlFlow::Break(()));
                } else if self.state.is_quit() {
                    return Err(Stop::Quit);
                }
            }
            self.at -= 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Ends at the beginning of the text, unless a window broke.
    pub(crate) fn finish(mut self, scratch: &mut Scratch) -> Result<Option<u64>, Stop> {
        if !self.state.is_dead() {
            let cache = &mut scratch.reverse;
            let state = self.dfa.next_eoi_state(cache, self.state).map_err(|_| Stop::TooCostly)?;
            if state.is_match() {
                self.start = Some(self.at);
            }
        }
        Ok(self.start)
    }
}

/// The state in which a search begins behind the byte `before`.
fn start(dfa: &DFA, cache: &mut Cache, before: Option<u8>) -> Result<LazyStateID, Stop> {
    let text = before.as_slice();
    Ok(dfa.start_state_forward(cache, &Input::new(text).range(text.len()..))?)
}
