//! The pages in headless Chromium: the table view in ext-apps' own bridge and in the Inspector, and the
//! pages of `atlatl results open`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the package.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a script of `tests/view` with what it tests. Screenshots go to `$VIEW_SCREENSHOTS`, if it is set.
fn run(script: &str, subject: &Path) {
    let screenshots = tempfile::tempdir().unwrap();
    let directory = std::env::var_os("VIEW_SCREENSHOTS")
        .map_or_else(|| screenshots.path().to_owned(), PathBuf::from);
    let modules = testkit::tool::require_npm_module("playwright-core");
    let output = Command::new(testkit::tool::require("node"))
        .arg(Path::new(PACKAGE).join("tests/view").join(script))
        .args([subject, &directory])
        .env("ATLATL_NPM", modules.parent().unwrap())
        .env("CHROMIUM", testkit::tool::require("chromium"))
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    eprintln!("{stdout}");
}

#[test]
fn the_table_view_pages_sorts_searches_and_keeps_hostile_cells_inert() {
    run("view.mjs", &Path::new(PACKAGE).join("src/command/results/view/table.html"));
}

#[test]
fn the_list_of_results_searches_filters_and_keeps_hostile_names_inert() {
    run("index.mjs", &Path::new(PACKAGE).join("src/command/results/open/index.html"));
}

#[test]
fn the_program_answers_both_pages_with_a_hundred_thousand_rows() {
    run("program.mjs", Path::new(env!("CARGO_BIN_EXE_atlatl")));
}

#[test]
fn the_inspector_shows_the_table_view() {
    run("inspector.mjs", Path::new(env!("CARGO_BIN_EXE_atlatl")));
}
