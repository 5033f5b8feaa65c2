//! Extraction: whether a client has the tools that answer questions about stored results, and once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use lro_core::config::ProxyTools;

use super::{
    finding::Finding,
    server::{Server, What},
    storage_key::StorageKey,
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

/// Proxies without tools whose results no entry beside them reads.
fn missing(servers: &[&Server]) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    for server in servers {
        let What::Proxy { tools: ProxyTools::None, .. } = &server.what else { continue };
        // What stands in a project's file is of no use to other projects.
        let mut beside = servers.iter().filter(|other| {
            let same_file = other.file == server.file;
            (same_file || (server.is_of_project() && !other.is_of_project())) && offers(other)
        });
        let reads = |other: &&&Server| server.storage.iter().all(|key| other.storage.contains(key));
        let Some(first) = beside.next() else {
            found.entry((&server.file, None)).or_insert_with(|| no_tools(server));
            continue;
        };
        if !reads(&first) && !beside.any(|other| reads(&other)) {
            let name = Some(&server.launch.name);
            found.entry((&server.file, name)).or_insert_with(|| other_storage(server, first));
        }
    }
    found.into_values().collect()
}

fn no_tools(server: &Server) -> Finding {
    let What::Proxy { scope, .. } = &server.what else { return other_storage(server, server) };
    let (args, of_scope) = match scope {
        None => ("\"tools\"".to_owned(), String::new()),
        Some(scope) => {
            let scope = serde_json::Value::from(scope.as_str());
            (format!("\"tools\", \"--scope\", {scope}"), format!(" with --scope {scope}"))
        }
    };
    let program = serde_json::Value::from(server.program.as_str());
    let file = server.file.display();
    Finding::fault(
        "extraction-tools",
        format!("{file} ({})", server.client.title),
        format!(
            "{} runs with --tools none{of_scope}, and no entry offers the tools that answer \
             questions about what it stores",
            server.launch.name
        ),
        format!(
            "in {file}, add a server: \"atlatl\": {{\"command\": {program}, \"args\": [{args}]}}"
        ),
    )
}

/// A proxy and tools that do not share results: the model gets references that it cannot use.
fn other_storage(server: &Server, tools: &Server) -> Finding {
    let file: &Path = &server.file;
    let (name, beside) = (&server.launch.name, &tools.launch.name);
    let overrides = |of: &Server| -> BTreeSet<String> {
        let names = of.storage.iter().flat_map(StorageKey::overrides);
        names.map(str::to_owned).collect()
    };
    let differing: Vec<String> =
        overrides(server).symmetric_difference(&overrides(tools)).cloned().collect();
    let (why, fix) = if differing.is_empty() {
        let why = match &server.launch.cwd {
            Some(_) => "because it runs in a directory of its own (cwd)",
            None => "because it has another --scope",
        };
        let client = server.client.name;
        (
            why.to_owned(),
            format!(
                "atlatl install --client {client} (or in {}, write the same \"--scope\", \"dir:PATH\" \
                 in the arguments of {name} and {beside})",
                file.display()
            ),
        )
    } else {
        let names = differing.join(", ");
        (
            format!("because of {names}"),
            format!("in {}, give {name} and {beside} the same {names}", file.display()),
        )
    };
    Finding::fault(
        "extraction-tools",
        format!("{} ({})", file.display(), server.client.title),
        format!("{beside} cannot read the results that {name} stores, {why}"),
        fix,
    )
}

/// Whether an entry offers the extraction tools.
fn offers(server: &Server) -> bool {
    matches!(
        server.what,
        What::Tools { .. }
            | What::Proxy { tools: ProxyTools::All, .. }
            | What::Serve { tools: ProxyTools::All }
    )
}

/// The same tools several times cost the model's context each time. A memory server has them for its
/// own sake, and is not counted.
fn twice(servers: &[&Server]) -> Vec<Finding> {
    let offering = servers.iter().filter(|server| offers(server));
    let keys: BTreeSet<&StorageKey> = offering.flat_map(|server| &server.storage).collect();
    let mut all: Vec<Finding> = keys.into_iter().filter_map(|key| twice_in(servers, key)).collect();
    all.dedup();
    all
}

fn twice_in(servers: &[&Server], key: &StorageKey) -> Option<Finding> {
    let mut names = BTreeSet::new();
    let mut offering = Vec::new();
    for server in servers {
        let memories = matches!(server.what, What::Serve { .. });
        // A project's server takes the place of the user's of the same name.
        let reads = offers(server) && server.storage.contains(key);
        if !memories && reads && names.insert(&server.launch.name) {
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
