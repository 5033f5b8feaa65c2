//! A server whose bucket has no stored keys, with a simulated metadata endpoint of Google.

use testkit::cloud_storage::{CloudStorage, GOOGLE_TOKEN_PATH, METADATA_TOKEN};

use super::*;
use crate::serving::remembering;

fn at_google(storage: &CloudStorage, program: Program) -> Program {
    program
        .variable("ATLATL_SPOOL__URL", "gs://results/atlatl")
        .variable("GOOGLE_BASE_URL", &storage.url(""))
        .variable("GOOGLE_ALLOW_HTTP", "true")
        .variable("GCE_METADATA_HOST", &storage.authority())
}

#[test]
fn g51_google_without_stored_keys_uses_the_identity_of_the_machine() {
    let storage = CloudStorage::start();
    let program = at_google(&storage, remembering(&harbours(300)));
    let serving = Serving::start(&program, &[]);
    let found = call(&serving, "list_memories", &json!({"detail": "full"}));
    let reference = &found["result"]["structuredContent"]["lro"]["ref"];
    assert!(reference.is_string(), "{found}");
    let question = json!({"ref": reference, "sql": "SELECT count(*) AS n FROM results"});
    let counted = call(&serving, "lro_extract", &question);
    assert!(counted.to_string().contains("1 of 1 rows"), "{counted}");
    let (tokens, objects) = storage.requests();
    assert!(!tokens.is_empty() && !objects.is_empty());
    assert!(tokens.iter().all(|one| one.path() == GOOGLE_TOKEN_PATH));
    let authorization = format!("Bearer {METADATA_TOKEN}");
    for object in &objects {
        assert_eq!(object.header("authorization"), Some(authorization.as_str()), "{object:?}");
    }
    assert!(!serving.lines().concat().contains(METADATA_TOKEN));
}

#[test]
fn g51_a_metadata_host_of_another_machine_is_refused_at_the_start() {
    let storage = CloudStorage::start();
    let program = at_google(&storage, Program::new()).variable("GCE_METADATA_HOST", "192.0.2.1");
    let run = program.run(&["serve", "--http", "127.0.0.1:0"]);
    assert_eq!(run.status, 2, "{run}");
    assert!(
        run.stderr.contains("GCE_METADATA_HOST is another machine, without encryption"),
        "{run}"
    );
    assert!(storage.requests().0.is_empty());
}
