//! `atlatl db`, and memories on the command line that lie in a database.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::Duration;

use testkit::embeddings::EmbeddingsServer;
use testkit::postgres::{APP, OWNER, PASSWORD, PostgresServer};

use super::*;
use crate::serving::{harbours, remembering};

#[test]
fn a_database_is_made_once_and_says_what_it_is() {
    let server = PostgresServer::shared();
    let (program, database) = stranger(server);
    let unmade = program.run(&["memory", "list"]);
    assert_eq!(unmade.status, 1, "{unmade}");
    assert!(unmade.stderr.contains("hint: atlatl db migrate --as postgres://"), "{unmade}");

    let owner = server.url(OWNER, &database);
    let run = program.run(&["db", "migrate", "--as", &owner, "--json"]);
    assert_eq!(
        run.json()["applied"],
        json!([
            "0001-memories",
            "0002-near",
            "0003-access",
            "0004-requeue-vectors",
            "0005-frequencies",
            "0006-bounded-recall",
            "0007-embeddings",
            "0008-erasure",
            "0009-usage",
            "0010-administration"
        ]),
        "{run}"
    );
    let run = program.run(&["db", "migrate", "--as", &owner]);
    assert_eq!((run.status, &*run.stdout), (0, "the schema is up to date\n"), "{run}");

    let about = program.run(&["db", "check", "--json"]).json();
    assert_eq!((&about["role"], &about["schema"]), (&APP.into(), &about["known"]), "{about}");
    assert!(about["pgvector"].is_string(), "{about}");
    let shown = program.run(&["db", "check"]);
    assert!(shown.stdout.contains("pgvector     0."), "{shown}");
    for run in [unmade, run, shown] {
        let said = format!("{run}");
        assert!(!said.contains(PASSWORD) && !said.contains("p%3A"), "no password: {said}");
    }
}

#[test]
fn whoever_owns_the_schema_cannot_use_it_and_a_file_is_no_database() {
    let server = PostgresServer::shared();
    let (_, database) = stranger(server);
    let owner = server.url(OWNER, &database);
    let program = using(&owner);
    let run = program.run(&["db", "migrate", "--as", &owner]);
    assert_eq!(run.status, 2, "{run}");
    assert!(run.stderr.contains("row-level security does not apply to an owner"), "{run}");
    let run = Program::new().run(&["db", "check"]);
    assert_eq!(run.status, 2, "{run}");
    assert!(run.stderr.contains("--set memory.store=postgres://"), "{run}");
    let run = using("postgres://me@h/d?sslmode=allow").run(&["db", "check"]);
    assert_eq!(run.status, 2, "{run}");
    assert!(run.stderr.contains("sslmode=allow is not supported: use prefer"), "{run}");
    let run = using("postgres://me@h/d?sslmode=prefer").run(&["db", "check"]);
    assert_eq!(run.status, 2, "{run}");
    assert!(run.stderr.contains("hint: remove sslmode"), "{run}");
}

