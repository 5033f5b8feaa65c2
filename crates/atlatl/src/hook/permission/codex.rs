//! Codex's approval policy and execution rules.
//!
//! Codex takes `updatedInput` only with `permissionDecision: "allow"`. The word approves nothing: the
//! rewritten command passes the execution rules, the approval policy and the sandbox like one that the
//! model wrote. The rules match prefixes of a command, so a rule about the original does not match the
//! rewritten command; where a rule may match, the command is left alone.

use super::rules::LineWords;
use super::{Context, Refusal, Verdict, check_host_options, files_with_extension, read_if_exists};

/// Options that change neither rules nor the approval policy. All others may.
const HARMLESS_OPTIONS: &[&str] = &[
    "-C",
    "-i",
    "-m",
    "-o",
    "-s",
    "--add-dir",
    "--cd",
    "--color",
    "--dangerously-bypass-approvals-and-sandbox",
    "--dangerously-bypass-hook-trust",
    "--ephemeral",
    "--experimental-json",
    "--full-auto",
    "--image",
    "--json",
    "--last",
    "--model",
    "--no-alt-screen",
    "--output-last-message",
    "--output-schema",
    "--sandbox",
    "--search",
    "--skip-git-repo-check",
    "--yolo",
];

pub(super) fn may_rewrite(context: &Context, command: &str) -> Result<Verdict, Refusal> {
    check_host_options(context, HARMLESS_OPTIONS)?;
    // The policy `never`. Under any other one the model can ask to run a command outside the sandbox, which
    // Codex does not tell its hooks: the user would be asked about the rewritten command.
    if context.permission_mode.as_deref() != Some("bypassPermissions") {
        return Err(Refusal::PermissionMode);
    }
    let words = LineWords::parse(command)?;
    let user = context.configuration.clone().unwrap_or_else(|| context.home.join(".codex"));
    let system = context.system("etc/codex");
    let mut directories = vec![user.clone(), system.clone()];
    let projects = context.project_directories();
    directories.extend(projects.iter().map(|directory| directory.join(".codex")));
    // Requirements of an administrator can contain rules, and a cache has those of a service.
    let requirements = ["requirements.toml", "managed_config.toml"].map(|file| system.join(file));
    for path in requirements.iter().chain([&user.join("cloud-requirements-cache.json")]) {
        if read_if_exists(path)?.is_some() {
            return Err(Refusal::Settings);
        }
    }
    for directory in directories {
        if let Some(text) = read_if_exists(&directory.join("config.toml"))? {
            check_configuration(&text)?;
        }
        for path in files_with_extension(&directory.join("rules"), "rules")? {
            let text = read_if_exists(&path)?.unwrap_or_default();
            check_rules(&text, &words)?;
        }
    }
    Ok(Verdict::UpdatedInputWithAllow)
}

/// Fails if the policy may be one that decides by the text of a command: `untrusted` and the granular
/// form.
fn check_configuration(text: &str) -> Result<(), Refusal> {
    let document: toml::Table = text.parse().map_err(|_| Refusal::Settings)?;
    let mut tables = vec![&document];
    let profiles = document.get("profiles").and_then(toml::Value::as_table);
    tables
        .extend(profiles.iter().flat_map(|table| table.values()).filter_map(toml::Value::as_table));
    for table in tables {
        match table.get("approval_policy") {
            None => {}
            Some(toml::Value::String(policy)) if policy == "never" || policy == "on-request" => {}
            Some(_) => return Err(Refusal::PermissionMode),
        }
    }
    // Commands of an untrusted project need an approval each.
    let projects = document.get("projects").and_then(toml::Value::as_table);
    let mut projects = projects.iter().flat_map(|table| table.values());
    let is_untrusted = |project: &toml::Value| {
        project.get("trust_level").and_then(toml::Value::as_str) == Some("untrusted")
    };
    if projects.any(is_untrusted) { Err(Refusal::PermissionMode) } else { Ok(()) }
}

/// Fails if a rules file may have a rule about a word of the line or about Atlatl, or is more than a list
/// of rules with plain texts.
fn check_rules(text: &str, words: &LineWords) -> Result<(), Refusal> {
    let code = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let code: Vec<&str> = code.filter(|line| !line.is_empty()).collect();
    for line in code {
        // Texts that are computed, escaped or in other quotes cannot be compared.
        if line.contains(['\'', '\\', '+', '%']) || line.matches('"').count() % 2 == 1 {
            return Err(Refusal::Settings);
        }
        for part in line.split('"').step_by(2) {
            let mut names = part.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_code =
                |name| ["def", "for", "format", "if", "join", "lambda", "load"].contains(&name);
            // A method computes a text, such as `"git push".split()`.
            if part.contains('.') || names.any(is_code) {
                return Err(Refusal::Settings);
            }
        }
        for literal in line.split('"').skip(1).step_by(2) {
            if words.mentions(literal) || literal.contains("atlatl") {
                return Err(Refusal::Rule);
            }
        }
    }
    Ok(())
}
