//! Indexes in a backup: a server that a dump is restored into starts its transaction ids again.

use super::*;
use atlatl_memory::contract::BlockOn;

#[test]
fn an_index_that_was_half_made_in_a_dump_is_finished_where_it_is_restored() {
    let old = PostgresServer::shared();
    let (postgres, database) = opened(old);
    let (half, whole) = (postgres.tenant("half").unwrap(), postgres.tenant("whole").unwrap());
    let known = [filled(&half, FROM + 7, 21), filled(&whole, FROM + 9, 22)];
    advance(&whole);
    // Many transactions later: the other server does not reach this id during the test.
    let many = "DO $$ BEGIN FOR n IN 1..40000 LOOP \
                PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
    old.sql(&database, many);
    let begun = "SELECT count(*) FROM atlatl.near WHERE since IS NOT NULL AND NOT complete";
    while old.sql(&database, begun) != "1" {
        assert_eq!(half.advance_index().wait().unwrap(), 1);
    }
    let dump = old.home().join("near.dump");
    let file = dump.to_str().unwrap();
    old.program("pg_dump", "postgres", &["-Fc", "-f", file, &database]).unwrap();

    let new = PostgresServer::start(&["fsync=off", "full_page_writes=off"]);
    let restored = new.database_without_pgvector();
    let into = ["--exit-on-error", "--single-transaction", "-d", &restored, file];
    new.program("pg_restore", "postgres", &into).unwrap();
    let ahead = "SELECT pg_current_xact_id() < min(since) FROM atlatl.near WHERE NOT complete";
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
    let complete = "SELECT count(*) FROM atlatl.near WHERE complete";
    assert_eq!(new.sql(&restored, complete), "2");
}
