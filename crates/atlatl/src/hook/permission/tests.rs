//! Allow, ask and deny rules of each host that has them, read from files in a temporary directory.

use std::fs;

use tempfile::TempDir;

use super::*;

/// A home, a project with a subdirectory, and system files, all in one directory.
struct Host {
    root: TempDir,
    context: Context,
}

impl Host {
    fn new(mode: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (home, project) = (root.path().join("home"), root.path().join("home/project"));
        fs::create_dir_all(project.join("sub")).unwrap();
        let mut context = Context::new(home, project.join("sub"));
        context.root = root.path().to_path_buf();
        context.project = Some(project);
        context.permission_mode = Some(mode.to_owned());
        context.host_arguments = Some(Vec::new());
        Self { root, context }
    }

    fn with_file(self, path: &str, text: &str) -> Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.context.host_arguments =
            Some(arguments.iter().map(|&argument| argument.to_owned()).collect());
        self
    }

    fn decide(&self, client: Client, command: &str) -> Result<Verdict, Refusal> {
        let rewritten = format!("atlatl run --agent claude-code -- {command}");
        may_rewrite(client, &self.context, command, &rewritten)
    }

    fn claude(&self, command: &str) -> Result<Verdict, Refusal> {
        self.decide(Client::ClaudeCode, command)
    }

    fn codex(&self, command: &str) -> Result<Verdict, Refusal> {
        self.decide(Client::Codex, command)
    }
}

const USER: &str = "home/.claude/settings.json";

#[test]
fn claude_code_without_rules_is_rewritten_only_where_nothing_asks() {
    let verdict = |mode| Host::new(mode).claude("cargo test");
    assert_eq!(verdict("bypassPermissions"), Ok(Verdict::UpdatedInput));
    for mode in ["default", "acceptEdits", "dontAsk"] {
        assert_eq!(verdict(mode), Err(Refusal::NotAllowed), "{mode}");
    }
    for mode in ["plan", "auto", "later"] {
        assert_eq!(verdict(mode), Err(Refusal::PermissionMode), "{mode}");
    }
    let mut host = Host::new("x");
    host.context.permission_mode = None;
    assert_eq!(host.claude("cargo test"), Err(Refusal::PermissionMode));
}

#[test]
fn claude_code_deny_and_ask_rules_keep_the_original() {
    let rules = [
        "Bash",
        "Bash(*)",
        "Bash(cargo:*)",
        "Bash(cargo *)",
        "Bash(cargo test)",
        "Bash(car*)",
        "Bash(* test)",
        "Bash(test:*)",
        "Bash(CARGO:*)",
        "Bash(/usr/bin/cargo *)",
        "Shell(ls)",
        "*",
    ];
    let files = [
        USER,
        "home/project/.claude/settings.json",
        "home/project/.claude/settings.local.json",
        "home/project/sub/.claude/settings.json",
        "home/.claude/remote-settings.json",
        "etc/claude-code/managed-settings.json",
        "etc/claude-code/managed-settings.d/10-rules.json",
    ];
    for rule in rules {
        for (number, file) in files.iter().enumerate() {
            let list = if number % 2 == 0 { "deny" } else { "ask" };
            let text = format!("{{\"permissions\": {{\"{list}\": [\"WebFetch\", \"{rule}\"]}}}}");
            let host = Host::new("bypassPermissions").with_file(file, &text);
            assert_eq!(host.claude("cargo test"), Err(Refusal::Rule), "{rule} in {file}");
        }
    }
}

#[test]
fn claude_code_rules_are_found_in_every_part_of_a_line() {
    let text =
        r#"{"permissions": {"deny": ["Bash(curl:*)", "mcp__x__y", "WebFetch(domain:a.b)"]}}"#;
    let host = Host::new("bypassPermissions").with_file(USER, text);
    for line in [
        "ls && curl x",
        "curl x | jq .",
        "timeout 5 curl x",
        "env A=1 /usr/bin/curl x",
        "python3 -c 'import os; os.system(\"curl x\")'",
    ] {
        assert_eq!(host.claude(line), Err(Refusal::Rule), "{line}");
    }
    assert_eq!(host.claude("cargo test | grep x"), Ok(Verdict::UpdatedInput));
    assert_eq!(host.claude("ls > x"), Err(Refusal::Line));
}

