//! Tests of all layers together, with sources of their own.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use lro_core::config::key;
use lro_core::{FixedPolicy, Policy};
use tempfile::TempDir;

use super::sources::{FileLayer, SourceFile, standard_files};
use super::*;
use crate::spool_config::output_dir;

/// A directory with the three files, and an empty environment.
struct TestSources {
    dir: TempDir,
    sources: Sources,
}

impl TestSources {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let layers = [FileLayer::System, FileLayer::User, FileLayer::Project];
        let names = ["system.toml", "user.toml", "project.toml"];
        let files = layers
            .into_iter()
            .zip(names)
            .map(|(layer, name)| SourceFile { layer, path: dir.path().join(name) })
            .collect();
        let uid = rustix::process::geteuid().as_raw();
        let surroundings = Surroundings { uid, ..Surroundings::default() };
        Self { dir, sources: Sources { files, surroundings, ..Sources::default() } }
    }

    fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        fs::write(self.dir.path().join(name), text).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.push((OsString::from(name), OsString::from(value)));
        self
    }

    fn set(mut self, assignment: &str) -> Self {
        self.sources.assignments.push(assignment.to_owned());
        self
    }

    fn load(&self) -> Settings {
        match Settings::read(&self.sources) {
            Ok(settings) => settings,
            Err(problems) => panic!("{problems:#?}"),
        }
    }

    /// Each problem and its hint, with the directory's name taken out.
    fn problems(&self) -> Vec<String> {
        let problems = Settings::read(&self.sources).unwrap_err();
        let dir = format!("{}/", self.dir.path().display());
        let line = |problem: &Problem| match problem.hint() {
            Some(hint) => format!("{problem} -- {hint}").replace(&dir, ""),
            None => problem.to_string().replace(&dir, ""),
        };
        problems.iter().map(line).collect()
    }
}

fn origin_of(settings: &Settings, name: &str) -> String {
    let entry = settings.entries().iter().find(|entry| entry.full_name() == name).unwrap();
    let origin = entry.origin.to_string();
    origin.rsplit('/').next().unwrap().to_owned()
}

#[test]
fn each_of_the_six_layers_is_above_the_one_before() {
    let key = "prompt.offload.threshold_tokens";
    let text = |tokens: u32| format!("[prompt.offload]\nthreshold_tokens = {tokens}\n");
    let check = |sources: &TestSources, tokens: u32, origin: &str| {
        let settings = sources.load();
        assert_eq!(settings.config.prompt.offload.threshold_tokens, tokens);
        assert_eq!(origin_of(&settings, key), origin);
    };
    let sources = TestSources::new();
    check(&sources, 1600, "default");
    let sources = sources.file("system.toml", text(1));
    check(&sources, 1, "system.toml:2");
    let sources = sources.file("user.toml", text(2));
    check(&sources, 2, "user.toml:2");
    let sources = sources.file("project.toml", text(3));
    check(&sources, 3, "project.toml:2");
    let sources = sources.variable("ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS", "4");
    check(&sources, 4, "ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS");
    let sources = sources.set("prompt.offload.threshold_tokens=5");
    check(&sources, 5, "--set");
    let sources = sources.set("prompt.offload.threshold_tokens = 6");
    check(&sources, 6, "--set");
}

#[test]
fn layers_are_merged_key_by_key_and_maps_entry_by_entry() {
    let settings = TestSources::new()
        .file("system.toml", "prompt.offload.enabled = false\nproxy.policy.a = \"inline\"\n")
        .file("user.toml", "[proxy.policy]\na = \"offload\"\nB = { threshold_tokens = 9 }\n")
        .variable("ATLATL_PROXY__POLICY__mcp__Files__read", "inline")
        .variable("ATLATL_PROXY__POLICY", "{ c = 'offload' }")
        .set("proxy.policy.Foo_*=inline")
        .set("proxy.policy.\"x=\\u0079\"='offload'")
        .load();
    let policy = |tool: &str| settings.config.proxy.policy.for_tool(tool).map(|(_, policy)| policy);
    let (inline, offload) =
        (Policy::Fixed(FixedPolicy::Inline), Policy::Fixed(FixedPolicy::Offload));
    assert!(!settings.config.prompt.offload.enabled);
    assert_eq!(policy("a"), Some(offload));
    assert_eq!(policy("B"), Some(Policy::Threshold { threshold_tokens: 9 }));
    assert_eq!(policy("b"), None);
    assert_eq!(policy("mcp__Files__read"), Some(inline));
    assert_eq!(policy("c"), Some(offload));
    assert_eq!(policy("Foo_bar"), Some(inline));
    assert_eq!(policy("foo_bar"), None);
    assert_eq!(policy("x=y"), Some(offload));
    assert_eq!(origin_of(&settings, "proxy.policy.\"a\""), "user.toml:2");
}

