//! `compare`: runs a benchmark of this checkout and of an earlier commit in turn, and records the
//! ratios of their times.

mod figures;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::Value;
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::{Repository, cache_dir};
use xtask::run_record::RunRecord;

use self::figures::times;

const DOCUMENT: &str = "docs/performance.md";

/// What to compare.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    bench: ComparedBench,
    /// The earlier commit
    #[arg(long, value_name = "COMMIT")]
    base: String,
    /// How often each of the two runs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
}

/// The benchmarks that both commits have.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ComparedBench {
    /// Detecting records and writing their lines
    Core,
    /// Storing a result
    Offload,
    /// Queries of 200 000 memories, without other engines
    Extract,
    /// Calls through the proxy, without other proxies
    Proxy,
}

impl ComparedBench {
    fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Offload => "offload",
            Self::Extract => "extract",
            Self::Proxy => "proxy",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Core => "lro-core",
            Self::Offload => "lro",
            Self::Extract => "lro-query",
            Self::Proxy => "atlatl-lro",
        }
    }
}

/// A figure that both programs have, with its values in the order of the rounds.
#[derive(Debug, Serialize)]
struct Figure {
    what: String,
    base: Vec<f64>,
    head: Vec<f64>,
    /// Median of the ratios of the rounds.
    ratio: f64,
    /// Ratio of the best values.
    best_ratio: f64,
}

#[derive(Debug, Serialize)]
struct Comparison {
    base: String,
    rounds: u32,
    figures: Vec<Figure>,
    /// Figures that only one of the programs has.
    not_compared: Vec<String>,
}

/// Compares one benchmark.
pub(crate) fn run(repository: &Repository, args: &CompareArgs) -> Result<bool> {
    let (name, base) = (args.bench.name(), args.base.as_str());
    ensure!(
        base.len() >= 7 && base.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "--base is no commit: {base}"
    );
    let command = format!("cargo loadtest compare {name} --base {base} --rounds {}", args.rounds);
    let record = RunRecord::begin(repository, &format!("compare-{name}-{base}"), &command)?;
    let cache = cache_dir()?.join("compare");
    let (root, base_root) = (repository.path(""), cache.join(base));
    check_out(&root, &base_root, base)?;
    let programs = [
        Program::build(&base_root, &cache.join(format!("target-{base}")), args.bench)?,
        Program::build(&root, &cache.join("target"), args.bench)?,
    ];
    let mut rounds: [Vec<BTreeMap<String, f64>>; 2] = Default::default();
    for round in 0..args.rounds {
        // Whichever runs first finds another machine than the second: they take turns.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            output::progress(format_args!(
                "compare {name}: round {} of {}, {}",
                round + 1,
                args.rounds,
                if index == 0 { base } else { "this checkout" },
            ));
            rounds[index].push(times(&programs[index].run(&cache)?));
        }
    }
    let record = record.finish(compare(base, &rounds));
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let table = table(record.results());
    output::line(&table);
    // The document has parts for released versions only.
    let part = format!("compare {name} {base}");
    if repository.read(DOCUMENT)?.contains(&format!("<!-- generated: {part} -->")) {
        let body = format!("{}\n\n{table}", record.caption());
        write_generated(repository, DOCUMENT, &part, &body)?;
    }
    Ok(true)
}

/// A clone of this repository at `commit`.
fn check_out(root: &Path, directory: &Path, commit: &str) -> Result<()> {
    if !directory.join("Cargo.toml").is_file() {
        fs::create_dir_all(directory)?;
        git(Command::new("git")
            .arg("clone")
            .args(["--quiet", "--no-checkout"])
            .args([root, directory]))?;
    }
    git(Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["checkout", "--quiet", "--detach", commit]))
}

fn git(command: &mut Command) -> Result<()> {
    ensure!(command.status().context("starting git")?.success(), "{command:?} failed");
    Ok(())
}

/// A built benchmark.
struct Program {
    executable: PathBuf,
    /// Directory of the package, in which cargo runs a benchmark.
    package: PathBuf,
}

