//! Files as people have them.

use atlatl_lro::clients::{
    CLIENTS, EntryKind, HomeLayout, ServerTable, entries, install, repair, uninstall,
};

use crate::{CODEX, OPENCODE, SERVERS, wish, wish_with_scopes, words};

/// Name, where servers stand, the file, and its servers that are programs.
const SAMPLES: &[(&str, ServerTable, &str, &[&str])] = &[
    (
        "one line",
        SERVERS,
        r#"{"mcpServers":{"files":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","."]}}}"#,
        &["files"],
    ),
    (
        "comments, commas behind the last, odd spacing",
        SERVERS,
        "// my servers\n{\n\t\"theme\": \"dark\", /* keep */\n\t\"mcpServers\" : {\n\t\t// files\n\t\t\"files\": { \"args\": [ \"-y\", // yes\n\t\t\t\"server\", ], \"command\": \"npx\", \"env\": {\"A\": \"1\"} }, // done\n\t\t\"bare\": {\"command\": \"uvx\"},\n\t},\n}\n",
        &["files", "bare"],
    ),
    (
        "empty arguments, an unknown key, Windows line ends",
        SERVERS,
        "{\r\n  \"mcpServers\": {\r\n    \"a\": {\"type\": \"stdio\", \"command\": \"srv\", \"args\": [], \"disabled\": false}\r\n  }\r\n}",
        &["a"],
    ),
    ("no server", SERVERS, "{\n  \"mcpServers\": {}\n}\n", &[]),
    ("no table of servers", SERVERS, "{\"numStartups\": 7}\n", &[]),
    (
        "names and words that need escapes",
        SERVERS,
        r#"{"mcpServers": {"a \"b\" é\\": {"command": "C:\\x y\\srv.exe", "args": ["--", "-x", "é\n\"", ""]}}}"#,
        &["a \"b\" é\\"],
    ),
    (
        "a server at a URL beside a program",
        SERVERS,
        r#"{"mcpServers": {"web": {"type": "http", "url": "https://example.com/mcp"}, "p": {"command": "p"}}}"#,
        &["p"],
    ),
    (
        "Codex",
        CODEX,
        "# mine\nmodel = \"o5\"   # the best\n\n[mcp_servers.files]\ncommand = \"npx\" # run\nargs = [\n  \"-y\",\n  \"server\", # last\n]\n\n[mcp_servers.bare]\ncommand = 'uvx'\nenv = { A = \"1\" }\n\n[tui]\ntheme = \"x\"\n",
        &["files", "bare"],
    ),
    (
        "Codex, inline",
        CODEX,
        "mcp_servers = { a = { command = \"x\" }, b = { command = \"y\", args = [] } }\n[other]\n",
        &["a", "b"],
    ),
    (
        "opencode",
        OPENCODE,
        "{\n  \"$schema\": \"x\",\n  \"mcp\": {\n    \"files\": {\n      \"type\": \"local\",\n      \"command\": [\"npx\", \"-y\", \"server\"],\n      \"enabled\": true\n    },\n    \"web\": {\"type\": \"remote\", \"url\": \"https://x.example\"}\n  }\n}\n",
        &["files"],
    ),
];

