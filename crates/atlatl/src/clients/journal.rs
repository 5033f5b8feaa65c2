//! The journal of changes to a client's configuration file.

use serde::{Deserialize, Serialize};

/// The changes to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Servers that were put behind the proxy.
    pub wrapped: Vec<WrappedEntry>,
    /// Servers at a URL that were put behind the proxy.
    #[serde(default)]
    pub replaced: Vec<ReplacedEntry>,
    /// Servers that were added.
    pub added: Vec<AddedEntry>,
}

/// The changed entry of a server at a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedEntry {
    /// The client's name for the server.
    pub name: String,
    /// The original entry.
    pub original: String,
    /// The entry that replaced it.
    pub written: String,
}

/// The changed entry of a server that is a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrappedEntry {
    /// The client's name for the server.
    pub name: String,
    /// The original program in its original spelling; `None` if `command` is a list.
    pub command: Option<String>,
    /// The program that replaced it.
    pub written: String,
    /// The text inserted before the arguments.
    pub inserted: String,
    /// The text inserted after the program, if there were no arguments.
    pub added_args: Option<String>,
}

/// An added entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedEntry {
    /// The client's name for the server.
    pub name: String,
    /// The inserted text.
    pub inserted: String,
}

impl Journal {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.wrapped.is_empty() && self.replaced.is_empty() && self.added.is_empty()
    }
}
