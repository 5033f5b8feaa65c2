//! A race with symbolic links: during tool calls, links to a secret repeatedly replace stored files
//! and their directory.
//!
//! A process of the same user can remove a result, so a call may fail. It must not return the target
//! of the link.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lro::mcp::Tools;
use lro::{Extractor, Spools};
use lro_query::worker::Program;
use lro_spool::{DirOptions, DirSpool, Quota, Spool};
use serde_json::{Value, json};
use testkit::SplitMix64;

use crate::fixture::Fixture;

const SECRET: &str = "TOP-SECRET-CANARY";
/// In every record and text of ours; as long as the secret, so that sizes agree.
const PUBLIC: &str = "PUBLIC-KNOWLEDGE-";

/// Two seconds in CI, longer in a soak test.
fn time() -> Duration {
    let soak = std::env::var("ATLATL_SOAK_CASES").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(soak.unwrap_or(2))
}

#[derive(Debug, Default)]
struct Attacks {
    files: u64,
    folders: u64,
}

/// Replaces files and the directory by links, and restores them.
struct Attacker {
    spool: PathBuf,
    outside: PathBuf,
    /// The directory for prepared links, and for the files that they replace.
    kit: PathBuf,
    names: Vec<String>,
    random: SplitMix64,
    done: Attacks,
}

impl Attacker {
    fn attack(mut self, stop: &AtomicBool) -> Attacks {
        while !stop.load(Ordering::SeqCst) {
            if self.random.chance(20) {
                self.swap_folder();
            } else {
                self.swap_file();
            }
            // Some calls must succeed, or there would be no race.
            self.pause(1500);
        }
        self.done
    }

    fn swap_file(&mut self) {
        let name = self.random.pick(&self.names).clone();
        let (at, aside, trap) =
            (self.spool.join(&name), self.kit.join("aside"), self.kit.join("trap"));
        symlink(self.outside.join(&name), &trap).unwrap();
        // A process that opened the spool while its data was a link may have removed the rest.
        if fs::rename(&at, &aside).is_err() {
            remove(&trap);
            return;
        }
        fs::rename(&trap, &at).unwrap();
        self.pause(600);
        fs::rename(&aside, &at).unwrap();
        self.done.files += 1;
    }

    fn swap_folder(&mut self) {
        let (aside, trap) = (self.kit.join("folder"), self.kit.join("trap"));
        symlink(&self.outside, &trap).unwrap();
        fs::rename(&self.spool, &aside).unwrap();
        // A process that opens the directory now may create a new one.
        while fs::rename(&trap, &self.spool).is_err() {
            remove(&self.spool);
        }
        self.pause(600);
        remove(&self.spool);
        while fs::rename(&aside, &self.spool).is_err() {
            remove(&self.spool);
        }
        self.done.folders += 1;
    }

    fn pause(&mut self, most_micros: usize) {
        let micros = self.random.below(most_micros) as u64;
        std::thread::sleep(Duration::from_micros(micros));
    }
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => drop(fs::remove_dir_all(path)),
        Ok(_) => drop(fs::remove_file(path)),
        Err(_) => {}
    }
}

/// A copy of all stored files, with the same names and the secret as their content.
fn canary(spool: &Path, outside: &Path) -> Vec<String> {
    fs::create_dir(outside).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(spool).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.starts_with(".atlatl-usage-") {
            continue;
        }
        let bytes = fs::read(spool.join(&name)).unwrap();
        let text = String::from_utf8(bytes).unwrap().replace(PUBLIC, SECRET);
        fs::write(outside.join(&name), text).unwrap();
        names.push(name);
    }
    names
}

