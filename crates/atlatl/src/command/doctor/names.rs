//! Names: whether the names of a server's tools fit its client.

use lro_core::config::ProxyTools;

use super::{
    finding::Finding,
    server::{Server, What},
};

/// What the proxy adds to a server's tools.
const LONGEST_OF_OURS: &str = "search_large_output";

/// How many characters a client lets a name have, and what it puts before a tool's own.
fn limit(client: &str) -> Option<(usize, usize)> {
    match client {
        // The server's name and the tool's.
        "cursor" => Some((60, 0)),
        // `mcp_`, the server's name, `_`, the tool's.
        "vscode" => Some((64, "mcp__".len())),
        _ => None,
    }
}

/// The tools of a server whose names are too long.
pub(super) fn check(server: &Server, tools: &[String]) -> Option<Finding> {
    let (most, around) = limit(server.client.name)?;
    let offers = matches!(server.what, What::Proxy { tools: ProxyTools::All, .. });
    let ours = offers.then_some(LONGEST_OF_OURS);
    let all: Vec<&str> = tools.iter().map(String::as_str).chain(ours).collect();
    let name = server.launch.name.chars().count();
    let length = |tool: &&str| tool.chars().count();
    let too_long = |tool: &&&str| around + name + length(tool) > most;
    let first = all.iter().find(too_long)?;
    let longest = all.iter().map(length).max().unwrap_or(0);
    let count = all.iter().filter(too_long).count();
    let others = if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
    let file = server.file.display();
    let fix = match most.checked_sub(around + longest) {
        Some(room @ 1..) => {
            format!("in {file}, give {} a name of {room} characters at most", server.launch.name)
        }
        _ => format!(
            "switch the tool {first} off in {}: no name of a server is short enough",
            server.client.title
        ),
    };
    Some(Finding::warning(
        "tool-names",
        server.shown(),
        format!(
            "{} takes names of {most} characters with the server's in them, and leaves out or cuts \
             {first} ({}){others}",
            server.client.title,
            around + name + length(first)
        ),
        fix,
    ))
}
