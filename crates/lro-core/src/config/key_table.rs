//! The table of all configuration keys.

use super::key::ConfigKey;
use super::key::ConfigValueKind::{
    self, Bool, Choice, List, Locator, Secret, Secrets, Text, U32, U64,
};
use super::key::ProjectUse::{self, Allowed, TrustRequired};
use crate::suggest::{self, dotted_name_similarity};

/// Commands that offload results.
const OFFLOAD: &[&str] = &["offload", "proxy", "serve"];
/// Commands that read or write stored results.
const STORE: &[&str] = &["offload", "results", "extract", "proxy", "tools", "serve"];
/// Commands that write or read the ledger.
const LEDGER: &[&str] = &["offload", "results", "extract", "proxy", "tools", "serve", "stats"];
/// Commands that run queries.
const EXTRACT: &[&str] = &["extract", "proxy", "tools", "serve"];
/// Commands that offer tools to a model.
const TOOLS: &[&str] = &["proxy", "tools", "serve"];
/// Commands that use memories.
const MEMORY: &[&str] = &["memory", "serve"];
/// The proxy.
const PROXY: &[&str] = &["proxy"];
/// The memory server.
const SERVE: &[&str] = &["serve"];
/// Commands that serve HTTP.
const HTTP: &[&str] = &["proxy", "serve"];