#[test]
fn claude_code_rules_about_files_keep_file_commands() {
    let text = r#"{"permissions": {"deny": ["Read(./.env)", "Edit(/etc/**)"]}}"#;
    let host = Host::new("bypassPermissions").with_file(USER, text);
    for line in ["cat .env", "grep x .env", "cargo test | head", "head -n 1 README.md"] {
        assert_eq!(host.claude(line), Err(Refusal::PathRule), "{line}");
    }
    assert_eq!(host.claude("cargo test && npm test"), Ok(Verdict::UpdatedInput));
}

#[test]
fn claude_code_rules_with_a_path_are_compared_with_every_part_of_it() {
    let text = r#"{"permissions": {"deny": ["Bash(./tools/deploy*)", "Bash(./in*nal/x)"]}}"#;
    let host = Host::new("bypassPermissions").with_file(USER, text);
    for line in ["./tools/deploy/run.sh", "./tools/deploy-all", "ls && ./internal/y"] {
        assert_eq!(host.claude(line), Err(Refusal::Rule), "{line}");
    }
    assert_eq!(host.claude("./tools/check"), Ok(Verdict::UpdatedInput));
}

#[test]
fn claude_code_asks_for_files_outside_the_working_directories() {
    let decide = |mode: &str, rules: &str, command: &str| {
        let text = format!("{{\"permissions\": {{\"allow\": [{rules}]}}}}");
        Host::new(mode).with_file(USER, &text).claude(command)
    };
    let both = "\"Bash(cat:*)\", \"Bash(cargo:*)\", \"Bash(atlatl run:*)\"";
    for mode in ["default", "acceptEdits", "dontAsk"] {
        for line in ["cat /etc/passwd", "cat README.md", "cargo test && cat x"] {
            assert_eq!(decide(mode, both, line), Err(Refusal::PathRule), "{mode} {line}");
        }
        assert_eq!(decide(mode, both, "cargo test"), Ok(Verdict::UpdatedInput), "{mode}");
        // A rule for the whole tool also allows other directories.
        for rule in ["\"Bash\"", "\"Bash(*)\""] {
            let verdict = decide(mode, rule, "cat /etc/passwd");
            assert_eq!(verdict, Ok(Verdict::UpdatedInput), "{mode} {rule}");
        }
    }
}

#[test]
fn claude_code_settings_that_block_other_directories_keep_the_original() {
    for setting in [
        "blockReadsOutsideWorkingDirectories",
        "blockFileToolReadsOutsideWorkingDirectories",
        "blockWritesOutsideWorkingDirectories",
    ] {
        let decide = |value: &str| {
            let text = format!("{{\"permissions\": {{\"{setting}\": {value}}}}}");
            Host::new("bypassPermissions").with_file(USER, &text).claude("cargo test")
        };
        assert_eq!(decide("true"), Err(Refusal::PathRule), "{setting}");
        assert_eq!(decide("\"later\""), Err(Refusal::PathRule), "{setting}");
        assert_eq!(decide("false"), Ok(Verdict::UpdatedInput), "{setting}");
    }
}

#[test]
fn claude_code_allow_rules_must_allow_both_commands() {
    let decide = |rules: &str, command: &str| {
        let text = format!("{{\"permissions\": {{\"allow\": [{rules}]}}}}");
        Host::new("default").with_file(USER, &text).claude(command)
    };
    for rules in [
        "\"Bash\"",
        "\"Bash(*)\"",
        "\"Bash(cargo test:*)\", \"Bash(atlatl run --agent claude-code -- cargo test:*)\"",
        "\"Bash(cargo *)\", \"Bash(atlatl run *)\"",
        "\"Bash(cargo test -q)\", \"Bash(atlatl:*)\"",
    ] {
        assert_eq!(decide(rules, "cargo test -q"), Ok(Verdict::UpdatedInput), "{rules}");
    }
    for rules in [
        "\"Bash(cargo test:*)\"",
        // A rule for rewritten commands alone must not let everything through.
        "\"Bash(atlatl run:*)\"",
        "\"Bash(atlatl:*)\", \"Bash(cargo tes:*)\"",
        "\"Bash(atlatl:*)\", \"Bash(cargo build:*)\"",
        "\"Bash(atlatl:*)\", \"Bash(c* test)\"",
        "\"Read\"",
    ] {
        assert_eq!(decide(rules, "cargo test -q"), Err(Refusal::NotAllowed), "{rules}");
    }
    // Every command of a line needs its rule.
    let rules = "\"Bash(ls:*)\", \"Bash(atlatl run:*)\"";
    assert_eq!(decide(rules, "ls && cargo test"), Err(Refusal::NotAllowed));
    // A deny rule is stronger, in whichever file it is.
    let host =
        Host::new("default").with_file(USER, r#"{"permissions": {"allow": ["Bash"]}}"#).with_file(
            "home/project/.claude/settings.json",
            r#"{"permissions": {"ask": ["Bash(ls)"]}}"#,
        );
    assert_eq!(host.claude("ls"), Err(Refusal::Rule));
    assert_eq!(host.claude("cargo test"), Ok(Verdict::UpdatedInput));
}

