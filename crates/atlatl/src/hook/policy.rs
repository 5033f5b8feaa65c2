//! The policy for a built-in tool of an agent, also by its command.
//!
//! `[proxy.policy]` has globs on tool names. For built-in tools they match the name that all hosts share
//! (`Bash`), the host's own name (`run_shell_command`), or the name with what the call is about:
//! `Bash(git diff*)`, `Read(*.lock)`.

use lro_core::Policies;
use lro_core::threshold::{FixedPolicy, Policy};

use super::Host;

/// The policy for one call of `tool`, as the policies of a tool with its common name.
pub(super) fn for_call(
    policies: &Policies,
    host: Host,
    tool: &str,
    subject: Option<&str>,
) -> Policies {
    let common = host.common_name(tool);
    let policy = find(policies, common, subject).or_else(|| find(policies, tool, subject));
    policy.map(|policy| (common.to_owned(), policy)).into_iter().collect()
}

/// Whether no output of a command is ever stored.
pub(super) fn is_inline(policies: &Policies, host: Host, tool: &str, command: &str) -> bool {
    let policies = for_call(policies, host, tool, Some(command));
    let policy = policies.for_tool(host.common_name(tool)).map(|(_, policy)| policy);
    policy == Some(Policy::Fixed(FixedPolicy::Inline))
}

/// The policy for a call of the tool `name`. One with a subject, such as `Bash(git log*)`, goes before one
/// for the tool.
pub(crate) fn find(policies: &Policies, name: &str, subject: Option<&str>) -> Option<Policy> {
    if policies.is_empty() {
        return None;
    }
    let with_subject = subject.and_then(|subject| {
        let call = format!("{name}({})", subject.trim());
        // A glob without a subject may match the whole text, but is less specific.
        policies.for_tool(&call).filter(|(glob, _)| glob.contains('('))
    });
    with_subject.or_else(|| policies.for_tool(name)).map(|(_, policy)| policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_with_a_command_goes_before_one_with_the_name() {
        let inline = Policy::Fixed(FixedPolicy::Inline);
        let offload = Policy::Fixed(FixedPolicy::Offload);
        let threshold = Policy::Threshold { threshold_tokens: 5 };
        let policies: Policies = [
            ("*", threshold),
            ("Bash(git diff*)", inline),
            ("Bash", offload),
            ("read_file", inline),
            ("Grep(secret)", offload),
        ]
        .into_iter()
        .collect();
        let policy = |host: Host, tool, subject| {
            let found = for_call(&policies, host, tool, subject);
            found.for_tool(host.common_name(tool)).map(|(_, policy)| policy)
        };
        assert_eq!(policy(Host::ClaudeCode, "Bash", Some("git diff HEAD")), Some(inline));
        assert_eq!(policy(Host::Gemini, "run_shell_command", Some(" git diff")), Some(inline));
        assert_eq!(policy(Host::Copilot, "bash", Some("git log")), Some(offload));
        assert_eq!(policy(Host::ClaudeCode, "Bash", None), Some(offload));
        assert_eq!(policy(Host::ClaudeCode, "Grep", Some("secret")), Some(offload));
        assert_eq!(policy(Host::ClaudeCode, "Grep", Some("public")), Some(threshold));
        assert_eq!(policy(Host::ClaudeCode, "mcp__a__b", None), Some(threshold));
        assert!(is_inline(&policies, Host::Codex, "exec_command", "git diff"));
        assert!(!is_inline(&policies, Host::Codex, "exec_command", "git log"));
        let none = Policies::default();
        assert!(for_call(&none, Host::Codex, "Bash", Some("ls")).is_empty());
    }
}
