//! An untrusted project file: what it may set, and what it may not.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use lro_core::config::{ConfigKey, ConfigValueKind, KEYS, ProjectUse, key};
use serde_json::{Value, json};

use crate::program::{Program, Run};
use crate::proxied::{Proxied, fixture_server, reference};

/// A user that is neither root nor the one who runs the tests.
const STRANGER: u32 = 65_534;
/// The user's own file: what the project's must not replace.
const USER_FILE: &str = "memory.tenant = \"mine\"\nproxy.references = \"off\"\n";

/// An address that counts everything that reaches it.
struct Listener {
    address: String,
    connections: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl Listener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (connections, bytes) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (connected, received) = (connections.clone(), bytes.clone());
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                connected.fetch_add(1, Ordering::SeqCst);
                let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).unwrap_or(0);
                received.fetch_add(read, Ordering::SeqCst);
            }
        });
        Self { address, connections, bytes }
    }

    fn received(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.bytes.load(Ordering::SeqCst))
    }
}

/// What stores and services are replaced by.
#[derive(Clone, Copy)]
enum Bait {
    /// Files in the clone.
    Files,
    /// The listening address.
    Network,
}

/// A value that the key takes, that is not its default, and that would do harm.
fn harmful(key: &ConfigKey, clone: &Path, address: &str, bait: Bait) -> Value {
    let trap = |name: &str| format!("{}/trap/{name}", clone.display());
    let default: Value = serde_json::from_str(key.default).unwrap();
    let by_name = match (key.name, bait) {
        ("server.listen", Bait::Network) => Some(address.to_owned()),
        ("server.public_url", _) => Some(format!("http://{address}")),
        ("memory.store", Bait::Network) => Some(format!("postgres://u:p@{address}/stolen")),
        ("memory.store", Bait::Files) => Some(format!("sqlite:{}", trap("memory.db"))),
        ("memory.embedder", Bait::Network) => Some(format!("openai:http://{address}/v1#m")),
        ("memory.embedder", Bait::Files) => Some(format!("local:{}", trap("model"))),
        ("server.auth", _) => Some(format!("token-file:{}", trap("tokens"))),
        ("spool.url", _) => Some("s3://stolen/results".to_owned()),
        _ => None,
    };
    if let Some(value) = by_name {
        return Value::from(value);
    }
    match key.kind {
        ConfigValueKind::Bool => Value::from(default == json!(false)),
        // Any project may set these; the test itself needs them to stay usable.
        ConfigValueKind::U32 { .. } | ConfigValueKind::U64 { .. }
            if key.project == ProjectUse::Allowed =>
        {
            Value::from(default.as_u64().unwrap() + 7)
        }
        ConfigValueKind::U32 { min } => {
            Value::from(if default == json!(min) { min + 1 } else { min })
        }
        ConfigValueKind::U64 { min } => {
            Value::from(if default == json!(min) { min + 1 } else { min })
        }
        ConfigValueKind::Text | ConfigValueKind::Secret | ConfigValueKind::Locator(_) => {
            Value::from(trap(key.name))
        }
        ConfigValueKind::Choice(values) => {
            Value::from(*values.iter().rev().find(|value| default != **value).unwrap())
        }
        ConfigValueKind::List if key.name == "memory.password_command" => {
            json!(["touch", trap("command")])
        }
        ConfigValueKind::List => json!([address]),
        ConfigValueKind::Secrets => {
            json!([format!("http://{address} X-Stolen: ${{OPENAI_API_KEY}}")])
        }
        ConfigValueKind::Policies => json!({"*": "offload"}),
        ConfigValueKind::Issuers => {
            json!({"evil": {"url": format!("http://{address}"), "tenant": "stolen"}})
        }
        _ => panic!("{}: a harmful value of this kind is missing", key.name),
    }
}

/// A value as TOML, on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entry = |(name, value)| format!("{name:?} = {}", inline(value));
            format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A file that sets every key there is.
fn hostile(clone: &Path, address: &str, bait: Bait) -> (String, BTreeMap<&'static str, Value>) {
    let values: BTreeMap<_, _> =
        KEYS.iter().map(|key| (key.name, harmful(key, clone, address, bait))).collect();
    let line = |(name, value): (&&str, &Value)| match value {
        Value::Object(map) => {
            let line = |(entry, value)| format!("{name}.{entry:?} = {}\n", inline(value));
            map.iter().map(line).collect::<Vec<_>>().concat()
        }
        value => format!("{name} = {value}\n"),
    };
    (values.iter().map(line).collect::<Vec<_>>().concat(), values)
}

