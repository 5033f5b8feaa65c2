//! The extraction tools in Claude Code, which hides the tools of other servers behind a search.

use serde_json::json;
use testkit::agents::{Agent, AgentSandbox, McpServer, Script};
use testkit::tool::built_program;

/// A reference to no result.
const MISSING: &str = "lro:01KA35ZK000J6HB7H9NF6YV4D3";

#[test]
fn g23_claude_code_calls_the_extraction_tools_without_a_search() {
    let agent = Agent::ClaudeCode;
    let fixture = built_program("fixture-server", "testkit");
    let sandbox = AgentSandbox::new(agent)
        .server(McpServer::new("atlatl", crate::program(), &["tools"]))
        .server(McpServer::new("fixture", fixture, &["--list"]));
    let arguments = json!({"ref": MISSING, "pattern": "x"});
    let script = Script::new().call(agent.mcp("atlatl", "search_large_output", arguments));
    let run = sandbox.run(script);
    run.assert_finished();
    let request = run.model.conversation();
    for tool in ["lro_extract", "read_large_output", "search_large_output", "query_large_output"] {
        let name = format!("mcp__atlatl__{tool}");
        assert!(request.tools.contains(&name), "{name} is not in {:?}", request.tools);
    }
    // Otherwise this version loads every tool, and the test shows nothing.
    assert!(!request.tools.contains(&"mcp__fixture__big".to_owned()), "{:?}", request.tools);
    assert!(request.tools.contains(&"ToolSearch".to_owned()), "{:?}", request.tools);
    // The answer of the tool itself: there is no such result.
    let result = &run.results()[0];
    assert!(result.contains("Error (") && result.contains(MISSING), "{result}");
}
