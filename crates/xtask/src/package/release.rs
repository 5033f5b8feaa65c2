//! What is packed: the binary, its version and platform, and the names it goes by.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::Table;

use super::platform::Platform;
use crate::args::{BinArgs, PackageArgs};
use crate::atlatl::Atlatl;
use crate::repository::Repository;

/// The name in package registries; `atlatl` is taken there.
pub(super) const PACKAGE: &str = "atlatl-lro";
/// What it is, in the words of Cargo.toml; the MCP registry takes at most 100 characters.
pub(super) const DESCRIPTION: &str =
    "Keeps large MCP tool results out of the context window without losing a byte";
/// As in Cargo.toml.
pub(super) const LICENSE: &str = "MIT OR Apache-2.0";
/// As in Cargo.toml.
pub(super) const AUTHOR: &str = "The Atlatl authors";
/// The texts of both licences.
pub(super) const LICENSE_FILES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// One build of the program.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) version: String,
    pub(super) target: String,
    pub(super) platform: Platform,
    /// The program's file.
    pub(super) program: PathBuf,
    pub(super) atlatl: Atlatl,
    /// The server's name in the MCP registry: a namespace that the publisher owns, then its own.
    pub(super) server_name: String,
    /// Where its source is, for registries that compare it with who publishes.
    pub(super) repository: Option<String>,
}

impl Release {
    /// Takes the binary, which has to be of this checkout's version. What is packed is a copy in
    /// `stage`: a tool that builds anew must not change it in between.
    pub(super) fn new(repository: &Repository, args: &PackageArgs, stage: &Path) -> Result<Self> {
        if args.bin.file_name().is_none_or(|name| name != "atlatl") {
            bail!("{}: a program called atlatl is packed", args.bin.display());
        }
        let dir = args.bin.parent().map(PathBuf::from);
        let atlatl = Atlatl::find(repository, &BinArgs { bin: dir })?;
        let version = version(&repository.read("Cargo.toml")?)?;
        let says = atlatl.stdout(&["--version"])?;
        if says.trim() != format!("atlatl {version}") {
            bail!("{} says `{}`, Cargo.toml {version}", args.bin.display(), says.trim());
        }
        let program = stage.join("atlatl");
        fs::copy(atlatl.dir().join("atlatl"), &program)?;
        Ok(Self {
            version,
            target: args.target.clone(),
            platform: Platform::of_target(&args.target)?,
            program,
            atlatl,
            server_name: format!("{}/atlatl", args.namespace),
            repository: args.repository.clone(),
        })
    }

    /// `atlatl-0.1.0-x86_64-linux`.
    pub(super) fn file_stem(&self) -> String {
        format!("atlatl-{}-{}", self.version, self.platform.name())
    }
}

fn version(manifest: &str) -> Result<String> {
    let manifest: Table = manifest.parse().context("Cargo.toml")?;
    let version = manifest.get("workspace").and_then(|value| value.get("package"));
    let version = version.and_then(|value| value.get("version")?.as_str());
    Ok(version.context("Cargo.toml has no workspace.package.version")?.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A release that needs no binary, for what is only written down.
    pub(in super::super) fn release() -> Release {
        let repository = Repository::open().unwrap();
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join("atlatl"), "").unwrap();
        let atlatl =
            Atlatl::find(&repository, &BinArgs { bin: Some(bin.path().to_path_buf()) }).unwrap();
        let target = "x86_64-unknown-linux-gnu";
        Release {
            version: "1.2.3".to_owned(),
            target: target.to_owned(),
            platform: Platform::of_target(target).unwrap(),
            program: bin.path().join("atlatl"),
            atlatl,
            server_name: "example.org/atlatl".to_owned(),
            repository: Some("https://example.org/atlatl".to_owned()),
        }
    }

    #[test]
    fn names_and_texts_are_those_of_the_manifests() {
        let repository = Repository::open().unwrap();
        let root: Table = repository.read("Cargo.toml").unwrap().parse().unwrap();
        let package = &root["workspace"]["package"];
        assert_eq!(package["license"].as_str(), Some(LICENSE));
        assert_eq!(package["authors"][0].as_str(), Some(AUTHOR));
        let own: Table = repository.read("crates/atlatl/Cargo.toml").unwrap().parse().unwrap();
        assert_eq!(own["package"]["name"].as_str(), Some(PACKAGE));
        assert_eq!(own["package"]["description"].as_str(), Some(DESCRIPTION));
        let python: Table =
            repository.read("packages/python/pyproject.toml").unwrap().parse().unwrap();
        assert_eq!(python["project"]["name"].as_str(), Some(PACKAGE));
        assert_eq!(python["project"]["description"].as_str(), Some(DESCRIPTION));
        assert_eq!(python["project"]["license"].as_str(), Some(LICENSE));
    }

    #[test]
    fn the_version_is_the_workspaces() {
        assert_eq!(version("[workspace.package]\nversion = \"1.2.3\"").unwrap(), "1.2.3");
        assert!(version("[package]\nversion = \"1.2.3\"").is_err());
    }

    #[test]
    fn documents_name_the_files_of_this_version() {
        let repository = Repository::open().unwrap();
        let version = version(&repository.read("Cargo.toml").unwrap()).unwrap();
        for document in ["README.md", "docs/packages.md"] {
            let text = repository.read(document).unwrap();
            let named = text.matches(&format!("atlatl-{version}-x86_64-linux")).count();
            let of_any = text.split("-x86_64-linux").count() - 1;
            let open = text.matches("VERSION-x86_64-linux").count();
            assert!(named > 0, "{document} does not name {version}");
            assert_eq!(named + open, of_any, "{document} names another version than {version}");
        }
    }

    #[test]
    fn the_gate_and_the_release_workflow_pack_with_the_same_tools() {
        let repository = Repository::open().unwrap();
        let gate = repository.read(".ci/packages").unwrap();
        let workflow = repository.read(".github/workflows/release.yml").unwrap();
        for tool in ["maturin==", "@anthropic-ai/mcpb@"] {
            let pinned = |text: &str| {
                let rest = text.split(tool).nth(1).unwrap_or_default();
                rest.split([' ', ')', '\n']).next().unwrap_or_default().to_owned()
            };
            assert!(!pinned(&gate).is_empty(), "{tool}");
            assert_eq!(pinned(&gate), pinned(&workflow), "{tool}");
        }
    }

    #[test]
    fn a_program_of_another_version_or_name_is_not_packed() {
        use std::os::unix::fs::PermissionsExt;

        let repository = Repository::open().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let pack = |name: &str| {
            let bin = dir.path().join(name);
            fs::write(&bin, "#!/bin/sh\necho atlatl 9.9.9\n").unwrap();
            fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
            let args = PackageArgs {
                bin,
                target: "x86_64-unknown-linux-gnu".to_owned(),
                out: dir.path().join("out"),
                namespace: "local".to_owned(),
                repository: None,
            };
            Release::new(&repository, &args, dir.path()).unwrap_err().to_string()
        };
        assert!(pack("atlatl").contains("says `atlatl 9.9.9`"));
        assert!(pack("other").contains("a program called atlatl"));
    }
}
