//! `cargo xtask check`: project rules that no compiler knows.

pub(crate) mod arrows;
mod dependencies;
mod documents;
mod source_files;

use anyhow::Result;

use crate::output;
use crate::repository::Repository;
use crate::test_list::TestsArgs;

/// Runs every check, so that one run shows all that is wrong.
pub(crate) fn run(repository: &Repository, args: &TestsArgs) -> Result<bool> {
    let files = repository.files()?;
    let results = [
        ("crate arrows", arrows::check(repository)),
        ("source files", source_files::check(repository, &files)),
        ("dependencies have reasons", dependencies::check(repository)),
        ("exceptions from advisories end", dependencies::check_advisories(repository)),
        ("hygiene", source_files::check_hygiene(repository, &files)),
        ("threats have tests", documents::check_threats(repository, args)),
        ("walkthroughs follow the code", documents::check_walkthroughs(repository)),
        ("links resolve", documents::check_links(repository, &files)),
        ("pages are in the book", documents::check_book(repository, &files)),
    ];
    let mut passed = true;
    for (what, result) in results {
        let findings = result.unwrap_or_else(|error| vec![format!("{error:#}")]);
        passed &= output::verdict(what, &findings);
    }
    Ok(passed)
}
