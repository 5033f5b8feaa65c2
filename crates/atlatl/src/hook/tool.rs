//! The names of Atlatl's own tools, whose output is never offloaded again.

use super::Host;

/// The tool of `atlatl tools` that returns a text as it is. Gemini CLI calls it after its hook, and its
/// answer takes the place of the tool's output.
pub(crate) const SHOW: &str = "show_stored_output";
/// The tool of `atlatl tools` that is a hook of Claude Code.
pub(crate) const HOOK: &str = "hook_tool_output";

/// The names of the extraction tools.
pub(crate) const EXTRACTION: [&str; 4] =
    ["lro_extract", "read_large_output", "search_large_output", "query_large_output"];

/// Whether a host's name of a tool means one of Atlatl's own. Hosts put the name of the server before
/// it, each with separators of its own. `mcp_tool` is the server's name, if the host reports it.
pub(super) fn is_own(host: Host, tool: &str, mcp_tool: Option<&str>) -> bool {
    match host {
        Host::ClaudeCode | Host::Codex => {
            let names = tool.strip_prefix("mcp__").and_then(|names| names.rsplit_once("__"));
            names.is_some_and(|(_, name)| is_own_name(name))
        }
        Host::Copilot => tool.rsplit_once('-').is_some_and(|(_, name)| is_own_name(name)),
        Host::Gemini => match mcp_tool {
            Some(name) => is_own_name(name),
            None => tool.starts_with("mcp_") && ends_with_own_name(tool),
        },
        Host::Opencode => ends_with_own_name(tool),
    }
}

fn own_names() -> impl Iterator<Item = &'static str> {
    EXTRACTION.into_iter().chain([SHOW, HOOK])
}

fn is_own_name(name: &str) -> bool {
    own_names().any(|own| own == name)
}

/// Whether a name is that of a server, an underscore, and that of an own tool. With `server_` before it,
/// the tool is one of a server behind the proxy, which has a tool of the same name.
fn ends_with_own_name(tool: &str) -> bool {
    let server = |own: &str| tool.strip_suffix(own)?.strip_suffix('_');
    let mut servers = own_names().filter_map(server);
    servers.any(|server| !server.is_empty() && !server.ends_with("_server"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tools_are_recognised_by_the_rule_of_each_host() {
        for (host, tool, mcp_tool) in [
            (Host::ClaudeCode, "mcp__atlatl__lro_extract", None),
            (Host::ClaudeCode, "mcp__plugin_atlatl_atlatl__search_large_output", None),
            (Host::ClaudeCode, "mcp__my__server__hook_tool_output", None),
            (Host::Codex, "mcp__atlatl__query_large_output", None),
            (Host::Copilot, "atlatl-read_large_output", None),
            (Host::Copilot, "my-atlatl-read_large_output", None),
            (Host::Gemini, "mcp_atlatl_show_stored_output", None),
            (Host::Gemini, "any", Some("show_stored_output")),
            (Host::Opencode, "atlatl_lro_extract", None),
            (Host::Opencode, "server_lro_extract", None),
        ] {
            assert!(is_own(host, tool, mcp_tool), "{host:?} {tool}");
        }
    }

    #[test]
    fn tools_of_others_with_a_similar_name_are_not_own() {
        for (host, tool, mcp_tool) in [
            (Host::ClaudeCode, "Bash", None),
            (Host::ClaudeCode, "lro_extract", None),
            (Host::ClaudeCode, "mcp__github__list_issues", None),
            (Host::ClaudeCode, "mcp__files__server_lro_extract", None),
            (Host::ClaudeCode, "mcp__files__my_lro_extract", None),
            (Host::Codex, "atlatl_lro_extract", None),
            (Host::Copilot, "files-server_lro_extract", None),
            (Host::Copilot, "lro_extract", None),
            (Host::Gemini, "run_lro_extract", None),
            (Host::Gemini, "mcp_files_server_lro_extract", None),
            (Host::Gemini, "mcp_atlatl_lro_extract", Some("server_lro_extract")),
            (Host::Opencode, "files_server_lro_extract", None),
            (Host::Opencode, "lro_extract", None),
            (Host::Opencode, "_lro_extract", None),
            (Host::Opencode, "mylro_extract", None),
        ] {
            assert!(!is_own(host, tool, mcp_tool), "{host:?} {tool}");
        }
    }

    #[test]
    fn the_extraction_tools_have_these_names() {
        for name in EXTRACTION {
            assert!(lro::mcp::Tools::is_name(name), "{name}");
        }
    }
}
