//! The package formats: an archive with manual pages and completions, a wheel built by maturin, npm
//! packages with a launcher and the program of each platform, and an `.mcpb` bundle for desktop
//! clients.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use toml::Table;

use super::release::{LICENSE_FILES, Release};
use super::{copy_from, run_tool};
use crate::repository::Repository;

/// The shells, with the file that each looks for.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "atlatl.bash"), ("zsh", "_atlatl"), ("fish", "atlatl.fish")];

/// Makes `atlatl-VERSION-PLATFORM.tar.gz`, all of it below one directory.
pub(super) fn make_archive(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let name = release.file_stem();
    fs::copy(&release.program, stage.join("atlatl"))?;
    for file in LICENSE_FILES.into_iter().chain(["README.md", "CHANGELOG.md"]) {
        copy_from(repository, file, stage)?;
    }
    let man = stage.join("man");
    release.atlatl.stdout(&["man", &man.display().to_string()])?;
    let completions = stage.join("completions");
    fs::create_dir(&completions)?;
    for (shell, file) in COMPLETIONS {
        fs::write(completions.join(file), release.atlatl.stdout(&["completions", shell])?)?;
    }
    copy_model(release, stage)?;
    write_archive(stage, &name, &out.join(format!("{name}.tar.gz")))
}

/// Copies the embedding model beside the program, which searches it there.
fn copy_model(release: &Release, dir: &Path) -> Result<()> {
    run_tool(Command::new("cp").arg("-R").arg(&release.share).arg(dir))
}

/// Writes a directory as an archive whose bytes depend on the files alone: no owner, no time, and
/// names in order.
fn write_archive(dir: &Path, name: &str, file: &Path) -> Result<()> {
    // A time in the header of gzip would be another one at every build.
    let gzip = GzBuilder::new().mtime(0).write(File::create(file)?, Compression::best());
    let mut archive = tar::Builder::new(gzip);
    archive.mode(tar::HeaderMode::Deterministic);
    append_dir(&mut archive, dir, Path::new(name))?;
    archive.into_inner()?.finish()?;
    Ok(())
}

fn append_dir<W: std::io::Write>(
    archive: &mut tar::Builder<W>,
    dir: &Path,
    name: &Path,
) -> Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = name.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            append_dir(archive, &entry.path(), &name)?;
        } else {
            archive.append_path_with_name(entry.path(), name)?;
        }
    }
    Ok(())
}

const PYTHON_DIR: &str = "packages/python";
/// Every Linux with a Python that pip still serves, by either C library.
const MANYLINUX: &str = "manylinux2014";
const MUSLLINUX: &str = "musllinux_1_1";

/// Makes the wheel. Cargo has nothing to build if environment and target are those of the first build;
/// the wheel must contain the same program in any case.
pub(super) fn make_wheel(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let settings = repository.read(format!("{PYTHON_DIR}/pyproject.toml"))?;
    let manifest = repository.path("crates/atlatl/Cargo.toml");
    fs::write(stage.join("pyproject.toml"), with_manifest(&settings, &manifest)?)?;
    let readme = repository.read(format!("{PYTHON_DIR}/README.md"))?;
    fs::write(stage.join("README.md"), with_marker(&readme, &release.server_name))?;
    for file in LICENSE_FILES {
        copy_from(repository, file, stage)?;
    }
    let scripts = stage.join("data/scripts");
    fs::create_dir_all(&scripts)?;
    copy_from(repository, &format!("{PYTHON_DIR}/data/scripts/atlatl-lro"), &scripts)?;
    let wheels = stage.join("wheels");
    let mut maturin = Command::new("maturin");
    maturin
        .args(["build", "--release", "--target", &release.target, "--out"])
        .arg(&wheels)
        .arg("--compatibility")
        .args(compatibility(&release.target))
        .current_dir(stage);
    run_tool(&mut maturin)?;
    let wheel = only_file(&wheels)?;
    let opened = stage.join("opened");
    run_tool(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&opened))?;
    let data = format!("{}-{}.data", "atlatl_lro", release.version);
    let packed = fs::read(opened.join(data).join("scripts/atlatl")).context("its program")?;
    if packed != fs::read(&release.program)? {
        bail!(
            "maturin built another program than {}: were RUSTFLAGS, CARGO_TARGET_DIR or the target \
             not those of its build?",
            release.program.display()
        );
    }
    fs::copy(&wheel, out.join(wheel.file_name().context("a wheel has a name")?))?;
    Ok(())
}

