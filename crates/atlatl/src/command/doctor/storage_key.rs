//! Where an entry of ours stores results or reads them, to be compared with other entries.

use lro_core::config::ProxyTools;

use super::{
    clients::{Surroundings, directory},
    expand::expand,
    server::{Server, What},
};
use crate::{
    args::Global,
    settings::{Settings, Sources},
    spool_config::scope_of,
};

/// Variables from which the directory of stored results follows.
const VARIABLES: [&str; 7] = [
    "HOME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "ATLATL_PROXY__DIR",
    "ATLATL_PROMPT__OFFLOAD__OUTPUT_DIR",
];
/// Keys of the configuration that name it.
const KEYS: [&str; 2] = ["proxy.dir", "prompt.offload.output_dir"];

/// A scope, and what decides where its folder is. Two entries share results if their keys are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StorageKey {
    scope: String,
    /// Variables and options of the entry that differ from the environment's.
    overrides: Vec<(String, String)>,
}

impl StorageKey {
    /// Those of an entry, as its client starts it.
    pub(super) fn all(
        server: &Server,
        flags: &Global,
        settings: &Settings,
        (here, sources): (&Surroundings, &Sources),
    ) -> Vec<Self> {
        let scopes: Vec<Option<&str>> = match &server.what {
            What::Proxy { scope, .. } => vec![scope.as_deref()],
            What::Tools { scopes } if !scopes.is_empty() => {
                scopes.iter().map(|scope| Some(scope.as_str())).collect()
            }
            What::Tools { .. } | What::Serve { tools: ProxyTools::All } => vec![None],
            What::Serve { .. } | What::Other | What::Unclear(_) => return Vec::new(),
        };
        let expanded = |text: &str| {
            expand(text, |name| sources.variable(name), &here.working_dir)
                .unwrap_or_else(|| text.to_owned())
        };
        let mut overrides: Vec<(String, String)> = Vec::new();
        for name in VARIABLES {
            let set = server.launch.env.iter().find(|(known, _)| known == name);
            let set = set.map(|(_, value)| expanded(value));
            if let Some(value) = set.filter(|value| sources.variable(name).as_ref() != Some(value))
            {
                overrides.push((name.to_owned(), value));
            }
        }
        for assignment in &flags.assignments {
            let pair = assignment.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            if let Some((key, value)) = pair.filter(|(key, _)| KEYS.contains(key)) {
                overrides.push((key.to_owned(), value.to_owned()));
            }
        }
        if let Some(config) = &flags.config {
            overrides.push(("--config".to_owned(), config.display().to_string()));
        }
        let mut surroundings = settings.surroundings().clone();
        let dir = directory(server, here);
        surroundings.working_dir = Some(dir.canonicalize().unwrap_or(dir));
        let key = |scope| Self {
            scope: scope_of(&surroundings, scope).to_string(),
            overrides: overrides.clone(),
        };
        scopes.into_iter().map(key).collect()
    }

    /// The overrides of this entry, for a person.
    pub(super) fn overrides(&self) -> Vec<&str> {
        self.overrides.iter().map(|(name, _)| name.as_str()).collect()
    }
}
