//! Sizes: what a client cuts from an answer before a model sees it, against what we send.

use std::collections::BTreeSet;

use lro_core::config::DescriptorForm;

use super::{
    finding::Finding,
    fix,
    server::{Server, What},
};
use crate::{output::grouped, settings::Settings};

/// What a full descriptor takes beside its preview, and a compact one, as measured.
const FULL: u32 = 1_400;
const COMPACT: u32 = 400;

/// The most tokens that a client lets through; where it is not known, the least that any does.
fn limit(client: &str) -> (u32, Known) {
    match client {
        "claude-code" => (25_000, Known::Yes),
        "codex" => (10_000, Known::Yes),
        _ => (10_000, Known::No),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Yes,
    No,
}

/// Looks at every client that has something of ours.
pub(super) fn check(settings: &Settings, servers: &[Server]) -> Vec<Finding> {
    let clients: BTreeSet<(&str, &str)> = servers
        .iter()
        .filter(|server| server.launch.enabled)
        .map(|server| (server.client.name, server.client.title))
        .collect();
    let mut found = Vec::new();
    for (name, title) in clients {
        found.extend(answers(settings, name, title));
    }
    found.extend(
        servers
            .iter()
            .filter(|server| server.launch.enabled)
            .filter_map(|server| threshold(settings, server)),
    );
    found
}

/// Descriptors and replies that a client would cut.
fn answers(settings: &Settings, name: &str, title: &str) -> Vec<Finding> {
    let offload = &settings.config.prompt.offload;
    let (limit, known) = limit(name);
    let lets = match known {
        Known::Yes => format!("{title} lets {} through", grouped(limit.into())),
        Known::No => format!(
            "what {title} lets through is not known, and other clients stop at {}",
            grouped(limit.into())
        ),
    };
    let around = if offload.descriptor == DescriptorForm::Full { FULL } else { COMPACT };
    let mut found = Vec::new();
    if offload.reply_tokens > limit {
        found.push(Finding::warning(
            "client-sizes",
            "prompt.offload.reply_tokens",
            format!("a reply may take {} tokens; {lets}", grouped(offload.reply_tokens.into())),
            fix::set(settings, "prompt.offload.reply_tokens", limit),
        ));
    }
    if offload.preview_tokens.saturating_add(around) > limit {
        found.push(Finding::warning(
            "client-sizes",
            "prompt.offload.preview_tokens",
            format!(
                "a descriptor may take {} tokens; {lets}",
                grouped(u64::from(offload.preview_tokens) + u64::from(around))
            ),
            fix::set(settings, "prompt.offload.preview_tokens", limit - around),
        ));
    }
    found
}

/// A threshold above what a client keeps: it would cut what we did not store.
fn threshold(settings: &Settings, server: &Server) -> Option<Finding> {
    let What::Proxy { threshold, .. } = server.what else { return None };
    let (limit, known) = limit(server.client.name);
    if known == Known::No || threshold <= limit {
        return None;
    }
    let fix = if threshold == settings.config.proxy.threshold_tokens {
        fix::set(settings, "proxy.threshold_tokens", limit)
    } else {
        format!("in {}, write {limit} in place of {threshold}", server.file.display())
    };
    Some(Finding::warning(
        "client-sizes",
        server.shown(),
        format!(
            "results are stored from {} tokens on, and {} cuts them at {}",
            grouped(threshold.into()),
            server.client.title,
            grouped(limit.into())
        ),
        fix,
    ))
}