/// The systems that the wheel is for. A static program runs on all of them, but maturin gives both
/// tags to those built with musl alone, and goes by the linker on macOS.
fn compatibility(target: &str) -> &'static [&'static str] {
    if target.ends_with("-musl") { &[MANYLINUX, MUSLLINUX] } else { &[MANYLINUX] }
}

/// The settings with the full path of the crate, since they are used outside the checkout.
fn with_manifest(settings: &str, manifest: &Path) -> Result<String> {
    let mut settings: Table = settings.parse().context("pyproject.toml")?;
    let maturin = settings.get_mut("tool").and_then(|tool| tool.get_mut("maturin"));
    let maturin = maturin.and_then(toml::Value::as_table_mut).context("no tool.maturin")?;
    maturin.insert("manifest-path".to_owned(), toml::Value::from(manifest.display().to_string()));
    Ok(settings.to_string())
}

/// The text with the mark by which the MCP registry knows whose package it is.
fn with_marker(readme: &str, server_name: &str) -> String {
    format!("{}\n\n<!-- mcp-name: {server_name} -->\n", readme.trim_end())
}

fn only_file(dir: &Path) -> Result<std::path::PathBuf> {
    let files = fs::read_dir(dir)?.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => bail!("one wheel was expected: {files:?}"),
    }
}

const NPM_DIR: &str = "packages/npm";

/// Makes the main package and the package of this platform.
pub(super) fn make_npm_packages(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let main = stage.join("main");
    fs::create_dir(&main)?;
    for file in ["atlatl.js", "platform.js", "README.md"] {
        copy_from(repository, &format!("{NPM_DIR}/{file}"), &main)?;
    }
    pack_npm(repository, &main, &npm_manifest(repository, release, "package.json")?, out)?;

    let own = stage.join("platform");
    fs::create_dir_all(own.join("bin"))?;
    fs::copy(&release.program, own.join("bin/atlatl"))?;
    let manifest = npm_manifest(repository, release, "platform.json")?;
    let readme = format!(
        "# {}\n\n{}. Install `atlatl-lro`.\n",
        manifest["name"].as_str().unwrap_or_default(),
        manifest["description"].as_str().unwrap_or_default()
    );
    fs::write(own.join("README.md"), readme)?;
    pack_npm(repository, &own, &manifest, out)
}

fn pack_npm(repository: &Repository, dir: &Path, manifest: &Value, out: &Path) -> Result<()> {
    for file in LICENSE_FILES {
        copy_from(repository, file, dir)?;
    }
    fs::write(dir.join("package.json"), format!("{manifest:#}\n"))?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--loglevel", "error", "--pack-destination"]).arg(out).current_dir(dir);
    run_tool(&mut npm)
}

/// A manifest with the address of the source, if known: npm compares it with the publisher.
fn npm_manifest(repository: &Repository, release: &Release, file: &str) -> Result<Value> {
    let mut manifest = release.fill_in(repository, &format!("{NPM_DIR}/{file}"))?;
    if let Some(url) = &release.repository {
        manifest["repository"] = json!({"type": "git", "url": format!("git+{url}.git")});
    }
    Ok(manifest)
}

const BUNDLE_MANIFEST: &str = "packages/mcpb/manifest.json";

/// Makes `atlatl-VERSION-PLATFORM.mcpb`.
pub(super) fn make_bundle(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let (server, home) = (stage.join("bundle/server"), stage.join("home"));
    fs::create_dir_all(&server)?;
    fs::create_dir(&home)?;
    fs::copy(&release.program, server.join("atlatl"))?;
    copy_model(release, &server)?;
    let bundle = stage.join("bundle");
    for file in LICENSE_FILES {
        copy_from(repository, file, &bundle)?;
    }
    let store = format!("memory.store=sqlite:{}", home.join("memory.db").display());
    let tools = release.atlatl.tools(&["serve", "--set", &store])?;
    let manifest = bundle_manifest(repository, release, &tools)?;
    fs::write(bundle.join("manifest.json"), format!("{manifest:#}\n"))?;
    let file = out.join(format!("{}.mcpb", release.file_stem()));
    run_tool(Command::new("mcpb").arg("pack").arg(&bundle).arg(&file))
}