impl Program {
    fn build(root: &Path, target: &Path, bench: ComparedBench) -> Result<Self> {
        output::progress(format_args!("compare {}: building {}", bench.name(), root.display()));
        let cargo = |args: &[&str]| {
            let mut command = Command::new("cargo");
            // Both with the same optimisation, whatever their manifests say.
            command
                .args(args)
                .current_dir(root)
                .env("CARGO_TARGET_DIR", target)
                .env("CARGO_PROFILE_BENCH_LTO", "thin")
                .stderr(Stdio::inherit());
            command
        };
        if let ComparedBench::Proxy = bench {
            let servers = ["--package", "testkit", "--bins"];
            let build = [&["build", "--profile", "bench", "--locked"], &servers[..]].concat();
            ensure!(cargo(&build).status()?.success(), "cargo build failed");
        }
        let mut build = cargo(&["bench", "--no-run", "--locked", "--message-format", "json"]);
        build.args(["--package", bench.package(), "--bench", bench.name()]);
        if !matches!(bench, ComparedBench::Proxy) {
            build.arg("--all-features");
        }
        let built = build.output().context("starting cargo bench")?;
        ensure!(built.status.success(), "cargo bench failed: {}", built.status);
        for line in built.stdout.split(|byte| *byte == b'\n') {
            let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
            if message["target"]["name"] != bench.name() || message["target"]["kind"][0] != "bench"
            {
                continue;
            }
            let manifest = message["manifest_path"].as_str().map(Path::new).and_then(Path::parent);
            if let (Some(executable), Some(package)) = (message["executable"].as_str(), manifest) {
                return Ok(Self { executable: executable.into(), package: package.to_owned() });
            }
        }
        bail!("cargo names no executable for the benchmark {}", bench.name())
    }

    /// Runs it without other engines and proxies: they are searched for in the path and the cache.
    fn run(&self, cache: &Path) -> Result<Value> {
        let no_peers = cache.join("no-peers");
        fs::create_dir_all(&no_peers)?;
        let run = Command::new(&self.executable)
            .arg("--bench")
            .current_dir(&self.package)
            .env("PATH", &no_peers)
            .env("ATLATL_CACHE", &no_peers)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("starting {}", self.executable.display()))?;
        ensure!(run.status.success(), "{}: {}", self.executable.display(), run.status);
        serde_json::from_slice(&run.stdout).context("the benchmark's output")
    }
}

fn compare(base: &str, rounds: &[Vec<BTreeMap<String, f64>>; 2]) -> Comparison {
    let values = |index: usize, what: &str| -> Option<Vec<f64>> {
        rounds[index].iter().map(|round| round.get(what).copied()).collect()
    };
    let names = rounds.iter().flatten().flat_map(BTreeMap::keys);
    let names: std::collections::BTreeSet<&String> = names.collect();
    let mut comparison = Comparison {
        base: base.to_owned(),
        rounds: u32::try_from(rounds[0].len()).unwrap_or(u32::MAX),
        figures: Vec::new(),
        not_compared: Vec::new(),
    };
    for what in names {
        let Some((base, head)) = values(0, what).zip(values(1, what)) else {
            comparison.not_compared.push(what.clone());
            continue;
        };
        let mut ratios: Vec<f64> = head.iter().zip(&base).map(|(head, base)| head / base).collect();
        ratios.sort_by(f64::total_cmp);
        let best = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        comparison.figures.push(Figure {
            what: what.clone(),
            ratio: median(&ratios),
            best_ratio: best(&head) / best(&base),
            base,
            head,
        });
    }
    comparison
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

fn table(comparison: &Comparison) -> String {
    let mut table = format!(
        "Times of {} alternating rounds, divided by those of {}.\n\n\
         | figure | ratio, median of the rounds | ratio of the best |\n|---|--:|--:|",
        comparison.rounds, comparison.base
    );
    for Figure { what, ratio, best_ratio, .. } in &comparison.figures {
        let what = what.replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ = write!(table, "\n| {what} | {ratio:.2} | {best_ratio:.2} |");
    }
    let mean = |ratio: fn(&Figure) -> f64| {
        let logs: f64 = comparison.figures.iter().map(|figure| ratio(figure).ln()).sum();
        (logs / f64::from(u32::try_from(comparison.figures.len()).unwrap_or(u32::MAX))).exp()
    };
    if !comparison.figures.is_empty() {
        let (all, best) = (mean(|figure| figure.ratio), mean(|figure| figure.best_ratio));
        let _ = write!(table, "\n| geometric mean | {all:.2} | {best:.2} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_rounds_and_of_the_best() {
        let round = |name: &str, time: f64| BTreeMap::from([(name.to_owned(), time)]);
        let base = vec![round("a", 1.0), round("a", 2.0), round("a", 4.0)];
        let mut head = vec![round("a", 2.0), round("a", 2.0), round("a", 6.0)];
        head[0].insert("new".to_owned(), 1.0);
        let comparison = compare("0123456", &[base, head]);
        let [figure] = comparison.figures.as_slice() else { panic!("{comparison:?}") };
        assert!((figure.ratio - 1.5).abs() < 1e-9 && (figure.best_ratio - 2.0).abs() < 1e-9);
        assert_eq!(comparison.not_compared, ["new"]);
        let table = table(&comparison);
        assert!(
            table.contains("\n| a | 1.50 | 2.00 |\n| geometric mean | 1.50 | 2.00 |"),
            "{table}"
        );
    }
}
