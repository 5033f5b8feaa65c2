//! `[proxy]`: what the relay does with results that are not memory operations.

use serde::{Deserialize, Serialize};

use crate::policy::Policies;

/// `[proxy]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ProxyConfig {
    /// Results of this many tokens or more are offloaded, unless they are memory operations.
    pub threshold_tokens: u32,
    /// How long such a result is kept.
    pub ttl_seconds: u64,
    /// The private root of the scopes' folders; empty for `results` in the user's state directory.
    pub dir: String,
    /// Whether the proxy itself offers the extraction tools.
    pub tools: ProxyTools,
    /// What was decided about single tools, by glob.
    pub policy: Policies,
    /// Which references another tool's arguments may contain.
    pub references: References,
    /// How paths are rewritten for a client which sees the files elsewhere.
    pub path_map: PathMap,
    /// Headers for servers over HTTP, each with the origin that it is for.
    pub headers: Vec<String>,
    /// How long a server over HTTP may say nothing while a request waits.
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

/// Whether the proxy itself offers the extraction tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProxyTools {
    /// All of them appear beside the server's own.
    #[default]
    All,
    /// None: a server of their own offers them.
    None,
}

/// Which references another tool's arguments may contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum References {
    /// None: arguments pass as they are.
    Off,
    /// Those to results of the server that is being called.
    #[default]
    SameServer,
    /// Those to any result of the scope.
    Any,
}

/// One path prefix shown to the client as another, for clients in containers.
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
    /// `path` as the client sees it. Whole components only: `/out` is no beginning of `/out2`.
    pub fn shown(&self, path: String) -> String {
        let Some((from, to)) = self.pair() else { return path };
        let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
        match path.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
            _ => path,
        }
    }

    /// The pair to rewrite, or `None` where paths are shown as they are.
    pub fn pair(&self) -> Option<(&str, &str)> {
        (!self.from.is_empty() && !self.to.is_empty()).then_some((&*self.from, &*self.to))
    }
}
