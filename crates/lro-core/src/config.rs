//! The configuration: every key, its type, its default and its meaning.
//!
//! There are two views of it. Code reads [`Config`], which is typed and has one struct per section.
//! The key reference, the JSON schema and the error messages are generated from the table [`KEYS`].
//! Tests compare the two, so that neither can gain a key alone.
//!
//! This module has no access to files, the environment or the machine. A default that depends on
//! the machine is empty (or 0) here, and [`ConfigKey::derived`] says how the program fills it in.
//!
//! ```
//! use lro_core::config::{self, Config};
//!
//! let config = Config::from_values([("proxy.threshold_tokens", 5000.into())])?;
//! assert_eq!(config.proxy.threshold_tokens, 5000);
//! assert_eq!(config.prompt.offload.threshold_tokens, 1600);
//!
//! assert_eq!(config::nearest("proxy.treshold"), Some("proxy.threshold_tokens"));
//! # Ok::<(), config::InvalidValues>(())
//! ```

mod issuer;
mod key;
mod key_table;
mod values;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::issuer::{
    AudienceClaim, ClaimCondition, ClaimPath, ClaimTest, IssuerConfig, IssuerRule,
    RESERVED_ISSUER_NAMES, SCOPES,
};
pub use self::key::{ConfigKey, ConfigValueKind, InvalidValue, ProjectUse};
pub use self::key_table::{KEYS, is_section, key, nearest, nearest_section};
pub use self::values::InvalidValues;
use crate::threshold::Policies;

/// The whole configuration. [`Default`] gives the defaults of [`KEYS`].
///
/// Deserializing checks types and key names only. [`Config::validate`] and
/// [`Config::from_values`] also check bounds; they reject a threshold of 0, for example.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// When results are offloaded, and how they are described.
    pub prompt: PromptConfig,
    /// The proxy in front of other MCP servers.
    pub proxy: ProxyConfig,
    /// Storage of large results.
    pub spool: SpoolConfig,
    /// Limits of one query.
    pub query: QueryConfig,
    /// Storage of memories.
    pub memory: MemoryConfig,
    /// The HTTP server.
    pub server: ServerConfig,
    /// The log of offloads and extractions.
    pub ledger: LedgerConfig,
}

/// `[prompt]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PromptConfig {
    /// `[prompt.offload]`.
    pub offload: OffloadConfig,
}

/// `[prompt.offload]`.
// Spec C1: names, types and defaults of the first four fields are the specification's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OffloadConfig {
    /// Whether large results are offloaded at all.
    pub enabled: bool,
    /// Memory results above this estimate are offloaded.
    pub threshold_tokens: u32,
    /// How long an offloaded memory result is kept.
    pub ttl_seconds: u64,
    /// The directory for stored results; empty for the system's temporary directory.
    pub output_dir: String,
    /// The form of the descriptor of a memory result.
    pub descriptor: DescriptorForm,
    /// Whether the descriptor of a memory result lists recipes.
    pub recipes: bool,
    /// Token budget for the first records in the descriptor; 0 for none.
    pub preview_tokens: u32,
    /// Token limit of one extraction reply.
    pub reply_tokens: u32,
    /// Whether HTTP clients can read `output_dir`.
    pub shared_filesystem: bool,
}

impl Default for OffloadConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold_tokens: 1600,
            ttl_seconds: 3600,
            output_dir: String::new(),
            descriptor: DescriptorForm::Full,
            recipes: true,
            preview_tokens: 300,
            reply_tokens: 1600,
            shared_filesystem: false,
        }
    }
}

/// The form of the descriptor of a memory result (R11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DescriptorForm {
    /// All of the specification's fields.
    #[default]
    Full,
    /// Reference, path, summary, and guidance in one line.
    Compact,
}

/// `[proxy]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ProxyConfig {
    /// Results of this many tokens or more are offloaded, unless they are memory operations.
    pub threshold_tokens: u32,
    /// How long such a result is kept.
    pub ttl_seconds: u64,
    /// The private directory with one folder per scope; empty for `results` in the user's state
    /// directory.
    pub dir: String,
    /// Whether the proxy itself offers the extraction tools.
    pub tools: ProxyTools,
    /// Policies for single tools, by glob.
    pub policy: Policies,
    /// Which references another tool's arguments may contain.
    pub references: References,
    /// Rewrites paths for a client that sees the files under another path.
    pub path_map: PathMap,
    /// Headers for servers over HTTP, each with the origin it is sent to.
    pub headers: Vec<String>,
    /// The idle timeout of a server over HTTP while a request is pending.
    pub silence_seconds: u64,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            threshold_tokens: 10_000,
            ttl_seconds: 86_400,
            dir: String::new(),
            tools: ProxyTools::All,
            policy: Policies::default(),
            references: References::SameServer,
            path_map: PathMap::default(),
            headers: Vec::new(),
            silence_seconds: 300,
        }
    }
}

/// Who offers the extraction tools, which the guidance of a descriptor names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProxyTools {
    /// The proxy lists all of them beside the server's own tools.
    #[default]
    All,
    /// The proxy lists none; `atlatl tools` offers them to the same client.
    Separate,
    /// The client has none of them: the guidance is for a shell.
    None,
}

/// Which references another tool's arguments may contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum References {
    /// None: arguments pass unchanged.
    Off,
    /// References to results of the called server.
    #[default]
    SameServer,
    /// References to any result of the scope.
    Any,
}

