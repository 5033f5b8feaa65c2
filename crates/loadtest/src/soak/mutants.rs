//! `cargo loadtest mutants`: mutation tests of the code that decides who sees what, with records under
//! `bench/runs/`.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use xtask::output;
use xtask::repository::Repository;
use xtask::run_record::RunRecord;

/// Which code to break.
#[derive(Debug, clap::Args)]
pub(crate) struct MutantsArgs {
    /// Name of one area [default: all]
    #[arg(value_name = "AREA", value_parser = names())]
    name: Option<String>,
}

/// Files of one package, and the tests that must catch mutants in them.
struct Area {
    name: &'static str,
    package: &'static str,
    files: &'static [&'static str],
    /// A nextest filter expression: other tests would take time and catch nothing.
    tests: &'static str,
}

const AREAS: &[Area] = &[
    Area {
        name: "tokens",
        package: "atlatl-server",
        files: &["crates/atlatl-server/src/auth/*.rs"],
        tests: "binary(auth) | test(/^auth::/)",
    },
    Area {
        name: "tenants",
        package: "atlatl-server",
        files: &[
            "crates/atlatl-server/src/auth/authenticator.rs",
            "crates/atlatl-server/src/auth/issuer.rs",
            "crates/atlatl-server/src/http/admission.rs",
            "crates/atlatl-server/src/limits.rs",
        ],
        tests: "test(/^http::(many|oidc|admission|tokens)::/) | test(/^auth::/) | test(/^limits::/)",
    },
    Area {
        name: "links",
        package: "atlatl-server",
        files: &["crates/atlatl-server/src/http/offload.rs", "crates/atlatl-server/src/signing.rs"],
        tests: "test(/^http::(many|stored|offload)::/) | test(/^signing::/)",
    },
    Area {
        name: "cursors",
        package: "atlatl-server",
        files: &["crates/atlatl-server/src/cursor.rs", "crates/atlatl-server/src/signing.rs"],
        tests: "test(/^pages::/) | test(/^(cursor|signing)::/)",
    },
    Area {
        name: "paths",
        package: "lro-spool",
        files: &["crates/lro-spool/src/address.rs", "crates/lro-spool/src/object/key.rs"],
        tests: "test(/^(address|object::key)::/) | test(/^(addresses|object::tenants)::/)",
    },
    Area {
        name: "listeners",
        package: "lro-http",
        files: &[
            "crates/lro-http/src/bearer.rs",
            "crates/lro-http/src/origin_guard.rs",
            "crates/lro-http/src/listen.rs",
        ],
        tests: "test(/^(bearer|origin_guard|listen)::/)",
    },
];

/// Mutants that no test has to catch, with reasons: the file and the mutation, without the line.
const EXPLAINED: &[(&str, &str)] = &[
    (
        "crates/atlatl-server/src/auth/claims.rs: replace <impl Visitor<'de> for \
         StrictVisitor>::expecting -> fmt::Result with Ok(Default::default())",
        "the text is for an error that is never reported",
    ),
    (
        "crates/atlatl-server/src/limits.rs: replace < with <= in MemoryQuota::take",
        "it concerns one instant of the system clock, which no test can hit",
    ),
    (
        "crates/atlatl-server/src/http/admission.rs: replace <impl Tenants for SingleTenant>::tenant \
         -> Result<Option<Tenant>, StoreError> with Ok(None)",
        "no code calls it, since its tenant is always known",
    ),
    (
        "crates/atlatl-server/src/http/admission.rs: replace <impl Tenants for SingleTenant>::ready \
         -> Result<(), StoreError> with Ok(())",
        "caught by the tests with a real database in another package: team::waiting",
    ),
];

/// The result of one area.
#[derive(Debug, Default, PartialEq, Serialize)]
struct MutantsResult {
    name: &'static str,
    passed: bool,
    seconds: f64,
    #[serde(flatten)]
    counts: MutantCounts,
}

/// The mutants of an area by counts.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct MutantCounts {
    /// A test failed.
    caught: usize,
    /// The tests did not end.
    timeout: usize,
    /// It did not compile.
    unviable: usize,
    /// No test failed, and none has to.
    explained: Vec<(String, &'static str)>,
    /// No test failed.
    missed: Vec<String>,
}

/// The names that the command line accepts.
fn names() -> PossibleValuesParser {
    AREAS.iter().map(|area| area.name).collect::<Vec<_>>().into()
}

