//! Delivered: what the client gets.

use lro_core::threshold::Decision;
use lro_spool::Listed;

use crate::truncated::Truncated;

/// What the client gets for a result. That storing failed is one of the outcomes, not an error:
/// the operation itself succeeded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivered {
    /// The result as it is.
    Inline(Decision),
    /// A descriptor in its place; the result is stored.
    Offloaded(Box<Offloaded>),
    /// Spec L3: it could not be stored; as many of the memories as fit.
    Truncated(Truncated),
    /// It could not be stored, and belongs to someone else, who alone has it: as it is.
    PassedOn(Warning),
}

/// A result that is stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct Offloaded {
    /// The descriptor, as JSON.
    pub descriptor: String,
    /// Where it is stored, and what is known of it.
    pub listed: Listed,
}

/// What the client should be told besides: our own words and numbers, nothing from a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(pub(crate) String);

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