#[test]
fn claude_code_takes_allow_rules_only_from_files_it_certainly_reads() {
    let allow = r#"{"permissions": {"allow": ["Bash"]}}"#;
    for file in ["home/project/.claude/settings.json", "home/project/.claude/settings.local.json"] {
        let host = Host::new("default").with_file(file, allow);
        assert_eq!(host.claude("ls"), Ok(Verdict::UpdatedInput), "{file}");
    }
    for file in ["home/project/sub/.claude/settings.json", "home/.claude/remote-settings.json"] {
        let host = Host::new("default").with_file(file, allow);
        assert_eq!(host.claude("ls"), Err(Refusal::NotAllowed), "{file}");
    }
}

#[test]
fn claude_code_reads_another_configuration_directory_and_the_main_working_tree() {
    let deny = r#"{"permissions": {"deny": ["Bash(ls)"]}}"#;
    let mut host = Host::new("bypassPermissions").with_file("other/settings.json", deny);
    assert!(host.claude("ls").is_ok());
    host.context.configuration = Some(host.root.path().join("other"));
    assert_eq!(host.claude("ls"), Err(Refusal::Rule));
    let host = Host::new("bypassPermissions").with_file("main/.claude/settings.local.json", deny);
    let git = format!("gitdir: {}/main/.git/worktrees/project\n", host.root.path().display());
    let host = host.with_file("home/project/.git", &git);
    assert_eq!(host.claude("ls"), Err(Refusal::Rule));
}

