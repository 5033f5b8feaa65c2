//! Checks that a client can use what Atlatl offers it: the extraction tools, replies within its
//! token limit, and tool names within its length limit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lro_core::config::{DescriptorForm, ProxyTools};

use super::client_entry::{ClientEntry, EntryCommand, StorageKey};
use super::report::{Finding, config_fix};
use crate::output::grouped;
use crate::settings::Settings;

/// Checks that each client has the extraction tools exactly once for each results directory.
pub(super) fn check_extraction_tools(servers: &[ClientEntry]) -> Vec<Finding> {
    let names: BTreeSet<&str> = servers.iter().map(|server| server.client.name).collect();
    let enabled = |name| {
        let of_client =
            servers.iter().filter(move |server: &&ClientEntry| server.client.name == name);
        of_client.filter(|server| server.launch.enabled).collect::<Vec<_>>()
    };
    names
        .into_iter()
        .map(enabled)
        .flat_map(|servers| [missing_tools(&servers), duplicate_tools(&servers)].concat())
        .collect()
}

/// Reports proxies without tools whose results no other entry of the client can read.
fn missing_tools(servers: &[&ClientEntry]) -> Vec<Finding> {
    let mut findings = BTreeMap::new();
    for server in servers {
        let EntryCommand::Proxy {
            tools: tools @ (ProxyTools::Separate | ProxyTools::None), ..
        } = &server.command
        else {
            continue;
        };
        // Tools of a project file are not available in other projects.
        let mut beside = servers.iter().filter(|other| {
            let same_file = other.file == server.file;
            (same_file || (server.belongs_to_project() && !other.belongs_to_project()))
                && offers_extraction_tools(other)
        });
        let reads =
            |other: &&&ClientEntry| server.storage.iter().all(|key| other.storage.contains(key));
        let Some(first) = beside.next() else {
            if *tools == ProxyTools::None {
                // The client is meant to use a shell.
                continue;
            }
            findings.entry((&server.file, None)).or_insert_with(|| missing_tools_finding(server));
            continue;
        };
        let name = Some(&server.launch.name);
        if *tools == ProxyTools::None {
            findings.entry((&server.file, name)).or_insert_with(|| unnamed_tools(server, first));
        } else if !reads(&first) && !beside.any(|other| reads(&other)) {
            findings.entry((&server.file, name)).or_insert_with(|| storage_mismatch(server, first));
        }
    }
    findings.into_values().collect()
}

fn missing_tools_finding(server: &ClientEntry) -> Finding {
    let EntryCommand::Proxy { scope, .. } = &server.command else {
        return storage_mismatch(server, server);
    };
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
            "{} runs with --tools separate{of_scope}, and no entry offers the tools that answer \
             questions about what it stores",
            server.launch.name
        ),
        format!(
            "in {file}, add a server: \"atlatl\": {{\"command\": {program}, \"args\": [{args}]}}"
        ),
    )
}

/// A proxy whose guidance is for a shell, although the client has the tools. Version 0.1.0 wrote such
/// entries.
fn unnamed_tools(server: &ClientEntry, tools: &ClientEntry) -> Finding {
    let (file, name) = (server.file.display(), &server.launch.name);
    Finding::warning(
        "extraction-tools",
        format!("{file} ({})", server.client.title),
        format!(
            "{name} runs with --tools none, so its descriptors do not name the tools that {} offers",
            tools.launch.name
        ),
        format!("in {file}, write \"--tools\", \"separate\" for {name}"),
    )
}

