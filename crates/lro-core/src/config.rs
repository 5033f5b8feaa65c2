//! Configuration: every key there is, its type, its default and what it means.
//!
//! Two views of the same thing. [`Config`] is what code reads: typed, one struct per section. The
//! table [`KEYS`] is what people read: the references, the schema and the error messages are made
//! from it. A test holds the two together, so neither can gain a key alone.
//!
//! Nothing here looks at files, the environment or the machine. A default which depends on the
//! machine is an empty text (or 0) and [`Key::derived`] says how the edge fills it in.
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

mod invalid;
mod key;
mod keys;
mod ledger;
mod memory;
mod prompt;
mod proxy;
mod query;
mod server;
mod spool;
mod suggest;
mod values;

use serde::{Deserialize, Serialize};

pub use self::{
    invalid::{InvalidValue, InvalidValues},
    key::{Key, Kind, ProjectUse},
    keys::{KEYS, is_section, key},
    ledger::LedgerConfig,
    memory::MemoryConfig,
    prompt::{DescriptorForm, OffloadConfig, PromptConfig},
    proxy::{PathMap, ProxyConfig, ProxyTools, References},
    query::QueryConfig,
    server::ServerConfig,
    spool::{ReadableBy, SpoolConfig},
    suggest::{nearest, nearest_section},
};

/// The whole configuration. [`Default`] is the table's defaults.
///
/// Reading it with serde checks types and key names; the bounds (a threshold of 0 is refused, for
/// example) are checked by [`Config::validate`], and by [`Config::from_values`] on the way in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// What a result becomes when it is too large.
    pub prompt: PromptConfig,
    /// The relay in front of other people's servers.
    pub proxy: ProxyConfig,
    /// Where large results are kept.
    pub spool: SpoolConfig,
    /// Bounds of one extraction.
    pub query: QueryConfig,
    /// Where memories are kept.
    pub memory: MemoryConfig,
    /// The HTTP side.
    pub server: ServerConfig,
    /// The record of what was offloaded and extracted.
    pub ledger: LedgerConfig,
}
