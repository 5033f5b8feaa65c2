//! The npm packages: one with the launcher, and one with the program for this platform.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::platform::{self, Platform};
use super::release::{AUTHOR, DESCRIPTION, LICENSE, LICENSE_FILES, PACKAGE, Release};
use super::{copy_from, run_tool};
use crate::repository::Repository;

const SOURCE: &str = "packages/npm";
const LAUNCHER: [&str; 2] = ["atlatl.js", "platform.js"];
/// npm knows licences by one name only, which is not that of ours.
const LICENSES: &str = "LICENSE-*";

/// Makes both.
pub(super) fn make(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let main = stage.join("main");
    fs::create_dir(&main)?;
    for file in LAUNCHER.into_iter().chain(["README.md"]) {
        copy_from(repository, &format!("{SOURCE}/{file}"), &main)?;
    }
    pack(repository, &main, &main_manifest(release), out)?;

    let own = stage.join("platform");
    fs::create_dir_all(own.join("bin"))?;
    fs::copy(&release.program, own.join("bin/atlatl"))?;
    fs::write(own.join("README.md"), platform_readme(release.platform))?;
    pack(repository, &own, &platform_manifest(release), out)
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

/// The name of the package that holds the program for a platform.
fn platform_package(platform: Platform) -> String {
    format!("{PACKAGE}-{}", platform.node_name())
}

fn platform_readme(platform: Platform) -> String {
    format!(
        "# {}\n\nThe program of `{PACKAGE}` for {}. Install that one.\n",
        platform_package(platform),
        platform.node_name()
    )
}

fn main_manifest(release: &Release) -> Value {
    let programs: Map<String, Value> = platform::ALL
        .into_iter()
        .map(|platform| (platform_package(platform), json!(release.version)))
        .collect();
    from(
        release,
        json!({
            "name": PACKAGE,
            "version": release.version,
            "description": DESCRIPTION,
            "license": LICENSE,
            "author": AUTHOR,
            "keywords": ["mcp", "context", "proxy", "memory"],
            "mcpName": release.server_name,
            "bin": {"atlatl": "atlatl.js"},
            "files": [LAUNCHER[0], LAUNCHER[1], LICENSES],
            "engines": {"node": ">=18"},
            "optionalDependencies": programs,
        }),
    )
}

/// The manifest with the place of the source, where that is known.
fn from(release: &Release, mut manifest: Value) -> Value {
    if let Some(url) = &release.repository {
        manifest["repository"] = json!({"type": "git", "url": format!("git+{url}.git")});
    }
    manifest
}

fn platform_manifest(release: &Release) -> Value {
    let platform = release.platform;
    from(
        release,
        json!({
            "name": platform_package(platform),
            "version": release.version,
            "description": format!("The atlatl program for {}", platform.node_name()),
            "license": LICENSE,
            "author": AUTHOR,
            "os": [platform.node_os],
            "cpu": [platform.node_arch],
            "files": ["bin/atlatl", LICENSES],
            // Yarn would leave it in an archive, where it cannot be started.
            "preferUnplugged": true,
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::release::tests::release;

    #[test]
    fn the_main_package_asks_for_every_platform_in_its_own_version() {
        let manifest = main_manifest(&release());
        assert_eq!(manifest["version"], "1.2.3");
        assert_eq!(
            manifest["optionalDependencies"],
            json!({
                "atlatl-lro-linux-x64": "1.2.3",
                "atlatl-lro-linux-arm64": "1.2.3",
                "atlatl-lro-darwin-x64": "1.2.3",
                "atlatl-lro-darwin-arm64": "1.2.3",
            })
        );
        assert_eq!(manifest["mcpName"], "example.org/atlatl");
        assert_eq!(manifest["repository"]["url"], "git+https://example.org/atlatl.git");
    }

    #[test]
    fn a_platforms_package_is_one_the_main_package_asks_for() {
        let release = release();
        let own = platform_manifest(&release);
        let name = own["name"].as_str().unwrap();
        assert_eq!(main_manifest(&release)["optionalDependencies"][name], own["version"]);
        assert_eq!(own["repository"], main_manifest(&release)["repository"]);
        assert_eq!((&own["os"], &own["cpu"]), (&json!(["linux"]), &json!(["x64"])));
    }
}
