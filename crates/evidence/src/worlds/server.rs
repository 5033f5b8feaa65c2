//! The program under test: `atlatl serve` with the corpus as its memories, or `atlatl proxy` before a
//! server that returns the corpus.

use std::fs::{self, DirBuilder, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use testkit::mcp_process::McpProcess;

use super::data_tool::DataTool;
use crate::corpora::Corpus;
use crate::task::CorpusKind;

/// The server before which the proxy runs, beside the program.
const FIXTURE_SERVER: &str = "fixture-server";

/// The directory of stored memories. Its name is short, as that of the default directory is: recipes
/// repeat it, and a long one makes descriptors longer than those of users.
const RESULTS: &str = "r";
/// The directory of other stored results.
const PROXIED_RESULTS: &str = "r/p";

/// A running program with its ledger.
#[derive(Debug)]
pub(crate) struct Server {
    process: McpProcess,
    ledger: LedgerReader,
}

/// What the program wrote into its ledger during a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LedgerFigures {
    /// The records in the replies of extraction tools.
    pub(crate) records_given: u64,
    /// The time to store a result, if one was stored.
    pub(crate) write_micros: Option<u64>,
}

/// The files of a world.
#[derive(Debug)]
pub(crate) struct WorldDir(PathBuf);

impl WorldDir {
    /// Creates the directories that the program needs.
    pub(crate) fn create(root: &Path) -> Result<Self> {
        // Links in the path would differ between the sandbox and the descriptor.
        let root = root.canonicalize()?;
        let mut directory = DirBuilder::new();
        // The program refuses directories that other users can read.
        directory.mode(0o700);
        for name in ["work", "tmp", "spilled", RESULTS, PROXIED_RESULTS] {
            directory.create(root.join(name))?;
        }
        Ok(Self(root))
    }

    /// The stored results.
    pub(crate) fn results(&self) -> PathBuf {
        self.0.join(RESULTS)
    }

    /// Deletes the stored results. The directories and the hidden files remain: the running program
    /// uses them. It finds a deleted result no more than one that has expired.
    pub(crate) fn clear_results(&self) -> Result<()> {
        clear(&self.results())
    }

    /// The results that a host wrote to files.
    pub(crate) fn spilled(&self) -> PathBuf {
        self.0.join("spilled")
    }

    fn ledger(&self) -> PathBuf {
        self.0.join("ledger.jsonl")
    }

