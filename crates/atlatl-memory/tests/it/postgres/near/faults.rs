//! Faults: an index that is invalid, partly filled, or created during writes.

use atlatl_memory::contract::BlockOn;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::postgres::{SLEEPS, WAITS, wait_for};

/// The statements that build the index of the tenant `a`.
const BUILD: &str =
    "SET LOCAL atlatl.tenant = 'a'; SELECT atlatl.build_embedding_index('the model''s name', 32)";

#[test]
fn a_broken_index_hides_nothing_and_is_rebuilt() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, 800, 9);
    advance(&store);
    for fault in [
        // Like an interrupted index build.
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'atlatl.NAME_index'::regclass",
        "DROP INDEX atlatl.NAME_index",
    ] {
        server.sql(&database, &fault.replace("NAME", &table(server, &database)));
        assert_eq!(recall(&store, &known, &any(), 3), 100, "{fault}");
        assert!(store.is_index_behind().wait().unwrap(), "{fault}");
        advance(&store);
        assert_eq!(rows(server, &database), "800", "{fault}");
        assert!(recall(&store, &known, &any(), 5) >= 90, "{fault}");
        let valid = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                     WHERE c.relname LIKE 'hnsw%index' AND i.indisvalid";
        assert_eq!(server.sql(&database, valid), "1", "{fault}");
    }
    // The vectors are lost with the table, and made again.
    for fault in ["ALTER TABLE atlatl.NAME DROP COLUMN embedding", "DROP TABLE atlatl.NAME"] {
        server.sql(&database, &fault.replace("NAME", &table(server, &database)));
        assert_eq!(nearest(&store, &known[0].1, &any(), 50), [], "{fault}");
        assert!(store.is_index_behind().wait().unwrap(), "{fault}");
        advance(&store);
        assert_eq!(store.count_unembedded(MODEL).wait().unwrap(), 800, "{fault}");
        let queued = "SELECT count(*) FROM atlatl.embedding_queue";
        assert_eq!(server.sql(&database, queued), "800", "{fault}");
        embed(&store, &known);
        assert_eq!(server.sql(&database, queued), "0", "{fault}");
        advance(&store);
        assert_eq!(rows(server, &database), "800", "{fault}");
    }
    // A memory was deleted without the trigger: the daily repair detects it.
    server.sql(&database, "ALTER TABLE atlatl.memory DISABLE TRIGGER deleted");
    store.delete(&known[0].0.id).wait().unwrap();
    server.sql(&database, "ALTER TABLE atlatl.memory ENABLE TRIGGER deleted");
    assert!(!nearest(&store, &known[0].1, &any(), 50).contains(&known[0].0.id));
    assert_eq!(store.repair().wait().unwrap().orphaned, 1);
    assert_eq!(rows(server, &database), "799");
}

#[test]
fn a_kill_while_the_index_is_filled_leaves_nothing_broken() {
    let server = PostgresServer::start(&["fsync=on"]);
    let (postgres, database) = opened(&server);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, 1200, 10);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // A failed step is repeated, as the maintenance task does.
                let _ = store.advance_index().wait();
            }
        });
        for pause in [10, 60, 110, 160] {
            std::thread::sleep(Duration::from_millis(pause));
            server.kill();
            server.start_again();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(recall(&store, &known, &any(), 3) / 9, 11, "nearly all are found");
    advance(&store);
    assert_eq!(rows(&server, &database), "1200");
    let recall = recall(&store, &known, &any(), 10);
    assert!(recall >= 90, "{recall} of 100");
}

#[test]
fn a_vector_that_is_written_while_the_index_is_made_is_not_forgotten() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, FROM + 1, 11);
    // The vector is written but not visible yet when the index is built.
    let id = known[0].0.id.as_u128();
    let key = format!("(SELECT key FROM atlatl.memory WHERE id = lpad('{id:x}', 32, '0')::uuid)");
    server.sql(&database, &format!("DELETE FROM atlatl.embedding WHERE key = {key}"));
    let slow = known[0].1.clone();
    let numbers: Vec<String> = slow.iter().map(ToString::to_string).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let insert = format!(
                "INSERT INTO atlatl.embedding (tenant, model, key, embedding) \
                 VALUES ('a', 'the model''s name', {key}, '[{}]'); SELECT pg_sleep(4)",
                numbers.join(",")
            );
            server.sql(&database, &insert);
        });
        std::thread::sleep(Duration::from_millis(400));
        assert!(store.advance_index().wait().unwrap() > 0);
        assert!(!writer.is_finished(), "it was built without waiting for the writer");
        assert_eq!(rows(server, &database), FROM.to_string());
    });
    assert_eq!(nearest(&store, &slow, &any(), 5)[0], known[0].0.id);
    advance(&store);
    assert_eq!(nearest(&store, &slow, &any(), 5)[0], known[0].0.id);
    assert_eq!(rows(server, &database), (FROM + 1).to_string());
}

