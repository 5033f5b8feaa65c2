//! The wheel: the program as a script of a Python package, built by maturin.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use super::release::{LICENSE_FILES, Release};
use super::{copy_from, run_tool};
use crate::repository::Repository;

const SOURCE: &str = "packages/python";
/// Every Linux with a Python that pip still serves, by either C library.
const MANYLINUX: &str = "manylinux2014";
const MUSLLINUX: &str = "musllinux_1_1";

/// Makes the wheel. Cargo finds the program built if environment and target are those of its build;
/// that it holds the same program is checked, whoever compiled it.
pub(super) fn make(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let settings = repository.read(format!("{SOURCE}/pyproject.toml"))?;
    let manifest = repository.path("crates/atlatl/Cargo.toml");
    fs::write(stage.join("pyproject.toml"), with_manifest(&settings, &manifest)?)?;
    let readme = repository.read(format!("{SOURCE}/README.md"))?;
    fs::write(stage.join("README.md"), with_marker(&readme, &release.server_name))?;
    for file in LICENSE_FILES {
        copy_from(repository, file, stage)?;
    }
    let scripts = stage.join("data/scripts");
    fs::create_dir_all(&scripts)?;
    copy_from(repository, &format!("{SOURCE}/data/scripts/atlatl-lro"), &scripts)?;
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
    let maturin = maturin.and_then(Value::as_table_mut).context("no tool.maturin")?;
    maturin.insert("manifest-path".to_owned(), Value::from(manifest.display().to_string()));
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
