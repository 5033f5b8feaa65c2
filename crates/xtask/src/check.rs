//! `cargo xtask check`: rules of the house that no compiler knows.

mod advisories;
mod arrows;
mod book;
mod dependencies;
mod hygiene;
mod links;
mod source_files;
mod threats;

use anyhow::Result;

use crate::args::TestsArgs;
use crate::output;
use crate::repository::Repository;

/// Runs every check, so that one run shows all that is wrong.
pub(crate) fn run(repository: &Repository, args: &TestsArgs) -> Result<bool> {
    let files = repository.files()?;
    let results = [
        ("crate arrows", arrows::check(repository)),
        ("source files", source_files::check(repository, &files)),
        ("dependencies have reasons", dependencies::check(repository)),
        ("exceptions from advisories end", advisories::check(repository)),
        ("hygiene", hygiene::check(repository, &files)),
        ("threats have tests", threats::check(repository, args)),
        ("links resolve", links::check(repository, &files)),
        ("pages are in the book", book::check(repository, &files)),
    ];
    let mut passed = true;
    for (what, result) in results {
        let findings = result.unwrap_or_else(|error| vec![format!("{error:#}")]);
        passed &= output::verdict(what, &findings);
    }
    Ok(passed)
}
