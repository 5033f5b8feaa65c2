//! Indexes and the embedding queue in a backup: a server that a dump is restored into starts its
//! transaction ids again.

use super::*;
use atlatl_memory::contract::BlockOn;

#[test]
fn an_index_and_a_model_of_a_dump_are_used_where_it_is_restored() {
    let old = PostgresServer::shared();
    let (postgres, database) = opened(old);
    let (half, whole) = (postgres.tenant("half").unwrap(), postgres.tenant("whole").unwrap());
    let known = [filled(&half, FROM + 7, 21), filled(&whole, FROM + 9, 22)];
    advance(&whole);
    // Many transactions later: the other server does not reach this id during the test.
    let many = "DO $$ BEGIN FOR n IN 1..40000 LOOP \
                PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
    old.sql(&database, many);
    // A model whose memories are not queued yet.
    let model = "INSERT INTO atlatl.embedding_model (tenant, model, since) \
                 VALUES ('', 'new', pg_current_xact_id())";
    old.sql(&database, model);
    let dump = old.home().join("near.dump");
    let file = dump.to_str().unwrap();
    old.program("pg_dump", "postgres", &["-Fc", "-f", file, &database]).unwrap();

    let new = PostgresServer::start(&["fsync=off", "full_page_writes=off"]);
    let restored = new.database_without_pgvector();
    let into = ["--exit-on-error", "--single-transaction", "-d", &restored, file];
    new.program("pg_restore", "postgres", &into).unwrap();
    let ahead = "SELECT pg_current_xact_id() < min(since) FROM atlatl.embedding_model";
    assert_eq!(new.sql(&restored, ahead), "t", "nothing is shown");
    let postgres = opened_again(&new, &restored);
    for (name, known) in ["half", "whole"].into_iter().zip(&known) {
        let store = postgres.tenant(name).unwrap();
        assert_eq!(store.is_index_behind().wait().unwrap(), name == "half");
        assert!(recall(&store, known, &any(), 3) >= 90, "nothing is hidden meanwhile");
        advance(&store);
        let found = recall(&store, known, &any(), 10);
        assert!(found >= 90, "{name}: {found} of 100");
    }
    let claim = postgres.embedding_queue().claim("new", 9, Duration::from_mins(1)).wait();
    assert_eq!(claim.unwrap().unwrap().memories.len(), 9);
}
