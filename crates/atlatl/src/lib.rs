//! Parts of the program `atlatl` that its tests and other programs can use.

pub mod clients;
pub mod stats;

/// Decisions of the hooks of coding agents that need no terminal, environment or network.
pub mod hook {
    pub mod permission;
    pub mod rewrite;
}
