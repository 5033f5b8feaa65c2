//! A directory in which commands run, and what is compared after them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Everything that a command line does: exit status, both streams, and the files afterwards.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Effect {
    status: Option<i32>,
    stdout: String,
    stderr: String,
    files: BTreeMap<String, String>,
}

/// Two directories: one for commands, and a home that no command changes.
#[derive(Debug)]
pub(super) struct Sandbox {
    work: PathBuf,
    home: PathBuf,
    state: PathBuf,
}

/// The files at the start, by their paths.
const FILES: &[(&str, &str)] = &[
    ("a.txt", "one\ntwo\nthree\ntwo\n"),
    ("b.txt", "two\nfour\n\nfive words in a line\n"),
    ("data.csv", "id,name,n\n1,ann,30\n2,bob,25\n3,'cy d',7\n"),
    ("name with spaces.txt", "spaces\n"),
    ("it's.txt", "quote\n"),
    ("$X", "dollar\n"),
    ("-dash", "dash\n"),
    ("sub/c.txt", "deep\n"),
    ("sub/deeper/d.log", "log 1\nlog 2\n"),
    (".hidden", "hidden\n"),
];

/// Scripts: one that writes to both streams and fails, one that changes files.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "emit",
        "echo \"out $*\"\necho \"err $#\" >&2\necho \"in $(cat | wc -c | tr -d ' ')\"\nexit 3\n",
    ),
    (
        "change",
        "cat > /dev/null\necho \"$*\" >> changed.txt\nmkdir -p made\necho x > \"made/$#\"\n",
    ),
    ("arguments", "cat > /dev/null\nfor a in \"$@\"; do printf '<%s>' \"$a\"; done\necho\n"),
];

impl Sandbox {
    pub(super) fn new(parent: &Path) -> Self {
        let at = |name: &str| parent.join(name);
        let sandbox = Self { work: at("work"), home: at("home"), state: at("state") };
        fs::create_dir_all(&sandbox.home).unwrap();
        fs::write(sandbox.home.join("home.txt"), "home\n").unwrap();
        fs::create_dir_all(&sandbox.state).unwrap();
        sandbox.reset();
        sandbox
    }

    fn reset(&self) {
        if self.work.exists() {
            fs::remove_dir_all(&self.work).unwrap();
        }
        for (path, content) in FILES {
            let path = self.work.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        for (name, body) in SCRIPTS {
            write_script(&self.work.join(name), body);
        }
    }

    /// Runs a line in a shell, and restores the files if the line changed them.
    pub(super) fn run(&self, shell: &str, line: &str) -> Effect {
        let output = Command::new(shell)
            .args(["-c", line])
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("XDG_STATE_HOME", &self.state)
            .env("XDG_DATA_HOME", &self.state)
            .env("XDG_CACHE_HOME", &self.state)
            .env("XDG_CONFIG_HOME", &self.state)
            .env("LC_ALL", "C.UTF-8")
            .env("X", "a.txt b.txt")
            .env("DIR", "sub")
            .env("EMPTY", "")
            .env("STAR", "*.txt")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let mut files = BTreeMap::new();
        read_tree(&self.work, &self.work, &mut files);
        if files.len() != FILES.len() + SCRIPTS.len() {
            self.reset();
        }
        let mut stderr: Vec<char> = String::from_utf8_lossy(&output.stderr).chars().collect();
        // The commands of a pipeline write at the same time, also into each other's lines.
        if line.contains('|') {
            stderr.sort_unstable();
        }
        let stderr = String::from_iter(stderr);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        Effect { status: output.status.code(), stdout, stderr, files }
    }
}

fn read_tree(root: &Path, directory: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_tree(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// Writes a script for `sh`.
fn write_script(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