#[test]
fn a_password_may_come_from_where_others_look_for_it() {
    let server = PostgresServer::shared();
    let program = team(server);
    let run = program.run(&["db", "check", "--json"]);
    let database = run.json()["place"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let url = server.url(APP, &database);
    let (_, rest) = url.split_once('@').unwrap();
    let bare = using(&format!("postgres://{APP}@{rest}"));
    let refused = bare.run(&["db", "check"]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(refused.stderr.contains("PGPASSWORD, memory.password_file"), "{refused}");
    let file = bare.path("password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let file = file.to_str().unwrap();
    let by_file = format!("memory.password_file={file}");
    let by_command = format!("memory.password_command=[\"cat\", \"{file}\"]");
    let open = bare.run(&["db", "check", "--set", &by_file]);
    assert_eq!(open.status, 1, "{open}");
    assert!(open.stderr.contains("hint: chmod 600 [DIR]/password"), "{open}");
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    for source in [&by_file, &by_command] {
        let admitted = bare.run(&["db", "check", "--set", source]);
        assert_eq!(admitted.status, 0, "{admitted}");
    }
    let both = bare.run(&["db", "check", "--set", &by_file, "--set", &by_command]);
    assert_eq!(both.status, 2, "{both}");
    assert!(both.stderr.contains("are both set"), "{both}");
    fs::write(file, "wrong").unwrap();
    let wrong = bare.run(&["db", "check", "--set", &by_file]);
    assert!(wrong.stderr.contains("password authentication failed"), "{wrong}");
    // It comes before the others.
    let admitted = bare.variable("PGPASSWORD", PASSWORD).run(&["db", "check", "--set", &by_file]);
    assert_eq!(admitted.status, 0, "{admitted}");
}

#[test]
fn the_memories_of_a_file_move_into_a_database_and_stay_what_they_are() {
    let server = PostgresServer::shared();
    let mut memories = harbours(1203);
    memories[7].status = Some(mif::Status::Deleted);
    memories[8].status = Some(mif::Status::Archived);
    let one = remembering(&memories);
    let file = one.path("home/.local/share/atlatl/memory.db");
    let file = file.to_str().unwrap();
    let program = team(server);
    for (stored, unchanged) in [(1203, 0), (0, 1203)] {
        let run = program.run(&["db", "import-sqlite", file, "--json"]);
        assert_eq!(run.status, 0, "{run}");
        assert_eq!(run.json()["stored"], stored, "{run}");
        assert_eq!(run.json()["unchanged"], unchanged, "{run}");
    }
    let lines = |program: &Program| {
        let run = program.run(&["memory", "export"]);
        let mut lines: Vec<String> = run.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&program), lines(&one));
    let none = program.run(&["db", "import-sqlite", "nothing.db"]);
    assert_eq!(none.status, 1, "{none}");
    assert!(!program.path("work/nothing.db").exists());
}

#[test]
fn g45_an_import_says_that_vectors_wait_for_an_open_transaction() {
    let server = PostgresServer::shared();
    let (program, database) = stranger(server);
    let run = program.run(&["db", "migrate", "--as", &server.url(OWNER, &database)]);
    assert_eq!(run.status, 0, "{run}");
    let endpoint = EmbeddingsServer::start(3, "in the harbour", Duration::ZERO);
    let set = format!("memory.embedder={}", endpoint.embedder());
    let lines = testkit::corpus::lines(&harbours(3), mif::DetailLevel::Full).join("\n");
    thread::scope(|scope| {
        // It may write memories that no trigger queues for the model.
        let open = scope.spawn(|| {
            let sql = "BEGIN; SELECT pg_current_xact_id(); SELECT pg_sleep(6); COMMIT";
            server.sql(&database, sql);
        });
        let sleeps = "SELECT count(*) FROM pg_stat_activity \
                      WHERE datname = current_database() AND wait_event = 'PgSleep'";
        while server.sql(&database, sleeps) != "1" {
            assert!(!open.is_finished(), "no transaction is open");
            thread::sleep(Duration::from_millis(20));
        }
        let import = ["memory", "import", "-", "--set", &set, "--json"];
        let run = program.run_with_input(&import, lines.as_bytes());
        assert!(!open.is_finished(), "it took too long");
        assert_eq!((run.status, &run.json()["stored"]), (0, &json!(3)), "{run}");
        assert_eq!(
            run.stderr,
            "note: memories without a vector are found only by words: 3 memories wait for an open \
             transaction or another process; `atlatl serve` retries\n"
        );
    });
    assert_eq!(endpoint.texts().len(), 0);
}

#[test]
fn tenants_of_one_database_see_their_own() {
    let server = PostgresServer::shared();
    let program = team(server);
    let of = |tenant: &str| format!("memory.tenant={tenant}");
    for tenant in ["ann", "bea"] {
        let text = format!("The secret of {tenant}.");
        assert_eq!(program.run(&["memory", "add", &text, "--set", &of(tenant)]).status, 0);
    }
    for (tenant, other) in [("ann", "bea"), ("bea", "ann")] {
        let run = program.run(&["memory", "export", "--set", &of(tenant)]);
        assert!(run.stdout.contains(&format!("secret of {tenant}")), "{run}");
        assert!(!run.stdout.contains(&format!("secret of {other}")), "{run}");
    }
    assert_eq!(program.run(&["memory", "export"]).stdout, "");
    let odd = program.run(&["memory", "list", "--set", "memory.tenant="]);
    assert_eq!(odd.status, 2, "{odd}");
}