/// Runs one area or all, one after the other, and writes the record.
pub(crate) fn run(repository: &Repository, args: &MutantsArgs) -> Result<bool> {
    let works = repository.cargo(&["mutants", "--version"]).stdout(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        bail!("there is no cargo-mutants: cargo install --locked cargo-mutants");
    }
    let chosen = args.name.as_deref();
    let name = chosen.map_or_else(|| "mutants".to_owned(), |name| format!("mutants-{name}"));
    let command = format!("cargo xtask mutants {}", chosen.unwrap_or_default());
    let record = RunRecord::begin(repository, &name, command.trim_end())?;
    let areas = AREAS.iter().filter(|area| chosen.is_none_or(|name| name == area.name));
    let results = areas.map(|area| area.run(repository)).collect::<Result<Vec<_>>>()?;
    let record = record.finish(results);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    output::line(table(record.results()));
    Ok(record.results().iter().all(|result| result.passed))
}

impl Area {
    fn command(&self, repository: &Repository, out: &Path) -> Command {
        let mut command = repository.cargo(&["mutants", "--no-shuffle", "--colors", "never"]);
        command.args(["--test-tool", "nextest", "--package", self.package, "--output"]).arg(out);
        command.args(self.files.iter().flat_map(|file| ["--file", file]));
        command.args(["--all-features", "--cargo-test-arg=-E"]);
        command.arg(format!("--cargo-test-arg={}", self.tests));
        command
    }

    fn run(&self, repository: &Repository) -> Result<MutantsResult> {
        output::progress(format_args!("mutants of {}", self.name));
        let out = tempfile::tempdir()?;
        let started = Instant::now();
        // The exit status says the same as the files, and also that it could not start.
        let status = self.command(repository, out.path()).status().context("cargo mutants")?;
        let out = out.path().join("mutants.out");
        if !out.join("caught.txt").is_file() || !matches!(status.code(), Some(0 | 2 | 3)) {
            bail!("cargo mutants failed: {status}");
        }
        let counts = MutantCounts::read(&out)?;
        let seconds = started.elapsed().as_secs_f64();
        let passed = counts.missed.is_empty() && counts.caught > 0;
        Ok(MutantsResult { name: self.name, passed, seconds, counts })
    }
}

impl MutantCounts {
    fn read(out: &Path) -> Result<Self> {
        let lines = |name: &str| {
            let text = fs::read_to_string(out.join(name)).with_context(|| name.to_owned())?;
            Ok::<_, anyhow::Error>(text.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let mut counts = Self {
            caught: lines("caught.txt")?.len(),
            timeout: lines("timeout.txt")?.len(),
            unviable: lines("unviable.txt")?.len(),
            ..Self::default()
        };
        for missed in lines("missed.txt")? {
            let named = without_position(&missed);
            match EXPLAINED.iter().find(|(change, _)| *change == named) {
                Some((_, why)) => counts.explained.push((missed, why)),
                None => counts.missed.push(missed),
            }
        }
        Ok(counts)
    }
}

/// `file:line:column: change` without the line and the column, which move.
fn without_position(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(change)) => format!("{file}:{change}"),
        _ => mutant.to_owned(),
    }
}

fn table(results: &[MutantsResult]) -> String {
    let mut text = String::from(
        "| code | caught | never ended | no program | explained | missed | seconds |\n\
         |---|--:|--:|--:|--:|--:|--:|",
    );
    for MutantsResult { name, seconds, counts, .. } in results {
        let MutantCounts { caught, timeout, unviable, explained, missed } = counts;
        let (explained, missed) = (explained.len(), missed.len());
        let _ = write!(
            text,
            "\n| {name} | {caught} | {timeout} | {unviable} | {explained} | {missed} | {seconds:.0} |"
        );
    }
    for missed in results.iter().flat_map(|result| &result.counts.missed) {
        let _ = write!(text, "\nmissed: {missed}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_an_area_exists() {
        let repository = Repository::open().unwrap();
        let files = repository.files().unwrap();
        for named in AREAS.iter().flat_map(|area| area.files) {
            let exists = match named.strip_suffix("*.rs") {
                Some(folder) => files.iter().any(|file| file.starts_with(folder)),
                None => files.iter().any(|file| file == named),
            };
            assert!(exists, "{named}");
        }
    }

    #[test]
    fn what_the_tool_wrote_is_read() {
        let out = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("caught.txt", "a.rs:1:2: replace x\na.rs:2:2: replace y\n"),
            ("missed.txt", "src/a.rs:1:22: replace a::b -> bool with true\n"),
            ("timeout.txt", ""),
            ("unviable.txt", "a.rs:3:1: replace z\n"),
        ] {
            fs::write(out.path().join(name), text).unwrap();
        }
        let counts = MutantCounts::read(out.path()).unwrap();
        let missed = vec!["src/a.rs:1:22: replace a::b -> bool with true".to_owned()];
        assert_eq!(
            counts,
            MutantCounts { caught: 2, unviable: 1, missed, ..MutantCounts::default() }
        );
        let named = without_position(&counts.missed[0]);
        assert_eq!(named, "src/a.rs: replace a::b -> bool with true");
    }
}
