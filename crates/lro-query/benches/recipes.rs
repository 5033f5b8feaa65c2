//! Recipes compared with `jq`, searches with `rg`, on 200 000 memories.
//!
//! `cargo bench --package lro-query --bench recipes` prints one line for each. The data is in
//! `~/.cache/atlatl/bench-data` and is generated if missing. The argument `ours` skips the other
//! programs, `searches` skips the recipes.

#![expect(clippy::print_stdout, reason = "its output is its result")]
#![expect(clippy::cast_precision_loss, reason = "sizes and times far below 2^52")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use lro_core::{Detail, OptionalFields, recipes};
use lro_query::recipe::{RecipeNumber, RecipeParams, RecipeQuery};
use lro_query::search::{Case, Search};
use lro_spool::{PositionedRead, SpoolError};

const MEMORIES: usize = 200_000;
const ROUNDS: usize = 5;
/// Searches are repeated, because one is shorter than the kernel can measure.
const REPEATED: u32 = 10;
const HEADER: &str = "{\"type\":\"lro_header\"}\n";

/// Values for the placeholders that match something.
const CHOSEN: [(&str, &str); 2] = [("keyword", "deploy"), ("tag", "release")];

/// A file as the directory spool reads it.
struct Source(File, u64);

impl PositionedRead for Source {
    fn len(&self) -> u64 {
        self.1
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        Ok(self.0.read_at(buf, offset).expect("the data can be read"))
    }
}

/// Wall and processor seconds.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    processor: f64,
}

fn main() {
    let others = !std::env::args().any(|arg| arg == "ours");
    let path = data();
    let file = File::open(&path).expect("the data is there");
    let bytes = file.metadata().expect("it has a size").len();
    let source = Source(file, bytes);
    let megabytes = bytes as f64 / 1e6;
    println!("{megabytes:.0} MB, {MEMORIES} memories");
    let begin = HEADER.len() as u64;
    if std::env::args().any(|arg| arg == "searches") {
        return searches(&source, &path, others);
    }
    let mut ratios = Vec::new();
    for recipe in recipes(Detail::Full, OptionalFields::ALWAYS) {
        let number = RecipeNumber::new(u64::from(recipe.number)).expect("a recipe's number");
        let mut params = RecipeParams::default();
        for (name, value) in CHOSEN {
            params.set(name, value).expect("a known name");
        }
        let question = RecipeQuery::new(number, Detail::Full, params).expect("a plain keyword");
        let mut total = 0;
        let ours = best(ROUNDS, || {
            let mut out = 0;
            let ran = question.run(&source, begin, &mut |answer| {
                out += black_box(answer).len();
                ControlFlow::Continue(())
            });
            total = ran.expect("it runs").total.number();
            black_box(out);
        });
        print!("recipe {:2}: {total:6} answers, ", recipe.number);
        print!("{}, {:.0} MB/s", format_cost(ours), megabytes / ours.wall);
        if others {
            let place = lro_core::Location::File(path.to_str().expect("a path in UTF-8"));
            let command = recipe.command(place).command;
            let command = command.replace("keyword", CHOSEN[0].1).replace("TAG", CHOSEN[1].1);
            let jq = best(1, || run(Command::new("sh").arg("-c").arg(&command)));
            print!("; jq {}: {:.1}x wall, ", format_cost(jq), jq.wall / ours.wall);
            print!("{:.1}x processor", jq.processor / ours.processor);
            ratios.push(jq.wall / ours.wall);
        }
        println!();
    }
    if others {
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        println!("geometric mean: {:.1}x wall", mean.exp());
    }
    searches(&source, &path, others);
}

fn searches(source: &Source, path: &Path, others: bool) {
    for (pattern, case) in [
        ("Kubernetes", Case::Sensitive),
        ("no such thing", Case::Sensitive),
        ("keyword", Case::Ignored),
        ("postgres", Case::Ignored),
        (r"\bdeploy\w*", Case::Ignored),
        ("(error|timeout|refused)", Case::Sensitive),
        (r"\d{4}-\d{2}-\d{2}T09", Case::Sensitive),
        (r"[a-z]+ing the [a-z]+ed", Case::Sensitive),
    ] {
        let search = Search::new(pattern, case).expect("a plain pattern");
        let mut total = 0;
        let ours = best(ROUNDS, || {
            for _ in 0..REPEATED {
                total = search.run(source, 0).expect("it runs").total.number();
            }
        });
        let ours = ours.each();
        print!("search {pattern}: {total} lines, {}", format_cost(ours));
        if others {
            let mut rg = Command::new("rg");
            rg.args(["--no-config", "--text", "--count"]);
            if case == Case::Ignored {
                rg.arg("--ignore-case");
            }
            rg.arg("--regexp").arg(pattern).arg(path);
            let rg = best(ROUNDS, || (0..REPEATED).for_each(|_| run(&mut rg))).each();
            print!("; rg {}: {:.2} of its wall time, ", format_cost(rg), ours.wall / rg.wall);
            print!("{:.2} of its processor time", ours.processor / rg.processor);
        }
        println!();
    }
}

impl Took {
    /// The cost of each repetition.
    fn each(self) -> Self {
        let times = f64::from(REPEATED);
        Self { wall: self.wall / times, processor: self.processor / times }
    }
}

fn format_cost(took: Took) -> String {
    format!("{:.3} s ({:.3} s processor)", took.wall, took.processor)
}

fn run(command: &mut Command) {
    command.stdout(Stdio::null()).status().expect("the program is there");
}

fn best(rounds: usize, mut work: impl FnMut()) -> Took {
    let mut best = Took { wall: f64::INFINITY, processor: f64::INFINITY };
    for _ in 0..rounds {
        let (started, before) = (Instant::now(), processor_seconds());
        work();
        best.wall = best.wall.min(started.elapsed().as_secs_f64());
        best.processor = best.processor.min(processor_seconds() - before);
    }
    best
}

/// Processor seconds of this process and its awaited children, as reported by the kernel.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(4);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn data() -> PathBuf {
    let home = std::env::var_os("HOME").expect("HOME is set");
    let directory = Path::new(&home).join(".cache/atlatl/bench-data");
    let path = directory.join("memories-200000-full.jsonl");
    if !path.exists() {
        fs::create_dir_all(&directory).expect("the directory can be made");
        let memories = testkit::corpus::memories(MEMORIES, 42);
        let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
        let mut file = File::create(&path).expect("the data can be written");
        file.write_all(HEADER.as_bytes()).expect("the data can be written");
        file.write_all((lines.join("\n") + "\n").as_bytes()).expect("the data can be written");
    }
    path
}
