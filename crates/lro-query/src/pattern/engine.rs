//! The regex engine: two lazy DFAs, forward and reverse, over texts in memory and over streams.
//!
//! [`Engine`] searches a text in memory. [`ForwardSearch`] and [`BackwardSearch`] search a text that
//! arrives in windows and give exactly the same matches: the automata carry their state from one
//! byte to the next, so that no byte is read twice and a match may have any length.

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

/// The maximum size of the NFA in bytes.
pub(super) const MAX_NFA_BYTES: usize = 4 << 20;
/// The size of the cache of DFA states in bytes, as in the `regex` crate.
const CACHE_BYTES: usize = 2 << 20;
/// How often one text may fill the cache. Filling it takes some tens of milliseconds.
const MAX_CACHE_FILLS: usize = 4;
/// The maximum number of positions in a pattern that are tried for an inner literal.
const MAX_INNER_PARTS: usize = 16;
/// The maximum number of steps of an NFA simulation: some tenths of a second.
pub(super) const MAX_SIMULATION_STEPS: usize = 20_000_000;

/// A compiled pattern, shared by all threads.
pub(crate) struct Engine {
    pub(super) forward: DFA,
    pub(super) reverse: DFA,
    /// Finds the literals that matches begin with.
    pub(super) prefix: Option<Prefilter>,
    /// The DFAs cannot decide a Unicode word boundary next to a non-ASCII character. For patterns
    /// with such a boundary, this NFA simulation decides short texts.
    simulation: Option<meta::Regex>,
    states: usize,
    /// Finds a literal that every match contains, if that is faster than searching for matches.
    inner_literal: Option<Prefilter>,
}

/// The DFA caches of one thread.
pub(crate) struct Scratch {
    pub(super) forward: Cache,
    pub(super) reverse: Cache,
}

/// The position of a line that may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// The line around this offset matches.
    Certain(usize),
    /// The line around this offset must be searched by itself; no earlier line matches.
    Possible(usize),
}

