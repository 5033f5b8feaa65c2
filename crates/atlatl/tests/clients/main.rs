//! Configuration files of real clients, changed and changed back.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod identity;
mod launched;
mod samples;

use atlatl_lro::clients::{
    CommandFormat, EntryKind, InstallOptions, Notation, ServerEntry, ServerTable, UrlTransport,
    entries,
};

pub(crate) const SERVERS: ServerTable = ServerTable {
    notation: Notation::Json,
    servers: &["mcpServers"],
    shape: CommandFormat::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
pub(crate) const CODEX: ServerTable = ServerTable {
    notation: Notation::Toml,
    servers: &["mcp_servers"],
    shape: CommandFormat::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
pub(crate) const OPENCODE: ServerTable = ServerTable {
    notation: Notation::Json,
    servers: &["mcp"],
    shape: CommandFormat::Together,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};

/// All servers behind the proxy, and one that offers the tools.
pub(crate) fn wish() -> InstallOptions {
    let mut wish = InstallOptions::new("/usr/local/bin/atlatl");
    wish.flags = vec!["--tools".to_owned(), "separate".to_owned()];
    wish.add = vec![("atlatl".to_owned(), vec!["tools".to_owned()])];
    wish
}

/// The same as this version writes it, from a program that took the place of the other.
pub(crate) fn wish_with_scopes() -> InstallOptions {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut wish = InstallOptions::with_command(words("uvx atlatl-lro"));
    wish.flags = words("--tools separate");
    wish.flags_with_cwd = words("--scope dir:~");
    wish.add = vec![("atlatl".to_owned(), words("tools --scope dir:. --scope dir:~"))];
    wish.stale_programs = vec!["/usr/local/bin/atlatl".to_owned()];
    wish
}

/// What runs, by name.
pub(crate) fn words(text: &str, place: &ServerTable) -> Vec<(String, Vec<String>)> {
    let of = |ServerEntry { name, kind }: ServerEntry| match kind {
        EntryKind::Program(words) | EntryKind::Ours(words) => Some((name, words)),
        _ => None,
    };
    entries(text, place).unwrap().into_iter().filter_map(of).collect()
}
