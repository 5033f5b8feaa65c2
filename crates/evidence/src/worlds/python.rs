//! The tool `python_exec`: Python in the sandbox, whose variables are kept between calls.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::sandbox::{COMMAND_TIMEOUT, CommandOutput, Sandbox, bounded};
use crate::condition::PythonPages;

/// Runs the code of each line of its input, and prints the output as a line. The code cannot write to
/// the standard output of the process, which belongs to this protocol.
const DRIVER: &str = r#"
import ast, contextlib, io, json, os, sys, traceback
protocol = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
names = {"__name__": "__main__"}
pages = []
for line in sys.stdin:
    request = json.loads(line)
    if request["pages"] is not None:
        pages.extend(request["pages"])
        names["pages"] = pages
    output, failed = io.StringIO(), False
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            tree = ast.parse(request["code"])
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<code>", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "<code>", "eval"), names)
                if value is not None:
                    print(repr(value))
        except BaseException:
            traceback.print_exc()
            failed = True
    protocol.write(json.dumps({"output": output.getvalue(), "failed": failed}) + "\n")
    protocol.flush()
"#;

/// Python of one conversation.
#[derive(Debug)]
pub(crate) struct Python {
    sandbox: Sandbox,
    access: PythonPages,
    process: Option<Interpreter>,
    /// Pages that the process has not received yet.
    pending: Vec<Value>,
    /// All pages of the conversation.
    pages: Vec<Value>,
}

#[derive(Debug)]
struct Interpreter {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

#[derive(Deserialize)]
struct Executed {
    output: String,
    failed: bool,
}

impl Python {
    pub(crate) fn new(sandbox: Sandbox, access: PythonPages) -> Self {
        Self { sandbox, access, process: None, pending: Vec::new(), pages: Vec::new() }
    }

    /// Forgets everything, for the next conversation.
    pub(crate) fn reset(&mut self) {
        self.process = None;
        self.pending.clear();
        self.pages.clear();
    }

    /// Adds a page that the agent received.
    pub(crate) fn add_page(&mut self, text: &str) {
        if self.access == PythonPages::Reachable
            && let Ok(page) = serde_json::from_str::<Value>(text)
        {
            self.pending.push(page.clone());
            self.pages.push(page);
        }
    }

    /// Runs code, and prints its last expression as an interactive session does.
    pub(crate) fn execute(&mut self, code: &str) -> Result<CommandOutput> {
        if self.process.is_none() {
            self.process = Some(Interpreter::start(&self.sandbox)?);
            self.pending.clone_from(&self.pages);
        }
        let pages = match self.access {
            PythonPages::Reachable => Value::Array(std::mem::take(&mut self.pending)),
            PythonPages::Absent => Value::Null,
        };
        let request = json!({"code": code, "pages": pages});
        let process = self.process.as_mut().context("Python has been started")?;
        let Some(Executed { output, failed }) = process.execute(&request) else {
            self.process = None;
            let text = format!(
                "Python ended, or took more than {} s. All variables are lost.",
                COMMAND_TIMEOUT.as_secs()
            );
            return Ok(CommandOutput { text, failed: true });
        };
        Ok(CommandOutput { text: bounded(&output), failed })
    }
}

impl Interpreter {
    fn start(sandbox: &Sandbox) -> Result<Self> {
        let mut command = sandbox.command("python3");
        command.args(["-u", "-c", DRIVER]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("bwrap")?;
        let input = child.stdin.take().context("stdin is piped")?;
        let output = child.stdout.take().context("stdout is piped")?;
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            let read = BufReader::new(output).lines().map_while(Result::ok);
            for line in read {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines })
    }

    /// Runs code; `None` if Python ended or took too long.
    fn execute(&mut self, request: &Value) -> Option<Executed> {
        writeln!(self.input, "{request}").ok()?;
        let line = self.lines.recv_timeout(COMMAND_TIMEOUT).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
