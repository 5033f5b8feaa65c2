//! The first section of docs/guides/agents.md, followed word for word by a user of Claude Code.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::agents::{Agent, AgentSandbox, Script, ScriptedModel, reference};

/// The time that the guide promises.
const TWO_MINUTES: Duration = Duration::from_mins(2);

/// The commands of a section of the guide, in order.
fn commands(section: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/agents.md");
    let guide = fs::read_to_string(guide).unwrap();
    let section = guide.split("\n## ").find(|part| part.starts_with(section)).unwrap();
    let commands = section.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

#[test]
fn the_guide_for_claude_code_ends_with_the_right_answer() {
    let agent = Agent::ClaudeCode;
    // Claude Code writes this file when it starts for the first time.
    let sandbox = AgentSandbox::new(agent)
        .home_file(".claude.json", json!({"hasCompletedOnboarding": true}).to_string())
        .home_file(".claude/settings.json", "{}");
    let script = Script::for_prompt("How many orders come from each city?")
        .call(agent.shell("cat sales.csv"))
        .call_with(move |results| {
            let reference = reference(&results[0]).unwrap_or("lro:none");
            let sql = "SELECT city, count(*) AS orders FROM results GROUP BY city";
            agent.mcp("atlatl", "lro_extract", json!({"ref": reference, "sql": sql}))
        });
    let model = ScriptedModel::start(script);
    let commands = commands("Install the hook");
    assert!(commands.iter().any(|command| command.starts_with("claude ")), "{commands:?}");
    let started = Instant::now();
    for line in &commands {
        let output = sandbox.shell(line, &crate::program(), &model).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {:?} {stderr}", output.status);
    }
    let elapsed = started.elapsed();
    let results: Vec<String> =
        model.conversation().results.into_iter().map(|result| result.text).collect();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results[1].contains("13334") && results[1].contains("6666"), "{}", results[1]);
    assert!(elapsed < TWO_MINUTES, "{elapsed:?}");
}
