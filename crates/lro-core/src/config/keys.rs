//! The key table of the configuration.

use super::key::{
    Key, Kind,
    ProjectUse::{self, Allowed, TrustRequired},
};

/// The commands which act on the keys of deciding and describing today.
const OFFLOAD: &[&str] = &["offload", "proxy", "serve"];
/// Those which act on where results are stored.
const STORE: &[&str] = &["offload", "results", "extract", "proxy", "tools", "serve"];
/// Those which write or read the ledger.
const LEDGER: &[&str] = &["offload", "results", "extract", "proxy", "tools", "serve", "stats"];
/// Those which act on the bounds of a query.
const EXTRACT: &[&str] = &["extract", "proxy", "tools", "serve"];
/// Those which offer tools to a model.
const TOOLS: &[&str] = &["proxy", "tools", "serve"];
/// Those which act on memories.
const MEMORY: &[&str] = &["memory", "serve"];
/// The relay alone.
const PROXY: &[&str] = &["proxy"];
/// The memory server alone.
const SERVE: &[&str] = &["serve"];
/// Those which can be reached over HTTP.
const HTTP: &[&str] = &["proxy", "serve"];

/// Every key, in the order of the reference.
pub const KEYS: &[Key] = &[
    row(
        "prompt.offload.enabled",
        Allowed,
        Kind::Bool,
        "true",
        "Whether large results are offloaded at all.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.threshold_tokens",
        Allowed,
        Kind::U32 { min: 1 },
        "1600",
        "A memory result estimated above this many tokens is offloaded.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.ttl_seconds",
        Allowed,
        Kind::U64 { min: 1 },
        "3600",
        "How long an offloaded memory result is kept, in seconds.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.output_dir",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "The directory that offloaded results are written to.",
    )
    .or_derived("the system's temporary directory")
    .for_commands(STORE),
    row(
        "prompt.offload.descriptor",
        Allowed,
        Kind::Choice(&["full", "compact"]),
        r#""full""#,
        "How much the descriptor of a memory result says: every field of the specification, or the short form.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.preview_tokens",
        Allowed,
        Kind::U32 { min: 0 },
        "300",
        "Room in the descriptor for the first records, shown whole; 0 shows none.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.reply_tokens",
        Allowed,
        Kind::U32 { min: 1 },
        "1600",
        "The most tokens that one extraction may answer with.",
    )
    .for_commands(TOOLS),
    row(
        "prompt.offload.shared_filesystem",
        TrustRequired,
        Kind::Bool,
        "false",
        "Whether HTTP clients can open files in the output directory themselves.",
    )
    .for_commands(SERVE),
    row(
        "proxy.threshold_tokens",
        Allowed,
        Kind::U32 { min: 1 },
        "10000",
        "A result which is no memory operation is offloaded from this many tokens on.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.ttl_seconds",
        Allowed,
        Kind::U64 { min: 1 },
        "86400",
        "How long such a result is kept, in seconds; the default is a day of work.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.dir",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "The private directory under which each scope has its folder.",
    )
    .or_derived("{state dir}/results")
    .for_commands(STORE),
    row(
        "proxy.tools",
        TrustRequired,
        Kind::Choice(&["all", "none"]),
        r#""all""#,
        "Whether the proxy offers the extraction tools itself or leaves them to a server of their own.",
    )
    .for_commands(&["proxy", "serve"]),
    row(
        "proxy.policy",
        Allowed,
        Kind::Policies,
        "{}",
        "What to do with single tools, by a glob over the tool's name: \"inline\", \"offload\" or { threshold_tokens = n }.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.references",
        TrustRequired,
        Kind::Choice(&["off", "same-server", "any"]),
        r#""same-server""#,
        "Which stored results may be named in the arguments of another tool.",
    )
    .for_commands(PROXY),
    row(
        "proxy.path_map.from",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "The beginning of a path, as the proxy sees it, which the client sees elsewhere; needs `to`.",
    )
    .for_commands(PROXY),
    row(
        "proxy.path_map.to",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "What the client sees in place of `from`.",
    )
    .for_commands(PROXY),
    row(
        "proxy.headers",
        TrustRequired,
        Kind::Secrets,
        "[]",
        "Headers for servers over HTTP, each \"ORIGIN NAME: VALUE\", sent to that origin alone; ${NAME} is replaced by an environment variable.",
    )
    .for_commands(PROXY),
    row(
        "proxy.silence_seconds",
        TrustRequired,
        Kind::U64 { min: 0 },
        "300",
        "How long a server over HTTP may say nothing while a request waits; 0 for as long as it likes.",
    )
    .for_commands(PROXY),
    row(
        "spool.max_bytes",
        TrustRequired,
        Kind::U64 { min: 1 },
        "10737418240",
        "The most bytes that stored results may take up, in one directory.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.max_files",
        TrustRequired,
        Kind::U64 { min: 1 },
        "10000",
        "The most results that may be stored, in one directory.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.min_free_bytes",
        TrustRequired,
        Kind::U64 { min: 0 },
        "1073741824",
        "What storing a result must leave free on the file system.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.readable_by",
        TrustRequired,
        Kind::Choice(&["owner", "group"]),
        r#""owner""#,
        "Who may read stored files: their owner alone, or its group as well.",
    )
    .for_commands(STORE),
    row(
        "spool.url",
        TrustRequired,
        Kind::Locator(&["", "s3://", "gs://", "az://"]),
        r#""""#,
        "Object storage for the results of a server over HTTP; empty keeps them in a directory.",
    )
    .for_commands(SERVE),
    row(
        "query.wall_ms",
        TrustRequired,
        Kind::U64 { min: 1 },
        "5000",
        "The most time that one question of a model may take, in milliseconds.",
    )
    .for_commands(TOOLS),
    row(
        "query.memory_bytes",
        TrustRequired,
        Kind::U64 { min: 0 },
        "0",
        "The most memory that one filter may use; 0 lets it grow with the file.",
    )
    .or_derived("256 MiB + 8 × file")
    .for_commands(EXTRACT),
    row(
        "query.output_bytes",
        TrustRequired,
        Kind::U64 { min: 1 },
        "1048576",
        "The most bytes that one filter may give back.",
    )
    .for_commands(EXTRACT),
    row(
        "query.workers",
        TrustRequired,
        Kind::U32 { min: 1 },
        "4",
        "How many filters may run at the same time.",
    )
    .for_commands(EXTRACT),
    row(
        "memory.store",
        TrustRequired,
        Kind::Locator(&["", "sqlite:", "postgres://"]),
        r#""""#,
        "The database that memories are kept in: \"sqlite:{file}\" or \"postgres://user@host/database\".",
    )
    .or_derived("sqlite:{data dir}/memory.db")
    .for_commands(MEMORY),
    row(
        "memory.tenant",
        TrustRequired,
        Kind::Text,
        r#""default""#,
        "Whose memories are meant in a PostgreSQL database, which keeps those of many apart.",
    )
    .for_commands(MEMORY),
    row(
        "memory.connections",
        TrustRequired,
        Kind::U32 { min: 1 },
        "8",
        "The most connections to a PostgreSQL database at a time.",
    )
    .for_commands(MEMORY),
    row(
        "memory.allow_plain",
        TrustRequired,
        Kind::Bool,
        "false",
        "Whether a PostgreSQL database beyond this machine may be reached without encryption, so that memories are readable on the network.",
    )
    .for_commands(MEMORY),
    row(
        "memory.embedder",
        TrustRequired,
        Kind::Locator(&["none", "openai:", "local:"]),
        r#""none""#,
        "What turns memories into vectors: nothing, \"openai:{url}#{model}\" or \"local:{directory}\".",
    )
    .for_commands(MEMORY),
    row(
        "server.listen",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "The address and port, or unix:PATH, that HTTP is served on; empty serves none.",
    )
    .for_commands(SERVE),
    row(
        "server.allowed_hosts",
        TrustRequired,
        Kind::List,
        "[]",
        "The Host headers that are answered, besides those of this machine.",
    )
    .for_commands(HTTP),
    row(
        "server.allowed_origins",
        TrustRequired,
        Kind::List,
        "[]",
        "The Origin headers that are answered, besides those of the listener itself and of server.public_url.",
    )
    .for_commands(HTTP),
    row(
        "server.auth",
        TrustRequired,
        Kind::Secret,
        r#""""#,
        "How HTTP clients prove who they are: empty for the token of this user on a port, and for the user id on a Unix socket; \"token-file:PATH\", a file with a bearer token a line; for `atlatl serve` with many tenants \"keys\", \"oauth:ISSUER\" or both, a comma between.",
    )
    .for_commands(HTTP),
    row(
        "server.public_url",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "Where clients reach the server, for links to stored results and as what tokens are for: \"https://memory.example\".",
    )
    .or_derived("http://{server.listen}")
    .for_commands(SERVE),
    row(
        "server.drain_seconds",
        TrustRequired,
        Kind::U64 { min: 0 },
        "0",
        "How long a server that is stopped goes on answering while /readyz says that it is not ready.",
    )
    .for_commands(SERVE),
    row(
        "server.audit",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "A file to which a line is added for each change and for everyone who is not let in; empty for none.",
    )
    .for_commands(SERVE),
    row(
        "server.tenant_claim",
        TrustRequired,
        Kind::Text,
        r#""tenant""#,
        "The claim of a token that names the tenant.",
    )
    .for_commands(SERVE),
    row(
        "ledger.path",
        TrustRequired,
        Kind::Text,
        r#""""#,
        "The file with one line of figures per offload and extraction, never with contents.",
    )
    .or_derived("{state dir}/ledger.jsonl")
    .for_commands(LEDGER),
    row(
        "ledger.retention_days",
        TrustRequired,
        Kind::U32 { min: 1 },
        "90",
        "How long a line of the ledger is kept, in days.",
    )
    .for_commands(STORE),
];