/// A proxy and tools with different results directories: the model gets references it cannot use.
fn storage_mismatch(server: &ClientEntry, tools: &ClientEntry) -> Finding {
    let file: &Path = &server.file;
    let (name, beside) = (&server.launch.name, &tools.launch.name);
    let overrides = |entry: &ClientEntry| -> BTreeSet<String> {
        let names = entry.storage.iter().flat_map(StorageKey::override_names);
        names.map(str::to_owned).collect()
    };
    let differing: Vec<String> =
        overrides(server).symmetric_difference(&overrides(tools)).cloned().collect();
    let (why, fix) = if differing.is_empty() {
        let why = match &server.launch.cwd {
            Some(_) => "because it runs in another directory (cwd)",
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
fn offers_extraction_tools(server: &ClientEntry) -> bool {
    matches!(
        server.command,
        EntryCommand::Tools { .. }
            | EntryCommand::Proxy { tools: ProxyTools::All, .. }
            | EntryCommand::Serve { tools: ProxyTools::All }
    )
}

/// Reports tools that are offered several times, each time at the cost of context. A memory server
/// needs them for its own results and is not counted.
fn duplicate_tools(servers: &[&ClientEntry]) -> Vec<Finding> {
    let offering = servers.iter().filter(|server| offers_extraction_tools(server));
    let keys: BTreeSet<&StorageKey> = offering.flat_map(|server| &server.storage).collect();
    let mut all: Vec<Finding> =
        keys.into_iter().filter_map(|key| duplicate_tools_in(servers, key)).collect();
    all.dedup();
    all
}

fn duplicate_tools_in(servers: &[&ClientEntry], key: &StorageKey) -> Option<Finding> {
    let mut names = BTreeSet::new();
    let mut offering = Vec::new();
    for server in servers {
        let is_memory_server = matches!(server.command, EntryCommand::Serve { .. });
        // A project entry overrides a user entry of the same name.
        let reads = offers_extraction_tools(server) && server.storage.contains(key);
        if !is_memory_server && reads && names.insert(&server.launch.name) {
            offering.push(*server);
        }
    }
    let [first, rest @ ..] = &*offering else { return None };
    let second = rest.first()?;
    let proxy = rest.iter().find(|server| matches!(server.command, EntryCommand::Proxy { .. }));
    let all: Vec<&str> = offering.iter().map(|server| server.launch.name.as_str()).collect();
    let fix = match proxy {
        Some(proxy) => format!(
            "in {}, write \"proxy\", \"--tools\", \"separate\" in place of \"proxy\" for {}, and keep \
             one entry with \"args\": [\"tools\"]",
            proxy.file.display(),
            proxy.launch.name
        ),
        None => format!("in {}, remove {}", second.file.display(), second.launch.name),
    };
    Some(Finding::warning(
        "extraction-tools",
        format!("{} ({})", first.file.display(), first.client.title),
        format!("the extraction tools are offered {} times, by {}", all.len(), all.join(", ")),
        fix,
    ))
}

/// The measured size of a full descriptor without its preview.
const FULL_DESCRIPTOR_TOKENS: u32 = 1_400;
/// The measured size of a compact descriptor without its preview.
const COMPACT_DESCRIPTOR_TOKENS: u32 = 400;

/// The token limit of a client for tool results; for unknown clients, the lowest documented limit.
fn token_limit(client: &str) -> (u32, LimitSource) {
    match client {
        "claude-code" => (25_000, LimitSource::Documented),
        "codex" => (10_000, LimitSource::Documented),
        _ => (10_000, LimitSource::Assumed),
    }
}

/// Where a token limit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitSource {
    Documented,
    Assumed,
}

/// Compares the sizes of descriptors, replies and inline results with the limits of the clients.
pub(super) fn check_sizes(settings: &Settings, servers: &[ClientEntry]) -> Vec<Finding> {
    let clients: BTreeSet<(&str, &str)> = servers
        .iter()
        .filter(|server| server.launch.enabled)
        .map(|server| (server.client.name, server.client.title))
        .collect();
    let mut findings = Vec::new();
    for (name, title) in clients {
        findings.extend(check_reply_sizes(settings, name, title));
    }
    findings.extend(
        servers
            .iter()
            .filter(|server| server.launch.enabled)
            .filter_map(|server| check_threshold(settings, server)),
    );
    findings
}

/// Reports descriptors and replies that a client would truncate.
fn check_reply_sizes(settings: &Settings, name: &str, title: &str) -> Vec<Finding> {
    let offload = &settings.config.prompt.offload;
    let (limit, source) = token_limit(name);
    let lets = match source {
        LimitSource::Documented => format!("{title} accepts {}", grouped(limit.into())),
        LimitSource::Assumed => format!(
            "the limit of {title} is unknown, and other clients stop at {}",
            grouped(limit.into())
        ),
    };
    let around = if offload.descriptor == DescriptorForm::Full {
        FULL_DESCRIPTOR_TOKENS
    } else {
        COMPACT_DESCRIPTOR_TOKENS
    };
    let mut findings = Vec::new();
    if offload.reply_tokens > limit {
        findings.push(Finding::warning(
            "client-sizes",
            "prompt.offload.reply_tokens",
            format!("a reply may take {} tokens; {lets}", grouped(offload.reply_tokens.into())),
            config_fix(settings, "prompt.offload.reply_tokens", limit),
        ));
    }
    if offload.preview_tokens.saturating_add(around) > limit {
        findings.push(Finding::warning(
            "client-sizes",
            "prompt.offload.preview_tokens",
            format!(
                "a descriptor may take {} tokens; {lets}",
                grouped(u64::from(offload.preview_tokens) + u64::from(around))
            ),
            config_fix(settings, "prompt.offload.preview_tokens", limit - around),
        ));
    }
    findings
}

/// Reports a threshold above the client's limit: the client would truncate results that are not
/// stored.
fn check_threshold(settings: &Settings, server: &ClientEntry) -> Option<Finding> {
    let EntryCommand::Proxy { threshold, .. } = server.command else { return None };
    let (limit, source) = token_limit(server.client.name);
    if source == LimitSource::Assumed || threshold <= limit {
        return None;
    }
    let fix = if threshold == settings.config.proxy.threshold_tokens {
        config_fix(settings, "proxy.threshold_tokens", limit)
    } else {
        format!("in {}, write {limit} in place of {threshold}", server.file.display())
    };
    Some(Finding::warning(
        "client-sizes",
        server.label(),
        format!(
            "results are stored from {} tokens on, and {} cuts them at {}",
            grouped(threshold.into()),
            server.client.title,
            grouped(limit.into())
        ),
        fix,
    ))
}

/// The longest name of the tools that the proxy adds.
const LONGEST_ATLATL_TOOL: &str = "search_large_output";

/// The maximum length of a qualified tool name in a client, and the length of its fixed affixes.
fn name_limit(client: &str) -> Option<(usize, usize)> {
    match client {
        // The server's name and the tool's.
        "cursor" => Some((60, 0)),
        // `mcp_`, the server's name, `_`, the tool's.
        "vscode" => Some((64, "mcp__".len())),
        _ => None,
    }
}

/// Reports tools whose qualified names are too long for the client.
pub(super) fn check_tool_names(server: &ClientEntry, tools: &[String]) -> Option<Finding> {
    let (max_chars, affixes) = name_limit(server.client.name)?;
    let offers = matches!(server.command, EntryCommand::Proxy { tools: ProxyTools::All, .. });
    let added = offers.then_some(LONGEST_ATLATL_TOOL);
    let all: Vec<&str> = tools.iter().map(String::as_str).chain(added).collect();
    let name = server.launch.name.chars().count();
    let length = |tool: &&str| tool.chars().count();
    let too_long = |tool: &&&str| affixes + name + length(tool) > max_chars;
    let first = all.iter().find(too_long)?;
    let longest = all.iter().map(length).max().unwrap_or(0);
    let count = all.iter().filter(too_long).count();
    let others = if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
    let file = server.file.display();
    let fix = match max_chars.checked_sub(affixes + longest) {
        Some(max @ 1..) => {
            format!("in {file}, give {} a name of {max} characters at most", server.launch.name)
        }
        _ => format!(
            "switch the tool {first} off in {}: no name of a server is short enough",
            server.client.title
        ),
    };
    Some(Finding::warning(
        "tool-names",
        server.label(),
        format!(
            "{} accepts names of at most {max_chars} characters, including the server's name, and \
             omits or truncates {first} ({}){others}",
            server.client.title,
            affixes + name + length(first)
        ),
        fix,
    ))
}