/// Every kind of query, of one result and with another.
fn queries(other: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("lro_extract", json!({"recipe": 4})),
        ("lro_extract", json!({"recipe": 8})),
        ("lro_extract", json!({"query": "."})),
        ("lro_extract", json!({"query": ".[0]", "whole": true})),
        ("lro_extract", json!({"sql": "SELECT * FROM results"})),
        (
            "lro_extract",
            json!({"sql": "SELECT * FROM results UNION ALL SELECT * FROM o", "with": {"o": other}}),
        ),
        ("read_large_output", json!({"start": 0})),
        ("read_large_output", json!({"unit": "records"})),
        ("read_large_output", json!({"part": 1})),
        ("search_large_output", json!({"pattern": "-[A-Z]+-", "context": 1})),
        ("query_large_output", json!({"query": "."})),
    ]
}

/// Tools on a directory that is opened by its path now.
fn opened(path: &Path, fixture: &Fixture) -> Option<Tools> {
    let options = DirOptions::private().quota(Quota::NONE);
    let spool: Arc<dyn Spool> = Arc::new(DirSpool::open(path, options).ok()?);
    let worker = testkit::tool::built_program("lro-worker", "lro-query");
    let extractor =
        Extractor::new(Spools::new(vec![spool]), &fixture.config).with_program(Program::at(worker));
    Some(Tools::new(Arc::new(extractor)))
}

#[test]
fn n4_no_race_with_links_makes_a_tool_read_outside() {
    let mut fixture = Fixture::new();
    let line = |n| {
        format!(r#"{{"id":"{n}","title":"{PUBLIC}","content":"{PUBLIC}","created":"{PUBLIC}{n}"}}"#)
    };
    let lines: Vec<String> = (0..30).map(line).collect();
    let payload = format!("[{}]", lines.join(","));
    let references =
        ["list_memories", "list_things"].map(|tool| fixture.store_texts(tool, &[&payload, PUBLIC]));
    let home = fixture.home.path().to_owned();
    let spool = home.join("spool");
    // By each name: reference, file name, path.
    let mut named: Vec<String> = references.to_vec();
    for listed in fixture.spool.list().unwrap() {
        named.push(listed.name.to_string());
        named.push(spool.join(listed.name.to_string()).to_str().unwrap().to_owned());
    }
    assert_eq!(named.len(), 6);
    let (outside, kit) = (home.join("outside"), home.join("kit"));
    fs::create_dir(&kit).unwrap();
    let names = canary(&spool, &outside);
    assert!(names.len() >= 6, "{names:?}");
    let random = SplitMix64::new(11);
    let done = Attacks::default();
    let attacker = Attacker { spool: spool.clone(), outside, kit, names, random, done };

    let (stop, end) = (AtomicBool::new(false), Instant::now() + time());
    let (mut answered, mut refused, mut reopened) = (0_u64, 0_u64, 0_u64);
    let mut random = SplitMix64::new(12);
    let questions = queries(&references[1]);
    let attacks = std::thread::scope(|scope| {
        let attacking = scope.spawn(|| attacker.attack(&stop));
        while Instant::now() < end {
            for (tool, rest) in &questions {
                let mut arguments = rest.clone();
                let argument = *random.pick(&["ref", "file_path", "filename"]);
                arguments[argument] = random.pick(&named).as_str().into();
                let called = fixture.call(tool, &arguments);
                if called.text.contains(SECRET) {
                    stop.store(true, Ordering::SeqCst);
                    panic!("{tool} {arguments}: {}", called.text);
                }
                let whole = !called.is_error && called.text.contains(PUBLIC);
                *(if whole { &mut answered } else { &mut refused }) += 1;
            }
            if let Some(tools) = opened(&spool, &fixture) {
                fixture.tools = tools;
                reopened += 1;
            }
        }
        stop.store(true, Ordering::SeqCst);
        attacking.join().unwrap()
    });
    eprintln!(
        "soak: 0 escapes in {attacks:?} against {answered} answers, {refused} refusals, the folder \
         opened {reopened} times"
    );
    let least = time().as_secs();
    assert!(attacks.files > 20 * least && attacks.folders > 4 * least, "{attacks:?}: idle");
    assert!(answered > 5 * least && refused > least, "{answered}, {refused}: no race");
    assert!(reopened > 0);
}
