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
/// The memory server, and the command that explains what it does with a token.
const SERVE_AND_ACCESS: &[&str] = &["serve", "access"];
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
        "Form of a memory result's descriptor: every field of the specification, or the short \
         form.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.recipes",
        Allowed,
        Bool,
        "true",
        "Whether the descriptor of a memory result lists the ten jq recipes; without them, its \
         guidance has other examples.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.preview_tokens",
        Allowed,
        U32 { min: 0 },
        "300",
        "Tokens for the first records in the descriptor, each of them complete; 0 for none.",
    )
    .for_commands(OFFLOAD),
    row(
        "prompt.offload.reply_tokens",
        Allowed,
        U32 { min: 1 },
        "1600",
        "Maximum number of tokens in the reply to one extraction.",
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
        "A result of any other tool is offloaded if it has at least this many tokens.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.ttl_seconds",
        Allowed,
        U64 { min: 1 },
        "86400",
        "How long such a result is kept, in seconds.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.dir",
        TrustRequired,
        Text,
        r#""""#,
        "The private directory that has a subdirectory for each scope.",
    )
    .or_derived("{state dir}/results")
    .for_commands(STORE),
    row(
        "proxy.tools",
        TrustRequired,
        Choice(&["all", "separate", "none"]),
        r#""all""#,
        "Who offers the extraction tools: this process, `atlatl tools` (\"separate\"), or no program; \
         then the guidance in descriptors is for a shell.",
    )
    .for_commands(&["proxy", "serve"]),
    row(
        "proxy.policy",
        Allowed,
        ConfigValueKind::Policies,
        "{}",
        "Policies of single tools, by a glob on the tool's name: \"inline\", \"offload\" or { \
         threshold_tokens = n }.",
    )
    .for_commands(OFFLOAD),
    row(
        "proxy.references",
        TrustRequired,
        Choice(&["off", "same-server", "any"]),
        r#""same-server""#,
        "Which stored results may be passed by reference in the arguments of another tool.",
    )
    .for_commands(PROXY),
    row(
        "proxy.path_map.from",
        TrustRequired,
        Text,
        r#""""#,
        "Path prefix of the proxy that clients see as `to`; needs `to`.",
    )
    .for_commands(PROXY),
    row(
        "proxy.path_map.to",
        TrustRequired,
        Text,
        r#""""#,
        "Path prefix that clients see instead of `from`.",
    )
    .for_commands(PROXY),
    row(
        "proxy.headers",
        TrustRequired,
        Secrets,
        "[]",
        "Headers for servers over HTTP, each \"ORIGIN NAME: VALUE\", sent only to that origin; \
         ${NAME} is replaced by an environment variable.",
    )
    .for_commands(PROXY),
    row(
        "proxy.silence_seconds",
        TrustRequired,
        U64 { min: 0 },
        "300",
        "How long a server over HTTP may send nothing while a request is pending, in seconds; 0 \
         for no limit.",
    )
    .for_commands(PROXY),
    row(
        "spool.max_bytes",
        TrustRequired,
        U64 { min: 1 },
        "10737418240",
        "Maximum size of stored results in one directory, in bytes.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.max_files",
        TrustRequired,
        U64 { min: 1 },
        "10000",
        "Maximum number of stored results in one directory.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.min_free_bytes",
        TrustRequired,
        U64 { min: 0 },
        "1073741824",
        "Free space in bytes that must remain on the file system after storing a result.",
    )
    .for_commands(OFFLOAD),
    row(
        "spool.readable_by",
        TrustRequired,
        Choice(&["owner", "group"]),
        r#""owner""#,
        "Who may read stored files: only their owner, or also its group.",
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
        "Time limit for one query of a model, in milliseconds.",
    )
    .for_commands(TOOLS),
    row(
        "query.memory_bytes",
        TrustRequired,
        U64 { min: 0 },
        "0",
        "Memory limit for one filter or statement, in bytes; 0 for a limit that grows with the \
         file.",
    )
    .or_derived("256 MiB + 8 × file")
    .for_commands(EXTRACT),
    row(
        "query.output_bytes",
        TrustRequired,
        U64 { min: 1 },
        "1048576",
        "Output limit for one filter or statement, in bytes.",
    )
    .for_commands(EXTRACT),
    row(
        "query.workers",
        TrustRequired,
        U32 { min: 1 },
        "4",
        "Maximum number of filters and statements that run at the same time.",
    )
    .for_commands(EXTRACT),
    row(
        "memory.store",
        TrustRequired,
        Locator(&["", "sqlite:", "postgres://"]),
        r#""""#,
        "The database that contains the memories: \"sqlite:{file}\" or \
         \"postgres://user@host/database\".",
    )
    .or_derived("sqlite:{data dir}/memory.db")
    .for_commands(MEMORY),
    row(
        "memory.tenant",
        TrustRequired,
        Text,
        r#""default""#,
        "The tenant of the memories in a PostgreSQL database.",
    )
    .for_commands(MEMORY),
    row(
        "memory.connections",
        TrustRequired,
        U32 { min: 1 },
        "8",
        "Maximum number of connections to a PostgreSQL database; a server for many tenants needs at \
         least 4.",
    )
    .for_commands(MEMORY),
    row(
        "memory.prepared_statements",
        TrustRequired,
        Choice(&["auto", "on", "off"]),
        r#""auto""#,
        "Whether statements are prepared once per connection to a PostgreSQL database: unless a \
         connection pooler is detected, always, or never.",
    )
    .for_commands(MEMORY),
    row(
        "memory.allow_plain",
        TrustRequired,
        Bool,
        "false",
        "Whether to allow unencrypted connections to PostgreSQL on another machine; memories are \
         then readable on the network.",
    )
    .for_commands(MEMORY),
    row(
        "memory.password_file",
        TrustRequired,
        Text,
        r#""""#,
        "The file with the password for a PostgreSQL database, which only its owner may be able to \
         read, read for each connection unless the URL, PGPASSWORD or PGPASSWORD_FILE has one.",
    )
    .for_commands(MEMORY),
    row(
        "memory.password_command",
        TrustRequired,
        List,
        "[]",
        "A program and its arguments, run for each connection, that prints the password for a \
         PostgreSQL database; it is used like memory.password_file.",
    )
    .for_commands(MEMORY),
    row(
        "memory.embedder",
        TrustRequired,
        Locator(&["auto", "none", "openai:", "local:"]),
        r#""auto""#,
        "The embedder of memories: \"auto\" (the installed model, if there is one), \"none\", \
         \"openai:{url}#{model}\" or \"local:{directory}\".",
    )
    .for_commands(MEMORY),
    row(
        "server.listen",
        TrustRequired,
        Text,
        r#""""#,
        "The address and port, or unix:PATH, of the HTTP server; empty for no HTTP.",
    )
    .for_commands(SERVE),
    row(
        "server.allowed_hosts",
        TrustRequired,
        List,
        "[]",
        "Accepted Host headers, in addition to those of this machine.",
    )
    .for_commands(HTTP),
    row(
        "server.allowed_origins",
        TrustRequired,
        List,
        "[]",
        "Accepted Origin headers, in addition to those of the listener and of server.public_url.",
    )
    .for_commands(HTTP),
    row(
        "server.auth",
        TrustRequired,
        Secret,
        r#""""#,
        "How HTTP clients authenticate: empty for this user's token on a port, and for the user id \
         on a Unix socket; \"token-file:PATH\", a file with one bearer token per line; for `atlatl \
         serve` with many tenants \"keys\", \"oauth\" for the tokens of server.issuers or \
         \"oauth:ISSUER\" for those of one issuer, or keys and one of these, separated by a comma.",
    )
    .for_commands(HTTP),
    row(
        "server.public_url",
        TrustRequired,
        Text,
        r#""""#,
        "The URL of the server for clients, used in links to stored results and as the audience of \
         tokens: \"https://memory.example\".",
    )
    .or_derived("http://{server.listen}")
    .for_commands(SERVE),
    row(
        "server.drain_seconds",
        TrustRequired,
        U64 { min: 0 },
        "0",
        "How long a server keeps answering after it is stopped, in seconds; /readyz then reports \
         that it is not ready.",
    )
    .for_commands(SERVE),
    row(
        "server.audit",
        TrustRequired,
        Text,
        r#""""#,
        "Audit log: a file with one line per change and per rejected request; empty for none.",
    )
    .for_commands(SERVE),
    row(
        "server.tenant_claim",
        TrustRequired,
        Text,
        r#""tenant""#,
        "The claim of a token that names the tenant, for \"oauth:ISSUER\".",
    )
    .for_commands(SERVE),
    row(
        "server.issuers",
        TrustRequired,
        ConfigValueKind::Issuers,
        "{}",
        "The issuers whose tokens \"oauth\" accepts, by a name for logs, with the rules that map claims \
         to tenants and scopes.",
    )
    .for_commands(SERVE_AND_ACCESS),
    row(
        "server.database_ms_per_second",
        TrustRequired,
        U32 { min: 0 },
        "0",
        "Database time that one tenant may use on average, in milliseconds per second, on a server \
         for many tenants; 0 for no limit.",
    )
    .for_commands(SERVE),
    row(
        "server.admin.listen",
        TrustRequired,
        Text,
        r#""""#,
        "The address and port, or unix:PATH, of health, readiness, metrics and version, which need no key and \
         which only probes and Prometheus should reach; empty for none.",
    )
    .for_commands(SERVE),
    row(
        "server.log.format",
        TrustRequired,
        Choice(&["text", "json"]),
        r#""text""#,
        "The form of the lines that an HTTP server writes to standard error.",
    )
    .for_commands(SERVE),
    row(
        "server.log.level",
        TrustRequired,
        Text,
        r#""info""#,
        "Which lines an HTTP server writes: error, warn, info, debug or trace, or levels by target as in \
         RUST_LOG, which has precedence: \"info,atlatl::request=debug\" adds a line per request.",
    )
    .for_commands(SERVE),
    row(
        "ledger.path",
        TrustRequired,
        Text,
        r#""""#,
        "The ledger: a file with one line of figures per offload and extraction, without contents.",
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
                "prompt.offload.recipes",
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
