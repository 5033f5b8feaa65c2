//! Runs the command line of the MCP Inspector, a real client, with and without the proxy.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::tool::require_npm;

/// The number of concurrent requests. Each is two runs, which mostly wait.
const MAX_CONCURRENT_RUNS: usize = 3;

/// The output of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The content of the server's state file after the run, if it has one.
    pub(crate) kept: Option<String>,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// `mcp-inspector --cli ARGS` in a directory, with its own home and the `atlatl` of this build on
/// `PATH`.
pub(crate) fn inspect(dir: &Path, home: &Path, args: &[&str]) -> Seen {
    let output = Command::new(require_npm("mcp-inspector"))
        .args(["--cli", "--quiet", "--connect-timeout", "60000"])
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("HOME", home)
        .env("PATH", path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Seen {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        kept: None,
    }
}

fn path() -> OsString {
    let atlatl = Path::new(env!("CARGO_BIN_EXE_atlatl")).parent().unwrap().to_owned();
    let machine = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([atlatl].into_iter().chain(std::env::split_paths(&machine))).unwrap()
}

/// A server and the initial content of its state file.
pub(crate) struct Server<'a> {
    pub(crate) command: Vec<&'a str>,
    pub(crate) seed: Option<&'a str>,
}

impl Server<'_> {
    /// An isolated run.
    pub(crate) fn ask(&self, era: &str, proxy: &[&str], asked: &[&str]) -> Seen {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("memory.jsonl");
        if let Some(seed) = self.seed {
            fs::write(&file, seed).unwrap();
        }
        let variables = [
            format!("TMPDIR={}", dir.path().display()),
            format!("MEMORY_FILE_PATH={}", file.display()),
        ];
        let mut args = vec!["--protocol-era", era, "-e", &variables[0], "-e", &variables[1]];
        args.extend(proxy);
        args.extend(&self.command);
        args.push("--method");
        args.extend(asked);
        let seen = inspect(dir.path(), dir.path(), &args);
        Seen { kept: fs::read_to_string(&file).ok(), ..seen }
    }

    /// Sends every request directly and through the proxy, and asserts that the answers are equal.
    /// With `auto`, the Inspector tries 2026-07-28 first and falls back to `legacy`; the first and the
    /// last request cover that.
    pub(crate) fn answers_the_same(&self, questions: &[&[&str]]) {
        let [first, .., last] = questions else { panic!("two questions at least") };
        let legacy = questions.iter().map(|asked| ("legacy", *asked));
        let all = Mutex::new(legacy.chain([("auto", *first), ("auto", *last)]));
        let next = || all.lock().unwrap().next();
        thread::scope(|scope| {
            for _ in 0..MAX_CONCURRENT_RUNS {
                scope.spawn(|| {
                    while let Some((era, asked)) = next() {
                        self.answers_one_the_same(era, asked);
                    }
                });
            }
        });
    }

    /// Compares one request.
    pub(crate) fn answers_one_the_same(&self, era: &str, asked: &[&str]) {
        let (direct, proxied) = thread::scope(|scope| {
            let direct = scope.spawn(|| self.ask(era, &[], asked));
            let proxied = self.ask(era, &["atlatl", "proxy"], asked);
            (direct.join().unwrap(), proxied)
        });
        if asked == ["tools/list"] && direct.status == 0 {
            assert_eq!(proxied.status, 0, "{era}: {proxied:?}");
            let mut listing = proxied.json();
            undo(&mut listing);
            assert_eq!(listing, direct.json(), "{era}");
        } else {
            assert_eq!(proxied, direct, "{era}: {asked:?}");
        }
        // A request that fails on both sides would compare two failures.
        let fails = era == "modern" || asked.iter().any(|part| part.contains("no-such"));
        assert_eq!(
            direct.status != 0 || direct.stdout.contains("\"isError\": true"),
            fails,
            "{direct:?}"
        );
    }
}

/// Removes what the proxy adds to a list of tools.
pub(crate) fn undo(listing: &mut Value) {
    let tools = listing["tools"].as_array_mut().unwrap();
    let own = tools.split_off(tools.len() - OWN_TOOLS.len());
    let names: Vec<&str> = own.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, OWN_TOOLS);
    for tool in tools {
        if let Some(schema) = tool.get_mut("outputSchema") {
            undo_output(schema);
        }
        let Some(properties) = tool["inputSchema"]["properties"].as_object_mut() else { continue };
        for property in properties.values_mut() {
            let takes = property["type"].as_str();
            assert!(!matches!(takes, Some("array" | "object")), "not widened: {property}");
            if property["anyOf"][1] == json!({"type": "string", "pattern": "^lro:"}) {
                assert_eq!(property.as_object().unwrap().len(), 1, "{property}");
                *property = property["anyOf"][0].take();
            }
        }
    }
}

/// The tools of the proxy, in order.
pub(crate) const OWN_TOOLS: [&str; 4] =
    ["lro_extract", "read_large_output", "search_large_output", "query_large_output"];

/// `anyOf` of the original, the descriptor and a marked result becomes the original.
fn undo_output(schema: &mut Value) {
    let Value::Object(mut wider) = schema.take() else { panic!("no schema") };
    let Some(Value::Array(either)) = wider.remove("anyOf") else {
        panic!("not widened: {wider:?}")
    };
    let [mut original, descriptor, marked] = <[Value; 3]>::try_from(either).unwrap();
    assert_eq!(marked["required"], json!(["atlatl_notice"]));
    assert_eq!(descriptor["required"], json!(["lro"]));
    assert_eq!(descriptor["properties"]["lro"]["required"], json!(["ref"]));
    if let Some(dialect) = wider.remove("$schema") {
        original["$schema"] = dialect;
    }
    assert_eq!(wider.remove("type"), Some(json!("object")));
    assert!(wider.is_empty(), "{wider:?}");
    *schema = original;
}
