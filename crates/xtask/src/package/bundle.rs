//! The `.mcpb` bundle: the memory server as a file that a desktop client installs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::release::{LICENSE_FILES, Release};
use super::{copy_from, run_tool};
use crate::repository::Repository;

const SOURCE: &str = "packages/mcpb/manifest.json";

/// Makes `atlatl-VERSION-PLATFORM.mcpb`.
pub(super) fn make(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let (server, home) = (stage.join("bundle/server"), stage.join("home"));
    fs::create_dir_all(&server)?;
    fs::create_dir(&home)?;
    fs::copy(&release.program, server.join("atlatl"))?;
    let bundle = stage.join("bundle");
    for file in LICENSE_FILES {
        copy_from(repository, file, &bundle)?;
    }
    let store = format!("memory.store=sqlite:{}", home.join("memory.db").display());
    let tools = release.atlatl.tools(&["serve", "--set", &store])?;
    let manifest = manifest(repository, release, &tools)?;
    fs::write(bundle.join("manifest.json"), format!("{manifest:#}\n"))?;
    let file = out.join(format!("{}.mcpb", release.file_stem()));
    run_tool(Command::new("mcpb").arg("pack").arg(&bundle).arg(&file))
}

/// Installing asks no question: memories are where `atlatl memory` looks for them, and a
/// configuration file can change that.
fn manifest(repository: &Repository, release: &Release, tools: &[Value]) -> Result<Value> {
    let mut manifest = release.fill_in(repository, SOURCE)?;
    let tools = tools.iter().map(|tool| {
        let description = tool["description"].as_str().unwrap_or_default();
        json!({"name": tool["name"], "description": first_sentence(description)})
    });
    manifest["tools"] = tools.collect();
    Ok(manifest)
}

/// The first sentence: people read it in the client's list of extensions.
fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.find(". ").map_or(line, |end| &line[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::release::tests::release;

    #[test]
    fn the_manifest_starts_what_the_bundle_holds_in_the_version_of_the_release() {
        let tools = [
            json!({"name": "recall_memories", "description": "Does it. And more.", "inputSchema": {}}),
        ];
        let manifest = manifest(&Repository::open().unwrap(), &release(), &tools).unwrap();
        assert_eq!(manifest["version"], "1.2.3");
        let server = &manifest["server"];
        let entry = format!("${{__dirname}}/{}", server["entry_point"].as_str().unwrap());
        assert_eq!(server["mcp_config"]["command"], entry);
        let tool = json!({"name": "recall_memories", "description": "Does it."});
        assert_eq!(manifest["tools"], json!([tool]));
        assert_eq!(manifest["compatibility"]["platforms"], json!(["linux"]));
    }
}
