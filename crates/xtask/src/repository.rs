//! The checkout: its root, its files, and what cargo and git say about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

/// The checkout this program was built from.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    /// Finds the checkout two levels above this crate.
    pub fn open() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let root = root.context("crates/xtask is not inside a workspace")?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// A path below the root.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// The text of a file below the root.
    pub fn read(&self, relative: impl AsRef<Path>) -> Result<String> {
        let relative = relative.as_ref();
        fs::read_to_string(self.path(relative)).with_context(|| format!("{}", relative.display()))
    }

    /// Every file git tracks or would track, relative to the root, sorted.
    ///
    /// New files count before they are added: a check that waits for `git add` comes too late.
    pub fn files(&self) -> Result<Vec<String>> {
        let listed = self.git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut files: Vec<String> = listed
            .split('\0')
            .filter(|path| !path.is_empty() && self.path(path).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Stdout of a git command in the root.
    pub fn git(&self, args: &[&str]) -> Result<String> {
        self.stdout(Command::new("git").args(args))
    }

    /// A `cargo` command in the root.
    pub fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(args).current_dir(&self.root);
        command
    }

    /// Stdout of a `cargo` command.
    pub fn cargo_stdout(&self, args: &[&str]) -> Result<String> {
        self.stdout(&mut self.cargo(args))
    }

    /// Stdout of a `cargo` command, read as JSON.
    pub fn cargo_json<T: DeserializeOwned>(&self, args: &[&str]) -> Result<T> {
        let text = self.cargo_stdout(args)?;
        serde_json::from_str(&text).with_context(|| format!("output of cargo {}", args.join(" ")))
    }

    /// The directory of what cargo builds.
    pub fn target_dir(&self) -> Result<PathBuf> {
        #[derive(serde::Deserialize)]
        struct Metadata {
            target_directory: PathBuf,
        }
        let metadata: Metadata =
            self.cargo_json(&["metadata", "--format-version", "1", "--no-deps"])?;
        Ok(metadata.target_directory)
    }

    /// What the command says on stderr goes straight through: a build shows its progress.
    fn stdout(&self, command: &mut Command) -> Result<String> {
        let output = command
            .current_dir(&self.root)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        if !output.status.success() {
            bail!("{command:?}: {}", output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("output of {command:?}"))
    }
}

/// Whether a file name ends in `.` and `extension`.
pub fn has_extension(file: impl AsRef<Path>, extension: &str) -> bool {
    file.as_ref().extension().is_some_and(|found| found == extension)
}

/// The directory for what is fetched and made, never inside the checkout.
pub fn cache_dir() -> Result<PathBuf> {
    let named = std::env::var_os("ATLATL_CACHE").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/atlatl"));
    named.or_else(home).context("neither ATLATL_CACHE nor HOME is set")
}