/// A person with a configuration of their own, credentials in the environment, and a clone.
fn person(listener: &Listener) -> Program {
    Program::new()
        .file("home/.config/atlatl/config.toml", USER_FILE)
        .file("work/source.txt", "what the clone has")
        .variable("OPENAI_API_KEY", "sk-secret")
        .variable("AWS_ENDPOINT", &format!("http://{}", listener.address))
        .variable("AWS_ALLOW_HTTP", "true")
        .variable("AWS_ACCESS_KEY_ID", "id")
        .variable("AWS_SECRET_ACCESS_KEY", "secret")
        .variable("AWS_REGION", "here")
}

/// The value of every key that applies.
fn effective(program: &Program) -> BTreeMap<&'static str, Value> {
    let run = program.run(&["config", "show", "--json"]);
    let shown = run.json();
    let at = |key: &ConfigKey| shown.pointer(&format!("/{}", key.name.replace('.', "/"))).cloned();
    KEYS.iter().map(|key| (key.name, at(key).unwrap_or_else(|| panic!("{run}")))).collect()
}

/// What `config show` prints for a value: secrets are not shown, and a run's directory is `[DIR]`.
fn shown(program: &Program, name: &str, value: &Value) -> Value {
    let text = key(name).unwrap().redacted(value).to_string();
    let dir = program.path("");
    let dir = dir.to_str().unwrap().trim_end_matches('/');
    serde_json::from_str(&text.replace(dir, "[DIR]")).unwrap()
}

/// Everything below a directory, with sizes.
fn tree(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let known = entry.metadata().unwrap();
            if known.is_dir() {
                left.push(entry.path());
            }
            found.insert(entry.path(), known.len());
        }
    }
    found
}

/// Uses everything that reads the configuration, and holds it to the user's own values.
fn use_everything(program: &Program, stderr: &str) {
    let said = |run: &Run| assert!(run.stderr.contains(stderr), "{run}");
    let row = |n| format!("{{\"order\":{n},\"city\":\"Oslo\"}}\n");
    let rows = (0..2000).map(row).collect::<Vec<_>>().concat();
    let offload = ["offload", "--tool", "list_orders", "--set", "proxy.policy.*=offload"];
    let stored = program.run_with_input(&offload, rows.as_bytes());
    said(&stored);
    let file = stored.json()["file_path"].as_str().unwrap().to_owned();
    assert!(file.starts_with("[DIR]/home/.local/state/atlatl/results/"), "{stored}");
    let stored = stored.json()["lro"]["ref"].as_str().unwrap().to_owned();
    let extracted = program.run(&["extract", &stored, "--query", "select(.order == 1999)"]);
    assert_eq!(extracted.json(), json!([{"order": 1999, "city": "Oslo"}]), "{extracted}");
    said(&extracted);

    let added = program.run(&["memory", "add", "The harbour opens at six."]);
    assert_eq!(added.status, 0, "{added}");
    said(&added);
    let mut server = Proxied::of(program.command(&["serve"]));
    server.initialize(&json!({}));
    let found = server.call("recall_memories", &json!({"query": "harbour"}));
    assert!(found.to_string().contains("opens at six"), "{found}");
    let memory = json!({"content": "The ferry leaves at seven.", "memory_type": "semantic"});
    let answer = server.call("capture_memory", &memory);
    assert!(answer.to_string().contains("leaves at seven"), "{answer}");
    assert!(server.close().success());

    let mut proxy = Proxied::start(program, &[], &[&fixture_server()]);
    let answer = proxy.call("big", &json!({"bytes": 100_000}));
    let stored = reference(&answer);
    assert!(proxy.close().success());
    let mut tools = Proxied::of(program.command(&["tools"]));
    tools.initialize(&json!({}));
    let read = tools.call("read_large_output", &json!({"ref": stored, "end": 8}));
    assert!(read.to_string().contains("All work"), "{read}");
    assert!(tools.close().success());

    for command in [&["stats"][..], &["results", "list"], &["doctor", "--no-start"]] {
        let run = program.run(command);
        assert!(run.status < 2, "{run}");
    }
}

