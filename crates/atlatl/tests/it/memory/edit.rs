//! Memories changed, by flags and in an editor.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use super::{add, steady};
use crate::program::Program;

/// An editor that runs `script` on the file, which is `$file`.
fn with_editor(program: Program, script: &str) -> Program {
    let path = program.path("work/editor.sh");
    let program = program.file("work/editor.sh", format!("#!/bin/sh\nfile=$2\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    program
        .variable("PATH", &std::env::var("PATH").unwrap())
        .variable("EDITOR", &format!(" {}\t--wait ", path.display()))
}

fn drafts(program: &Program) -> Vec<PathBuf> {
    fs::read_dir(program.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn flags_change_what_they_name() {
    let program = Program::new();
    let id = add(&program, &["Old words.", "--tag", "a", "--tag", "b"]);
    let edit = |args: &[&str]| program.run(&[&["memory", "edit", &id], args].concat());
    let changed = edit(&["--tag", "c", "--status", "archived", "--json"]).json();
    assert_eq!(changed["tags"], serde_json::json!(["c"]));
    assert_eq!((&changed["status"], &changed["title"]), (&"archived".into(), &"Old words.".into()));
    let run = program.run_with_input(
        &[
            "memory",
            "edit",
            &id,
            "--content",
            "-",
            "--type",
            "episodic",
            "--status",
            "active",
            "--json",
        ],
        b"New words.\n",
    );
    let changed = run.json();
    // A title that came from the content follows it.
    assert_eq!(
        (&changed["content"], &changed["title"]),
        (&"New words.".into(), &"New words.".into())
    );
    assert!(changed["modified"].is_string());
    assert_eq!(program.run(&["memory", "search", "new", "--json"]).json()["total_matches"], 1);
    assert_eq!(program.run(&["memory", "search", "old", "--json"]).json()["total_matches"], 0);
    let titled = edit(&["--title", "T", "--namespace", "_local"]);
    insta::assert_snapshot!(steady(&titled, &[&id]), @"
    status: 0
    --- stdout
    id         [ID 1]
    title      T
    type       episodic
    namespace  _local
    tags       c
    status     active
    created    [TIME]
    modified   [TIME]
    --- stderr
    ");
    insta::assert_snapshot!(steady(&edit(&[]), &[&id]), @"
    status: 2
    --- stdout
    --- stderr
    error: no editor: neither VISUAL nor EDITOR is set
    hint: use options: --title, --content, --tag, --status …
    ");
}

#[test]
fn an_editor_changes_the_text() {
    let script = "test \"$1\" = --wait && test \"$(stat -c %a \"$file\")\" = 600 || exit 9\n\
                  sed 's/^Old/New/; s/^status:.*//' \"$file\" > \"$file.new\" && mv \"$file.new\" \"$file\"";
    let program = with_editor(Program::new(), script);
    let id = add(&program, &["Old words.\n---\nid: x\n---"]);
    let changed = program.run(&["memory", "edit", &id, "--json"]);
    assert_eq!(changed.status, 0, "{changed}");
    assert_eq!(changed.json()["content"], "New words.\n---\nid: x\n---");
    assert_eq!(drafts(&program), [] as [PathBuf; 0]);
}

#[test]
fn nothing_changed_changes_nothing() {
    let program = with_editor(Program::new(), "true");
    let id = add(&program, &["Words."]);
    let run = program.run(&["memory", "edit", &id, "--json"]);
    assert_eq!((run.status, &*run.stderr), (0, "note: nothing was changed\n"));
    assert!(run.json()["modified"].is_null());
}

#[test]
fn a_text_that_is_no_memory_is_kept() {
    for script in [
        "sed -i 's/^memory_type:.*/memory_type: odd/' \"$file\"",
        "sed -i 's/^created:.*/created: 2020-01-01T00:00:00Z/' \"$file\"",
        "echo lost > \"$file\"",
        "echo more >> \"$file\"; exit 3",
    ] {
        let program = with_editor(Program::new(), script);
        let id = add(&program, &["Words."]);
        let run = program.run(&["memory", "edit", &id]);
        assert_eq!((run.status, &*run.stdout), (1, ""), "{run}");
        let draft = drafts(&program).pop().unwrap();
        let name = draft.file_name().unwrap().to_str().unwrap();
        assert!(run.stderr.contains(&format!("your text is in [DIR]/tmp/{name}\n")), "{run}");
        assert_eq!(program.run(&["memory", "show", &id, "--json"]).json()["content"], "Words.");
    }
}

#[test]
fn a_kept_text_can_be_mended_and_taken_in() {
    let program =
        with_editor(Program::new(), "sed -i 's/Words/More words/; s/semantic/odd/' \"$file\"");
    let id = add(&program, &["Words."]);
    let run = program.run(&["memory", "edit", &id]);
    assert!(
        run.stderr.contains("hint: fix it, then: atlatl memory import --replace [DIR]"),
        "{run}"
    );
    let draft = drafts(&program).pop().unwrap();
    let mended = fs::read_to_string(&draft).unwrap().replace("odd", "semantic");
    fs::write(&draft, mended).unwrap();
    let run = program.run(&["memory", "import", "--replace", draft.to_str().unwrap(), "--json"]);
    assert_eq!(run.json()["replaced"], 1, "{run}");
    assert_eq!(program.run(&["memory", "show", &id, "--json"]).json()["content"], "More words.");
}

#[test]
fn an_editor_is_no_shell_command() {
    let program = Program::new().variable("VISUAL", "touch;reboot $(id)");
    let id = add(&program, &["Words."]);
    insta::assert_snapshot!(program.run(&["memory", "edit", &id]), @"
    status: 1
    --- stdout
    --- stderr
    error: cannot run touch;reboot: No such file or directory (os error 2)
    ");
    assert_eq!(drafts(&program), [] as [PathBuf; 0]);
}
