//! Journal: what was changed in a file, so that it can be changed back.

use serde::{Deserialize, Serialize};

/// What was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Servers that run behind the proxy now.
    pub wrapped: Vec<Wrapped>,
    /// Servers at a URL that are asked through the proxy now.
    #[serde(default)]
    pub replaced: Vec<Replaced>,
    /// Servers that were added.
    pub added: Vec<Added>,
}

/// A server at a URL that is asked through the proxy now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// What the client calls it.
    pub name: String,
    /// Its entry before.
    pub original: String,
    /// Its entry now.
    pub written: String,
}

/// A server that runs behind the proxy now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapped {
    /// What the client calls it.
    pub name: String,
    /// Its program before, as it was spelled; `None` where the list began with it.
    pub command: Option<String>,
    /// What stands there now.
    pub written: String,
    /// What was put in at the beginning of the arguments.
    pub inserted: String,
    /// What was put in behind the program, where there were no arguments.
    pub added_args: Option<String>,
}

/// A server that was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// What the client calls it.
    pub name: String,
    /// What was put in.
    pub inserted: String,
}

impl Journal {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.wrapped.is_empty() && self.replaced.is_empty() && self.added.is_empty()
    }
}