#[test]
fn writers_and_the_index_do_not_wait_for_each_other_or_fail() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, 900, 12);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (store, known) = (store.clone(), &known);
                scope.spawn(move || {
                    for (n, (memory, vector)) in known.iter().enumerate().skip(writer).step_by(9) {
                        if n % 2 == 0 {
                            assert!(store.delete(&memory.id).wait().unwrap());
                        } else {
                            let mut memory = memory.clone();
                            memory.content.push_str(" Again.");
                            store.put(&[memory], OnConflict::Replace).wait().unwrap();
                        }
                        nearest(&store, vector, &any(), 50);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (store, stop) = (store.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Two at a time, which a lease otherwise prevents.
                    let _ = store.advance_index().wait();
                }
            });
        }
        let failed = writers.into_iter().find_map(|writer| writer.join().err());
        stop.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "a writer failed");
    });
    advance(&store);
    // Vectors of memories that were deleted while they were moved.
    store.repair().wait().unwrap();
    let memories = store.count(&any(), now()).wait().unwrap();
    let embedded = memories - store.count_unembedded(MODEL).wait().unwrap();
    assert_eq!(rows(server, &database), embedded.to_string());
    assert_eq!(store.repair().wait().unwrap().orphaned, 0);
}

#[test]
fn g45_a_vector_that_is_written_while_the_index_is_rebuilt_is_not_lost() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    filled(&store, 800, 13);
    advance(&store);
    let build = format!("BEGIN; {BUILD}; SELECT pg_sleep(5); COMMIT");
    std::thread::scope(|scope| {
        let builder = scope.spawn(|| server.sql(&database, &build));
        wait_for(server, &database, SLEEPS);
        filled(&store, 5, 14);
        assert_eq!(store.advance_index().wait().unwrap(), 0, "the table is about to be dropped");
        assert!(!builder.is_finished(), "it took too long");
    });
    advance(&store);
    assert_eq!(store.count_unembedded(MODEL).wait().unwrap(), 0);
    assert_eq!(rows(server, &database), "805");
}

#[test]
fn g45_a_vector_is_not_moved_to_a_table_that_was_replaced() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    filled(&store, 800, 15);
    advance(&store);
    let late = corpus::memories(1, 16);
    store.put(&late, OnConflict::Keep).wait().unwrap();
    let version = store.unembedded(MODEL, 0, 9).wait().unwrap()[0].version;
    let axis = |n: usize| -> Vec<f32> {
        (0..DIMENSIONS).map(|dimension| if dimension == n { 1.0 } else { 0.0 }).collect()
    };
    let put = |vector: Vec<f32>| store.put_vectors(MODEL, &[(version, vector)]).wait().unwrap();
    put(axis(0));
    let former = table(server, &database);
    // The process that moves vectors has read the name of the table, and waits.
    let hold = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('{former}', 1)); SELECT pg_sleep(6); \
         COMMIT"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| server.sql(&database, &hold));
        wait_for(server, &database, SLEEPS);
        let mover = scope.spawn(|| store.advance_index().wait().unwrap());
        wait_for(server, &database, WAITS);
        server.sql(&database, &format!("BEGIN; {BUILD}; COMMIT"));
        assert_ne!(table(server, &database), former);
        put(axis(1));
        assert!(!mover.is_finished(), "it took too long");
        assert_eq!(mover.join().unwrap(), 0);
    });
    advance(&store);
    let id = std::slice::from_ref(&late[0].id);
    let cosines = store.cosines(MODEL, &axis(1), id).wait().unwrap();
    assert!(cosines[0].unwrap() > 0.999, "{cosines:?}");
}

#[test]
fn g45_reads_are_repeated_if_their_index_was_dropped() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, 800, 17);
    advance(&store);
    // Readers find the name of the table, and wait for it.
    let drop_index = format!(
        "BEGIN; SET LOCAL atlatl.tenant = 'a'; \
         LOCK TABLE atlatl.\"{}\" IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(2); \
         SELECT atlatl.drop_embedding_index('the model''s name'); COMMIT",
        table(server, &database)
    );
    let (memory, vector) = &known[0];
    let id = std::slice::from_ref(&memory.id);
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| server.sql(&database, &drop_index));
        wait_for(server, &database, SLEEPS);
        let cosines = scope.spawn(|| store.cosines(MODEL, vector, id).wait().unwrap());
        let count = scope.spawn(|| store.count_unembedded(MODEL).wait().unwrap());
        let unembedded = scope.spawn(|| store.unembedded(MODEL, 0, 9).wait().unwrap());
        // More than an index is asked for.
        let near = scope.spawn(|| nearest(&store, vector, &any(), 700));
        wait_for(server, &database, WAITS);
        assert!(!dropping.is_finished(), "it took too long");
        assert!(cosines.join().unwrap()[0].unwrap() > 0.999);
        assert_eq!(count.join().unwrap(), 0);
        assert!(unembedded.join().unwrap().is_empty());
        assert_eq!(near.join().unwrap().len(), 700);
    });
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.embedding"), "800");
}