impl Engine {
    pub(super) fn new(hir: &Hir) -> Result<Self, PatternError> {
        let nfa = |reverse| -> Result<NFA, PatternError> {
            let config = thompson::Config::new()
                .utf8(false)
                .reverse(reverse)
                .nfa_size_limit(Some(MAX_NFA_BYTES))
                .which_captures(WhichCaptures::None);
            let built = thompson::Compiler::new().configure(config).build_from_hir(hir);
            built.map_err(|_| PatternError::TooLarge)
        };
        let config = Config::new()
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(MAX_CACHE_FILLS))
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
                .nfa_size_limit(Some(MAX_NFA_BYTES))
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
            inner_literal: if has_fast_prefix { None } else { inner_literal(hir) },
        })
    }

    /// The number of states of the NFA.
    pub(super) fn states(&self) -> usize {
        self.states
    }

    pub(crate) fn scratch(&self) -> Scratch {
        Scratch { forward: self.forward.create_cache(), reverse: self.reverse.create_cache() }
    }

    /// Finds the first candidate in a text of many lines from `from`, the start of a line.
    pub(crate) fn first_candidate(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Candidate>, PatternError> {
        if let Some(literal) = &self.inner_literal {
            let span = literal.find(text, Span::from(from..text.len()));
            return Ok(span.map(|span| Candidate::Possible(span.start)));
        }
        let input = Input::new(text).range(from..).earliest(true);
        match self.forward(scratch, &input) {
            Ok(end) => Ok(end.map(|end| Candidate::Certain(end.offset()))),
            Err(error) => match *error.kind() {
                MatchErrorKind::Quit { offset, .. } => Ok(Some(Candidate::Possible(offset))),
                _ => Err(PatternError::TooCostly),
            },
        }
    }

    /// Whether a single text contains a match.
    pub(crate) fn is_match(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
    ) -> Result<bool, PatternError> {
        if let Some(literal) = &self.inner_literal
            && literal.find(text, Span::from(0..text.len())).is_none()
        {
            return Ok(false);
        }
        match self.forward(scratch, &Input::new(text).earliest(true)) {
            Ok(end) => Ok(end.is_some()),
            Err(error) => match error.kind() {
                MatchErrorKind::Quit { .. } => Ok(self.simulate(text, 0)?.is_some()),
                _ => Err(PatternError::TooCostly),
            },
        }
    }

    /// The range of the leftmost match in a single text.
    pub(crate) fn find(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
    ) -> Result<Option<Range<usize>>, PatternError> {
        self.find_at(scratch, text, 0)
    }

    /// The range of the leftmost match in a single text that begins at `from` or later.
    pub(crate) fn find_at(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, PatternError> {
        match self.ends(scratch, text, from) {
            Ok(range) => Ok(range),
            Err(error) => match error.kind() {
                MatchErrorKind::Quit { .. } => self.simulate(text, from),
                _ => Err(PatternError::TooCostly),
            },
        }
    }

    fn ends(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, MatchError> {
        let Some(end) = self.forward(scratch, &Input::new(text).range(from..))? else {
            return Ok(None);
        };
        let end = end.offset();
        let input = Input::new(text).range(from..end).anchored(Anchored::Yes);
        reset_fill_count(&mut scratch.reverse, &self.reverse);
        let start = self.reverse.try_search_rev(&mut scratch.reverse, &input)?;
        // A reverse search from the end of a match always finds its start.
        Ok(Some(start.map_or(end, |start| start.offset())..end))
    }

    fn forward(
        &self,
        scratch: &mut Scratch,
        input: &Input<'_>,
    ) -> Result<Option<HalfMatch>, MatchError> {
        reset_fill_count(&mut scratch.forward, &self.forward);
        self.forward.try_search_fwd(&mut scratch.forward, input)
    }

    /// Whether a text of this length is short enough for [`simulate`](Self::simulate).
    pub(crate) fn can_simulate(&self, bytes: u64) -> bool {
        let steps = (self.states as u64).saturating_mul(bytes);
        self.simulation.is_some() && steps <= MAX_SIMULATION_STEPS as u64
    }

    /// The range of the leftmost match in a single text from `from` on, by NFA simulation.
    pub(crate) fn simulate(
        &self,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, PatternError> {
        let length = text.len().saturating_sub(from);
        match &self.simulation {
            Some(regex) if self.states.saturating_mul(length) <= MAX_SIMULATION_STEPS => {
                Ok(regex.find(Input::new(text).range(from..)).map(|matched| matched.range()))
            }
            _ => Err(PatternError::TooCostly),
        }
    }
}

/// Resets the cache if earlier texts filled it, so that they do not count against the next text.
pub(super) fn reset_fill_count(cache: &mut Cache, dfa: &DFA) {
    if cache.clear_count() > 0 {
        cache.reset(dfa);
    }
}

/// The longest literal that every match contains after its start: for each way to split the pattern
/// in two, the literals that the second part begins with.
fn inner_literal(hir: &Hir) -> Option<Prefilter> {
    let mut hir = hir;
    while let HirKind::Capture(capture) = hir.kind() {
        hir = &capture.sub;
    }
    let HirKind::Concat(parts) = hir.kind() else { return None };
    (1..parts.len())
        .take(MAX_INNER_PARTS)
        .filter_map(|from| {
            let rest = Hir::concat(parts[from..].to_vec());
            Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &rest)
        })
        .filter(Prefilter::is_fast)
        .max_by_key(Prefilter::max_needle_len)
}

/// The error of a search in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamError {
    /// The pattern needs a Unicode word boundary next to a non-ASCII character, which only a
    /// simulation can decide.
    Quit,
    /// The pattern needs too many states on this text.
    TooCostly,
}

impl From<MatchError> for StreamError {
    fn from(error: MatchError) -> Self {
        match error.kind() {
            MatchErrorKind::Quit { .. } => Self::Quit,
            _ => Self::TooCostly,
        }
    }
}

/// Finds the end of the leftmost match in a stream.
pub(crate) struct ForwardSearch<'e> {
    engine: &'e Engine,
    /// Whether to stop at the first end of any match.
    earliest: bool,
    state: LazyStateID,
    /// The number of bytes before the current window.
    read: u64,
    end: Option<u64>,
}

