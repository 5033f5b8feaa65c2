//! The program as it was before the newest migration, built from its revision.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use xtask::output;
use xtask::repository::{Repository, cache_dir, has_extension};

/// Where the migrations are.
const MIGRATIONS: &str = "crates/atlatl-memory/src/postgres/migrations/";

/// Builds the program of `from`, or of the newest revision that does not know this checkout's newest
/// migration. Sources and build are kept in the cache: the next time there is nothing to do.
pub(super) fn build(repository: &Repository, from: Option<&str>) -> Result<PathBuf> {
    let revision = match from {
        Some(name) => {
            // A name that begins with a dash would be an option.
            let name = format!("{name}^{{commit}}");
            repository.git(&["rev-parse", "--verify", "--end-of-options", &name])?
        }
        None => before_the_newest_migration(repository)?,
    };
    let revision = revision.trim();
    let home = cache_dir()?.join("upgrade");
    let sources = home.join(revision);
    output::progress(format_args!("the older program: {revision}"));
    if !sources.join("Cargo.toml").is_file() {
        std::fs::create_dir_all(&sources)?;
        let mut archive = Command::new("git")
            .args(["archive", revision])
            .current_dir(repository.path(""))
            .stdout(Stdio::piped())
            .spawn()
            .context("starting git archive")?;
        let packed = archive.stdout.take().context("git archive has a piped stdout")?;
        let unpacked = Command::new("tar").arg("-xC").arg(&sources).stdin(packed).status()?;
        ensure!(archive.wait()?.success() && unpacked.success(), "git archive {revision} failed");
    }
    let target = home.join("target");
    let built = Command::new("cargo")
        .args(["build", "--release", "--locked", "--package", "atlatl-lro", "--bin", "atlatl"])
        .current_dir(&sources)
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .context("starting cargo")?;
    ensure!(built.success(), "cargo build in {} failed", sources.display());
    // The next revision builds in the same place.
    let program = sources.join("atlatl-of-this-revision");
    std::fs::copy(target.join("release/atlatl"), &program)?;
    Ok(program)
}

fn before_the_newest_migration(repository: &Repository) -> Result<String> {
    let here = newest(repository.files()?.iter().map(String::as_str));
    let mut revision = String::from("HEAD");
    loop {
        let there = repository.git(&["ls-tree", "--name-only", &revision, MIGRATIONS])?;
        let there = newest(there.lines());
        ensure!(there.is_some(), "no revision has fewer migrations than this checkout");
        if there < here {
            return repository.git(&["rev-parse", &revision]);
        }
        let log = ["log", "-1", "--format=%H", "--diff-filter=A", &revision, "--", MIGRATIONS];
        let added = repository.git(&log)?;
        revision = format!("{}^", added.trim());
    }
}

/// The migration with the largest number.
fn newest<'a>(files: impl Iterator<Item = &'a str>) -> Option<String> {
    let migrations =
        files.filter(|file| file.starts_with(MIGRATIONS) && has_extension(file, "sql"));
    migrations.max().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_migration_is_the_last_of_the_migrations() {
        let files = ["0001-a.sql", "0010-c.sql", "0002-b.sql", "readme.md"];
        let files = files.map(|name| format!("{MIGRATIONS}{name}"));
        let others = ["Cargo.toml", "crates/z.sql"];
        let all = files.iter().map(String::as_str).chain(others);
        assert_eq!(newest(all), Some(format!("{MIGRATIONS}0010-c.sql")));
        assert_eq!(newest(others.into_iter()), None);
    }
}
