//! Extraction: whether a client has the tools that answer questions about stored results, and once.

use std::collections::{BTreeMap, BTreeSet};

use lro_core::config::ProxyTools;

use super::{
    finding::Finding,
    server::{Server, What},
};

/// Looks at all clients.
pub(super) fn check(servers: &[Server]) -> Vec<Finding> {
    let names: BTreeSet<&str> = servers.iter().map(|server| server.client.name).collect();
    let enabled = |name| {
        let of = servers.iter().filter(move |server: &&Server| server.client.name == name);
        of.filter(|server| server.launch.enabled).collect::<Vec<_>>()
    };
    names.into_iter().map(enabled).flat_map(|of| [missing(&of), twice(&of)].concat()).collect()
}

/// Proxies without tools, in files beside which nobody offers them.
fn missing(servers: &[&Server]) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    for server in servers {
        let What::Proxy { tools: ProxyTools::None, scope, .. } = &server.what else { continue };
        // What stands in a project's file is of no use to other projects.
        let beside = servers.iter().filter(|other| {
            other.file == server.file || (server.is_of_project() && !other.is_of_project())
        });
        let offered = beside
            .filter_map(|other| offers(other))
            .any(|offered| offered == Scope(scope.as_deref()));
        if !offered {
            found.entry((&server.file, scope)).or_insert(*server);
        }
    }
    found
        .into_iter()
        .map(|((file, scope), server)| no_tools(file, scope.as_deref(), server))
        .collect()
}

fn no_tools(file: &std::path::Path, scope: Option<&str>, server: &Server) -> Finding {
    let (args, of_scope) = match scope {
        None => ("\"tools\"".to_owned(), String::new()),
        Some(scope) => {
            let scope = serde_json::Value::from(scope);
            (format!("\"tools\", \"--scope\", {scope}"), format!(" with --scope {scope}"))
        }
    };
    let program = serde_json::Value::from(server.program.as_str());
    Finding::fault(
        "extraction-tools",
        format!("{} ({})", file.display(), server.client.title),
        format!(
            "{} runs with --tools none{of_scope}, and no entry offers the tools that answer \
             questions about what it stores",
            server.launch.name
        ),
        format!(
            "in {}, add a server: \"atlatl\": {{\"command\": {program}, \"args\": [{args}]}}",
            file.display()
        ),
    )
}

/// A scope, or the one without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Scope<'a>(Option<&'a str>);

/// Who offers the tools of which scope.
fn offers(server: &Server) -> Option<Scope<'_>> {
    match &server.what {
        What::Tools { scope } | What::Proxy { tools: ProxyTools::All, scope, .. } => {
            Some(Scope(scope.as_deref()))
        }
        What::Serve { tools: ProxyTools::All } => Some(Scope(None)),
        _ => None,
    }
}

/// The same tools several times cost the model's context each time. A memory server has them for its
/// own sake, and is not counted.
fn twice(servers: &[&Server]) -> Vec<Finding> {
    let scopes: BTreeSet<Scope<'_>> = servers.iter().filter_map(|one| offers(one)).collect();
    scopes.into_iter().filter_map(|scope| twice_in(servers, scope)).collect()
}

fn twice_in(servers: &[&Server], scope: Scope<'_>) -> Option<Finding> {
    let mut names = BTreeSet::new();
    let mut offering = Vec::new();
    for server in servers {
        let memories = matches!(server.what, What::Serve { .. });
        // A project's server takes the place of the user's of the same name.
        if !memories && offers(server) == Some(scope) && names.insert(&server.launch.name) {
            offering.push(*server);
        }
    }
    let [first, rest @ ..] = &*offering else { return None };
    let second = rest.first()?;
    let proxy = rest.iter().find(|server| matches!(server.what, What::Proxy { .. }));
    let all: Vec<&str> = offering.iter().map(|server| server.launch.name.as_str()).collect();
    let fix = match proxy {
        Some(proxy) => format!(
            "in {}, write \"proxy\", \"--tools\", \"none\" in place of \"proxy\" for {}, and keep \
             one entry with \"args\": [\"tools\"]",
            proxy.file.display(),
            proxy.launch.name
        ),
        None => format!("in {}, take {} out", second.file.display(), second.launch.name),
    };
    Some(Finding::warning(
        "extraction-tools",
        format!("{} ({})", first.file.display(), first.client.title),
        format!("the extraction tools are offered {} times, by {}", all.len(), all.join(", ")),
        fix,
    ))
}
