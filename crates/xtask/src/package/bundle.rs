//! The `.mcpb` bundle: the memory server as a file that a desktop client installs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::release::{AUTHOR, DESCRIPTION, LICENSE, LICENSE_FILES, Release};
use super::{copy_from, run_tool};
use crate::repository::Repository;

/// The newest version of the format that is not marked as experimental.
const MANIFEST_VERSION: &str = "0.3";

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
    let manifest = manifest(release, &release.atlatl.tools(&["serve", "--set", &store])?);
    fs::write(bundle.join("manifest.json"), format!("{manifest:#}\n"))?;
    let file = out.join(format!("{}.mcpb", release.file_stem()));
    run_tool(Command::new("mcpb").arg("pack").arg(&bundle).arg(&file))
}

/// Nothing is asked of the person who installs it: the memories have their place, which is the one
/// that `atlatl memory` on the command line looks at, and a configuration file can change it.
fn manifest(release: &Release, tools: &[Value]) -> Value {
    let tools = tools.iter().map(|tool| {
        let description = tool["description"].as_str().unwrap_or_default();
        json!({"name": tool["name"], "description": first_sentence(description)})
    });
    json!({
        "manifest_version": MANIFEST_VERSION,
        "name": "atlatl",
        "display_name": "Atlatl memories",
        "version": release.version,
        "description": "Memories for a model: recall, search, capture; large answers stay queryable",
        "long_description": DESCRIPTION,
        "author": {"name": AUTHOR},
        "license": LICENSE,
        "keywords": ["memory", "context", "mcp"],
        "server": {
            "type": "binary",
            "entry_point": "server/atlatl",
            "mcp_config": {"command": "${__dirname}/server/atlatl", "args": ["serve"], "env": {}},
        },
        "tools": tools.collect::<Value>(),
        "compatibility": {"platforms": [release.platform.node_os]},
    })
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
        let manifest = manifest(&release(), &tools);
        assert_eq!(manifest["version"], "1.2.3");
        let server = &manifest["server"];
        let entry = format!("${{__dirname}}/{}", server["entry_point"].as_str().unwrap());
        assert_eq!(server["mcp_config"]["command"], entry);
        let tool = json!({"name": "recall_memories", "description": "Does it."});
        assert_eq!(manifest["tools"], json!([tool]));
        assert_eq!(manifest["compatibility"]["platforms"], json!(["linux"]));
    }
}
