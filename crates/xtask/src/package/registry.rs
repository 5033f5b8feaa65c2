//! `server.json`: the memory server's entry in the MCP registry.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::release::{DESCRIPTION, PACKAGE, Release};
use crate::repository::Repository;

const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// Writes it.
pub(super) fn make(_: &Repository, release: &Release, _: &Path, out: &Path) -> Result<()> {
    fs::write(out.join("server.json"), format!("{:#}\n", entry(release)))?;
    Ok(())
}

fn entry(release: &Release) -> Value {
    let package = |registry: &str, hint: &str| {
        json!({
            "registryType": registry,
            "identifier": PACKAGE,
            "version": release.version,
            "runtimeHint": hint,
            "transport": {"type": "stdio"},
            "packageArguments": [{"type": "positional", "value": "serve"}],
        })
    };
    json!({
        "$schema": SCHEMA,
        "name": release.server_name,
        "title": "Atlatl",
        "description": DESCRIPTION,
        "version": release.version,
        "packages": [package("npm", "npx"), package("pypi", "uvx")],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::release::tests::release;

    #[test]
    fn both_packages_are_named_in_the_version_of_the_release() {
        let entry = entry(&release());
        assert_eq!(entry["name"], "example.org/atlatl");
        assert_eq!(entry["version"], "1.2.3");
        let packages = entry["packages"].as_array().unwrap();
        let kinds: Vec<_> = packages.iter().map(|package| &package["registryType"]).collect();
        assert_eq!(kinds, ["npm", "pypi"]);
        for package in packages {
            assert_eq!(
                (&package["identifier"], &package["version"]),
                (&json!(PACKAGE), &json!("1.2.3"))
            );
        }
    }

    #[test]
    fn the_description_is_short_enough_for_the_registry() {
        assert!(DESCRIPTION.chars().count() <= 100);
    }
}