#[test]
fn claude_code_settings_that_are_not_understood_keep_the_original() {
    for text in [
        "{",
        r#"{"permissions": {"deny": "Bash"}}"#,
        r#"{"permissions": {"deny": [1]}}"#,
        r#"{"permissions": {"deny": ["Bash(ls"]}}"#,
        r#"{"allowManagedPermissionRulesOnly": true}"#,
    ] {
        let host = Host::new("bypassPermissions").with_file(USER, text);
        assert_eq!(host.claude("ls"), Err(Refusal::Settings), "{text}");
    }
    let host = Host::new("bypassPermissions").with_file(USER, r#"{"sandbox": {"enabled": true}}"#);
    assert_eq!(host.claude("ls"), Err(Refusal::Sandbox));
    let host = Host::new("bypassPermissions").with_file(USER, "");
    assert_eq!(host.claude("ls"), Ok(Verdict::UpdatedInput));
    // A directory with the name of the file cannot be read.
    let host = Host::new("bypassPermissions").with_file(&format!("{USER}/x"), "");
    assert_eq!(host.claude("ls"), Err(Refusal::Settings));
}

#[test]
fn options_of_claude_code_that_may_change_rules_keep_the_original() {
    let decide =
        |arguments: &[&str]| Host::new("bypassPermissions").with_arguments(arguments).claude("ls");
    assert!(decide(&["--dangerously-skip-permissions", "-p", "do it", "--model=x"]).is_ok());
    for option in [
        "--disallowedTools",
        "--disallowed-tools=Bash(ls)",
        "--allowedTools",
        "--settings",
        "--setting-sources",
        "--permission-prompt-tool",
        "--permission-mode",
        "--managed-settings",
        "--tools",
        "--agents",
        "--unknown",
    ] {
        assert_eq!(decide(&["-p", option, "x"]), Err(Refusal::HostOption), "{option}");
    }
    let mut host = Host::new("bypassPermissions");
    host.context.host_arguments = None;
    assert_eq!(host.claude("ls"), Err(Refusal::HostCommandLine));
}

#[test]
fn codex_is_rewritten_only_where_it_never_asks() {
    let verdict = Host::new("bypassPermissions").codex("cargo test");
    assert_eq!(verdict, Ok(Verdict::UpdatedInputWithAllow));
    // `default` is also `on-request`, with which a command can ask to run outside the sandbox.
    for mode in ["default", "plan", "acceptEdits"] {
        assert_eq!(Host::new(mode).codex("cargo test"), Err(Refusal::PermissionMode), "{mode}");
    }
    let file = "home/.codex/config.toml";
    for text in ["approval_policy = \"on-request\"", "approval_policy = \"never\"", "model = \"x\""]
    {
        let host = Host::new("bypassPermissions").with_file(file, text);
        assert_eq!(host.codex("cargo test"), Ok(Verdict::UpdatedInputWithAllow), "{text}");
    }
    for text in [
        "approval_policy = \"untrusted\"",
        "approval_policy = \"on-failure\"",
        "[approval_policy.granular]\nrules = true",
        "[profiles.x]\napproval_policy = \"untrusted\"",
        "[projects.\"/a\"]\ntrust_level = \"untrusted\"",
    ] {
        let host = Host::new("bypassPermissions").with_file(file, text);
        assert_eq!(host.codex("cargo test"), Err(Refusal::PermissionMode), "{text}");
    }
    let host = Host::new("bypassPermissions").with_file(file, "= x");
    assert_eq!(host.codex("cargo test"), Err(Refusal::Settings));
}

#[test]
fn codex_rules_that_may_match_keep_the_original() {
    let rule = |program: &str, decision: &str| {
        format!("# rules\nprefix_rule(pattern=[\"{program}\"], decision=\"{decision}\")\n")
    };
    let files = [
        "home/.codex/rules/default.rules",
        "etc/codex/rules/all.rules",
        "home/project/.codex/rules/x.rules",
    ];
    for file in files {
        for decision in ["allow", "prompt", "forbidden"] {
            let host = Host::new("bypassPermissions").with_file(file, &rule("cargo", decision));
            for line in ["cargo test", "ls | timeout 5 cargo test", "/usr/bin/cargo test"] {
                assert_eq!(host.codex(line), Err(Refusal::Rule), "{file} {decision} {line}");
            }
            assert_eq!(host.codex("npm test"), Ok(Verdict::UpdatedInputWithAllow));
        }
    }
    let host =
        Host::new("bypassPermissions").with_file(files[0], &rule("/usr/bin/atlatl", "allow"));
    assert_eq!(host.codex("npm test"), Err(Refusal::Rule));
    for text in [
        "load(\"x\", \"y\")",
        "prefix_rule(pattern=['npm'])",
        "x = \"np\" + \"m\"",
        "prefix_rule(pattern=\"npm test\".split(), decision=\"forbidden\")",
    ] {
        let host = Host::new("bypassPermissions").with_file(files[0], text);
        assert_eq!(host.codex("npm test"), Err(Refusal::Settings), "{text}");
    }
    let host = Host::new("bypassPermissions").with_file(files[0], "# cargo\n\n");
    assert_eq!(host.codex("cargo test"), Ok(Verdict::UpdatedInputWithAllow));
}

#[test]
fn codex_requirements_and_options_keep_the_original() {
    for file in ["etc/codex/requirements.toml", "etc/codex/managed_config.toml"] {
        let host = Host::new("bypassPermissions").with_file(file, "x = 1");
        assert_eq!(host.codex("ls"), Err(Refusal::Settings), "{file}");
    }
    let decide =
        |arguments: &[&str]| Host::new("bypassPermissions").with_arguments(arguments).codex("ls");
    assert!(decide(&["exec", "--json", "-m", "x", "do it"]).is_ok());
    for option in
        ["-c", "--config=approval_policy=\"untrusted\"", "-a", "-p", "--profile", "--enable"]
    {
        assert_eq!(decide(&["exec", option, "x"]), Err(Refusal::HostOption), "{option}");
    }
}

#[test]
fn other_clients_decide_on_the_original() {
    for client in [Client::CopilotCli, Client::GeminiCli, Client::Opencode] {
        let host = Host::new("bypassPermissions");
        assert_eq!(host.decide(client, "cargo test"), Err(Refusal::Client), "{client:?}");
    }
}