/// A row with everything that has no default. `project` is one of them on purpose: a new key
/// does not compile until its author has decided whether a cloned repository may set it.
const fn row(
    name: &'static str,
    project: ProjectUse,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, project, kind, default, derived: None, meaning, read_by: &[] }
}

impl Key {
    const fn or_derived(mut self, how: &'static str) -> Self {
        self.derived = Some(how);
        self
    }

    const fn for_commands(mut self, commands: &'static [&'static str]) -> Self {
        self.read_by = commands;
        self
    }
}

/// The row of the key called `name`.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Whether `name` is a section: something that keys are in, such as `prompt.offload`.
pub fn is_section(name: &str) -> bool {
    sections().any(|section| section == name)
}

/// Every section, once per key in it.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|key| key.name.match_indices('.').map(|(dot, _)| &key.name[..dot]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g01_a_project_file_sets_only_what_is_shown_and_for_how_long() {
        let allowed: Vec<_> =
            KEYS.iter().filter(|key| key.project == Allowed).map(|key| key.name).collect();
        assert_eq!(
            allowed,
            [
                "prompt.offload.enabled",
                "prompt.offload.threshold_tokens",
                "prompt.offload.ttl_seconds",
                "prompt.offload.descriptor",
                "prompt.offload.preview_tokens",
                "prompt.offload.reply_tokens",
                "proxy.threshold_tokens",
                "proxy.ttl_seconds",
                "proxy.policy",
            ]
        );
        // Free text is a path, an address, a name or a secret.
        for key in KEYS.iter().filter(|key| key.project == Allowed) {
            let closed = !matches!(
                key.kind,
                Kind::Text | Kind::Secret | Kind::Locator(_) | Kind::List | Kind::Secrets
            );
            assert!(closed, "{}", key.name);
        }
    }
}
