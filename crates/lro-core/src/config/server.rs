//! `[server]`: the HTTP side.

use serde::{Deserialize, Serialize};

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address and port to listen on; empty for no HTTP.
    pub listen: String,
    /// `Host` headers that are answered.
    pub allowed_hosts: Vec<String>,
    /// `Origin` headers that are answered.
    pub allowed_origins: Vec<String>,
    /// How clients prove who they are; empty for not at all.
    pub auth: String,
    /// Where clients reach the server; empty for `http://{listen}`.
    pub public_url: String,
    /// How long a server that is stopped goes on answering.
    pub drain_seconds: u64,
    /// A file that says who changed what and who was not let in; empty for none.
    pub audit: String,
    /// The JWT claim that names the tenant.
    pub tenant_claim: String,
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
        }
    }
}
