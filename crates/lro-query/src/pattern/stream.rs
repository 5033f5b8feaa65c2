//! Stream: a search in a text that comes in windows, with memory that does not grow with it.
//!
//! The automata carry all that they know from one byte to the next, so a window is never looked at
//! twice and a match of any length is found, wherever the windows are cut. Says exactly what
//! [`Engine::find`] says of the same text.

use std::ops::ControlFlow;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Anchored, Input, MatchError, MatchErrorKind, Span};

use super::engine::{Engine, Scratch, forget_fills};

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
