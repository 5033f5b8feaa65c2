//! Memories made, found, listed, shown and forgotten.

use serde_json::json;

use super::{add, import, steady};
use crate::program::Program;

#[test]
fn a_memory_is_kept_and_found() {
    let program = Program::new();
    let run = program.run(&["memory", "add", "We deploy on Thursdays."]);
    assert_eq!(run.status, 0, "{run}");
    assert!(run.stdout.contains("title      We deploy on Thursdays.\nnamespace  _semantic\n"));
    let first = run.stdout.split_whitespace().nth(1).unwrap();
    let tags = ["--tag", "keys", "--tag", "ops", "--namespace", "_procedural/runbooks"];
    let args = [&["Rotate the deploy keys\n\nEvery spring.", "--type", "procedural"], &tags[..]];
    // Another millisecond: 13 signs tell the two apart.
    std::thread::sleep(std::time::Duration::from_millis(5));
    let second = add(&program, &args.concat());
    let ids = [first, &second];

    let list = program.run(&["memory", "list"]);
    insta::assert_snapshot!(steady(&list, &ids), @"
    status: 0
    --- stdout
    TITLE                    NAMESPACE             CREATED  ID
    Rotate the deploy keys   _procedural/runbooks  0 s ago  [2]
    We deploy on Thursdays.  _semantic             0 s ago  [1]
    --- stderr
    note: 2 of 2 memories
    ");
    let search = program.run(&["memory", "search", "when do we deploy?"]);
    insta::assert_snapshot!(steady(&search, &ids), @"
    status: 0
    --- stdout
    SCORE  MATCH  TITLE                    NAMESPACE             CREATED  ID
    1.00   words  We deploy on Thursdays.  _semantic             0 s ago  [1]
    0.92   words  Rotate the deploy keys   _procedural/runbooks  0 s ago  [2]
    --- stderr
    note: 2 of 2 memories
    ");
    let show = program.run(&["memory", "show", &second]);
    insta::assert_snapshot!(steady(&show, &ids), @"
    status: 0
    --- stdout
    id         [ID 2]
    title      Rotate the deploy keys
    type       procedural
    namespace  _procedural/runbooks
    tags       keys, ops
    status     active
    created    [TIME]

    Rotate the deploy keys

    Every spring.
    --- stderr
    ");
}

#[test]
fn g60_a_typo_is_corrected_and_an_empty_answer_says_why() {
    let program = Program::new();
    insta::assert_snapshot!(program.run(&["memory", "search", "x"]), @"
    status: 0
    --- stdout
    --- stderr
    note: 0 of 0 memories
    hint: no memories are stored yet: atlatl memory add, or atlatl memory import
    ");
    let id = add(&program, &["We deploy on Thursdays."]);
    let search = |args: &[&str]| program.run(&[&["memory", "search"], args].concat());
    let run = search(&["deplyo"]);
    insta::assert_snapshot!(steady(&run, &[&id]), @r#"
    status: 0
    --- stdout
    SCORE  MATCH  TITLE                    NAMESPACE  CREATED  ID
    1.00   words  We deploy on Thursdays.  _semantic  0 s ago  [1]
    --- stderr
    note: 1 of 1 memory
    note: no memory contains "deplyo"; searched for "deploy"
    "#);
    assert_eq!(search(&["deplyo", "--json"]).json()["corrected"], json!({"deplyo": ["deploy"]}));
    assert_eq!(search(&["deploy", "--json"]).json()["corrected"], json!(null));
    let run = search(&["zebra", "--json"]);
    let hint = "no memory contains \"zebra\" or a word of similar spelling: use other words, or \
                atlatl memory list";
    assert_eq!(run.json()["hint"], hint, "{run}");
    assert_eq!(run.stderr, format!("note: 0 of 0 memories\nhint: {hint}\n"));
    let run = search(&["deploy", "--tag", "x", "--json"]);
    assert_eq!(run.json()["hint"], "1 memory matches without the filters (tags)", "{run}");
    add(&program, &["Redis is the cache."]);
    let run = search(&["--all-words", "redis thursdays", "--json"]);
    let hint = "2 memories contain some of these words: search without --all-words";
    assert_eq!(run.json()["hint"], hint, "{run}");
}

#[test]
fn a_search_explains_itself_if_asked() {
    let program = Program::new();
    let id = add(&program, &["We deploy on Thursdays,\nnever on Fridays: deploying is *fun*."]);
    let search = |args: &[&str]| program.run(&[&["memory", "search", "we deploy"], args].concat());
    let run = search(&["--explain"]);
    insta::assert_snapshot!(steady(&run, &[&id]), @"
    status: 0
    --- stdout
    SCORE  MATCH  TITLE                    NAMESPACE  CREATED  ID
    1.00   words  We deploy on Thursdays,  _semantic  0 s ago  [1]
           We deploy on Thursdays, never on Fridays: deploying is *fun*.
    --- stderr
    note: 1 of 1 memory
    ");
    let snippet = r"We **deploy** on Thursdays, never on Fridays: **deploying** is \*fun\*.";
    for all_words in [&[][..], &["--all-words"]] {
        let explained = search(&[all_words, &["--explain", "--json"]].concat()).json();
        assert_eq!(explained["matched_by"], json!(["words"]), "{explained}");
        assert_eq!(explained["snippets"], json!([{"text": snippet}]), "{explained}");
    }
    let plain = search(&["--json"]).json();
    assert!(plain["matched_by"] == json!(["words"]) && plain["snippets"].is_null(), "{plain}");
    let newest = program.run(&["memory", "search", "", "--explain", "--json"]).json();
    assert!(newest["count"] == 1 && newest["snippets"].is_null(), "{newest}");
}

#[test]
fn a_program_gets_whole_memories() {
    let program = Program::new();
    let input =
        r#"{"memory_type": "episodic", "content": "It broke.", "mood": 1.50, "tags": ["x"]}"#;
    let run = program.run_with_input(&["memory", "add", "--from-json", "--json"], input.as_bytes());
    let memory = run.json();
    assert_eq!(memory["title"], "It broke.");
    assert!(run.stdout.contains("\"mood\": 1.50"), "every digit: {run}");
    let list = program.run(&["memory", "list", "--json"]);
    assert_eq!(list.stderr, "note: 1 of 1 memory\n");
    assert_eq!(
        list.json(),
        json!({"count": 1, "total_matches": 1, "detail": "full", "memories": [memory]})
    );
    let search = program.run(&["memory", "search", "broke", "--json"]).json();
    assert_eq!((&search["scores"], &search["ranked_by"]), (&json!([1.0]), &json!("lexical")));
    assert_eq!(search["memories"][0], memory);
    let shown = program.run(&["memory", "show", memory["id"].as_str().unwrap(), "--json"]);
    assert_eq!(shown.json(), memory);
    // 0.1.0 read the fields with --json: they are not stored as the content.
    let former = program.run_with_input(&["memory", "add", "--json"], input.as_bytes());
    assert_eq!(former.status, 2, "{former}");
    assert!(former.stderr.contains("hint: atlatl memory add --from-json"), "{former}");
    let refused = program.run_with_input(&["memory", "add", "--from-json"], b"{\"content\": 7}");
    insta::assert_snapshot!(refused, @"
    status: 1
    --- stdout
    --- stderr
    error: the memory is not valid: `memory_type`: expected a value, the field is required, found nothing
    ");
}

#[test]
fn standard_input_is_a_memory_without_its_last_line_break() {
    let program = Program::new();
    for args in [&["memory", "add", "--json"][..], &["memory", "add", "-", "--json"]] {
        let run = program.run_with_input(args, b"one\ntwo\n\n");
        assert_eq!(run.json()["content"], "one\ntwo\n");
    }
    insta::assert_snapshot!(program.run_with_input(&["memory", "add"], b""), @"
    status: 1
    --- stdout
    --- stderr
    error: the memory is not valid: `content`: expected text, found nothing
    ");
    insta::assert_snapshot!(program.run_with_input(&["memory", "add"], b"\xff"), @"
    status: 1
    --- stdout
    --- stderr
    error: standard input: it is not UTF-8
    ");
    let long = vec![b'x'; (1 << 20) + 1];
    let run = program.run_with_input(&["memory", "add"], &long);
    assert!(run.status == 1 && run.stderr.contains("at most 1048576 bytes"), "{run}");
}

#[test]
fn filters_choose() {
    let program = Program::new();
    let memories = testkit::corpus::memories(300, 7);
    import(&program, &memories, "m.db");
    let total = |args: &[&str]| {
        let set = ["--set", "memory.store=sqlite:m.db", "memory"];
        let run = program.run(&[&set, args, &["--json"]].concat());
        assert_eq!(run.status, 0, "{run}");
        let json = run.json();
        assert_eq!(json["count"], json["memories"].as_array().unwrap().len());
        usize::try_from(json["total_matches"].as_u64().unwrap()).unwrap()
    };
    let count = |admits: &dyn Fn(&mif::Memory) -> bool| {
        memories.iter().filter(|memory| admits(memory)).count()
    };
    let active = |memory: &mif::Memory| memory.status == Some(mif::Status::Active);
    assert_eq!(total(&["list"]), count(&active));
    assert_eq!(total(&["list", "--status", "any", "--limit", "5"]), 300);
    let archived = count(&|memory| memory.status == Some(mif::Status::Archived));
    assert_eq!(total(&["search", "", "--status", "archived"]), archived);
    let kind = count(&|memory| active(memory) && memory.memory_type.as_str() == "episodic");
    assert_eq!(total(&["list", "--type", "episodic"]), kind);
    let sure = count(&|memory| active(memory) && memory.confidence().unwrap().get() >= 0.8);
    assert_eq!(total(&["list", "--min-confidence", "0.8"]), sure);
    let day = "2026-01-08T00:00:00Z".parse::<mif::Timestamp>().unwrap().instant();
    let late = count(&|memory| active(memory) && memory.created.instant() >= day);
    assert!(late > 0 && late < count(&active));
    assert_eq!(total(&["list", "--since", "2026-01-08"]), late);
    assert_eq!(total(&["list", "--until", "2026-01-08T00:00:00Z"]), count(&active) - late);
    let tag = &memories[0].tags()[0];
    let tagged = count(&|memory| active(memory) && memory.tags().contains(tag));
    assert_eq!(total(&["list", "--tag", tag]), tagged);
    let below = count(&|memory| {
        active(memory) && memory.namespace.as_ref().unwrap().as_str().starts_with("_semantic")
    });
    assert_eq!(total(&["list", "--namespace", "_semantic"]), below);

    let oldest = program.run(&[
        "--set",
        "memory.store=sqlite:m.db",
        "memory",
        "list",
        "--order",
        "oldest",
        "--status",
        "any",
        "--limit",
        "1",
        "--json",
    ]);
    assert_eq!(oldest.json()["memories"][0]["id"], memories[0].id.as_str());
    let any = total(&["search", "deploy cache", "--limit", "3"]);
    let all = total(&["search", "deploy cache", "--all-words"]);
    assert!(all <= any, "{all} of {any}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let program = Program::new();
    let refused = |args: &[&str]| program.run(&[&["memory"], args].concat());
    insta::assert_snapshot!(refused(&["list", "--since", "yesterday"]), @"
    status: 2
    --- stdout
    --- stderr
    error: invalid value 'yesterday' for '--since <TIME>': expected a day such as 2026-01-31 or a time such as 2026-01-31T08:00:00Z

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["list", "--type", "odd"]), @r#"
    status: 2
    --- stdout
    --- stderr
    error: invalid value 'odd' for '--type <TYPE>': `memory_type`: expected semantic, episodic or procedural, found "odd"

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(refused(&["show", "abc"]), @"
    status: 1
    --- stdout
    --- stderr
    error: no memory is stored yet
    hint: atlatl memory add TEXT
    ");
    add(&program, &["x"]);
    insta::assert_snapshot!(refused(&["show", "abc"]), @"
    status: 2
    --- stdout
    --- stderr
    error: abc: expected an id, or at least its first 8 digits
    hint: atlatl memory list
    ");
    insta::assert_snapshot!(refused(&["show", "abcdef0123"]), @"
    status: 1
    --- stdout
    --- stderr
    error: abcdef0123: memory not found
    hint: atlatl memory list
    ");
    insta::assert_snapshot!(refused(&["forget", "00000000-0000-0000-0000-000000000000", "--json"]), @r#"
    status: 1
    --- stdout
    {
      "forgotten": [],
      "missing": [
        "00000000-0000-0000-0000-000000000000"
      ]
    }
    --- stderr
    note: 00000000-0000-0000-0000-000000000000 did not exist
    "#);
    let postgres = ["--set", "memory.store=postgres://ann:hidden@db/m?sslmode=verify-ca", "list"];
    insta::assert_snapshot!(refused(&postgres), @"
    status: 2
    --- stdout
    --- stderr
    error: memory.store: the database URL is not a usable memory store: sslmode=verify-ca needs sslrootcert, the file of the CA's certificate; or use sslmode=verify-full
    hint: --set memory.store=postgres://USER@HOST/DATABASE
    ");
    let embedder = ["--set", "memory.embedder=openai:http://key@h#m", "search", "x"];
    insta::assert_snapshot!(refused(&embedder), @"
    status: 2
    --- stdout
    --- stderr
    error: memory.embedder: invalid endpoint URL
    hint: use auto, none, openai:URL#MODEL or local:DIRECTORY
    ");
    std::fs::write(program.path("work/text.db"), "no database, but a text of some length").unwrap();
    insta::assert_snapshot!(refused(&["--set", "memory.store=sqlite:text.db", "list"]), @"
    status: 1
    --- stdout
    --- stderr
    error: [DIR]/work/text.db is not a usable memory store: not a SQLite file
    hint: use another file: --set memory.store=sqlite:PATH
    ");
}

#[test]
fn the_beginning_of_an_id_is_enough_while_it_is_the_only_one() {
    let program = Program::new();
    let mut memories = testkit::corpus::memories(3, 1);
    for (memory, id) in memories.iter_mut().zip(["aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbb-1"]) {
        memory.id = format!("{id}000-7000-8000-000000000000").parse().unwrap();
    }
    import(&program, &memories, "m.db");
    let show = |id: &str| {
        program.run(&["--set", "memory.store=sqlite:m.db", "memory", "show", id, "--json"])
    };
    for typed in ["bbbbbbbb", "BBBBBBBB-1", "bbbbbbbb1000", "urn:mif:bbbbbbbb", " bbbbbbbb "] {
        assert_eq!(show(typed).json()["id"], memories[2].id.as_str(), "{typed}");
    }
    assert_eq!(show("aaaaaaaa-2").json()["id"], memories[1].id.as_str());
    insta::assert_snapshot!(show("aaaaaaaa"), @"
    status: 1
    --- stdout
    --- stderr
    error: aaaaaaaa is ambiguous: aaaaaaaa-1000-7000-8000-000000000000, aaaaaaaa-2000-7000-8000-000000000000
    hint: use more digits of the id
    ");
}

#[test]
fn forgotten_is_gone_and_a_slip_costs_nothing() {
    let program = Program::new();
    let ids: Vec<String> = (0..3).map(|n| add(&program, &[&format!("memory {n}")])).collect();
    let refused = program.run(&["memory", "forget", &ids[0]]);
    insta::assert_snapshot!(steady(&refused, &[]), @"
    status: 2
    --- stdout
    --- stderr
    error: cannot ask for confirmation: not a terminal
    hint: use --yes to skip the confirmation
    ");
    let slip = program.run(&["memory", "forget", "--yes", &ids[0], "ffffffff"]);
    assert_eq!(slip.status, 1, "{slip}");
    assert_eq!(program.run(&["memory", "list", "--json"]).json()["count"], 3);

    let two =
        program.run(&["memory", "forget", "--yes", &ids[0], &ids[1], &ids[0], "--json"]).json();
    assert_eq!(two["forgotten"].as_array().unwrap().len(), 2);
    assert_eq!(program.run(&["memory", "search", "memory", "--json"]).json()["total_matches"], 1);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let again = program.run(&["memory", "forget", "--yes", ids[0], ids[2]]);
    insta::assert_snapshot!(steady(&again, &ids), @"
    status: 1
    --- stdout
    forgot 1 memory
    --- stderr
    note: [ID 1] did not exist
    ");
}

#[test]
fn looking_makes_no_store() {
    let program = Program::new();
    for args in [&["list"][..], &["search", "x"], &["export"]] {
        let run = program.run(&[&["memory"], args].concat());
        assert_eq!(run.status, 0, "{run}");
    }
    assert_eq!(program.run(&["memory", "export"]).stdout, "");
    insta::assert_snapshot!(program.run(&["memory", "show", "00000000"]), @"
    status: 1
    --- stdout
    --- stderr
    error: no memory is stored yet
    hint: atlatl memory add TEXT
    ");
    assert!(!program.path("home").exists());
    add(&program, &["x"]);
    assert!(program.path("home/.local/share/atlatl/memory.db").exists());
    let elsewhere = program.path("data");
    let program = program.variable("XDG_DATA_HOME", elsewhere.to_str().unwrap());
    add(&program, &["x"]);
    assert!(elsewhere.join("atlatl/memory.db").exists());
}
