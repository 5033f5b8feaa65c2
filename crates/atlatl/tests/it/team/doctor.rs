//! What `atlatl doctor` says of a database.

use testkit::postgres::{APP, OWNER, PostgresServer};

use super::*;

/// The finding of a check, if there is one.
fn finding(program: &Program, check: &str) -> Option<Value> {
    let report = program.run(&["doctor", "--json"]).json();
    let findings = report["findings"].as_array().unwrap_or_else(|| panic!("{report}"));
    findings.iter().find(|finding| finding["check"] == check).cloned()
}

#[test]
fn doctor_follows_memories_into_a_database() {
    let server = PostgresServer::shared();
    let (program, database) = stranger(server);
    let unmade = finding(&program, "memory-store").unwrap();
    assert!(unmade["fix"].as_str().unwrap().starts_with("atlatl db migrate"), "{unmade}");
    let owner = server.url(OWNER, &database);
    assert_eq!(program.run(&["db", "migrate", "--as", &owner]).status, 0);
    assert_eq!(finding(&program, "memory-store"), None);

    let away = using("postgres://app:hidden@127.0.0.1:9/nowhere");
    let away = finding(&away, "memory-store").unwrap();
    assert!(away["says"].as_str().unwrap().contains("cannot reach"), "{away}");
    assert!(!away.to_string().contains("hidden"), "{away}");
}

#[test]
fn that_pgvector_is_missing_is_said_where_vectors_are_wanted() {
    let server = PostgresServer::shared();
    let database = server.database_without_pgvector();
    let program = using(&server.url(APP, &database));
    assert_eq!(program.run(&["db", "migrate", "--as", &server.url(OWNER, &database)]).status, 0);
    let about = program.run(&["db", "check", "--json"]).json();
    if about["pgvector"].is_string() {
        // The owner may make it here, and did.
        return;
    }
    assert_eq!(finding(&program, "memory-vectors"), None);
    let program = program.variable("ATLATL_MEMORY__EMBEDDER", "openai:http://127.0.0.1:9/v1#m");
    let missing = finding(&program, "memory-vectors").unwrap();
    assert!(missing["fix"].as_str().unwrap().contains("CREATE EXTENSION vector"), "{missing}");
}
