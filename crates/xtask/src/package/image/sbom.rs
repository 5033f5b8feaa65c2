//! The software bill of materials: every crate in the program, by cargo-cyclonedx.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::run_tool;
use crate::repository::Repository;

/// The crate with the program.
const PROGRAM_DIR: &str = "crates/atlatl";
/// The name of the file that the tool writes beside each manifest, without its extension.
const FILE_STEM: &str = "sbom.cdx";

/// The list for a target, in `CycloneDX`'s JSON. The tool writes files beside every manifest of a workspace, so it
/// works on a copy of the sources.
pub(super) fn make_sbom(
    repository: &Repository,
    target: &str,
    seconds: i64,
    stage: &Path,
) -> Result<String> {
    let sources = stage.join("sources");
    for file in repository.files()?.into_iter().filter(|file| is_source(file)) {
        let copy = sources.join(&file);
        fs::create_dir_all(copy.parent().context("a file has a directory")?)?;
        fs::copy(repository.path(&file), copy).with_context(|| file.clone())?;
    }
    let mut tool = Command::new("cargo");
    tool.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"])
        .args(["--target", target, "--no-build-deps", "--override-filename", FILE_STEM])
        .arg("--manifest-path")
        .arg(sources.join(PROGRAM_DIR).join("Cargo.toml"))
        .current_dir(&sources)
        // Without a serial number, and with the time of the commit.
        .env("SOURCE_DATE_EPOCH", seconds.to_string());
    run_tool(&mut tool)?;
    let file = sources.join(PROGRAM_DIR).join(format!("{FILE_STEM}.json"));
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    without_path(&text, &sources)
}

/// What cargo reads to resolve dependencies.
fn is_source(file: &str) -> bool {
    matches!(file, "Cargo.toml" | "Cargo.lock")
        || file.starts_with("crates/")
        || file.starts_with(".cargo/")
}

/// The text without the directory of the copy, which is another one at every build.
fn without_path(text: &str, dir: &Path) -> Result<String> {
    let dir = dir.to_str().context("the temporary directory is not UTF-8")?;
    let text = text.replace(dir, "/atlatl");
    let name = Path::new(dir).parent().and_then(|parent| parent.parent()?.file_name());
    let name = name.and_then(|name| name.to_str()).context("the temporary directory has a name")?;
    ensure!(!text.contains(name), "the SBOM contains the temporary directory {name}");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g51_the_list_of_crates_does_not_depend_on_where_it_was_made() {
        let (one, two) =
            (Path::new("/tmp/.tmpA1/image/sources"), Path::new("/var/.tmpB2/image/sources"));
        let list =
            |dir: &Path| format!("{{\"bom-ref\":\"path+file://{}/crates/x#1\"}}", dir.display());
        let made = without_path(&list(one), one).unwrap();
        assert_eq!(made, "{\"bom-ref\":\"path+file:///atlatl/crates/x#1\"}");
        assert_eq!(made, without_path(&list(two), two).unwrap());
        assert!(without_path("file%3A%2F%2F%2Ftmp%2F.tmpA1%2Fimage", one).is_err());
    }

    #[test]
    fn g51_manifests_the_lock_file_and_sources_decide_what_is_in_the_program() {
        let all =
            ["Cargo.toml", "Cargo.lock", "crates/atlatl/Cargo.toml", "crates/atlatl/src/main.rs"];
        assert!(all.into_iter().all(is_source));
        assert!(!is_source("docs/packages.md") && !is_source("bench/data/Cargo.toml"));
    }
}