/// Installing asks no question: memories are where `atlatl memory` looks for them, and a
/// configuration file can change that.
fn bundle_manifest(repository: &Repository, release: &Release, tools: &[Value]) -> Result<Value> {
    let mut manifest = release.fill_in(repository, BUNDLE_MANIFEST)?;
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
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::super::release::PLATFORMS;
    use super::super::release::tests::release;
    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive_and_stay_programs() {
        let dir = tempfile::tempdir().unwrap();
        let stage = dir.path().join("stage");
        fs::create_dir_all(stage.join("man")).unwrap();
        fs::write(stage.join("man/atlatl.1"), "page").unwrap();
        fs::write(stage.join("atlatl"), "program").unwrap();
        let program = File::open(stage.join("atlatl")).unwrap();
        program.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
        let made = |file: &str| {
            write_archive(&stage, "atlatl-1", &dir.path().join(file)).unwrap();
            fs::read(dir.path().join(file)).unwrap()
        };
        let one = made("one.tar.gz");
        program.set_modified(SystemTime::now() - Duration::from_secs(1000)).unwrap();
        assert_eq!(one, made("two.tar.gz"));

        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(one.as_slice()));
        let entries: Vec<(String, u32, u64)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.uid().unwrap())
            })
            .collect();
        let expected = [("atlatl-1/atlatl", 0o755, 0), ("atlatl-1/man/atlatl.1", 0o644, 0)];
        assert_eq!(entries, expected.map(|(path, mode, uid)| (path.to_owned(), mode, uid)));
    }

    #[test]
    fn the_crate_is_named_by_its_full_path_and_the_rest_stays() {
        let settings = "[project]\nname = \"x\"\n[tool.maturin]\nmanifest-path = \"../y\"\n";
        let changed: Table =
            with_manifest(settings, Path::new("/z/Cargo.toml")).unwrap().parse().unwrap();
        assert_eq!(changed["tool"]["maturin"]["manifest-path"].as_str(), Some("/z/Cargo.toml"));
        assert_eq!(changed["project"]["name"].as_str(), Some("x"));
        assert!(with_manifest("[project]\n", Path::new("/z")).is_err());
    }

    #[test]
    fn a_wheel_with_musls_program_is_for_both_kinds_of_linux() {
        assert_eq!(compatibility("x86_64-unknown-linux-gnu"), ["manylinux2014"]);
        assert_eq!(compatibility("aarch64-unknown-linux-musl"), ["manylinux2014", "musllinux_1_1"]);
    }

    #[test]
    fn the_readme_names_the_server_as_the_registry_wants_it() {
        let readme = with_marker("# x\n", "example.org/atlatl");
        assert_eq!(readme, "# x\n\n<!-- mcp-name: example.org/atlatl -->\n");
    }

    #[test]
    fn the_main_package_asks_for_every_platform_in_its_own_version() {
        let repository = Repository::open().unwrap();
        let main = npm_manifest(&repository, &release(), "package.json").unwrap();
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
        let main = npm_manifest(&repository, &release(), "package.json").unwrap();
        let own = npm_manifest(&repository, &release(), "platform.json").unwrap();
        let name = own["name"].as_str().unwrap();
        assert_eq!(main["optionalDependencies"][name], own["version"]);
        assert_eq!(own["repository"], main["repository"]);
        assert_eq!((&own["os"], &own["cpu"]), (&json!(["linux"]), &json!(["x64"])));
    }

    #[test]
    fn the_manifest_starts_what_the_bundle_holds_in_the_version_of_the_release() {
        let tools = [
            json!({"name": "recall_memories", "description": "Does it. And more.", "inputSchema": {}}),
        ];
        let manifest = bundle_manifest(&Repository::open().unwrap(), &release(), &tools).unwrap();
        assert_eq!(manifest["version"], "1.2.3");
        let server = &manifest["server"];
        let entry = format!("${{__dirname}}/{}", server["entry_point"].as_str().unwrap());
        assert_eq!(server["mcp_config"]["command"], entry);
        let tool = json!({"name": "recall_memories", "description": "Does it."});
        assert_eq!(manifest["tools"], json!([tool]));
        assert_eq!(manifest["compatibility"]["platforms"], json!(["linux"]));
    }
}
