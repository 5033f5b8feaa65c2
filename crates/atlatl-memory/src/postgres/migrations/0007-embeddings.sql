-- The embedding queue, and vectors that are stored once, in half precision. It only adds.
--
-- Programs of schema 6 and earlier search for memories without a vector, write vectors to atlatl.vector and copy
-- them to the tables of atlatl.near. They keep working: triggers queue what they write, and copy their vectors.
-- `atlatl db migrate --finish` drops what only they use. Decision 0036 has the reasons.

-- Models that memories are embedded with: of one tenant, or of all tenants if `tenant` is empty. Memories that
-- existed before the model are queued in the order of tenants and keys, up to `upto_tenant` and `upto_key`. `since`
-- is a transaction after which every writer knows of the model. A model that is not used for a day is removed.
CREATE TABLE atlatl.embedding_model (
    tenant text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    seen timestamptz NOT NULL DEFAULT now(),
    since xid8,
    upto_tenant text COLLATE "C" NOT NULL DEFAULT '',
    upto_key bigint NOT NULL DEFAULT -1,
    complete boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, model)
);

-- Memories that wait for a vector of a model. A worker that takes one sets `claimed_until`; if it does not store a
-- vector until then, the memory is taken again. Rows are few and short-lived, hence no partitions: an idle server
-- looks at one index.
CREATE TABLE atlatl.embedding_queue (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    model text COLLATE "C" NOT NULL,
    key bigint NOT NULL,
    queued timestamptz NOT NULL DEFAULT now(),
    claimed_until timestamptz NOT NULL DEFAULT '-infinity',
    attempts integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, model, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX embedding_queue_due ON atlatl.embedding_queue (model, tenant, claimed_until, key);
-- As for other tables with several indexes: no statistics are better than those of other tenants.
ALTER TABLE atlatl.embedding_queue ALTER tenant SET STATISTICS 0;

-- Tables with the vectors of tenants that have many, each with an index. A vector is in such a table or in
-- atlatl.embedding; if it is in both, the one in atlatl.embedding is newer. `retired` is the former table.
CREATE TABLE atlatl.embedding_index (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    model text COLLATE "C" NOT NULL,
    dimensions integer NOT NULL,
    relation text COLLATE "C" NOT NULL,
    retired text COLLATE "C",
    PRIMARY KEY (tenant, model)
);

-- How far the vectors of atlatl.vector are copied to atlatl.embedding. One row, once that table exists.
CREATE TABLE atlatl.vector_conversion (
    upto_tenant text COLLATE "C" NOT NULL DEFAULT '',
    upto_model text COLLATE "C" NOT NULL DEFAULT '',
    upto_key bigint NOT NULL DEFAULT -1,
    complete boolean NOT NULL DEFAULT false
);

DO $$
DECLARE one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['embedding_model', 'embedding_queue', 'embedding_index', 'vector_conversion'] LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', one);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['embedding_queue', 'embedding_index'] LOOP
        EXECUTE format(
            'CREATE POLICY tenant ON atlatl.%I USING (tenant = current_setting(''atlatl.tenant'', true)) '
            'WITH CHECK (tenant = current_setting(''atlatl.tenant'', true))', one);
    END LOOP;
END $$;

-- Grants a privilege to every role that may write memories. Formerly it looked at atlatl.vector, which may be gone.
CREATE OR REPLACE FUNCTION atlatl.admit(what text, privileges text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE who text;
BEGIN
    FOR who IN
        SELECT DISTINCT a.grantee::regrole::text FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'atlatl.memory'::regclass AND a.privilege_type = 'INSERT'
            AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT %s ON %s TO %s', privileges, what, who);
    END LOOP;
END
$$;

-- The schema of pgvector, if it has vectors in half precision (0.7).
CREATE FUNCTION atlatl.halfvec_schema() RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector'
        AND EXISTS (SELECT FROM pg_type t WHERE t.typnamespace = n.oid AND t.typname = 'halfvec')
$$;
REVOKE ALL ON FUNCTION atlatl.halfvec_schema FROM PUBLIC;

-- OFFSET 0 keeps EXISTS from becoming a join, so it looks up one key. The planner, which has no statistics by tenant,
-- takes both sides of such a join for a few rows, and may compare every memory with every vector.

-- The functions below run as the owner: programs that know nothing of these tables, and were granted nothing,
-- write memories and vectors too. Tables that may be missing are named only where they were checked for.

-- Queues the memories that a statement wrote.
CREATE FUNCTION atlatl.queue_written() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO atlatl.embedding_queue (tenant, model, key)
        SELECT w.tenant, m.model, w.key FROM written w
        JOIN atlatl.embedding_model m ON m.tenant = '' OR m.tenant = w.tenant
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION atlatl.queue_written FROM PUBLIC;

-- Deletes the queue entries and vectors of versions that a statement deleted or replaced. First the rows of
-- atlatl.embedding, then those of tables with an index, because vectors are moved from the first to the others.
CREATE FUNCTION atlatl.delete_vectors() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    whose text;
    keys bigint[];
    models text[];
    relation text;
BEGIN
    FOR whose, keys IN SELECT g.tenant, array_agg(g.key) FROM gone g GROUP BY g.tenant LOOP
        models := ARRAY(SELECT m.model FROM atlatl.embedding_model m WHERE m.tenant IN ('', whose));
        DELETE FROM atlatl.embedding_queue q
            WHERE q.tenant = whose AND q.model = ANY (models) AND q.key = ANY (keys);
        IF to_regclass('atlatl.vector') IS NOT NULL THEN
            DELETE FROM atlatl.vector v WHERE v.tenant = whose AND v.key = ANY (keys);
        END IF;
        LOOP
            BEGIN
                IF to_regclass('atlatl.embedding') IS NOT NULL THEN
                    models := ARRAY(
                        WITH RECURSIVE used AS (
                            (SELECT e.model FROM atlatl.embedding e WHERE e.tenant = whose ORDER BY e.model LIMIT 1)
                            UNION ALL SELECT (SELECT e.model FROM atlatl.embedding e
                                WHERE e.tenant = whose AND e.model > u.model ORDER BY e.model LIMIT 1)
                            FROM used u WHERE u.model IS NOT NULL)
                        SELECT u.model FROM used u WHERE u.model IS NOT NULL);
                    DELETE FROM atlatl.embedding e
                        WHERE e.tenant = whose AND e.model = ANY (models) AND e.key = ANY (keys);
                END IF;
                FOR relation IN
                    SELECT r.name FROM atlatl.embedding_index i, unnest(ARRAY[i.relation, i.retired]) AS r (name)
                    WHERE i.tenant = whose AND to_regclass('atlatl.' || r.name) IS NOT NULL
                LOOP
                    EXECUTE format('DELETE FROM atlatl.%I n WHERE n.tenant = $1 AND n.key = ANY ($2)', relation)
                        USING whose, keys;
                END LOOP;
                EXIT;
            EXCEPTION WHEN undefined_table THEN
                -- A table was dropped after its name was read. Its vectors are elsewhere now.
                NULL;
            END;
        END LOOP;
    END LOOP;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION atlatl.delete_vectors FROM PUBLIC;

-- Removes memories from the queue whose vectors a statement wrote.
CREATE FUNCTION atlatl.unqueue_written() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    whose text;
    which text;
    keys bigint[];
BEGIN
    FOR whose, which, keys IN
        SELECT w.tenant, w.model, array_agg(w.key) FROM written w GROUP BY w.tenant, w.model
    LOOP
        DELETE FROM atlatl.embedding_queue q
            WHERE q.tenant = whose AND q.model = which AND q.key = ANY (keys);
    END LOOP;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION atlatl.unqueue_written FROM PUBLIC;

CREATE TRIGGER queue_inserted AFTER INSERT ON atlatl.memory
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.queue_written();
CREATE TRIGGER queue_updated AFTER UPDATE ON atlatl.memory
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.queue_written();
CREATE TRIGGER replaced AFTER UPDATE ON atlatl.memory
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION atlatl.delete_vectors();
CREATE TRIGGER deleted AFTER DELETE ON atlatl.memory
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION atlatl.delete_vectors();
CREATE TRIGGER unqueue_inserted AFTER INSERT ON atlatl.vector
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.unqueue_written();
CREATE TRIGGER unqueue_updated AFTER UPDATE ON atlatl.vector
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.unqueue_written();

-- Creates the table of vectors in half precision once pgvector is installed, and copies what older programs write
-- to atlatl.vector from then on. Returns whether it was created. A vector that cannot be written in half
-- precision is copied as "no vector".
CREATE FUNCTION atlatl.adopt_pgvector() RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE place text := atlatl.halfvec_schema();
BEGIN
    IF place IS NULL OR to_regclass('atlatl.embedding') IS NOT NULL THEN
        RETURN false;
    END IF;
    -- No vector (NULL) says that the model refused the text.
    EXECUTE format(
        'CREATE TABLE atlatl.embedding ('
        'tenant text COLLATE "C" NOT NULL DEFAULT current_setting(''atlatl.tenant''), '
        'model text COLLATE "C" NOT NULL, key bigint NOT NULL, embedding %I.halfvec, '
        'PRIMARY KEY (tenant, model, key)) PARTITION BY HASH (tenant)', place);
    FOR n IN 0..15 LOOP
        EXECUTE format('CREATE TABLE atlatl.%I PARTITION OF atlatl.embedding '
            'FOR VALUES WITH (MODULUS 16, REMAINDER %s)', 'embedding_' || n, n);
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', 'embedding_' || n);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', 'embedding_' || n);
    END LOOP;
    ALTER TABLE atlatl.embedding ENABLE ROW LEVEL SECURITY;
    ALTER TABLE atlatl.embedding FORCE ROW LEVEL SECURITY;
    CREATE POLICY tenant ON atlatl.embedding USING (tenant = current_setting('atlatl.tenant', true))
        WITH CHECK (tenant = current_setting('atlatl.tenant', true));
    CREATE POLICY owner ON atlatl.embedding TO CURRENT_USER USING (true) WITH CHECK (true);
    CREATE TRIGGER unqueue_inserted AFTER INSERT ON atlatl.embedding
        REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.unqueue_written();
    CREATE TRIGGER unqueue_updated AFTER UPDATE ON atlatl.embedding
        REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.unqueue_written();
    EXECUTE format($create$
        CREATE FUNCTION atlatl.half(numbers real[]) RETURNS %1$I.halfvec
        LANGUAGE sql IMMUTABLE
        SET search_path = pg_catalog, pg_temp
        AS $half$
            SELECT CASE WHEN cardinality(numbers) BETWEEN 1 AND 16000
                AND (SELECT bool_and(abs(n) <= 65504) FROM unnest(numbers) AS n) THEN numbers::%1$I.halfvec END
        $half$
    $create$, place);
    REVOKE ALL ON FUNCTION atlatl.half FROM PUBLIC;
    CREATE FUNCTION atlatl.copy_vectors() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp
        AS $copy$
        BEGIN
            INSERT INTO atlatl.embedding (tenant, model, key, embedding)
                SELECT w.tenant, w.model, w.key, atlatl.half(w.vector) FROM written w
                ON CONFLICT (tenant, model, key) DO UPDATE SET embedding = excluded.embedding;
            RETURN NULL;
        END
        $copy$;
    REVOKE ALL ON FUNCTION atlatl.copy_vectors FROM PUBLIC;
    CREATE TRIGGER copy_inserted AFTER INSERT ON atlatl.vector
        REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.copy_vectors();
    CREATE TRIGGER copy_updated AFTER UPDATE ON atlatl.vector
        REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION atlatl.copy_vectors();
    INSERT INTO atlatl.vector_conversion DEFAULT VALUES;
    PERFORM atlatl.admit('atlatl.embedding', 'SELECT, INSERT, UPDATE, DELETE');
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION atlatl.adopt_pgvector FROM PUBLIC;

-- Copies at most `most` of the vectors that existed before atlatl.embedding. Returns how many were read; 0 if
-- another process is copying, and nothing (NULL) if all are copied.
CREATE FUNCTION atlatl.convert_vectors(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    state atlatl.vector_conversion;
    last record;
BEGIN
    IF NOT EXISTS (SELECT FROM atlatl.vector_conversion c WHERE NOT c.complete) THEN
        RETURN NULL;
    END IF;
    SELECT c.* INTO state FROM atlatl.vector_conversion c WHERE NOT c.complete FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    WITH batch AS MATERIALIZED (
        SELECT v.tenant, v.model, v.key, v.vector FROM atlatl.vector v
        WHERE (v.tenant, v.model, v.key) > (state.upto_tenant, state.upto_model, state.upto_key)
        ORDER BY v.tenant, v.model, v.key LIMIT most
    ),
    copied AS (
        -- A row that is there already was copied by a trigger, and is newer.
        INSERT INTO atlatl.embedding (tenant, model, key, embedding)
            SELECT s.tenant, s.model, s.key, atlatl.half(s.vector) FROM batch s
            WHERE EXISTS (SELECT FROM atlatl.memory m WHERE m.tenant = s.tenant AND m.key = s.key OFFSET 0)
            ON CONFLICT DO NOTHING
    )
    SELECT s.tenant, s.model, s.key, (SELECT count(*)::integer FROM batch) AS n INTO last
        FROM batch s ORDER BY s.tenant DESC, s.model DESC, s.key DESC LIMIT 1;
    IF NOT FOUND THEN
        UPDATE atlatl.vector_conversion SET complete = true;
        RETURN NULL;
    END IF;
    UPDATE atlatl.vector_conversion
        SET (upto_tenant, upto_model, upto_key) = (last.tenant, last.model, last.key);
    RETURN last.n;
END
$$;
REVOKE ALL ON FUNCTION atlatl.convert_vectors FROM PUBLIC;

-- Whether vectors of atlatl.vector are not copied yet.
CREATE FUNCTION atlatl.is_converting() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM atlatl.vector_conversion c WHERE NOT c.complete)
$$;
REVOKE ALL ON FUNCTION atlatl.is_converting FROM PUBLIC;

-- Registers a model of the transaction's tenant, or of all tenants if it has none, and queues at most `most` of the
-- memories that have no vector of it. Returns how many memories it looked at, 0 if it has to wait, and nothing (NULL)
-- if all are queued. The model is registered in one transaction, announced in another, and what was there before is
-- queued when every transaction has ended that may not know of the model: the trigger queues the memories of all
-- others.
CREATE FUNCTION atlatl.queue_existing(wanted text, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    scope text := coalesce(current_setting('atlatl.tenant', true), '');
    state atlatl.embedding_model;
    tenant_done boolean := false;
    budget integer := most;
    has_vector text;
    relation text;
    n integer;
    last bigint;
BEGIN
    SELECT m.* INTO state FROM atlatl.embedding_model m WHERE m.tenant = scope AND m.model = wanted;
    IF NOT FOUND OR state.seen < now() - interval '10 minutes' THEN
        INSERT INTO atlatl.embedding_model AS m (tenant, model) VALUES (scope, wanted)
            ON CONFLICT (tenant, model) DO UPDATE SET seen = now();
        DELETE FROM atlatl.embedding_model m WHERE m.seen < now() - interval '1 day';
        IF FOUND THEN
            DELETE FROM atlatl.embedding_queue q WHERE NOT EXISTS (SELECT FROM atlatl.embedding_model m
                WHERE m.tenant IN ('', q.tenant) AND m.model = q.model);
        END IF;
        RETURN CASE WHEN state.complete THEN NULL ELSE 1 END;
    END IF;
    IF state.complete THEN
        RETURN NULL;
    END IF;
    -- One process at a time. The others find what it queues.
    SELECT m.* INTO state FROM atlatl.embedding_model m
        WHERE m.tenant = scope AND m.model = wanted AND NOT m.complete FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF state.since IS NULL THEN
        UPDATE atlatl.embedding_model m SET since = pg_current_xact_id()
            WHERE m.tenant = scope AND m.model = wanted;
        RETURN 1;
    END IF;
    -- An id that no transaction had here comes from the server of a backup.
    IF pg_snapshot_xmin(pg_current_snapshot()) <= state.since
        AND pg_snapshot_xmax(pg_current_snapshot()) > state.since THEN
        RETURN 0;
    END IF;
    WHILE budget > 0 LOOP
        IF state.upto_tenant = '' OR tenant_done THEN
            IF scope = '' THEN
                SELECT min(t.tenant) INTO state.upto_tenant FROM (SELECT m.tenant FROM atlatl.memory m
                    WHERE m.tenant > state.upto_tenant ORDER BY m.tenant LIMIT 1) t;
            ELSE
                state.upto_tenant := CASE WHEN state.upto_tenant = '' THEN scope END;
            END IF;
            IF state.upto_tenant IS NULL THEN
                UPDATE atlatl.embedding_model m SET complete = true
                    WHERE m.tenant = scope AND m.model = wanted;
                RETURN NULL;
            END IF;
            state.upto_key := -1;
        END IF;
        has_vector := 'false';
        IF to_regclass('atlatl.vector') IS NOT NULL THEN
            has_vector := 'EXISTS (SELECT FROM atlatl.vector v '
                'WHERE v.tenant = $1 AND v.model = $2 AND v.key = s.key OFFSET 0)';
        END IF;
        IF to_regclass('atlatl.embedding') IS NOT NULL THEN
            has_vector := has_vector || ' OR EXISTS (SELECT FROM atlatl.embedding e '
                'WHERE e.tenant = $1 AND e.model = $2 AND e.key = s.key OFFSET 0)';
        END IF;
        SELECT i.relation INTO relation FROM atlatl.embedding_index i
            WHERE i.tenant = state.upto_tenant AND i.model = wanted
                AND to_regclass('atlatl.' || i.relation) IS NOT NULL;
        IF FOUND THEN
            has_vector := has_vector || format(
                ' OR EXISTS (SELECT FROM atlatl.%I n WHERE n.tenant = $1 AND n.key = s.key OFFSET 0)', relation);
        END IF;
        EXECUTE format(
            'WITH batch AS MATERIALIZED (SELECT m.key FROM atlatl.memory m '
            'WHERE m.tenant = $1 AND m.key > $3 ORDER BY m.key LIMIT $4), '
            'queued AS (INSERT INTO atlatl.embedding_queue (tenant, model, key) '
            'SELECT $1, $2, s.key FROM batch s WHERE NOT (%s) ON CONFLICT DO NOTHING) '
            'SELECT count(*)::integer, max(key) FROM batch', has_vector)
            INTO n, last USING state.upto_tenant, wanted, state.upto_key, budget;
        tenant_done := n < budget;
        budget := budget - greatest(n, 1);
        state.upto_key := coalesce(last, state.upto_key);
    END LOOP;
    UPDATE atlatl.embedding_model m SET (upto_tenant, upto_key) = (state.upto_tenant, state.upto_key)
        WHERE m.tenant = scope AND m.model = wanted;
    RETURN most;
END
$$;
REVOKE ALL ON FUNCTION atlatl.queue_existing FROM PUBLIC;

-- Claims at most `most` memories of one tenant: of the transaction's, or, if it has none, of the next one behind
-- `after_tenant` that has any, so that no tenant waits for the queue of another. It names keys and no memories.
-- A memory that failed before is claimed alone, and only if no other is due.
CREATE FUNCTION atlatl.claim_embeddings(wanted text, after_tenant text, most integer, seconds double precision)
RETURNS TABLE (tenant text, key bigint, attempts integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    scope text := nullif(current_setting('atlatl.tenant', true), '');
    whose text := coalesce(scope, after_tenant);
    wrapped boolean := scope IS NOT NULL;
BEGIN
    LOOP
        IF scope IS NULL THEN
            SELECT q.tenant INTO whose FROM atlatl.embedding_queue q
                WHERE q.model = wanted AND q.tenant > whose AND (NOT wrapped OR q.tenant <= after_tenant)
                    AND q.claimed_until <= now()
                ORDER BY q.tenant LIMIT 1;
            IF NOT FOUND THEN
                EXIT WHEN wrapped;
                wrapped := true;
                whose := '';
                CONTINUE;
            END IF;
        END IF;
        RETURN QUERY
            WITH due AS MATERIALIZED (
                SELECT q.key, q.attempts, q.claimed_until FROM atlatl.embedding_queue q
                WHERE q.model = wanted AND q.tenant = whose AND q.claimed_until <= now()
                ORDER BY q.claimed_until, q.key LIMIT most FOR UPDATE SKIP LOCKED
            ),
            chosen AS MATERIALIZED (
                SELECT d.key FROM due d WHERE d.attempts = 0
                UNION ALL (SELECT d.key FROM due d WHERE NOT EXISTS (SELECT FROM due f WHERE f.attempts = 0)
                    ORDER BY d.claimed_until, d.key LIMIT 1)
            )
            UPDATE atlatl.embedding_queue q SET claimed_until = now() + make_interval(secs => seconds)
            WHERE q.tenant = whose AND q.model = wanted AND q.key = ANY (ARRAY(SELECT c.key FROM chosen c))
            RETURNING q.tenant, q.key, q.attempts;
        EXIT WHEN FOUND OR scope IS NOT NULL;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION atlatl.claim_embeddings FROM PUBLIC;

-- How many memories wait for a vector of a model, counted up to 100,000, and for how many seconds the oldest of
-- them does.
CREATE FUNCTION atlatl.embedding_backlog(wanted text)
RETURNS TABLE (memories bigint, seconds double precision)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*), coalesce(extract(epoch FROM now() - min(c.queued)), 0)::double precision
    FROM (SELECT q.queued FROM atlatl.embedding_queue q WHERE q.model = wanted LIMIT 100000) c
$$;
REVOKE ALL ON FUNCTION atlatl.embedding_backlog FROM PUBLIC;

-- Builds a table with an index from the vectors of the transaction's tenant and a model, and puts it in place of a
-- former one. Returns whether it did. The table is new, so no session waits for it. (CREATE INDEX CONCURRENTLY
-- needs the owner of the table outside of functions, and the role of a server owns nothing.)
CREATE FUNCTION atlatl.build_embedding_index(wanted text, size integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET maintenance_work_mem = '256MB'
-- Parallel workers need shared memory, of which a container has 64 MB.
SET max_parallel_maintenance_workers = 0
AS $$
DECLARE
    whose text := nullif(current_setting('atlatl.tenant', true), '');
    place text := atlatl.halfvec_schema();
    former atlatl.embedding_index;
    fresh text;
    source text;
BEGIN
    IF whose IS NULL OR place IS NULL OR size IS NULL OR size NOT BETWEEN 1 AND 4000 THEN
        RETURN false;
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended(format('%L %L', whose, wanted), 7)) THEN
        RETURN false;
    END IF;
    SELECT i.* INTO former FROM atlatl.embedding_index i WHERE i.tenant = whose AND i.model = wanted;
    IF former.retired IS NOT NULL OR former.dimensions <> size
        OR (SELECT count(*) FROM atlatl.embedding_index i WHERE i.tenant = whose AND i.model <> wanted) >= 16 THEN
        RETURN false;
    END IF;
    fresh := format('hnsw_%s_%s', left(encode(sha256(convert_to(
        length(whose) || ':' || whose || wanted, 'UTF8')), 'hex'), 32), nextval('atlatl.version'));
    EXECUTE format(
        'CREATE TABLE atlatl.%I (tenant text COLLATE "C" NOT NULL DEFAULT current_setting(''atlatl.tenant'') '
        'CHECK (tenant = %L), key bigint NOT NULL, embedding %I.halfvec(%s) NOT NULL)', fresh, whose, place, size);
    source := format('SELECT e.key, e.embedding FROM atlatl.embedding e '
        'WHERE e.tenant = $1 AND e.model = $2 AND %I.vector_dims(e.embedding) = $3', place);
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('atlatl.' || former.relation)
        AND a.attname = 'embedding' AND NOT a.attisdropped) THEN
        source := source || format(' UNION ALL SELECT n.key, n.embedding FROM atlatl.%I n WHERE n.tenant = $1 '
            'AND NOT EXISTS (SELECT FROM atlatl.embedding e '
            'WHERE e.tenant = $1 AND e.model = $2 AND e.key = n.key OFFSET 0)', former.relation);
    END IF;
    EXECUTE format('INSERT INTO atlatl.%I (tenant, key, embedding) SELECT $1, s.key, s.embedding FROM (%s) s '
        'WHERE EXISTS (SELECT FROM atlatl.memory m WHERE m.tenant = $1 AND m.key = s.key OFFSET 0)', fresh, source)
        USING whose, wanted, size;
    EXECUTE format('ALTER TABLE atlatl.%I ADD PRIMARY KEY (tenant, key)', fresh);
    EXECUTE format('CREATE INDEX %I ON atlatl.%I USING hnsw (embedding %I.halfvec_ip_ops)',
        fresh || '_index', fresh, place);
    EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', fresh);
    EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', fresh);
    EXECUTE format(
        'CREATE POLICY tenant ON atlatl.%I USING (tenant = current_setting(''atlatl.tenant'', true)) '
        'WITH CHECK (tenant = current_setting(''atlatl.tenant'', true))', fresh);
    EXECUTE format(
        'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', fresh);
    EXECUTE format('ANALYZE atlatl.%I', fresh);
    PERFORM atlatl.admit(format('atlatl.%I', fresh), 'SELECT, INSERT, UPDATE, DELETE');
    INSERT INTO atlatl.embedding_index AS i (tenant, model, dimensions, relation)
        VALUES (whose, wanted, size, fresh)
        ON CONFLICT (tenant, model) DO UPDATE SET (relation, retired) = (excluded.relation, i.relation);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION atlatl.build_embedding_index FROM PUBLIC;

-- Drops the former table of a model of the transaction's tenant. Returns whether there was one.
CREATE FUNCTION atlatl.drop_retired_index(wanted text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    whose text := nullif(current_setting('atlatl.tenant', true), '');
    name text := (SELECT i.retired FROM atlatl.embedding_index i WHERE i.tenant = whose AND i.model = wanted);
BEGIN
    IF name IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', name);
    UPDATE atlatl.embedding_index i SET retired = NULL WHERE i.tenant = whose AND i.model = wanted;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION atlatl.drop_retired_index FROM PUBLIC;

-- Moves the vectors of a model of the transaction's tenant back to atlatl.embedding and drops their tables. Returns
-- whether there was an index. If the table is gone, its memories are queued again.
CREATE FUNCTION atlatl.drop_embedding_index(wanted text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    whose text := nullif(current_setting('atlatl.tenant', true), '');
    former atlatl.embedding_index;
BEGIN
    DELETE FROM atlatl.embedding_index i WHERE i.tenant = whose AND i.model = wanted RETURNING i.* INTO former;
    IF former.relation IS NULL THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('atlatl.' || former.relation)
        AND a.attname = 'embedding' AND NOT a.attisdropped) THEN
        EXECUTE format('LOCK TABLE atlatl.%I IN ACCESS EXCLUSIVE MODE', former.relation);
        EXECUTE format('INSERT INTO atlatl.embedding (tenant, model, key, embedding) '
            'SELECT $1, $2, n.key, n.embedding FROM atlatl.%I n WHERE n.tenant = $1 '
            'AND EXISTS (SELECT FROM atlatl.memory m WHERE m.tenant = $1 AND m.key = n.key OFFSET 0) '
            'ON CONFLICT DO NOTHING', former.relation) USING whose, wanted;
    ELSE
        INSERT INTO atlatl.embedding_queue (tenant, model, key) SELECT whose, wanted, m.key
            FROM atlatl.memory m WHERE m.tenant = whose AND NOT EXISTS (SELECT FROM atlatl.embedding e
                WHERE e.tenant = whose AND e.model = wanted AND e.key = m.key OFFSET 0)
            ON CONFLICT DO NOTHING;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', former.relation);
    IF former.retired IS NOT NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', former.retired);
    END IF;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION atlatl.drop_embedding_index FROM PUBLIC;

-- Roles that have access already need no further grant.
SELECT atlatl.admit('atlatl.embedding_queue', 'SELECT, INSERT, UPDATE, DELETE');
SELECT atlatl.admit('atlatl.embedding_index', 'SELECT');
SELECT atlatl.admit('FUNCTION atlatl.convert_vectors, atlatl.is_converting, atlatl.queue_existing, '
    'atlatl.claim_embeddings, atlatl.embedding_backlog, atlatl.build_embedding_index, atlatl.drop_retired_index, '
    'atlatl.drop_embedding_index', 'EXECUTE');
