-- Drops what migration 0007 replaced, when pgvector is installed, every vector is copied and no server of an older
-- version is connected. It is no migration of its own: servers of version 7 that store vectors in half precision work
-- before and after it.
DO $$
DECLARE relation text;
BEGIN
    FOR relation IN SELECT n.relation FROM atlatl.near n LOOP
        EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', relation);
    END LOOP;
END $$;
DROP TABLE atlatl.near, atlatl.waiting, atlatl.vector;
DROP FUNCTION atlatl.make_near, atlatl.drop_near, atlatl.near_name, atlatl.note_vector, atlatl.copy_vectors, atlatl.half;
-- A new database has no vectors to copy.
UPDATE atlatl.vector_conversion SET complete = true;
