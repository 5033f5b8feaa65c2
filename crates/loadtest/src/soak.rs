//! `cargo loadtest soak`: tests that take too long for every commit, with records under `bench/runs/`.

pub(crate) mod fuzz;
pub(crate) mod mutants;

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::{Repository, cache_dir, has_extension};
use xtask::run_record::RunRecord;

/// The document with the results of the last runs, in its generated part `soak`.
const DOCUMENT: &str = "docs/performance.md";
/// The size of a run for its tests: cases or seconds.
const CASES_VARIABLE: &str = "ATLATL_SOAK_CASES";
/// The path of a program that was built from an older revision, for the tests.
const OLD_VARIABLE: &str = "ATLATL_OLD_PROGRAM";
/// The run that needs an older program.
const UPGRADE: &str = "upgrade";
/// Lines of a test's output with this prefix become part of the record.
const SUMMARY_MARK: &str = "soak:";

/// Which long runs to start.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArgs {
    /// Name of one run [default: all]
    #[arg(value_parser = names())]
    name: Option<String>,
    /// Size of the run, instead of its full size
    #[arg(long, value_name = "N", requires = "name", value_parser = clap::value_parser!(u32).range(1..))]
    cases: Option<u32>,
    /// With `upgrade`: revision of the older program [default: the newest without the last migration]
    #[arg(long, value_name = "REVISION")]
    from: Option<String>,
}

/// One long run.
struct Soak {
    name: &'static str,
    shows: &'static str,
    cases: u32,
    /// What `cases` counts.
    unit: &'static str,
    packages: &'static [&'static str],
    /// A nextest filter expression.
    filter: &'static str,
}

const SOAKS: &[Soak] = &[
    Soak {
        name: "fidelity",
        shows: "records found in any payload keep their lexemes, and payloads can be put together again",
        cases: 100_000,
        unit: "cases",
        packages: &["lro-core"],
        filter: "test(/^fidelity::prop_/)",
    },
    Soak {
        name: "rewrite",
        shows: "a command that a hook rewrites has the same effect in sh, bash and zsh",
        cases: 10_000,
        unit: "lines",
        packages: &["atlatl-lro"],
        filter: "test(/^rewrite::a_rewritten_line/)",
    },
    Soak {
        name: "mif-forms",
        shows: "a memory survives export and import in its three forms",
        cases: 100_000,
        unit: "cases",
        packages: &["atlatl-mif"],
        filter: "test(/^round_trip::/)",
    },
    Soak {
        name: "spool-forms",
        shows: "what was stored gives back what came: lexemes of arrays and lines, bytes of anything else",
        cases: 100_000,
        unit: "cases",
        packages: &["lro-spool"],
        filter: "test(/^stored::prop_/)",
    },
    Soak {
        name: "spool-sweep",
        shows: "a sweeper against writers, readers and a jumping clock deletes nothing unexpired and nothing foreign",
        cases: 100_000,
        unit: "cases",
        packages: &["lro-spool"],
        filter: "test(/^state_machine::/)",
    },
    Soak {
        name: "spool-crash",
        shows: "writers killed at random moments and at each step leave no torn file, and nothing after the next start",
        cases: 1_000,
        unit: "kills",
        packages: &["lro-spool"],
        filter: "test(/^crash/)",
    },
    Soak {
        name: "spool-race",
        shows: "links, pipes and folders put under our names while we use them lead to nothing outside",
        cases: 60,
        unit: "seconds",
        packages: &["lro-spool"],
        filter: "test(/^race::/)",
    },
    Soak {
        name: "spool-processes",
        shows: "32 processes in one directory lose nothing, keep the quotas and tell of each expired result once",
        cases: 60,
        unit: "seconds",
        packages: &["lro-spool"],
        filter: "test(/^processes::/)",
    },
    Soak {
        name: "extract-race",
        shows: "links to a secret put in place of stored files and folders while every tool is called make none tell it",
        cases: 60,
        unit: "seconds",
        // Its worker is a program of the other package.
        packages: &["lro", "lro-query"],
        filter: "test(/^race::/)",
    },
    Soak {
        name: "everything-found",
        shows: "a search finds every value and name of a result",
        cases: 100_000,
        unit: "cases",
        packages: &["lro", "lro-query"],
        filter: "test(/^everything_is_found::g10_every_scalar/)",
    },
    Soak {
        name: "sizes-add-up",
        shows: "the sizes of what a descriptor shows and of what it only names add up to the whole",
        cases: 100_000,
        unit: "cases",
        packages: &["lro", "lro-query"],
        filter: "test(/^everything_is_found::g10_what_is_shown/)",
    },
    Soak {
        name: "transparency",
        shows: "messages of both eras, however they are spelled, pass the relay as the bytes that came",
        cases: 100_000,
        unit: "cases",
        packages: &["lro-proxy", "lro-query"],
        filter: "test(/^transparent::/)",
    },
    Soak {
        name: "proxy",
        shows: "a proxy's descriptors, memory and files stay flat while results are stored, read and expire",
        cases: 1_000_000,
        unit: "calls",
        packages: &["atlatl-lro"],
        filter: "test(/^proxy_soak::/)",
    },
    Soak {
        name: "durability",
        shows: "what a memory store acknowledged is there after its process was killed, nothing else is, and nothing by half",
        cases: 200,
        unit: "kills",
        packages: &["atlatl-memory"],
        filter: "test(/^durability::/)",
    },
    Soak {
        name: "embedding-outage",
        shows: "an embedding endpoint that answers 429 and 500, hangs and drops connections: 30 s after it recovers every memory has its vector",
        cases: 60,
        unit: "seconds",
        packages: &["atlatl-lro"],
        filter: "test(/^embedding_outage::/)",
    },
    Soak {
        name: "import",
        shows: "an import of Markdown files that is killed at random moments and run again makes one memory of each",
        cases: 100_000,
        unit: "files",
        packages: &["atlatl-lro"],
        filter: "test(/^memory::kills::/)",
    },
    Soak {
        name: "recipes",
        shows: "the ten recipes answer odd sets of records as the real jq does, at all levels, with any parameters",
        cases: 10_000,
        unit: "sets",
        packages: &["lro-query"],
        filter: "test(/^recipes::/)",
    },
    Soak {
        name: "search",
        shows: "lines are found as by the real rg, and 100 hostile patterns on lines of 50 MB end within 2 s",
        cases: 5_000,
        unit: "searches",
        packages: &["lro-query"],
        filter: "test(/^(searches|hostile_patterns)::/)",
    },
    Soak {
        name: "team-kills",
        shows: "a database killed under two servers and four writers loses nothing that was acknowledged",
        cases: 200,
        unit: "kills",
        packages: &["atlatl-lro"],
        filter: "test(/^team::kills::/)",
    },
    Soak {
        name: UPGRADE,
        shows: "two versions on one database, and a migration between them, under load: no request fails",
        cases: 5,
        unit: "upgrades",
        packages: &["atlatl-lro"],
        filter: "test(/^team::upgrade::/)",
    },
];

