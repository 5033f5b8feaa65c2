//! The names of Atlatl's own tools, whose output is never offloaded again.

/// The tool of `atlatl tools` that returns a text as it is. Gemini CLI calls it after its hook, and its
/// answer takes the place of the tool's output.
pub(crate) const SHOW: &str = "show_stored_output";
/// The tool of `atlatl tools` that is a hook of Claude Code.
pub(crate) const HOOK: &str = "hook_tool_output";

/// The names of the extraction tools.
pub(crate) const EXTRACTION: [&str; 4] =
    ["lro_extract", "read_large_output", "search_large_output", "query_large_output"];

/// Whether a host's name of a tool means one of Atlatl's own. Hosts put the name of the server before
/// it, each with separators of its own.
pub(super) fn is_own(tool: &str) -> bool {
    EXTRACTION.into_iter().chain([SHOW, HOOK]).any(|own| tool.ends_with(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tools_are_recognised_under_every_prefix() {
        for tool in [
            "mcp__atlatl__lro_extract",
            "mcp__plugin_atlatl_atlatl__search_large_output",
            "mcp_atlatl_show_stored_output",
            "atlatl-read_large_output",
            "lro_extract",
        ] {
            assert!(is_own(tool), "{tool}");
        }
        assert!(!is_own("Bash") && !is_own("mcp__github__list_issues"));
    }

    #[test]
    fn the_extraction_tools_have_these_names() {
        for name in EXTRACTION {
            assert!(lro::mcp::Tools::is_name(name), "{name}");
        }
    }
}
