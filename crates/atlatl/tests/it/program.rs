//! A run of the program in a directory of its own, with nothing of the machine's environment.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// A terminal: the person's end and the program's.
pub(crate) fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(person), program)
}

/// The surroundings of a run: a working directory, a home, some variables.
pub(crate) struct Program {
    dir: TempDir,
    executable: PathBuf,
    variables: Vec<(String, String)>,
}

/// What a run gave, with the temporary directory shown as `[DIR]`.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["work", "tmp"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let executable = PathBuf::from(env!("CARGO_BIN_EXE_atlatl"));
        Self { dir, executable, variables: Vec::new() }
    }

    /// The same surroundings for another program: one that was built earlier.
    pub(crate) fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = path.into();
        self
    }

    /// Writes a file, named from the temporary directory: `work/…` is the working directory,
    /// `home/.config/atlatl/config.toml` the user's file.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path: PathBuf = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A place in the temporary directory, named as for [`file`](Self::file).
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.run_with_input(args, b"")
    }

    /// The program with these arguments, and nothing of the machine's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(args)
            .current_dir(self.dir.path().join("work"))
            .env_clear()
            .env("HOME", self.dir.path().join("home"))
            .env("TMPDIR", self.dir.path().join("tmp"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs with `input` on standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Run {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read its input may be gone by now.
        let _ = child.stdin.take().unwrap().write_all(input);
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| {
            let dir = self.dir.path().to_str().unwrap();
            String::from_utf8(bytes).unwrap().replace(dir, "[DIR]")
        };
        Run { status: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Run {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The lines of standard output that contain `text`.
    pub(crate) fn lines(&self, text: &str) -> Vec<&str> {
        self.stdout.lines().filter(|line| line.contains(text)).collect()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, stdout, stderr } = self;
        write!(formatter, "status: {status}\n--- stdout\n{stdout}--- stderr\n{stderr}")
    }
}
