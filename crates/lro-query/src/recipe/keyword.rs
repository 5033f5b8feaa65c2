//! Keyword: `test(…; "i")` without a program.

use crate::pattern::{self, Case, Engine, PatternError, Scratch};

/// A regular expression with the meaning that `jq` gives it, for patterns that both can take.
///
/// Known difference: one character that stands for two when case is ignored (`ss` finds `ß` in
/// `jq`) does not here.
pub(super) struct Keyword {
    engine: Engine,
    /// `jq` lets `$` match before a line break that ends the text.
    dollar: bool,
}

impl Keyword {
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        Ok(Self {
            engine: pattern::for_text(pattern, Case::Ignored)?,
            // Asking twice where `$` is meant literally finds nothing more; `\z` is the one that
            // must not be asked twice.
            dollar: pattern.contains('$') && !pattern.contains(r"\z"),
        })
    }

    pub(super) fn scratch(&self) -> Scratch {
        self.engine.scratch()
    }

    pub(super) fn is_in(&self, text: &[u8], scratch: &mut Scratch) -> Result<bool, PatternError> {
        if self.engine.is_match(scratch, text)? {
            return Ok(true);
        }
        match text.strip_suffix(b"\n") {
            Some(shorter) if self.dollar => self.engine.is_match(scratch, shorter),
            _ => Ok(false),
        }
    }
}