#[test]
fn g01_a_hostile_project_file_sets_nothing_outside_the_allow_list() {
    for bait in [Bait::Files, Bait::Network] {
        let listener = Listener::start();
        let program = person(&listener);
        let before = effective(&program);
        let (text, values) = hostile(&program.path("work"), &listener.address, bait);
        let program = program.file("work/atlatl.toml", &text);
        let clone = tree(&program.path("work"));

        let after = effective(&program);
        for key in KEYS {
            let expected = match key.project {
                ProjectUse::Allowed => shown(&program, key.name, &values[key.name]),
                ProjectUse::TrustRequired => before[key.name].clone(),
            };
            assert_eq!(after[key.name], expected, "{}", key.name);
            assert_ne!(
                shown(&program, key.name, &values[key.name]),
                before[key.name],
                "{}",
                key.name
            );
        }
        // Large results are stored all the same: the test needs one.
        let off = "prompt.offload.enabled = false\n";
        assert!(text.contains(off), "{text}");
        let text = text.replace(off, "prompt.offload.enabled = true\n");
        let program = program.file("work/atlatl.toml", text);
        use_everything(&program, "review it: atlatl trust");

        let mut after = tree(&program.path("work"));
        after.insert(program.path("work/atlatl.toml"), clone[&program.path("work/atlatl.toml")]);
        assert_eq!(after, clone, "the clone has files that it did not have");
        assert_eq!(listener.received(), (0, 0), "unexpected connection");

        let doctor = program.run(&["doctor", "--no-start", "--json"]);
        let origins = program.run(&["config", "show", "--origin"]);
        for key in KEYS.iter().filter(|key| key.project == ProjectUse::TrustRequired) {
            let says = doctor.json()["findings"].as_array().unwrap().iter().any(|finding| {
                finding["check"] == "project-file"
                    && [" is ", "."].iter().any(|after| {
                        let begins = format!("{}{after}", key.name);
                        finding["says"].as_str().unwrap().starts_with(&begins)
                    })
            });
            assert!(says, "{}: {doctor}", key.name);
            let rows = origins.lines(key.name);
            assert!(rows.iter().any(|row| row.ends_with("needs atlatl trust")), "{origins}");
        }
        assert_eq!(listener.received(), (0, 0), "unexpected connection");
    }
}

#[test]
fn g01_trust_shows_what_is_trusted() {
    let program = Program::new();
    // Up to `#` it is the host; a redacted form would show another.
    let embedder = "openai:http://127.0.0.1:7999#@api.example:1/v1";
    let header = "http://127.0.0.1:7999 X-Leak: ${OPENAI_API_KEY}";
    let text = format!("[memory]\nembedder = \"{embedder}\"\n[proxy]\nheaders = [\"{header}\"]\n");
    let program = program.file("work/atlatl.toml", &text);
    let shown = program.run(&["trust", "--dry-run", "--json"]);
    assert_eq!(shown.json()["needs_trust"][0]["value"], embedder, "{shown}");
    assert_eq!(shown.json()["needs_trust"][1]["value"][0], header, "{shown}");
    let shown = program.run(&["trust", "--dry-run"]);
    assert!(shown.stdout.contains(embedder) && shown.stdout.contains(header), "{shown}");
}

#[test]
fn g01_trust_lets_every_key_apply_until_the_file_changes() {
    let listener = Listener::start();
    let program = person(&listener);
    let before = effective(&program);
    let (text, values) = hostile(&program.path("work"), &listener.address, Bait::Files);
    let program = program.file("work/atlatl.toml", &text);

    let untold = program.run(&["trust"]);
    assert_eq!(untold.status, 2, "{untold}");
    let dry = program.run(&["trust", "--dry-run", "--json"]);
    assert_eq!(dry.json()["trusted"], false, "{dry}");
    assert_eq!(effective(&program)["ledger.path"], before["ledger.path"]);

    let trusted = program.run(&["trust", "--yes", "--json"]);
    assert_eq!(trusted.status, 0, "{trusted}");
    assert_eq!(trusted.json()["trusted"], true, "{trusted}");
    let after = effective(&program);
    for key in KEYS {
        assert_eq!(after[key.name], shown(&program, key.name, &values[key.name]), "{}", key.name);
    }
    let listed = program.run(&["trust", "--list", "--json"]);
    assert_eq!(listed.json()[0]["state"], "trusted", "{listed}");
    // They do take effect: the file that `memory.store` names is made.
    let embedder = ["--set", "memory.embedder=none"];
    let add = [&["memory", "add", "x"][..], &embedder].concat();
    assert_eq!(program.run(&add).status, 0);
    assert!(program.path("work/trap/memory.db").exists());
    fs::remove_dir_all(program.path("work/trap")).unwrap();

    // One byte more, in a comment.
    let program = program.file("work/atlatl.toml", format!("{text}#"));
    let changed = program.run(&add);
    assert_eq!(changed.status, 0, "{changed}");
    assert!(changed.stderr.contains("changed since you trusted it"), "{changed}");
    assert!(!program.path("work/trap").exists());
    assert_eq!(effective(&program)["memory.store"], before["memory.store"]);
    assert_eq!(program.run(&["trust", "--list", "--json"]).json()[0]["state"], "changed");

    // As it was, it is trusted again, until that is revoked; and a copy elsewhere never was.
    let program = program.file("work/atlatl.toml", &text).file("work/copy/atlatl.toml", &text);
    let store = shown(&program, "memory.store", &values["memory.store"]);
    assert_eq!(effective(&program)["memory.store"], store);
    let mut elsewhere = program.command(&["config", "show", "--json"]);
    let elsewhere = elsewhere.current_dir(program.path("work/copy")).output().unwrap();
    let elsewhere: Value = serde_json::from_slice(&elsewhere.stdout).unwrap();
    assert_eq!(elsewhere["memory"]["store"], before["memory.store"]);
    assert_eq!(program.run(&["trust", "--revoke"]).status, 0);
    assert_eq!(effective(&program)["memory.store"], before["memory.store"]);
    assert_eq!(program.run(&["trust", "--revoke"]).status, 1);
    assert_eq!(listener.received(), (0, 0), "unexpected connection");
}