#[test]
fn the_key_decides_how_text_is_read() {
    let settings = TestSources::new()
        .variable("ATLATL_PROMPT__OFFLOAD__OUTPUT_DIR", "123")
        .variable("ATLATL_SERVER__ALLOWED_HOSTS", "a.example, b.example,")
        .variable("ATLATL_SERVER__ALLOWED_ORIGINS", "[\"https://a.example\"]")
        .variable("ATLATL_SPOOL__MAX_BYTES", "1_000")
        .set("proxy.dir=true")
        .set("ledger.path=\"quoted\"")
        .set("server.tenant_claim=a=b")
        .load();
    let config = &settings.config;
    assert_eq!(config.prompt.offload.output_dir, "123");
    assert_eq!(config.server.allowed_hosts, ["a.example", "b.example"]);
    assert_eq!(config.server.allowed_origins, ["https://a.example"]);
    assert_eq!(config.spool.max_bytes, 1000);
    assert_eq!(config.proxy.dir, "true");
    assert_eq!(config.ledger.path, "quoted");
    assert_eq!(config.server.tenant_claim, "a=b");
}

#[test]
fn everything_wrong_is_reported_with_its_place() {
    let problems = TestSources::new()
        .file("system.toml", "x = 1\n[prompt.offload\n")
        .file(
            "user.toml",
            "[zebra]\na = 1\n\n[prompt.offload]\ntreshold_tokens = 5\nttl_seconds = 0\n\
             output_dir = 2026-11-15\n\"proxy.dir\" = \"x\"\n",
        )
        .file("project.toml", "spool = 1\nproxy.policy.\"a\\u001b\" = 07:32:00\n[promt.offload]\n")
        .variable("ATLATL_PROMPT__OFFLOAD__TRESHOLD_TOKENS", "5")
        .variable("ATLATL_PROMPT__OFFLOAD__ENABLED", "yes")
        .variable("ATLATL_", "")
        .set("proxy.tools=some")
        .set("prompt.offload=1")
        .set("proxy.policy.=inline")
        .set("nonsense")
        .problems();
    insta::assert_snapshot!(problems.join("\n"), @r#"
    system.toml:2: not TOML: unclosed table, expected `]`
    user.toml:1: unknown section `[zebra]` -- `atlatl config schema` lists every key
    user.toml:5: unknown key `prompt.offload.treshold_tokens` -- did you mean `prompt.offload.threshold_tokens`?
    user.toml:6: `prompt.offload.ttl_seconds` is 0, expected a whole number of at least 1 -- leave it out for the default, 3600
    user.toml:7: `prompt.offload.output_dir` is 2026-11-15, expected text -- leave it out for the default, ""
    user.toml:8: unknown key `prompt.offload."proxy.dir"` -- did you mean `proxy.dir`?
    project.toml:1: `spool` is a section, not a key -- name a key in it, such as `spool.max_bytes`
    project.toml:2: `proxy.policy."a\u001b"` is 07:32:00, expected "inline", "offload" or { threshold_tokens = n } with n of at least 1
    project.toml:3: unknown section `[promt]` -- did you mean `[prompt]`?
    ATLATL_: unknown environment variable -- `atlatl config schema` lists every key
    ATLATL_PROMPT__OFFLOAD__ENABLED: `prompt.offload.enabled` is "yes", expected true or false -- leave it out for the default, true
    ATLATL_PROMPT__OFFLOAD__TRESHOLD_TOKENS: unknown environment variable -- did you mean ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS?
    --set: `proxy.tools` is "some", expected "all", "separate" or "none" -- leave it out for the default, "all"
    --set: `prompt.offload` is a section, not a key -- name a key in it, such as `prompt.offload.enabled`
    --set: unknown key `proxy.policy.` -- `atlatl config schema` lists every key
    --set: no value in `nonsense` -- write --set KEY=VALUE, as in --set prompt.offload.enabled=false
    "#);
}

#[test]
fn half_a_path_map_is_blamed_on_the_half_that_is_there() {
    let problems =
        TestSources::new().file("user.toml", "\nproxy.path_map.from = \"/a\"\n").problems();
    insta::assert_snapshot!(problems.join("\n"), @r#"user.toml:2: `proxy.path_map.to` is "", expected text, because `proxy.path_map.from` is set"#);
}

#[test]
fn a_file_that_is_not_utf8_is_refused_with_its_line() {
    let problems = TestSources::new().file("user.toml", b"# fine\n# \xff\n").problems();
    assert_eq!(problems, ["user.toml:2: is not UTF-8"]);
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let mut sources = TestSources::new();
    let value = OsString::from_vec(vec![0xff]);
    sources.sources.environment.push(("ATLATL_PROXY__DIR".into(), value));
    assert_eq!(sources.problems(), ["ATLATL_PROXY__DIR: is not UTF-8"]);
}

#[test]
fn a_directory_in_the_place_of_a_file_is_not_skipped() {
    let sources = TestSources::new();
    fs::create_dir(sources.dir.path().join("user.toml")).unwrap();
    assert!(sources.problems()[0].starts_with("user.toml: cannot be read: "));
}

#[test]
fn the_standard_files_follow_the_base_directory_specification() {
    let paths = |xdg: Option<&str>, home: Option<&str>| {
        let files = standard_files(Path::new("/etc"), xdg.map(Into::into), home.map(Into::into));
        files.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>()
    };
    let (system, project) = ("/etc/atlatl/config.toml", "atlatl.toml");
    let home = "/home/ann/.config/atlatl/config.toml";
    assert_eq!(paths(Some("/x"), Some("/home/ann")), [system, "/x/atlatl/config.toml", project]);
    assert_eq!(paths(None, Some("/home/ann")), [system, home, project]);
    assert_eq!(paths(Some("relative"), Some("/home/ann")), [system, home, project]);
    assert_eq!(paths(Some(""), None), [system, project]);
}

#[test]
fn the_output_directory_is_absolute_and_never_empty() {
    let mut sources = TestSources::new();
    sources.sources.surroundings.temp_dir = "/var/tmp".into();
    assert_eq!(output_dir(&sources.load()).unwrap(), Path::new("/var/tmp"));
    let sources = sources.set("prompt.offload.output_dir=here");
    let here = std::env::current_dir().unwrap().join("here");
    assert_eq!(output_dir(&sources.load()).unwrap(), here);
}

fn environment() -> Origin {
    Origin::Environment { variable: "X".to_owned() }
}

fn user() -> Origin {
    Origin::File { layer: FileLayer::User, path: "x".to_owned(), line: None }
}

fn references(value: &str, origin: Origin) -> SettingEntry {
    let key = key("proxy.references").unwrap();
    SettingEntry { key, name: None, value: Value::from(value), origin }
}

#[test]
fn g73_references_are_off_where_a_stricter_value_may_be_lost() {
    let unknown = || Problem::unknown_key(user(), "proxy.reference");
    let elsewhere =
        || Problem::invalid(user(), InvalidValue::new("proxy.threshold_tokens", "0", "x"));
    let project = || {
        let layer = FileLayer::Project;
        Problem::syntax(Origin::File { layer, path: String::new(), line: None }, "x")
    };
    let cases = [
        (references("same-server", Origin::Default), unknown(), "off"),
        (references("same-server", Origin::Default), elsewhere(), "same-server"),
        (references("same-server", Origin::Default), project(), "same-server"),
        (references("any", user()), unknown(), "any"),
        (references("any", environment()), unknown(), "any"),
        (references("any", user()), Problem::not_utf8(environment()), "off"),
    ];
    for (entry, problem, expected) in cases {
        let case = format!("{entry:?} {problem:?}");
        let mut entries = [entry];
        let changed = apply_strictest_values(&mut entries, &[problem]);
        assert_eq!(entries[0].value, expected, "{case}");
        assert_eq!(changed.is_empty(), expected != "off", "{case}");
    }
}
