//! Whatever the file: changed and changed back it is the same, byte for byte.

use atlatl_lro::clients::{install, repair, uninstall};
use proptest::prelude::*;

use crate::{CODEX, OPENCODE, SERVERS, wish, wish_with_scopes, words};

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        3 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" /* c, \"x\" */ ".to_owned()),
        1 => Just(" // to the end {\n".to_owned()),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "[ -~]{0,6}", "[é日\u{1F600}\n\t\"\\\\]{0,4}"]
        .prop_map(|text| serde_json::Value::from(text).to_string())
}

fn list() -> impl Strategy<Value = String> {
    (prop::collection::vec((blank(), text(), blank()), 0..4), any::<bool>(), blank()).prop_map(
        |(items, comma, end)| {
            let items: Vec<_> =
                items.into_iter().map(|(a, text, b)| format!("{a}{text}{b}")).collect();
            let comma = if comma && !items.is_empty() { "," } else { "" };
            format!("[{}{comma}{end}]", items.join(","))
        },
    )
}

fn table(members: Vec<(String, String)>, blanks: &[String], comma: bool) -> String {
    let mut blanks = blanks.iter().cycle();
    let mut blank = || blanks.next().map(String::as_str).unwrap_or_default().to_owned();
    let members: Vec<_> = members
        .into_iter()
        .map(|(name, value)| format!("{}{name}{}:{}{value}{}", blank(), blank(), blank(), blank()))
        .collect();
    let comma = if comma && !members.is_empty() { "," } else { "" };
    format!("{{{}{comma}{}}}", members.join(","), blank())
}

fn blanks() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(blank(), 1..7)
}

fn server(together: bool) -> impl Strategy<Value = String> {
    let command = if together { list().boxed() } else { text().boxed() };
    (command, prop::option::of(list()), blanks(), any::<(bool, bool, bool)>()).prop_map(
        move |(command, args, blanks, (first, comma, env))| {
            let mut members = vec![("\"command\"".to_owned(), command)];
            if let Some(args) = args.filter(|_| !together) {
                members.insert(usize::from(first), ("\"args\"".to_owned(), args));
            }
            if env {
                members.push(("\"env\"".to_owned(), "{\"A\": \"b\"}".to_owned()));
                members.push(("\"cwd\"".to_owned(), "\"/x\"".to_owned()));
            }
            table(members, &blanks, comma)
        },
    )
}

fn file(together: bool) -> impl Strategy<Value = String> {
    let servers = prop::collection::vec((text(), server(together)), 0..4);
    (servers, blanks(), any::<bool>(), prop::option::of(text())).prop_map(
        move |(servers, blanks, comma, other)| {
            let mut seen = std::collections::HashSet::new();
            let servers: Vec<_> =
                servers.into_iter().filter(|(name, _)| seen.insert(name.clone())).collect();
            let key = if together { "\"mcp\"" } else { "\"mcpServers\"" };
            let mut members = vec![(key.to_owned(), table(servers, &blanks, comma))];
            members.extend(other.map(|other| ("\"zz\"".to_owned(), other)));
            table(members, &blanks, comma)
        },
    )
}

fn toml_file() -> impl Strategy<Value = String> {
    let server = (
        "[a-z]{1,6}",
        text(),
        prop::option::of(prop::collection::vec(text(), 0..4)),
        any::<bool>(),
    );
    (prop::collection::vec(server, 0..4), any::<bool>()).prop_map(|(servers, end)| {
        let mut out = "# first\nmodel = \"x\"\n".to_owned();
        let mut seen = std::collections::HashSet::new();
        for (name, command, args, comment) in servers {
            if name == "atlatl" || !seen.insert(name.clone()) {
                continue;
            }
            let comment = if comment { " # why" } else { "" };
            let args = args.map(|args| format!("args = [{}]\n", args.join(", ")));
            let args = args.unwrap_or_default();
            out = [out, format!("\n[mcp_servers.{name}]\ncommand = {command}{comment}\n{args}")]
                .concat();
        }
        if end { out + "\n[tui]\nx = 1" } else { out }
    })
}

fn there_and_back(
    before: &str,
    place: &atlatl_lro::clients::ServerTable,
) -> Result<(), TestCaseError> {
    let installed = install(before, place, &wish());
    prop_assert!(installed.is_ok(), "{before}: {installed:?}");
    let installed = installed.unwrap();
    let old = words(before, place);
    let new = words(&installed.text, place);
    for (name, words) in old.iter().filter(|(_, words)| !words[0].ends_with("atlatl")) {
        let now = &new.iter().find(|(known, _)| known == name).unwrap().1;
        prop_assert_eq!(&now[5..], &words[..]);
    }
    let back = uninstall(&installed.text, place, &installed.journal);
    prop_assert_eq!(back, Ok(before.to_owned()), "through {}", installed.text);
    // g70: what was written so is repaired to what is written now, and comes back as well.
    let now = wish_with_scopes();
    let repaired = repair(&installed.text, place, &now, &installed.journal).unwrap();
    prop_assert_eq!(&repaired.text, &install(before, place, &now).unwrap().text);
    let back = uninstall(&repaired.text, place, &repaired.journal);
    prop_assert_eq!(back, Ok(before.to_owned()), "through {}", repaired.text);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn json_changed_and_changed_back_is_the_same(before in file(false)) {
        there_and_back(&before, &SERVERS)?;
    }

    #[test]
    fn json_with_commands_in_lists_is_the_same(before in file(true)) {
        there_and_back(&before, &OPENCODE)?;
    }

    #[test]
    fn toml_changed_and_changed_back_is_the_same(before in toml_file()) {
        there_and_back(&before, &CODEX)?;
    }

    #[test]
    fn no_text_makes_it_panic(text in "[{}\\[\\]\":, a-z#=\n\\\\]{0,60}") {
        for place in [SERVERS, CODEX, OPENCODE] {
            if let Ok(installed) = install(&text, &place, &wish()) {
                let back = uninstall(&installed.text, &place, &installed.journal);
                prop_assert_eq!(back, Ok(text.clone()), "through {}", installed.text);
            }
        }
    }
}