/// The result of one long run.
#[derive(Debug, Serialize)]
struct SoakResult {
    name: &'static str,
    shows: &'static str,
    cases: u32,
    unit: &'static str,
    command: String,
    passed: bool,
    exit_status: Option<i32>,
    seconds: f64,
    summary: Vec<String>,
}

/// The names that the command line accepts.
fn names() -> PossibleValuesParser {
    SOAKS.iter().map(|soak| soak.name).collect::<Vec<_>>().into()
}

/// Runs one or all, writes the record and, after a run of all, the table of the document.
pub(crate) fn run(repository: &Repository, args: &SoakArgs) -> Result<bool> {
    let chosen = args.name.as_deref();
    let soaks = SOAKS.iter().filter(|soak| chosen.is_none_or(|name| name == soak.name));
    let (name, mut command) = match chosen {
        Some(name) => (format!("soak-{name}"), format!("cargo xtask soak {name}")),
        None => ("soak".to_owned(), "cargo xtask soak".to_owned()),
    };
    if let Some(cases) = args.cases {
        let _ = write!(command, " --cases {cases}");
    }
    if let Some(from) = &args.from {
        let _ = write!(command, " --from {from}");
    }
    let old_program = match chosen {
        None | Some(UPGRADE) => Some(build_old_program(repository, args.from.as_deref())?),
        _ => None,
    };
    // The servers for the tests: nextest does not build programs of a package without tests.
    let build = ["build", "--profile", "bench", "--locked", "--package", "testkit", "--bins"];
    ensure!(repository.cargo(&build).status()?.success(), "cargo build failed");
    let record = RunRecord::begin(repository, &name, &command)?;
    let results = soaks
        .map(|soak| soak.run(repository, args.cases.unwrap_or(soak.cases), old_program.as_deref()))
        .collect::<Result<Vec<_>>>()?;
    let record = record.finish(results);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let table = table(record.results());
    output::line(&table);
    if chosen.is_none() {
        let body = format!("{}\n\n{table}", record.caption());
        write_generated(repository, DOCUMENT, "soak", &body)?;
    }
    Ok(record.results().iter().all(|result| result.passed))
}

impl Soak {
    fn command(&self, repository: &Repository, cases: u32, old: Option<&Path>) -> Command {
        let mut command = repository.cargo(&["nextest", "run", "--locked", "--cargo-profile"]);
        command.args(["bench", "--profile", "soak", "--all-features"]);
        command.args(["--success-output", "immediate", "--color", "never"]);
        for package in self.packages {
            command.args(["--package", package]);
        }
        command.args(["--filterset", self.filter]);
        command.env(CASES_VARIABLE, cases.to_string());
        if let Some(old) = old.filter(|_| self.name == UPGRADE) {
            command.env(OLD_VARIABLE, old);
        }
        command
    }

