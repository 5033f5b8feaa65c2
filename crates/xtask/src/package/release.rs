//! A release: the binary, its version and platform, and its names in registries.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use toml::Table;

use super::PackageArgs;
use crate::atlatl::{Atlatl, BinArgs};
use crate::repository::Repository;

/// The texts of both licences.
pub(super) const LICENSE_FILES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The description of the packaged embedding model, with its digest.
const MODEL_MANIFEST: &str = "packages/model/model.json";

/// One build of the program.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) version: String,
    pub(super) target: String,
    pub(super) platform: Platform,
    /// The program's file.
    pub(super) program: PathBuf,
    pub(super) atlatl: Atlatl,
    /// The directory `share` with the embedding model.
    pub(super) share: PathBuf,
    /// The server's name in the MCP registry: a namespace that the publisher owns, then its own.
    pub(super) server_name: String,
    /// Where its source is, for registries that compare it with who publishes.
    pub(super) repository: Option<String>,
}

impl Release {
    /// Takes the binary, which has to be of this checkout's version. What is packed is a copy in
    /// `stage`: a tool that builds again must not change it in between.
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
        let share = args.model.join("share");
        let model = share.join("atlatl/models/minilm/model.json");
        let made = fs::read_to_string(&model).with_context(|| model.display().to_string())?;
        ensure!(
            made == repository.read(MODEL_MANIFEST)?,
            "{} is not {MODEL_MANIFEST}; make the model with .ci/model",
            model.display()
        );
        let program = stage.join("atlatl");
        fs::copy(atlatl.dir().join("atlatl"), &program)?;
        Ok(Self {
            version,
            target: args.target.clone(),
            platform: Platform::from_target(&args.target)?,
            program,
            atlatl,
            share,
            server_name: format!("{}/atlatl", args.namespace),
            repository: args.repository.clone(),
        })
    }

    /// A manifest of the checkout with `@VERSION@`, `@SERVER@`, `@OS@` and `@CPU@` filled in.
    pub(super) fn fill_in(&self, repository: &Repository, file: &str) -> Result<Value> {
        let text = repository
            .read(file)?
            .replace("@VERSION@", &self.version)
            .replace("@SERVER@", &self.server_name)
            .replace("@OS@", self.platform.node_os)
            .replace("@CPU@", self.platform.node_arch);
        serde_json::from_str(&text).with_context(|| file.to_owned())
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

/// One of the platforms that packages are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Platform {
    /// The processor as compilers call it, which is how archives are named.
    pub(super) arch: &'static str,
    /// The processor as Node calls it.
    pub(super) node_arch: &'static str,
    /// The system as Node and bundles call it.
    pub(super) node_os: &'static str,
    /// The system as archives are named.
    pub(super) os: &'static str,
}

/// All of them. The npm package names each as an optional dependency.
pub(super) const PLATFORMS: [Platform; 4] = [
    Platform { arch: "x86_64", node_arch: "x64", node_os: "linux", os: "linux" },
    Platform { arch: "aarch64", node_arch: "arm64", node_os: "linux", os: "linux" },
    Platform { arch: "x86_64", node_arch: "x64", node_os: "darwin", os: "macos" },
    Platform { arch: "aarch64", node_arch: "arm64", node_os: "darwin", os: "macos" },
];

impl Platform {
    /// The platform of a target, as the compiler names it.
    pub(super) fn from_target(target: &str) -> Result<Self> {
        let (arch, rest) = target.split_once('-').unwrap_or((target, ""));
        let found =
            PLATFORMS.into_iter().find(|one| one.arch == arch && rest.contains(one.node_os));
        let Some(found) = found else {
            bail!("no packages are made for {target}; see crates/xtask/src/package/release.rs");
        };
        Ok(found)
    }