impl<'e> ForwardSearch<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        scratch: &mut Scratch,
        earliest: bool,
    ) -> Result<Self, StreamError> {
        reset_fill_count(&mut scratch.forward, &engine.forward);
        let state = start(&engine.forward, &mut scratch.forward, None)?;
        Ok(Self { engine, earliest, state, read: 0, end: None })
    }

    /// Searches the next window. Breaks if the rest of the text cannot change the result.
    pub(crate) fn feed(
        &mut self,
        scratch: &mut Scratch,
        window: &[u8],
    ) -> Result<ControlFlow<()>, StreamError> {
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
            self.state = dfa
                .next_state(cache, self.state, window[at])
                .map_err(|_| StreamError::TooCostly)?;
            if self.state.is_tagged() {
                if self.state.is_match() {
                    // The DFA reports a match one byte after its end.
                    self.end = Some(self.read + at as u64);
                    if self.earliest {
                        return Ok(ControlFlow::Break(()));
                    }
                } else if self.state.is_dead() {
                    return Ok(ControlFlow::Break(()));
                } else if self.state.is_quit() {
                    return Err(StreamError::Quit);
                }
            }
            at += 1;
        }
        self.read += window.len() as u64;
        Ok(ControlFlow::Continue(()))
    }

    /// The earliest possible start of the next match; `None` without a prefilter. A literal may begin
    /// at the end of the window and continue in the next.
    fn candidate(&self, window: &[u8], at: usize) -> Option<usize> {
        let prefix = self.engine.prefix.as_ref()?;
        if let Some(span) = prefix.find(window, Span::from(at..window.len())) {
            return Some(span.start);
        }
        let cut = prefix.max_needle_len().saturating_sub(1);
        Some(window.len().saturating_sub(cut).max(at))
    }

    /// Ends the text and returns the end of the match.
    pub(crate) fn finish(mut self, scratch: &mut Scratch) -> Result<Option<u64>, StreamError> {
        if !(self.state.is_dead() || self.earliest && self.end.is_some()) {
            let (dfa, cache) = (&self.engine.forward, &mut scratch.forward);
            let state =
                dfa.next_eoi_state(cache, self.state).map_err(|_| StreamError::TooCostly)?;
            if state.is_match() {
                self.end = Some(self.read);
            }
        }
        Ok(self.end)
    }
}

/// Finds the start of a match in a stream that is read backwards from its end.
pub(crate) struct BackwardSearch<'e> {
    dfa: &'e DFA,
    state: LazyStateID,
    /// The offset of the last byte that was searched.
    at: u64,
    start: Option<u64>,
}

impl<'e> BackwardSearch<'e> {
    /// Starts at `end`, the end of a match; `next` is the byte after it.
    pub(crate) fn new(
        engine: &'e Engine,
        scratch: &mut Scratch,
        end: u64,
        next: Option<u8>,
    ) -> Result<Self, StreamError> {
        let (dfa, cache) = (&engine.reverse, &mut scratch.reverse);
        reset_fill_count(cache, dfa);
        let input = Input::new(next.as_slice()).range(..0).anchored(Anchored::Yes);
        let state = dfa.start_state_reverse(cache, &input)?;
        Ok(Self { dfa, state, at: end, start: None })
    }

    /// Searches the window before the last one. Breaks if earlier bytes cannot change the result.
    pub(crate) fn feed(
        &mut self,
        scratch: &mut Scratch,
        window: &[u8],
    ) -> Result<ControlFlow<()>, StreamError> {
        let cache = &mut scratch.reverse;
        for byte in window.iter().rev() {
            self.state = self
                .dfa
                .next_state(cache, self.state, *byte)
                .map_err(|_| StreamError::TooCostly)?;
            if self.state.is_tagged() {
                if self.state.is_match() {
                    self.start = Some(self.at);
                } else if self.state.is_dead() {
                    return Ok(ControlFlow::Break(()));
                } else if self.state.is_quit() {
                    return Err(StreamError::Quit);
                }
            }
            self.at -= 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Ends at the beginning of the text and returns the start of the match.
    pub(crate) fn finish(mut self, scratch: &mut Scratch) -> Result<Option<u64>, StreamError> {
        if !self.state.is_dead() {
            let cache = &mut scratch.reverse;
            let state =
                self.dfa.next_eoi_state(cache, self.state).map_err(|_| StreamError::TooCostly)?;
            if state.is_match() {
                self.start = Some(self.at);
            }
        }
        Ok(self.start)
    }
}

/// The start state after the byte `before`.
fn start(dfa: &DFA, cache: &mut Cache, before: Option<u8>) -> Result<LazyStateID, StreamError> {
    let text = before.as_slice();
    Ok(dfa.start_state_forward(cache, &Input::new(text).range(text.len()..))?)
}