    /// A command of the program, without the environment of this process.
    fn command(&self, program: &Path, arguments: &[&str], settings: &[&str]) -> Command {
        let path = |name: &str| self.0.join(name).display().to_string();
        let own = [
            format!("memory.store=sqlite:{}", path("memory.db")),
            "memory.embedder=none".to_owned(),
            format!("prompt.offload.output_dir={}", path(RESULTS)),
            // A result must outlive the slowest model.
            "prompt.offload.ttl_seconds=86400".to_owned(),
            format!("proxy.dir={}", path(PROXIED_RESULTS)),
            format!("ledger.path={}", path("ledger.jsonl")),
            "spool.min_free_bytes=0".to_owned(),
        ];
        let mut command = Command::new(program);
        command.args(arguments);
        for setting in own.iter().map(String::as_str).chain(settings.iter().copied()) {
            command.args(["--set", setting]);
        }
        command
            .current_dir(self.0.join("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.0)
            .env("TMPDIR", self.0.join("tmp"));
        command
    }
}

impl Server {
    /// Starts the program with the corpus.
    pub(crate) fn start(
        program: &Path,
        directory: &WorldDir,
        corpus: &Corpus,
        settings: &[&str],
    ) -> Result<Self> {
        let mut command = match corpus.id.kind {
            CorpusKind::Memories => {
                import(program, directory, corpus)?;
                directory.command(program, &["serve"], settings)
            }
            _ => proxy(program, directory, corpus, settings)?,
        };
        let process = McpProcess::start(&mut command)
            .map_err(|error| anyhow!(error))
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut server = Self { process, ledger: LedgerReader::new(directory.ledger()) };
        if corpus.id.kind == CorpusKind::Memories {
            server.check_number(corpus)?;
        }
        server.ledger.figures()?;
        Ok(server)
    }

    /// Fails if the server does not list every memory, for example because some have expired.
    fn check_number(&mut self, corpus: &Corpus) -> Result<()> {
        let one = json!({"limit": 1, "status": "any"});
        let (result, _) = self.call(DataTool::new(corpus.id).name(), &one)?;
        let total = result["structuredContent"]["total_matches"].as_u64();
        ensure!(
            total == Some(corpus.id.size as u64),
            "the server lists {total:?} memories of {}: {result}",
            corpus.id.size
        );
        Ok(())
    }

    /// The definitions of the program's tools.
    pub(crate) fn tools(&mut self) -> Result<Vec<Value>> {
        self.process.tools().map_err(|error| anyhow!(error))
    }

    /// Calls a tool; returns its result, and what the ledger has about it.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<(Value, LedgerFigures)> {
        let result = self.process.call(tool, arguments);
        let result = result.map_err(|error| anyhow!(error)).with_context(|| tool.to_owned())?;
        // Events are written before the response.
        Ok((result, self.ledger.figures()?))
    }
}

/// Deletes the visible files in a directory and in those within it.
fn clear(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            clear(&entry.path())?;
        } else if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Stores the corpus as memories.
fn import(program: &Path, directory: &WorldDir, corpus: &Corpus) -> Result<()> {
    let file = directory.0.join("corpus.jsonl");
    fs::write(&file, &corpus.bytes)?;
    let file_name = file.display().to_string();
    let mut command = directory.command(program, &["memory", "import", &file_name], &[]);
    let output = command.output().with_context(|| format!("{}", program.display()))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    fs::remove_file(file)?;
    Ok(())
}

/// The proxy before a server that returns the corpus.
fn proxy(
    program: &Path,
    directory: &WorldDir,
    corpus: &Corpus,
    settings: &[&str],
) -> Result<Command> {
    let server = program.with_file_name(FIXTURE_SERVER);
    ensure!(
        server.is_file(),
        "{} does not exist; build it with: cargo build --package testkit --bins",
        server.display()
    );
    let file = directory.0.join("corpus");
    fs::write(&file, &corpus.bytes)?;
    let tool = DataTool::new(corpus.id).name();
    // The condition decides about the form of the result, not its size.
    let policy = format!("proxy.policy.{tool}=offload");
    let settings: Vec<&str> = settings.iter().copied().chain([policy.as_str()]).collect();
    let mut command = directory.command(program, &["proxy"], &settings);
    command.arg("--").arg(server).arg("--file").arg(format!("{tool}={}", file.display()));
    Ok(command)
}

/// Reads what is appended to a ledger.
#[derive(Debug)]
struct LedgerReader {
    path: PathBuf,
    offset: u64,
}

impl LedgerReader {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0 }
    }

    /// The sums over the lines since the last call.
    fn figures(&mut self) -> Result<LedgerFigures> {
        let mut text = String::new();
        // The ledger is created with its first line.
        if let Ok(mut file) = File::open(&self.path) {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_string(&mut text)?;
        }
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        self.offset += complete as u64;
        let mut figures = LedgerFigures::default();
        for line in text[..complete].lines() {
            let event: Value = serde_json::from_str(line)
                .with_context(|| format!("{}: {line}", self.path.display()))?;
            figures.add(&event);
        }
        Ok(figures)
    }
}

impl LedgerFigures {
    fn add(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("ResultExtracted") => {
                self.records_given += event["records_given"].as_u64().unwrap_or(0);
            }
            Some("ResultOffloaded") if event["reused"] != true => {
                self.write_micros = event["took_us"].as_u64();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tempfile::{NamedTempFile, TempDir};

    use super::*;

    #[test]
    fn results_are_deleted_and_what_the_program_uses_remains() {
        let directory = TempDir::new().unwrap();
        let files = WorldDir::create(directory.path()).unwrap();
        let results = files.results();
        let names = ["atlatl-list-1.jsonl", "p/atlatl-log-2.txt", ".atlatl-usage-0"];
        for name in names {
            fs::write(results.join(name), "x").unwrap();
        }
        files.clear_results().unwrap();
        let remaining = names.map(|name| results.join(name).exists());
        assert_eq!(remaining, [false, false, true]);
        assert!(results.join("p").is_dir());
    }

    #[test]
    fn figures_are_those_of_new_and_complete_lines() {
        let mut file = NamedTempFile::new().unwrap();
        let mut ledger = LedgerReader::new(file.path().to_owned());
        assert_eq!(ledger.figures().unwrap(), LedgerFigures::default());
        let stored = r#"{"event":"ResultOffloaded","took_us":2434}"#;
        let extracted = r#"{"event":"ResultExtracted","records_given":7,"took_us":1}"#;
        write!(file, "{stored}\n{extracted}\n{extracted}\n{{\"event\":").unwrap();
        let figures = ledger.figures().unwrap();
        assert_eq!(figures, LedgerFigures { records_given: 14, write_micros: Some(2434) });
        let reused = r#""ResultOffloaded","took_us":9,"reused":true}"#;
        writeln!(file, "{reused}").unwrap();
        assert_eq!(ledger.figures().unwrap(), LedgerFigures::default());
    }

    #[test]
    fn a_missing_ledger_is_empty() {
        let mut ledger = LedgerReader::new(PathBuf::from("/no/such/ledger"));
        assert_eq!(ledger.figures().unwrap(), LedgerFigures::default());
    }
}