    /// `x86_64-linux`, the end of a file's name.
    pub(super) fn name(self) -> String {
        format!("{}-{}", self.arch, self.os)
    }
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
            platform: Platform::from_target(target).unwrap(),
            program: bin.path().join("atlatl"),
            atlatl,
            share: bin.path().join("share"),
            server_name: "example.org/atlatl".to_owned(),
            repository: Some("https://example.org/atlatl".to_owned()),
        }
    }

    #[test]
    fn names_and_texts_are_the_same_in_all_manifests() {
        let repository = Repository::open().unwrap();
        let root: Table = repository.read("Cargo.toml").unwrap().parse().unwrap();
        let workspace = &root["workspace"]["package"];
        let own: Table = repository.read("crates/atlatl/Cargo.toml").unwrap().parse().unwrap();
        let (name, about) =
            (own["package"]["name"].as_str(), own["package"]["description"].as_str());
        assert!(about.unwrap().chars().count() <= 100, "the MCP registry takes 100 characters");
        let python = repository.read("packages/python/pyproject.toml").unwrap();
        let project = &python.parse::<Table>().unwrap()["project"];
        assert_eq!((project["name"].as_str(), project["description"].as_str()), (name, about));
        assert_eq!(project["license"], workspace["license"]);
        let filled = |file: &str| release().fill_in(&repository, file).unwrap();
        let npm = filled("packages/npm/package.json");
        assert_eq!((npm["name"].as_str(), npm["description"].as_str()), (name, about));
        let bundle = filled("packages/mcpb/manifest.json");
        assert_eq!(bundle["long_description"].as_str(), about);
        for manifest in [npm, filled("packages/npm/platform.json"), bundle] {
            assert_eq!(manifest["license"].as_str(), workspace["license"].as_str());
            let author = manifest["author"].get("name").unwrap_or(&manifest["author"]);
            assert_eq!(author.as_str(), workspace["authors"][0].as_str());
        }
        let server = filled("packages/registry/server.json");
        assert_eq!(server["description"].as_str(), about);
        assert_eq!(
            (&server["name"], &server["version"]),
            (&"example.org/atlatl".into(), &"1.2.3".into())
        );
        for (package, registry) in
            server["packages"].as_array().unwrap().iter().zip(["npm", "pypi"])
        {
            assert_eq!(package["registryType"], registry);
            assert_eq!(
                (package["identifier"].as_str(), &package["version"]),
                (name, &"1.2.3".into())
            );
        }
    }

    #[test]
    fn the_models_packages_agree_and_the_programs_depend_on_them() {
        let repository = Repository::open().unwrap();
        let json = |file: &str| release().fill_in(&repository, file).unwrap();
        let project = |file: &str| {
            repository.read(file).unwrap().parse::<Table>().unwrap()["project"].clone()
        };
        let (npm, wheel) =
            (json("packages/model/package.json"), project("packages/model/pyproject.toml"));
        for field in ["name", "version", "description", "license"] {
            assert_eq!(npm[field].as_str(), wheel[field].as_str(), "{field}");
        }
        assert_eq!(npm["license"], json(MODEL_MANIFEST)["license"]);
        assert!(npm["version"].as_str().unwrap().starts_with("1."));
        let name = npm["name"].as_str().unwrap();
        let platform = json("packages/npm/platform.json");
        assert_eq!(platform["optionalDependencies"][name], "^1.0.0");
        let program = project("packages/python/pyproject.toml");
        assert_eq!(program["dependencies"][0].as_str().unwrap(), format!("{name}>=1,<2"));
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
        for tool in ["maturin==", "hatchling==", "@anthropic-ai/mcpb@", "cargo-cyclonedx@"] {
            let pinned = |text: &str| {
                let rest = text.split(tool).nth(1).unwrap_or_default();
                rest.split([' ', ')', '\n']).next().unwrap_or_default().to_owned()
            };
            assert!(!pinned(&gate).is_empty(), "{tool}");
            assert_eq!(pinned(&gate), pinned(&workflow), "{tool}");
        }
    }

    #[test]
    fn a_program_of_another_version_or_name_or_another_model_is_not_packed() {
        use std::os::unix::fs::PermissionsExt;

        let repository = Repository::open().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let pack = |name: &str, version: &str| {
            let bin = dir.path().join(name);
            fs::write(&bin, format!("#!/bin/sh\necho atlatl {version}\n")).unwrap();
            fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
            let args = PackageArgs {
                bin,
                target: "x86_64-unknown-linux-gnu".to_owned(),
                model: dir.path().to_owned(),
                out: dir.path().join("out"),
                namespace: "local".to_owned(),
                repository: None,
            };
            Release::new(&repository, &args, dir.path()).unwrap_err().to_string()
        };
        assert!(pack("atlatl", "9.9.9").contains("says `atlatl 9.9.9`"));
        assert!(pack("other", "9.9.9").contains("a program called atlatl"));
        let model = dir.path().join("share/atlatl/models/minilm");
        fs::create_dir_all(&model).unwrap();
        fs::write(model.join("model.json"), "{}").unwrap();
        let version = version(&repository.read("Cargo.toml").unwrap()).unwrap();
        assert!(pack("atlatl", &version).ends_with("make the model with .ci/model"));
    }

    #[test]
    fn targets_have_their_platform_whatever_their_c_library() {
        for target in ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"] {
            let platform = Platform::from_target(target).unwrap();
            assert_eq!(platform.name(), "x86_64-linux");
            assert_eq!((platform.node_os, platform.node_arch), ("linux", "x64"));
        }
        let mac = Platform::from_target("aarch64-apple-darwin").unwrap();
        assert_eq!((mac.name().as_str(), mac.node_os), ("aarch64-macos", "darwin"));
    }

    #[test]
    fn a_target_without_packages_is_refused() {
        for target in ["x86_64-pc-windows-msvc", "riscv64gc-unknown-linux-gnu", "x86_64", ""] {
            assert!(Platform::from_target(target).is_err(), "{target}");
        }
    }
}
