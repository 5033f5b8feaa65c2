//! Configuration files of real clients, changed and changed back.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod identity;
mod launched;
mod samples;

use atlatl_clients::{Entry, Kind, Notation, Place, Shape, Wish, entries};

pub(crate) const SERVERS: Place = Place {
    notation: Notation::Json,
    servers: &["mcpServers"],
    shape: Shape::Separate,
    project: None,
};
pub(crate) const CODEX: Place = Place {
    notation: Notation::Toml,
    servers: &["mcp_servers"],
    shape: Shape::Separate,
    project: None,
};
pub(crate) const OPENCODE: Place =
    Place { notation: Notation::Json, servers: &["mcp"], shape: Shape::Together, project: None };

/// All servers behind the proxy, and one that offers the tools.
pub(crate) fn wish() -> Wish {
    let mut wish = Wish::new("/usr/local/bin/atlatl");
    wish.flags = vec!["--tools".to_owned(), "none".to_owned()];
    wish.add = vec![("atlatl".to_owned(), vec!["tools".to_owned()])];
    wish
}

/// What runs, by name.
pub(crate) fn words(text: &str, place: &Place) -> Vec<(String, Vec<String>)> {
    let of = |Entry { name, kind }: Entry| match kind {
        Kind::Program(words) | Kind::Ours(words) => Some((name, words)),
        _ => None,
    };
    entries(text, place).unwrap().into_iter().filter_map(of).collect()
}