#[test]
fn every_program_runs_behind_the_proxy_and_comes_back_byte_for_byte() {
    for (name, place, before, programs) in SAMPLES {
        let old = words(before, place);
        assert_eq!(
            old.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            *programs,
            "{name}"
        );
        // An inline table of TOML takes no table behind it.
        let mut wish = wish();
        if before.starts_with("mcp_servers = {") {
            wish.add.clear();
        }
        let installed = install(before, place, &wish).unwrap();
        let new = words(&installed.text, place);
        for (program, words) in &old {
            let now = &new.iter().find(|(name, _)| name == program).unwrap().1;
            let proxy = ["/usr/local/bin/atlatl", "proxy", "--tools", "separate", "--"];
            assert_eq!(now[..5], proxy, "{name}");
            assert_eq!(now[5..], **words, "{name}");
        }
        if !wish.add.is_empty() {
            let tools = &new.iter().find(|(name, _)| name == "atlatl").unwrap().1;
            assert_eq!(tools[..], ["/usr/local/bin/atlatl", "tools"], "{name}");
        }
        // A second time nothing is left to do.
        let again = install(&installed.text, place, &wish).unwrap();
        assert_eq!((&again.text, again.journal.is_empty()), (&installed.text, true), "{name}");
        let back = uninstall(&installed.text, place, &installed.journal).unwrap();
        assert_eq!(back, *before, "{name}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused() {
    for (place, text) in [
        (SERVERS, ""),
        (SERVERS, "{\"mcpServers\": {"),
        (SERVERS, "{\"mcpServers\": {\"a\": {\"command\": 'x'}}}"),
        (SERVERS, "{\"mcpServers\" {}}"),
        (CODEX, "[mcp_servers.a\ncommand = \"x\""),
        (CODEX, "a = 1\na = 2\n"),
    ] {
        assert!(install(text, &place, &wish()).is_err(), "{text}");
    }
}

#[test]
fn edits_in_between_stay_and_what_atlatl_added_goes() {
    let before = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"npx\", \"args\": [\"-y\", \"x\"]}\n  }\n}\n";
    let installed = install(before, &SERVERS, &wish()).unwrap();
    // An argument more, another server, other spacing around ours.
    let edited = installed
        .text
        .replace("\"x\"]", "\"x\", \"--new\"]")
        .replace("\"atlatl\": {", "\"b\": {\"command\": \"b\"},\n    \"atlatl\":  {");
    let back = uninstall(&edited, &SERVERS, &installed.journal).unwrap();
    assert_eq!(
        words(&back, &SERVERS),
        [
            ("a".to_owned(), ["npx", "-y", "x", "--new"].map(str::to_owned).to_vec()),
            ("b".to_owned(), vec!["b".to_owned()]),
        ]
    );
    // The beginning of the arguments was edited.
    let edited = installed.text.replace("\"--tools\", \"separate\", ", "\"--threshold\", \"5\", ");
    let back = uninstall(&edited, &SERVERS, &installed.journal).unwrap();
    assert_eq!(words(&back, &SERVERS), words(before, &SERVERS));
    // The server was removed, or the user wrote another program there.
    for (from, to) in [
        ("\"a\":", "\"renamed\":"),
        (
            "\"command\": \"/usr/local/bin/atlatl\", \"args\": [\"proxy\"",
            "\"command\": \"other\", \"args\": [\"proxy\"",
        ),
    ] {
        let edited = installed.text.replacen(from, to, 1);
        assert!(uninstall(&edited, &SERVERS, &installed.journal).is_ok());
    }
}

#[test]
fn only_the_servers_that_were_named_are_wrapped() {
    let text = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#;
    let mut wish = wish();
    wish.servers = Some(vec!["b".to_owned()]);
    wish.add.clear();
    let installed = install(text, &SERVERS, &wish).unwrap();
    let kinds: Vec<_> =
        entries(&installed.text, &SERVERS).unwrap().into_iter().map(|e| e.kind).collect();
    assert!(matches!(&kinds[..], [EntryKind::Program(_), EntryKind::Ours(_)]), "{kinds:?}");
}

#[test]
fn every_client_has_its_files_on_both_systems() {
    let paths = |home| CLIENTS.iter().map(move |client| (client.name, client.relative_path(home)));
    let linux: Vec<_> = paths(HomeLayout::Linux).collect();
    assert!(
        linux.contains(&("claude-desktop", ".config/Claude/claude_desktop_config.json".to_owned()))
    );
    let mac: Vec<_> = paths(HomeLayout::MacOs).collect();
    let desktop = "Library/Application Support/Claude/claude_desktop_config.json";
    assert!(mac.contains(&("claude-desktop", desktop.to_owned())));
    assert!(mac.contains(&("zed", ".config/zed/settings.json".to_owned())));
    let mut names: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "claude-code",
            "claude-desktop",
            "cursor",
            "vscode",
            "windsurf",
            "zed",
            "codex",
            "gemini",
            "opencode"
        ]
    );
}

#[test]
fn servers_at_a_url_are_asked_through_the_proxy_where_that_is_wanted() {
    let before = r#"{"mcpServers": {"web": { "type": "http", /* c */ "url": "https://example.com/mcp" }, "key": {"url": "https://k.example", "headers": {"A": "b"}}}}"#;
    let mut wish = wish();
    wish.http = true;
    let installed = install(before, &SERVERS, &wish).unwrap();
    let new = words(&installed.text, &SERVERS);
    let web = [
        "/usr/local/bin/atlatl",
        "proxy",
        "--tools",
        "separate",
        "--url",
        "https://example.com/mcp",
    ];
    assert_eq!(new[0], ("web".to_owned(), web.map(str::to_owned).to_vec()));
    assert!(installed.text.contains(r#""headers": {"A": "b"}"#), "a header would be lost");
    assert_eq!(install(&installed.text, &SERVERS, &wish).unwrap().journal.replaced, []);
    assert_eq!(uninstall(&installed.text, &SERVERS, &installed.journal).unwrap(), before);
}

#[test]
fn g70_entries_of_an_earlier_version_are_repaired_and_come_back_byte_for_byte() {
    for (name, place, before, _) in SAMPLES {
        let (mut old, mut now) = (wish(), wish_with_scopes());
        if before.starts_with("mcp_servers = {") {
            old.add.clear();
            now.add.clear();
        }
        old.http = true;
        now.http = true;
        let installed = install(before, place, &old).unwrap();
        let repaired = repair(&installed.text, place, &now, &installed.journal).unwrap();
        assert_eq!(repaired.text, install(before, place, &now).unwrap().text, "{name}");
        assert_eq!(uninstall(&repaired.text, place, &repaired.journal).unwrap(), *before, "{name}");
        // Edited entries stay.
        let edited = installed.text.replace("\"--tools\"", "\"--threshold\", \"5\", \"--tools\"");
        let again = repair(&edited, place, &now, &installed.journal).unwrap();
        let kept = again.text.matches("--threshold").count();
        assert_eq!(kept, edited.matches("--threshold").count(), "{name}");
    }
}
