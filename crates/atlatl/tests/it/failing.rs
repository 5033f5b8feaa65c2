//! g21: real storage faults, and what a client receives (spec L3).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, fixture_server};
use crate::serving::{harbours, remembering};

const ROWS: usize = 444;

/// The fault that makes storing fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// A file replaces the directory while the server runs.
    Missing,
    /// The directory is not writable.
    ReadOnly,
    /// The file system is full.
    Full,
    /// The configured quota is reached.
    Quota,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn sh(command: &str) {
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
}

/// A tmpfs of one page, unmounted with the test.
struct Small(String);

impl Small {
    fn mount(path: &Path) -> Self {
        let path = path.to_str().unwrap().to_owned();
        sh(&format!("mount -t tmpfs -o size=4k,mode=700 none {path}"));
        Self(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

/// Drops the capability with which root can write anywhere.
fn without_override(command: &Command) -> Command {
    let mut plain = Command::new("setpriv");
    plain.args(["--bounding-set=-dac_override,-dac_read_search", "--"]).arg(command.get_program());
    plain.args(command.get_args()).current_dir(command.get_current_dir().unwrap()).env_clear();
    plain.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    plain
}

/// Starts `atlatl` with `args` and a faulty results directory.
fn start(program: &Program, fault: Fault, args: &[&str]) -> (Proxied, Option<Small>) {
    let out = program.path("out");
    fs::create_dir(&out).unwrap();
    let output_dir = format!("prompt.offload.output_dir={}", out.display());
    let mut flags = vec!["--set", output_dir.as_str()];
    if fault == Fault::Quota {
        flags.extend(["--set", "spool.max_bytes=1000"]);
    }
    flags.extend(["--set", "spool.min_free_bytes=0"]);
    let command = program.command(&[&args[..1], &flags, &args[1..]].concat());
    let mut small = None;
    let command = match fault {
        Fault::Full => {
            small = Some(Small::mount(&out));
            fs::write(out.join("filler"), vec![0; 4096]).unwrap();
            command
        }
        Fault::ReadOnly => {
            fs::set_permissions(&out, fs::Permissions::from_mode(0o555)).unwrap();
            if is_root() { without_override(&command) } else { command }
        }
        _ => command,
    };
    let mut client = Proxied::of(command);
    client.initialize(&json!({}));
    if fault == Fault::Missing {
        fs::remove_dir_all(&out).unwrap();
        fs::write(&out, "a file").unwrap();
    }
    (client, small)
}

/// A quarter of the characters of `result` that a model can read.
fn estimate(result: &Value) -> usize {
    let texts = result["content"].as_array().unwrap().iter();
    let texts: usize = texts.map(|block| block["text"].as_str().unwrap().chars().count()).sum();
    (texts + result["structuredContent"].to_string().chars().count()).div_ceil(4)
}

#[test]
fn g21_whatever_keeps_a_result_from_being_stored_the_answer_fits_and_says_so() {
    for fault in [Fault::Missing, Fault::Quota, Fault::ReadOnly, Fault::Full] {
        if fault == Fault::Full && !is_root() {
            eprintln!("a small file system can be mounted by root alone: not tried");
            continue;
        }
        let program = remembering(&harbours(ROWS));
        let (mut server, _small) = start(&program, fault, &["serve"]);
        let answer = server.call("recall_memories", &json!({"query": "harbour"}));
        let (result, set) = (&answer["result"], &answer["result"]["structuredContent"]);
        assert_eq!(set["truncated"], true, "{fault:?}: {set:.300}");
        let kept = set["memories"].as_array().unwrap().len();
        assert!(kept > 0, "{fault:?}");
        assert_eq!((&set["returned"], &set["count"]), (&json!(kept), &json!(ROWS)), "{fault:?}");
        assert_eq!(set["scores"].as_array().unwrap().len(), kept, "{fault:?}");
        assert!(estimate(result) <= 1600, "{fault:?}: {} tokens", estimate(result));
        assert!(server.close().success());
        let ledger = fs::read_to_string(program.path("home/.local/state/atlatl/ledger.jsonl"));
        let ledger = ledger.unwrap();
        let failed = ledger.lines().find(|line| line.contains("OffloadWriteFailed")).unwrap();
        let failed: Value = serde_json::from_str(failed).unwrap();
        assert!(failed["error"].as_str().is_some_and(|why| why.len() > 5), "{failed}");
        // Allows the temporary directory to be removed.
        if fault == Fault::ReadOnly {
            fs::set_permissions(program.path("out"), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

#[test]
fn g21_another_servers_result_passes_unchanged_where_it_cannot_be_stored() {
    let program = Program::new();
    let server = fixture_server();
    let (mut proxy, _) = start(&program, Fault::Quota, &["proxy", "--", &server]);
    let answer = proxy.call("big", &json!({"bytes": 200_000}));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!((text.len(), answer["result"].as_object().unwrap().len()), (200_000, 1));
    assert!(proxy.close().success());
    let ledger = fs::read_to_string(program.path("home/.local/state/atlatl/ledger.jsonl")).unwrap();
    assert!(ledger.contains(r#""event":"OffloadWriteFailed","tool":"big","error":""#), "{ledger}");
}