/// Replaces one path prefix by another, for clients in containers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PathMap {
    /// The prefix as the proxy sees it.
    pub from: String,
    /// The prefix as the client sees it.
    pub to: String,
}

impl PathMap {
    /// `path` as the client sees it. Matches whole components: `/out` is no prefix of `/out2`.
    pub fn client_path(&self, path: String) -> String {
        let Some((from, to)) = self.pair() else { return path };
        let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
        match path.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
            _ => path,
        }
    }

    /// Both prefixes, or `None` if paths are not rewritten.
    pub fn pair(&self) -> Option<(&str, &str)> {
        (!self.from.is_empty() && !self.to.is_empty()).then_some((&*self.from, &*self.to))
    }
}

/// `[spool]`. When a quota is reached, the oldest expired results are removed first; after that,
/// new results are rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SpoolConfig {
    /// The quota in bytes.
    pub max_bytes: u64,
    /// The quota in files.
    pub max_files: u64,
    /// The bytes that must stay free on the file system.
    pub min_free_bytes: u64,
    /// Who may read stored files.
    pub readable_by: ReadableBy,
    /// The object storage to use instead of a directory; empty for a directory.
    pub url: String,
}

/// Who may read stored files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReadableBy {
    /// Only their owner.
    #[default]
    Owner,
    /// Their owner and its group, for a client that runs as another user.
    Group,
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self {
            max_bytes: 10 << 30,
            max_files: 10_000,
            min_free_bytes: 1 << 30,
            readable_by: ReadableBy::default(),
            url: String::new(),
        }
    }
}

/// `[query]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct QueryConfig {
    /// The time limit of one query.
    pub wall_ms: u64,
    /// The memory limit of one filter; 0 for 256 MiB plus eight times the file size.
    pub memory_bytes: u64,
    /// The output limit of one filter.
    pub output_bytes: u64,
    /// The maximum number of filters that run at the same time.
    pub workers: u32,
}

impl Default for QueryConfig {
    fn default() -> Self {
        Self { wall_ms: 5000, memory_bytes: 0, output_bytes: 1 << 20, workers: 4 }
    }
}

/// `[memory]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// `sqlite:{file}` or `postgres://…`; empty for `sqlite:{data dir}/memory.db`.
    pub store: String,
    /// The tenant, in a PostgreSQL database shared by many.
    pub tenant: String,
    /// The maximum number of connections to a PostgreSQL database.
    pub connections: u32,
    /// Whether statements are prepared once per connection to a PostgreSQL database.
    pub prepared_statements: PreparedStatementsMode,
    /// Whether connections to a remote PostgreSQL database may be unencrypted.
    pub allow_plain: bool,
    /// The file with the password of a PostgreSQL database; empty for none.
    pub password_file: String,
    /// The program that prints the password, and its arguments; empty for none.
    pub password_command: Vec<String>,
    /// `auto`, `none`, `openai:{url}#{model}` or `local:{directory}`.
    pub embedder: String,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            store: String::new(),
            tenant: "default".to_owned(),
            connections: 8,
            prepared_statements: PreparedStatementsMode::default(),
            allow_plain: false,
            password_file: String::new(),
            password_command: Vec::new(),
            embedder: "auto".to_owned(),
        }
    }
}

/// Whether statements are prepared once per connection to a PostgreSQL database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PreparedStatementsMode {
    /// Unless a connection pooler is detected.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address and port to listen on; empty for no HTTP.
    pub listen: String,
    /// The accepted `Host` headers.
    pub allowed_hosts: Vec<String>,
    /// The accepted `Origin` headers.
    pub allowed_origins: Vec<String>,
    /// How clients authenticate; empty for the default of the listener.
    pub auth: String,
    /// The URL under which clients reach the server; empty for `http://{listen}`.
    pub public_url: String,
    /// How long a server continues to answer after a stop signal.
    pub drain_seconds: u64,
    /// The audit log of changes and rejected requests; empty for none.
    pub audit: String,
    /// The JWT claim that names the tenant, if `auth` names an issuer.
    pub tenant_claim: String,
    /// `[server.issuers]`: the issuers of accepted tokens, by name.
    pub issuers: BTreeMap<String, IssuerConfig>,
    /// The database time that one of many tenants may use on average, in milliseconds per second; 0
    /// for no limit.
    pub database_ms_per_second: u32,
    /// `[server.admin]`.
    pub admin: AdminConfig,
    /// `[server.log]`.
    pub log: LogConfig,
}

/// `[server.admin]`: the listener for probes and Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AdminConfig {
    /// Address and port to listen on; empty for none.
    pub listen: String,
}

/// `[server.log]`: the log of a server on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LogConfig {
    /// The form of a line.
    pub format: LogFormat,
    /// Which lines are written, in the syntax of `RUST_LOG`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info".to_owned() }
    }
}

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: String::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            auth: String::new(),
            public_url: String::new(),
            drain_seconds: 0,
            audit: String::new(),
            tenant_claim: "tenant".to_owned(),
            issuers: BTreeMap::new(),
            database_ms_per_second: 0,
            admin: AdminConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// `[ledger]`: the log of offloads and extractions, never of their contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LedgerConfig {
    /// The log file; empty for `{state dir}/ledger.jsonl`.
    pub path: String,
    /// How long an entry is kept.
    pub retention_days: u32,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self { path: String::new(), retention_days: 90 }
    }
}