/// Every key, in the order of the reference.
pub const KEYS: &[ConfigKey] = &[
    row(
        "prompt.offload.enabled",
        Allowed,
        Bool,
        "true",
        "Whether large results are offloaded at all.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.threshold_tokens",
        Allowed,
        U32 { min: 1 },
        "1600",
        "A memory result estimated above this many tokens is offloaded.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.ttl_seconds",
        Allowed,
        U64 { min: 1 },
        "3600",
        "How long an offloaded memory result is kept, in seconds.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.output_dir",
        TrustRequired,
        Text,
        r#""""#,
        "The directory that offloaded results are written to.",
    )
    .or_derived("the system's temporary directory")
    .for_commands(STORE),
    row(
        "prompt.offload.descriptor",
        Allowed,
        Choice(&["full", "compact"]),
        r#""full""#,
        "How much the descriptor of a memory result says: every field of the specification, or the short form.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.preview_tokens",
        Allowed,
        U32 { min: 0 },
        "300",
        "Room in the descriptor for the first records, shown whole; 0 shows none.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.reply_tokens",
        Allowed,
        U32 { min: 1 },
        "1600",
        "The most tokens that one extraction may answer with.",
    )
    .for_commands(TOOLS),
    row(
        "prompt.offload.shared_filesystem",
        TrustRequired,
        Bool,
        "false",
        "Whether HTTP clients can open files in the output directory themselves.",
    )
    .for_commands(SERVE),
    row(
        "proxy.threshold_tokens",
        Allowed,
        U32 { min: 1 },
        "10000",
        "A result which is no memory operation is offloaded from this many tokens on.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.ttl_seconds",
        Allowed,
        U64 { min: 1 },
        "86400",
        "How long such a result is kept, in seconds; the default is a day of work.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.dir",
        TrustRequired,
        Text,
        r#""""#,
        "The private directory under which each scope has its folder.",
    )
    .or_derived("{state dir}/results")
    .for_commands(STORE),
    row(
        "proxy.tools",
        TrustRequired,
        Choice(&["all", "none"]),
        r#""all""#,
        "Whether the proxy offers the extraction tools itself or leaves them to a server of their own.",
    )
    .for_commands(&["proxy", "serve"]),
    row(
        "proxy.policy",
        Allowed,
        ConfigValueKind::Policies,
        "{}",
        "What to do with single tools, by a glob over the tool's name: \"inline\", \"offload\" or { threshold_tokens = n }.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.references",
        TrustRequired,
        Choice(&["off", "same-server", "any"]),
        r#""same-server""#,
        "Which stored results may be named in the arguments of another tool.",
    )
    .for_commands(PROXY),
    row(
        "proxy.path_map.from",
        TrustRequired,
        Text,
        r#""""#,
        "The beginning of a path, as the proxy sees it, which the client sees elsewhere; needs `to`.",
    )
    .for_commands(PROXY),
    row(
        "proxy.path_map.to",
        TrustRequired,
        Text,
        r#""""#,
        "What the client sees in place of `from`.",
    )
    .for_commands(PROXY),
    row(
        "proxy.headers",
        TrustRequired,
        Secrets,
        "[]",
        "Headers for servers over HTTP, each \"ORIGIN NAME: VALUE\", sent to that origin alone; ${NAME} is replaced by an environment variable.",
    )
    .for_commands(PROXY),
    row(
        "proxy.silence_seconds",
        TrustRequired,
        U64 { min: 0 },
        "300",
        "How long a server over HTTP may say nothing while a request waits; 0 for as long as it likes.",
    )
    .for_commands(PROXY),
    row(
        "spool.max_bytes",
        TrustRequired,
        U64 { min: 1 },
        "10737418240",
        "The most bytes that stored results may take up, in one directory.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.max_files",
        TrustRequired,
        U64 { min: 1 },
        "10000",
        "The most results that may be stored, in one directory.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.min_free_bytes",
        TrustRequired,
        U64 { min: 0 },
        "1073741824",
        "What storing a result must leave free on the file system.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.readable_by",
        TrustRequired,
        Choice(&["owner", "group"]),
        r#""owner""#,
        "Who may read stored files: their owner alone, or its group as well.",
    )
    .for_commands(STORE),
    row(
        "spool.url",
        TrustRequired,
        Locator(&["", "s3://", "gs://", "az://"]),
        r#""""#,
        "Object storage for the results of a server over HTTP; empty keeps them in a directory.",
    )
    .for_commands(SERVE),
    row(
        "query.wall_ms",
        TrustRequired,
        U64 { min: 1 },
        "5000",
        "The most time that one question of a model may take, in milliseconds.",
    )
    .for_commands(TOOLS),
    row(
        "query.memory_bytes",
        TrustRequired,
        U64 { min: 0 },
        "0",
        "The most memory that one filter may use; 0 lets it grow with the file.",
    )
    .or_derived("256 MiB + 8 × file")
    .for_commands(EXTRACT),
    row(
        "query.output_bytes",
        TrustRequired,
        U64 { min: 1 },
        "1048576",
        "The most bytes that one filter may give back.",
    )
    .for_commands(EXTRACT),
    row(
        "query.workers",
        TrustRequired,
        U32 { min: 1 },
        "4",
        "How many filters may run at the same time.",
    )
    .for_commands(EXTRACT),
    row(
        "memory.store",
        TrustRequired,
        Locator(&["", "sqlite:", "postgres://"]),
        r#""""#,
        "The database that memories are kept in: \"sqlite:{file}\" or \"postgres://user@host/database\".",
    )
    .or_derived("sqlite:{data dir}/memory.db")
    .for_commands(MEMORY),
    row(
        "memory.tenant",
        TrustRequired,
        Text,
        r#""default""#,
        "Whose memories are meant in a PostgreSQL database, which keeps those of many apart.",
    )
    .for_commands(MEMORY),
    row(
        "memory.connections",
        TrustRequired,
        U32 { min: 1 },
        "8",
        "The most connections to a PostgreSQL database at a time.",
    )
    .for_commands(MEMORY),
    row(
        "memory.allow_plain",
        TrustRequired,
        Bool,
        "false",
        "Whether a PostgreSQL database beyond this machine may be reached without encryption, so that memories are readable on the network.",
    )
    .for_commands(MEMORY),
    row(
        "memory.embedder",
        TrustRequired,
        Locator(&["none", "openai:", "local:"]),
        r#""none""#,
        "What turns memories into vectors: nothing, \"openai:{url}#{model}\" or \"local:{directory}\".",
    )
    .for_commands(MEMORY),
    row(
        "server.listen",
        TrustRequired,
        Text,
        r#""""#,
        "The address and port, or unix:PATH, that HTTP is served on; empty serves none.",
    )
    .for_commands(SERVE),
    row(
        "server.allowed_hosts",
        TrustRequired,
        List,
        "[]",
        "The Host headers that are answered, besides those of this machine.",
    )
    .for_commands(HTTP),
    row(
        "server.allowed_origins",
        TrustRequired,
        List,
        "[]",
        "The Origin headers that are answered, besides those of the listener itself and of server.public_url.",
    )
    .for_commands(HTTP),
    row(
        "server.auth",
        TrustRequired,
        Secret,
        r#""""#,
        "How HTTP clients prove who they are: empty for the token of this user on a port, and for the user id on a Unix socket; \"token-file:PATH\", a file with a bearer token a line; for `atlatl serve` with many tenants \"keys\", \"oauth:ISSUER\" or both, a comma between.",
    )
    .for_commands(HTTP),
    row(
        "server.public_url",
        TrustRequired,
        Text,
        r#""""#,
        "Where clients reach the server, for links to stored results and as what tokens are for: \"https://memory.example\".",
    )
    .or_derived("http://{server.listen}")
    .for_commands(SERVE),
    row(
        "server.drain_seconds",
        TrustRequired,
        U64 { min: 0 },
        "0",
        "How long a server that is stopped goes on answering while /readyz says that it is not ready.",
    )
    .for_commands(SERVE),
    row(
        "server.audit",
        TrustRequired,
        Text,
        r#""""#,
        "A file that gets a line for each change and each rejected request; empty for none.",
    )
    .for_commands(SERVE),
    row(
        "server.tenant_claim",
        TrustRequired,
        Text,
        r#""tenant""#,
        "The claim of a token that names the tenant.",
    )
    .for_commands(SERVE),
    row(
        "ledger.path",
        TrustRequired,
        Text,
        r#""""#,
        "The file with one line of figures per offload and extraction, never with contents.",
    )
    .or_derived("{state dir}/ledger.jsonl")
    .for_commands(LEDGER),
    row(
        "ledger.retention_days",
        TrustRequired,
        U32 { min: 1 },
        "90",
        "How long a line of the ledger is kept, in days.",
    )
    .for_commands(STORE),
];

