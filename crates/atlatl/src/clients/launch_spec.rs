//! Launch: how a client starts a server, beside its command.

use crate::clients::client::Place;
use crate::clients::syntax_tree::{Broken, Node};

/// How a client starts a server, beside its command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// What the client calls it.
    pub name: String,
    /// The variables that its entry sets, in its order.
    pub env: Vec<(String, String)>,
    /// The directory that its entry names.
    pub cwd: Option<String>,
    /// Whether the client starts it at all.
    pub enabled: bool,
}

/// How the servers in a file are started, in its order.
pub fn launches(text: &str, place: &Place) -> Result<Vec<Launch>, Broken> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let says = |entry: &Node, name: &str, what: &str| {
        let value = entry.get(name).and_then(|value| text.get(value.range.clone()));
        value.is_some_and(|value| value.trim() == what)
    };
    Ok(servers
        .iter()
        .map(|member| {
            let entry = &member.value;
            let env = entry.get("env").or_else(|| entry.get("environment"));
            let pair = |member: &crate::clients::syntax_tree::Member| {
                Some((member.name.clone(), member.value.text()?.to_owned()))
            };
            Launch {
                name: member.name.clone(),
                env: env.map(Node::members).unwrap_or_default().iter().filter_map(pair).collect(),
                cwd: entry.get("cwd").and_then(Node::text).map(str::to_owned),
                enabled: !says(entry, "disabled", "true") && !says(entry, "enabled", "false"),
            }
        })
        .collect())
}
