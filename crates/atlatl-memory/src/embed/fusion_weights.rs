//! How the vectors of a model are combined with words.

/// How the vectors of a model are combined with words.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct FusionWeights {
    /// The weight of the nearest vector, relative to a perfect match of words.
    pub vector: f64,
    /// The share of a query's words below which a match counts less than proportionally.
    pub knee: f64,
    /// The scripts that the model knows.
    pub scripts: Scripts,
}

/// The weights for a model of which nothing is known. If its cosines are in a narrow band, they
/// hardly differ and words decide.
impl Default for FusionWeights {
    fn default() -> Self {
        Self { vector: 0.35, knee: 0.05, scripts: Scripts::Any }
    }
}

/// The scripts that a model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scripts {
    /// Any, or unknown.
    Any,
    /// Only Latin. Queries in other scripts are ranked by words.
    Latin,
}
