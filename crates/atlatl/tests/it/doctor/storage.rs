//! Faults of the result directories and of the ledger.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};

use super::*;

/// Stores a result of a memory operation or of another tool.
fn offloaded(program: &Program, tool: &str) {
    let rows: Vec<Value> =
        (0..500).map(|n| json!({"n": n, "text": "some words to store"})).collect();
    let input = json!({"rows": rows}).to_string();
    let args = ["offload", "--tool", tool, "--set", "proxy.threshold_tokens=100"];
    let run = program.run_with_input(&args, input.as_bytes());
    assert!(run.status == 0 && run.stdout.contains("lro:"), "{run}");
}

/// The private directory of a user with a home.
fn private_dir() -> String {
    "home/.local/state/atlatl/results".to_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn an_output_directory_that_is_not_there_is_a_fault_and_can_be_made() {
    let program = machine();
    let dir = program.path("new/dir");
    let set = format!("prompt.offload.output_dir={}", dir.display());
    let run = doctor(&program, &["--set", &set]);
    let fix = fault(&run, "output-dir", "[DIR]/new/dir");
    assert_eq!(fix, "mkdir -p [DIR]/new/dir");
    // The private directory is in it.
    assert_eq!(fault(&run, "results-dir", "[DIR]/new/dir/atlatl-"), "mkdir -p [DIR]/new/dir");
    follow(&program, &fix);
    is_well(&doctor(&program, &["--set", &set]));
}

#[test]
fn a_directory_that_takes_no_file_is_a_fault() {
    // Not even root can create a file there.
    let run = doctor(
        &machine(),
        &["--set", "prompt.offload.output_dir=/proc", "--set", "proxy.dir=/proc/x"],
    );
    assert!(
        fault(&run, "output-dir", "/proc").contains("--set prompt.offload.output_dir=DIR"),
        "{run}"
    );
    assert!(
        finding(&run, "output-dir")["says"].to_string().contains("cannot be written to"),
        "{run}"
    );
    assert!(fault(&run, "results-dir", "/proc/x").contains("--set proxy.dir=DIR"), "{run}");
}

#[test]
fn everyones_directory_without_the_sticky_bit_is_a_warning() {
    let program = machine();
    fs::set_permissions(program.path("tmp"), Permissions::from_mode(0o777)).unwrap();
    let fix = warning(&doctor(&program, &[]), "output-dir", "[DIR]/tmp");
    assert_eq!(fix, "chmod +t [DIR]/tmp");
    follow(&program, &fix);
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_file_in_the_place_of_the_private_directory_is_a_fault() {
    let program = machine().file(&private_dir(), "");
    let fix = fault(&doctor(&program, &[]), "results-dir", &private_dir());
    assert_eq!(fix, format!("mv [DIR]/{0} [DIR]/{0}.aside", private_dir()));
    follow(&program, &fix);
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_private_directory_that_is_open_to_others_is_a_fault() {
    let program = machine();
    offloaded(&program, "list_rows");
    is_well(&doctor(&program, &[]));
    fs::set_permissions(program.path(&private_dir()), Permissions::from_mode(0o755)).unwrap();
    let run = doctor(&program, &[]);
    let fix = fault(&run, "results-dir", &private_dir());
    assert_eq!(fix, format!("chmod 700 [DIR]/{}", private_dir()));
    let mode = fs::metadata(program.path(&private_dir())).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "it is looked at, not changed");
    follow(&program, &fix);
    is_well(&doctor(&program, &[]));
}

#[test]
fn f07_a_directory_of_another_user_is_a_fault() {
    let program = machine();
    // Root changes the owner; other users look at a directory of root.
    let dir = if is_root() { program.path("theirs") } else { "/usr/share".into() };
    if is_root() {
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(12345), None).unwrap();
    }
    let set = format!("proxy.dir={}", dir.display());
    let run = doctor(&program, &["--set", &set]);
    let fix = fault(&run, "results-dir", if is_root() { "[DIR]/theirs" } else { "/usr/share" });
    assert!(fix.contains("proxy.dir=DIR"), "{run}");
    if is_root() {
        follow(&program, fix.rsplit("owner: ").next().unwrap());
        is_well(&doctor(&program, &["--set", &set]));
    }
}

#[test]
fn f07_stored_files_of_another_user_or_open_to_others_are_warnings() {
    let program = machine();
    offloaded(&program, "list_rows");
    let mut inside = fs::read_dir(program.path(&private_dir())).unwrap();
    let scope = inside.find_map(|entry| Some(entry.unwrap().path()).filter(|path| path.is_dir()));
    let scope = scope.unwrap();
    let is_data = |path: &PathBuf| path.extension().is_some_and(|end| end == "jsonl");
    let mut files = fs::read_dir(&scope).unwrap().map(|entry| entry.unwrap().path());
    let data = files.find(is_data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o644)).unwrap();
    let name = data.file_name().unwrap().to_str().unwrap();
    let fix = warning(&doctor(&program, &[]), "stored-rights", name);
    assert!(fix.starts_with("chmod 600 [DIR]/home/.local/state/atlatl/results/"), "{fix}");
    follow(&program, &fix);
    is_well(&doctor(&program, &[]));
    // Only root can change the owner of a file; a unit test covers the check for other users.
    if is_root() {
        chown(&data, Some(12345), None).unwrap();
        let run = doctor(&program, &[]);
        let fix = warning(&run, "stored-owner", &private_dir());
        assert!(finding(&run, "stored-owner")["says"].to_string().contains(name), "{run}");
        follow(&program, fix.rsplit("sudo ").next().unwrap());
        is_well(&doctor(&program, &[]));
    }
}

