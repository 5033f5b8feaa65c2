//! Configuration files of real clients, changed and changed back.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod identity;
mod launched;
mod samples;

use atlatl_lro::clients::{Entry, Kind, Notation, Place, Shape, UrlTransport, Wish, entries};

pub(crate) const SERVERS: Place = Place {
    notation: Notation::Json,
    servers: &["mcpServers"],
    shape: Shape::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
pub(crate) const CODEX: Place = Place {
    notation: Notation::Toml,
    servers: &["mcp_servers"],
    shape: Shape::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
pub(crate) const OPENCODE: Place = Place {
    notation: Notation::Json,
    servers: &["mcp"],
    shape: Shape::Together,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};

/// All servers behind the proxy, and one that offers the tools.
pub(crate) fn wish() -> Wish {
    let mut wish = Wish::new("/usr/local/bin/atlatl");
    wish.flags = vec!["--tools".to_owned(), "none".to_owned()];
    wish.add = vec![("atlatl".to_owned(), vec!["tools".to_owned()])];
    wish
}

/// The same as this version writes it, from a program that took the place of the other.
pub(crate) fn wish_with_scopes() -> Wish {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut wish = Wish::with_command(words("uvx atlatl-lro"));
    wish.flags = words("--tools none");
    wish.flags_with_cwd = words("--scope dir:~");
    wish.add = vec![("atlatl".to_owned(), words("tools --scope dir:. --scope dir:~"))];
    wish.stale_programs = vec!["/usr/local/bin/atlatl".to_owned()];
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
