//! A run of an agent in directories of its own, bounded in time.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use super::case::{BINARY_FILE, FAILING_FILE, FAILING_SCRIPT, binary};
use super::setup::{self, McpServer};
use super::{Agent, FINAL_TEXT, Script, ScriptedModel};

/// How long a run may take on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_mins(2);
/// How long the host waits for a hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a run is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The directories, hooks and servers of an agent's run.
#[derive(Debug)]
pub struct AgentSandbox {
    pub(super) agent: Agent,
    dir: TempDir,
    pub(super) hooks: Vec<(String, String)>,
    pub(super) servers: Vec<McpServer>,
    variables: Vec<(String, String)>,
    arguments: Vec<String>,
    pub(super) installer: Option<PathBuf>,
    pub(super) hook_timeout: Duration,
    timeout: Duration,
}

/// A finished run.
#[derive(Debug)]
pub struct AgentRun {
    /// The model with its recorded requests.
    pub model: ScriptedModel,
    /// The exit status; `None` if the run was killed after its timeout.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The duration of the run.
    pub elapsed: Duration,
}

impl AgentSandbox {
    /// A sandbox with an empty home, no hooks and no servers.
    ///
    /// # Panics
    ///
    /// Panics if there is no temporary directory.
    pub fn new(agent: Agent) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        for name in ["home", "work", "tmp"] {
            fs::create_dir(dir.path().join(name)).expect("a directory in a new one");
        }
        let sandbox = Self {
            agent,
            dir,
            hooks: Vec::new(),
            servers: Vec::new(),
            variables: Vec::new(),
            arguments: Vec::new(),
            installer: None,
            hook_timeout: HOOK_TIMEOUT,
            timeout: RUN_TIMEOUT,
        };
        sandbox.write(&sandbox.work().join(BINARY_FILE), &binary());
        let script = sandbox.work().join(FAILING_FILE);
        sandbox.write(&script, FAILING_SCRIPT);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("a mode");
        sandbox
    }

    /// Adds a hook: `event` is the host's own name, `command` a line for the shell.
    pub fn hook(mut self, event: &str, command: &str) -> Self {
        self.hooks.push((event.to_owned(), command.to_owned()));
        self
    }

    /// Adds an MCP server.
    pub fn server(mut self, server: McpServer) -> Self {
        self.servers.push(server);
        self
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds an argument to the agent's command line.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Installs Atlatl's hooks and extraction tools with this program, as a user does.
    pub fn with_atlatl(mut self, program: &Path) -> Self {
        self.installer = Some(program.to_owned());
        self
    }

    /// Bounds the time that the host waits for a hook; whole seconds.
    pub fn hook_timeout(mut self, timeout: Duration) -> Self {
        self.hook_timeout = timeout;
        self
    }

    /// Bounds the run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Writes a file below the home directory.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be written.
    pub fn home_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.write(&self.home().join(name), content.as_ref());
        self
    }

    pub(super) fn write(&self, path: &Path, content: &[u8]) {
        debug_assert!(path.starts_with(self.dir.path()), "a file outside the sandbox");
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
        fs::write(path, content).expect("a file in the sandbox");
    }

    /// The directory of the sandbox.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The working directory.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Runs the agent with a model that plays `script`.
    ///
    /// # Panics
    ///
    /// Panics if the agent is not installed or cannot be started.
    pub fn run(&self, script: Script) -> AgentRun {
        let model = ScriptedModel::start(script);
        self.prepare(&model);
        self.run_prepared(model)
    }

    /// Writes the settings of the agent for this model, and installs Atlatl's hooks.
    ///
    /// # Panics
    ///
    /// Panics if the hooks cannot be installed.
    pub fn prepare(&self, model: &ScriptedModel) {
        setup::write_settings(self, &model.url());
        let Some(installer) = &self.installer else { return };
        let mut command = Command::new(installer);
        command.args(["install", "--hooks", self.agent.name(), "--yes"]);
        let output = self.confined(&mut command).output().expect("a program that starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "atlatl install --hooks failed: {stderr}");
    }

    /// Runs the agent after [`prepare`](Self::prepare).
    ///
    /// # Panics
    ///
    /// Panics if the agent is not installed or cannot be started.
    pub fn run_prepared(&self, model: ScriptedModel) -> AgentRun {
        let (stdout, stderr) = (self.dir.path().join("stdout"), self.dir.path().join("stderr"));
        let file = |path: &Path| File::create(path).expect("a file in the sandbox");
        let mut command = self.command(&model.url());
        // Files, because a process that outlives the agent would keep a pipe open.
        command.stdin(Stdio::null()).stdout(file(&stdout)).stderr(file(&stderr)).process_group(0);
        let started = Instant::now();
        let mut child = command.spawn().expect("an installed agent");
        let status = self.wait(&mut child, started);
        let elapsed = started.elapsed();
        self.kill(&mut child);
        let text =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        AgentRun { model, status, stdout: text(&stdout), stderr: text(&stderr), elapsed }
    }

    /// Gives a command the directories of the sandbox, and nothing of the machine's environment.
    fn confined<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.work())
            .env_clear()
            .env("HOME", self.home())
            .env("TMPDIR", self.dir.path().join("tmp"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("CI", "true")
    }

    fn command(&self, url: &str) -> Command {
        let mut command = Command::new(self.agent.program());
        command.args(setup::arguments(self.agent)).args(&self.arguments);
        self.confined(&mut command);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, url);
        }
        for name in ["NO_PROXY", "no_proxy"] {
            command.env(name, "127.0.0.1,localhost");
        }
        command.envs(setup::variables(self, url));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A command that runs a line in the shell of a user of the agent and of the program `atlatl`. The agent's
    /// settings are those in the home directory.
    ///
    /// # Panics
    ///
    /// Panics if the programs cannot be linked into a directory of the sandbox.
    pub fn shell(&self, line: &str, atlatl: &Path, model: &ScriptedModel) -> Command {
        let bin = self.dir.path().join("bin");
        if fs::create_dir(&bin).is_ok() {
            let link = |program: &Path, name| std::os::unix::fs::symlink(program, bin.join(name));
            link(&self.agent.program(), self.agent.command()).expect("a link");
            link(atlatl, "atlatl").expect("a link");
        }
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null());
        self.confined(&mut command);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", bin.display()));
        command.envs(setup::variables(self, &model.url()));
        command
    }

    fn wait(&self, child: &mut Child, started: Instant) -> Option<ExitStatus> {
        while started.elapsed() < self.timeout {
            if let Some(status) = child.try_wait().expect("a child of this process") {
                return Some(status);
            }
            thread::sleep(POLL_INTERVAL);
        }
        None
    }

    /// Kills the agent's process group, and what left the group: everything with the sandbox as its home.
    fn kill(&self, child: &mut Child) {
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
        for process in self.processes() {
            let _ = kill_process(process, Signal::KILL);
        }
    }

    /// The processes whose home is in the sandbox.
    fn processes(&self) -> Vec<Pid> {
        let home = format!("HOME={}\0", self.home().display());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let ours = numbers.filter(|number| {
            let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            environment.windows(home.len()).any(|window| window == home.as_bytes())
        });
        ours.filter_map(Pid::from_raw).collect()
    }
}

impl AgentRun {
    /// The texts of the tool results that the model received.
    pub fn results(&self) -> Vec<String> {
        let request = self.model.conversation();
        request.results.into_iter().map(|result| result.text).collect()
    }

    /// Checks that the agent finished the script.
    ///
    /// # Panics
    ///
    /// Panics with the agent's output if it did not.
    pub fn assert_finished(&self) -> &Self {
        let finished = self.status.is_some_and(|status| status.success());
        assert!(
            finished && self.stdout.contains(FINAL_TEXT),
            "the agent did not finish the script after {:?}: {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.elapsed,
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }
}