#[test]
fn f22_a_quota_that_is_nearly_used_is_a_warning_and_one_that_is_a_fault() {
    let program = machine();
    offloaded(&program, "list_rows");
    let usage = program.run(&["doctor"]);
    assert!(usage.lines("storage")[0].contains("1 result, "), "{usage}");
    let files = |dir: &Path| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let scope = files(&program.path(&private_dir())).find(|path| path.is_dir()).unwrap();
    let bytes: u64 = files(&scope).map(|file| fs::metadata(file).unwrap().len()).sum();
    let most = format!("spool.max_bytes={}", bytes * 100 / 95);
    let run = doctor(&program, &["--set", &most]);
    let fix = warning(&run, "quota", &private_dir());
    assert!(
        fix.starts_with("atlatl results clean (--all for what has not expired), or --set"),
        "{run}"
    );
    assert!(finding(&run, "quota")["says"].to_string().contains("% of spool.max_bytes"), "{run}");

    let set = ["--set", "spool.max_files=1"];
    let run = doctor(&program, &set);
    fault(&run, "quota", &private_dir());
    assert!(
        finding(&run, "quota")["says"].to_string().contains("1 result is 100 % of spool.max_files")
    );
    assert_eq!(program.run(&["results", "clean", "--all"]).status, 0);
    is_well(&doctor(&program, &set));
}

#[test]
fn a_device_without_room_is_a_fault() {
    let set = ["--set", "spool.min_free_bytes=9000000000000000000"];
    let run = doctor(&machine(), &set);
    let fix = fault(&run, "free-space", "[DIR]/tmp");
    let enough = fix.split("or --set ").nth(1).unwrap_or_else(|| panic!("{run}"));
    is_well(&doctor(&machine(), &["--set", enough]));
}

#[test]
fn a_result_of_the_future_is_a_warning_about_the_clock() {
    // The id in the name is from 2039.
    let name = "tmp/atlatl-recall-02000000000000000000000000.jsonl";
    let program = machine().file(name, "");
    fs::set_permissions(program.path(name), Permissions::from_mode(0o600)).unwrap();
    let fix = warning(&doctor(&program, &[]), "clock", name);
    let (_, remove) = fix.split_once("if the clock is right now: ").unwrap();
    assert_eq!(remove, format!("rm [DIR]/{name}"));
    follow(&program, remove);
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_ledger_that_cannot_be_written_is_a_warning() {
    let program = machine().file("home/.local/state/atlatl/ledger.jsonl/x", "");
    let run = doctor(&program, &[]);
    let fix = warning(&run, "ledger", "[DIR]/home/.local/state/atlatl/ledger.jsonl");
    assert!(fix.contains("home/.config/atlatl/config.toml, write ledger.path = "), "{run}");
    let file = program.path("elsewhere.jsonl");
    is_well(&doctor(&program, &["--set", &format!("ledger.path={}", file.display())]));
    assert!(!file.exists(), "nothing is written");
}