    fn run(&self, repository: &Repository, cases: u32, old: Option<&Path>) -> Result<SoakResult> {
        output::progress(format_args!("soak {}: {cases} {}", self.name, self.unit));
        let mut command = self.command(repository, cases, old);
        let typed = command_line(&command);
        let started = Instant::now();
        // nextest reports on stderr, tests' own output included.
        let mut child = command.stderr(Stdio::piped()).spawn().context("starting cargo nextest")?;
        let stderr = child.stderr.take().context("the child has a piped stderr")?;
        let mut summary = Vec::new();
        for line in BufReader::new(stderr).lines() {
            let line = line?;
            output::progress(&line);
            let text = line.trim();
            if text.starts_with(SUMMARY_MARK) || text.starts_with("Summary [") {
                summary.push(text.to_owned());
            }
        }
        let status = child.wait()?;
        Ok(SoakResult {
            name: self.name,
            shows: self.shows,
            cases,
            unit: self.unit,
            command: typed,
            passed: status.success(),
            exit_status: status.code(),
            seconds: started.elapsed().as_secs_f64(),
            summary,
        })
    }
}

/// The command as a user would type it.
fn command_line(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), value?.display())))
        .collect();
    words.push(command.get_program().display().to_string());
    for arg in command.get_args().map(|arg| arg.display().to_string()) {
        let plain = arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_=/.".contains(c));
        words.push(if plain { arg } else { format!("'{arg}'") });
    }
    words.join(" ")
}

fn table(results: &[SoakResult]) -> String {
    let mut text = String::from("| run | shows | size | result | seconds |\n|---|---|--:|---|--:|");
    for SoakResult { name, shows, cases, unit, passed, seconds, .. } in results {
        let verdict = if *passed { "passed" } else { "FAILED" };
        let _ = write!(text, "\n| {name} | {shows} | {cases} {unit} | {verdict} | {seconds:.0} |");
    }
    text
}

/// The directory of the migrations.
const MIGRATIONS: &str = "crates/atlatl-memory/src/postgres/migrations/";

/// Builds the program of the revision `from`, or of the newest one before the newest migration of
/// this checkout. Sources and build stay in the cache for the next run.
fn build_old_program(repository: &Repository, from: Option<&str>) -> Result<PathBuf> {
    let revision = match from {
        Some(name) => {
            // A name that begins with a dash would be an option.
            let name = format!("{name}^{{commit}}");
            repository.git(&["rev-parse", "--verify", "--end-of-options", &name])?
        }
        None => revision_before_newest_migration(repository)?,
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
        let tar_stream = archive.stdout.take().context("git archive has a piped stdout")?;
        let unpacked = Command::new("tar").arg("-xC").arg(&sources).stdin(tar_stream).status()?;
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

fn revision_before_newest_migration(repository: &Repository) -> Result<String> {
    let current = newest_migration(repository.files()?.iter().map(String::as_str));
    let mut revision = String::from("HEAD");
    loop {
        let listing = repository.git(&["ls-tree", "--name-only", &revision, MIGRATIONS])?;
        let migration = newest_migration(listing.lines());
        ensure!(migration.is_some(), "no revision has fewer migrations than this checkout");
        if migration < current {
            return repository.git(&["rev-parse", &revision]);
        }
        let log = ["log", "-1", "--format=%H", "--diff-filter=A", &revision, "--", MIGRATIONS];
        let added = repository.git(&log)?;
        revision = format!("{}^", added.trim());
    }
}

/// The migration with the largest number.
fn newest_migration<'a>(files: impl Iterator<Item = &'a str>) -> Option<String> {
    let migrations =
        files.filter(|file| file.starts_with(MIGRATIONS) && has_extension(file, "sql"));
    migrations.max().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed() {
        let repository = Repository::open().unwrap();
        let fidelity = SOAKS.iter().find(|soak| soak.name == "fidelity").unwrap();
        assert_eq!(
            command_line(&fidelity.command(&repository, fidelity.cases, None)),
            "ATLATL_SOAK_CASES=100000 cargo nextest run --locked --cargo-profile bench \
             --profile soak --all-features --success-output immediate --color never \
             --package lro-core --filterset 'test(/^fidelity::prop_/)'"
        );
    }

    #[test]
    fn names_are_unique() {
        for soak in SOAKS {
            assert_eq!(SOAKS.iter().filter(|other| other.name == soak.name).count(), 1);
        }
    }

    #[test]
    fn the_newest_migration_is_the_last_of_the_migrations() {
        let files = ["0001-a.sql", "0010-c.sql", "0002-b.sql", "readme.md"];
        let files = files.map(|name| format!("{MIGRATIONS}{name}"));
        let others = ["Cargo.toml", "crates/z.sql"];
        let all = files.iter().map(String::as_str).chain(others);
        assert_eq!(newest_migration(all), Some(format!("{MIGRATIONS}0010-c.sql")));
        assert_eq!(newest_migration(others.into_iter()), None);
    }
}
