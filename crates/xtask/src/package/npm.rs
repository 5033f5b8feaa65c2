//! The npm packages: one with the launcher, and one with the program for this platform.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::release::{LICENSE_FILES, Release};
use super::{copy_from, run_tool};
use crate::repository::Repository;

const SOURCE: &str = "packages/npm";

/// Makes both.
pub(super) fn make(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let main = stage.join("main");
    fs::create_dir(&main)?;
    for file in ["atlatl.js", "platform.js", "README.md"] {
        copy_from(repository, &format!("{SOURCE}/{file}"), &main)?;
    }
    pack(repository, &main, &manifest(repository, release, "package.json")?, out)?;

    let own = stage.join("platform");
    fs::create_dir_all(own.join("bin"))?;
    fs::copy(&release.program, own.join("bin/atlatl"))?;
    let manifest = manifest(repository, release, "platform.json")?;
    let readme = format!(
        "# {}\n\n{}. Install `atlatl-lro`.\n",
        manifest["name"].as_str().unwrap_or_default(),
        manifest["description"].as_str().unwrap_or_default()
    );
    fs::write(own.join("README.md"), readme)?;
    pack(repository, &own, &manifest, out)
}

fn pack(repository: &Repository, dir: &Path, manifest: &Value, out: &Path) -> Result<()> {
    for file in LICENSE_FILES {
        copy_from(repository, file, dir)?;
    }
    fs::write(dir.join("package.json"), format!("{manifest:#}\n"))?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--loglevel", "error", "--pack-destination"]).arg(out).current_dir(dir);
    run_tool(&mut npm)
}

/// A manifest with the address of the source, if known: npm compares it with the publisher.
fn manifest(repository: &Repository, release: &Release, file: &str) -> Result<Value> {
    let mut manifest = release.fill_in(repository, &format!("{SOURCE}/{file}"))?;
    if let Some(url) = &release.repository {
        manifest["repository"] = json!({"type": "git", "url": format!("git+{url}.git")});
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::release::{PLATFORMS, tests::release};

    #[test]
    fn the_main_package_asks_for_every_platform_in_its_own_version() {
        let repository = Repository::open().unwrap();
        let main = manifest(&repository, &release(), "package.json").unwrap();
        assert_eq!(main["version"], "1.2.3");
        let programs = main["optionalDependencies"].as_object().unwrap();
        assert_eq!(programs.len(), PLATFORMS.len());
        for platform in PLATFORMS {
            assert_eq!(
                programs[&format!("atlatl-lro-{}-{}", platform.node_os, platform.node_arch)],
                "1.2.3"
            );
        }
        assert_eq!(main["mcpName"], "example.org/atlatl");
        assert_eq!(main["repository"]["url"], "git+https://example.org/atlatl.git");
    }

    #[test]
    fn a_platforms_package_is_one_the_main_package_asks_for() {
        let repository = Repository::open().unwrap();
        let main = manifest(&repository, &release(), "package.json").unwrap();
        let own = manifest(&repository, &release(), "platform.json").unwrap();
        let name = own["name"].as_str().unwrap();
        assert_eq!(main["optionalDependencies"][name], own["version"]);
        assert_eq!(own["repository"], main["repository"]);
        assert_eq!((&own["os"], &own["cpu"]), (&json!(["linux"]), &json!(["x64"])));
    }
}