#[test]
fn g01_a_project_file_of_another_user_is_ignored() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file to another user");
        return;
    }
    let listener = Listener::start();
    let program = person(&listener);
    let before = effective(&program);
    let (text, _) = hostile(&program.path("work"), &listener.address, Bait::Network);
    let program = program.file("work/atlatl.toml", text);
    fs::set_permissions(program.path("work"), fs::Permissions::from_mode(0o777)).unwrap();
    for path in ["work", "work/atlatl.toml"] {
        chown(program.path(path), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    let clone = tree(&program.path("work"));
    assert_eq!(effective(&program), before);
    use_everything(&program, "atlatl.toml is ignored: it belongs to another user (uid 65534)");
    assert_eq!(tree(&program.path("work")), clone);

    let trust = program.run(&["trust", "--yes"]);
    assert_eq!(trust.status, 1, "{trust}");
    assert!(trust.stderr.contains("cannot be trusted: it belongs to another user"), "{trust}");
    let doctor = program.run(&["doctor", "--no-start", "--json"]);
    assert!(doctor.stdout.contains("it belongs to another user"), "{doctor}");
    assert_eq!(effective(&program), before);
    assert_eq!(listener.received(), (0, 0), "unexpected connection");
}

#[test]
fn g01_a_project_file_that_is_no_private_file_is_ignored() {
    let threshold = "proxy.threshold_tokens = 77\n";
    let applies = |program: &Program| {
        let run = program.run(&["config", "show", "--json"]);
        assert_eq!(run.status, 0, "{run}");
        (run.json()["proxy"]["threshold_tokens"] == 77, run.stderr)
    };
    let program = Program::new().file("work/atlatl.toml", threshold);
    let path = program.path("work/atlatl.toml");
    assert_eq!(applies(&program), (true, String::new()));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let (applied, said) = applies(&program);
    assert!(!applied && said.contains("every user can write to it"), "{said}");

    fs::rename(&path, program.path("work/real.toml")).unwrap();
    fs::set_permissions(program.path("work/real.toml"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.toml", &path).unwrap();
    let (applied, said) = applies(&program);
    assert!(!applied && said.contains("it is a symbolic link"), "{said}");

    fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    let (applied, said) = applies(&program);
    assert!(!applied && said.contains("it is not a regular file"), "{said}");

    fs::remove_file(&path).unwrap();
    fs::write(&path, format!("{threshold}#{}", "x".repeat(2 << 20))).unwrap();
    let (applied, said) = applies(&program);
    assert!(!applied && said.contains("it is larger than 1024 KiB"), "{said}");
}

#[test]
fn g01_a_users_file_of_another_user_is_an_error() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file to another user");
        return;
    }
    let file = "home/.config/atlatl/config.toml";
    let program = Program::new().file(file, "proxy.threshold_tokens = 77\n");
    chown(program.path(file), Some(STRANGER), None).unwrap();
    let run = program.run(&["config", "show"]);
    assert_eq!(run.status, 2, "{run}");
    assert!(run.stderr.contains("it belongs to another user (uid 65534)"), "{run}");
    // Named on the command line, it is the user's choice.
    let named = program.path(file);
    let run = program.run(&["config", "show", "--config", named.to_str().unwrap(), "--json"]);
    assert_eq!(run.json()["proxy"]["threshold_tokens"], 77, "{run}");
}