/// A row of the table. `project` has no default on purpose: a new key does not compile until its
/// author decides whether a cloned repository may set it.
const fn row(
    name: &'static str,
    project: ProjectUse,
    kind: ConfigValueKind,
    default: &'static str,
    meaning: &'static str,
) -> ConfigKey {
    ConfigKey { name, project, kind, default, derived: None, meaning, read_by: &[] }
}

impl ConfigKey {
    const fn or_derived(mut self, how: &'static str) -> Self {
        self.derived = Some(how);
        self
    }

    const fn for_commands(mut self, commands: &'static [&'static str]) -> Self {
        self.read_by = commands;
        self
    }
}

/// The key with the name `name`.
pub fn key(name: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// Whether `name` is a section, such as `prompt.offload`.
pub fn is_section(name: &str) -> bool {
    sections().any(|section| section == name)
}

/// The key most similar to `unknown`, unless none is similar.
pub fn nearest(unknown: &str) -> Option<&'static str> {
    suggest::nearest(unknown, KEYS.iter().map(|key| key.name), dotted_name_similarity)
}

/// The section most similar to `unknown`, unless none is similar.
pub fn nearest_section(unknown: &str) -> Option<&'static str> {
    suggest::nearest(unknown, sections(), dotted_name_similarity)
}

/// Every section, once for each of its keys.
fn sections() -> impl Iterator<Item = &'static str> {
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
            let closed = !matches!(key.kind, Text | Secret | Locator(_) | List | Secrets);
            assert!(closed, "{}", key.name);
        }
    }
}
