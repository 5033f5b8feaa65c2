-- Erasure of a tenant, and of what one principal of a tenant wrote: in batches, with a state that everyone sees. It
-- only adds. Decision 0043 has the reasons.

-- Who wrote which memory: a row for each principal that wrote one of its versions, with the key of the first. Imports
-- and programs of older schemas say no author.
CREATE TABLE atlatl.author (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    id uuid NOT NULL,
    subject text COLLATE "C" NOT NULL CHECK (subject <> ''),
    key bigint NOT NULL,
    PRIMARY KEY (tenant, id, subject)
) PARTITION BY HASH (tenant);
CREATE INDEX author_subject ON atlatl.author (tenant, subject, key);

-- Erasures, also the complete ones: they are the record of what was erased, when, and for whom. `subject` is the
-- principal, or nothing (NULL) for the whole tenant; of a complete erasure it is a digest. An erasure begins at
-- `starts`, when no server has the tenant in its cache. A worker that takes it sets `claimed_until`, and renews it with
-- every batch. Memories up to `upto_key` are erased; those that the principal wrote after `last_key` are not.
CREATE TABLE atlatl.erasure (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    subject text COLLATE "C" CHECK (subject <> ''),
    requested timestamptz NOT NULL DEFAULT now(),
    requested_by text NOT NULL,
    starts timestamptz NOT NULL,
    step text COLLATE "C" NOT NULL DEFAULT 'memories' CHECK (step IN ('memories', 'results', 'complete')),
    upto_key bigint NOT NULL DEFAULT -1,
    last_key bigint,
    memories bigint NOT NULL DEFAULT 0,
    results bigint NOT NULL DEFAULT 0,
    result_bytes bigint NOT NULL DEFAULT 0,
    worker text COLLATE "C",
    claimed_until timestamptz NOT NULL DEFAULT '-infinity',
    completed timestamptz
);
CREATE UNIQUE INDEX erasure_open ON atlatl.erasure (tenant, coalesce(subject, '')) WHERE completed IS NULL;

DO $$
DECLARE one text; part text;
BEGIN
    FOR n IN 0..15 LOOP
        part := 'author_' || n;
        EXECUTE format(
            'CREATE TABLE atlatl.%I PARTITION OF atlatl.author FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, n);
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', part);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', part);
        -- As for other tables with several indexes: no statistics are better than those of other tenants.
        EXECUTE format('ALTER TABLE atlatl.%I ALTER tenant SET STATISTICS 0', part);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['author', 'erasure'] LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', one);
    END LOOP;
END $$;

-- Queues the memories that a statement wrote, and notes their author. A tenant that is being erased takes no more.
CREATE OR REPLACE FUNCTION atlatl.queue_written() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    whom text := nullif(current_setting('atlatl.author', true), '');
BEGIN
    IF EXISTS (SELECT FROM atlatl.erasure e WHERE e.completed IS NULL AND e.subject IS NULL
        AND e.tenant IN (SELECT w.tenant FROM written w)) THEN
        RAISE EXCEPTION 'the tenant is being erased' USING ERRCODE = 'lock_not_available';
    END IF;
    INSERT INTO atlatl.embedding_queue (tenant, model, key)
        SELECT w.tenant, m.model, w.key FROM written w
        JOIN atlatl.embedding_model m ON m.tenant = '' OR m.tenant = w.tenant
        ON CONFLICT DO NOTHING;
    IF whom IS NOT NULL THEN
        INSERT INTO atlatl.author (tenant, id, subject, key)
            SELECT w.tenant, w.id, whom, w.key FROM written w ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;

-- Deletes the authors of memories that a statement deleted.
CREATE FUNCTION atlatl.delete_authors() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    whose text;
    ids uuid[];
BEGIN
    FOR whose, ids IN SELECT g.tenant, array_agg(g.id) FROM gone g GROUP BY g.tenant LOOP
        DELETE FROM atlatl.author a WHERE a.tenant = whose AND a.id = ANY (ids);
    END LOOP;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION atlatl.delete_authors FROM PUBLIC;
CREATE TRIGGER authors AFTER DELETE ON atlatl.memory
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION atlatl.delete_authors();

-- Whether a tenant is being erased.
CREATE FUNCTION atlatl.is_erasing(whose text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM atlatl.erasure e
        WHERE e.tenant = whose AND e.subject IS NULL AND e.completed IS NULL)
$$;
REVOKE ALL ON FUNCTION atlatl.is_erasing FROM PUBLIC;

-- Keeps a vector index out whose build began before its tenant was erased: it has the vectors of that time. now() is the
-- beginning of the transaction.
CREATE FUNCTION atlatl.refuse_erased_index() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM atlatl.erasure e WHERE e.tenant = NEW.tenant AND e.subject IS NULL
        AND (e.completed IS NULL OR e.completed > now())) THEN
        RAISE EXCEPTION 'the tenant is being erased' USING ERRCODE = 'lock_not_available';
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION atlatl.refuse_erased_index FROM PUBLIC;
CREATE TRIGGER erased BEFORE INSERT OR UPDATE ON atlatl.embedding_index
    FOR EACH ROW EXECUTE FUNCTION atlatl.refuse_erased_index();

-- For servers, a tenant that is being erased does not exist. Programs of older schemas call these functions too.
CREATE OR REPLACE FUNCTION atlatl.key_of(wanted text)
RETURNS TABLE (tenant text, digest bytea, scopes text[], expires bigint, revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.tenant, k.digest, k.scopes,
        floor(extract(epoch FROM k.expires) * 1000000)::bigint,
        k.revoked IS NOT NULL OR atlatl.is_erasing(k.tenant)
    FROM atlatl.access_key k WHERE k.id = wanted
$$;
CREATE OR REPLACE FUNCTION atlatl.tenant_of(wanted text)
RETURNS TABLE (memories bigint, per_minute integer, made bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.memories, t.per_minute, floor(extract(epoch FROM t.made) * 1000000)::bigint
    FROM atlatl.tenant t WHERE t.name = wanted AND NOT atlatl.is_erasing(t.name)
$$;
CREATE OR REPLACE FUNCTION atlatl.tenants_after(wanted text, most integer)
RETURNS TABLE (name text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.name FROM atlatl.tenant t
    WHERE t.name > wanted COLLATE "C" AND NOT atlatl.is_erasing(t.name) ORDER BY t.name LIMIT most
$$;

-- Requests an erasure that begins in `seconds`, and revokes the keys of a whole tenant. Returns its id, that of the
-- open erasure if there is one, or nothing (NULL) if there is no such tenant and no memory of one. The role of a server
-- may not call it.
CREATE FUNCTION atlatl.begin_erasure(whose text, whom text, who text, seconds double precision) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    begun bigint;
BEGIN
    -- The tenant is not created meanwhile.
    PERFORM pg_advisory_xact_lock(hashtextextended(whose, 8));
    SELECT e.id INTO begun FROM atlatl.erasure e
        WHERE e.tenant = whose AND e.completed IS NULL AND (e.subject IS NULL OR e.subject = whom)
        ORDER BY e.subject NULLS FIRST LIMIT 1;
    IF FOUND THEN
        RETURN begun;
    END IF;
    IF NOT EXISTS (SELECT FROM atlatl.tenant t WHERE t.name = whose)
        AND NOT EXISTS (SELECT FROM atlatl.memory m WHERE m.tenant = whose) THEN
        RETURN NULL;
    END IF;
    IF whom IS NULL THEN
        UPDATE atlatl.access_key k SET revoked = now() WHERE k.tenant = whose AND k.revoked IS NULL;
    END IF;
    INSERT INTO atlatl.erasure AS e (tenant, subject, requested_by, starts)
        VALUES (whose, whom, coalesce(who, session_user), now() + make_interval(secs => seconds))
        RETURNING e.id INTO begun;
    RETURN begun;
END
$$;
REVOKE ALL ON FUNCTION atlatl.begin_erasure FROM PUBLIC;

-- Claims the erasure `wanted`, or the oldest one that is due, for the worker `who`. The claim ends after `seconds`, at
-- most five minutes, unless it is renewed. What a principal wrote is erased together with the tenant if that is erased too.
CREATE FUNCTION atlatl.claim_erasure(wanted bigint, who text, seconds double precision) RETURNS SETOF atlatl.erasure
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
        UPDATE atlatl.erasure e SET (worker, claimed_until) = (who, now() + make_interval(secs => least(greatest(seconds, 0), 300)))
        WHERE e.id = (
            SELECT o.id FROM atlatl.erasure o
            WHERE o.completed IS NULL AND (wanted IS NULL OR o.id = wanted) AND o.starts <= now()
                AND (o.claimed_until <= now() OR o.worker = who)
                AND (o.subject IS NULL OR NOT atlatl.is_erasing(o.tenant))
            ORDER BY o.id LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING e.*;
END
$$;
REVOKE ALL ON FUNCTION atlatl.claim_erasure FROM PUBLIC;

-- Erases at most `most` rows of a kind, or one vector index. Returns how many rows it looked at, 0 if all memories are
-- erased, and nothing (NULL) if the erasure is not the worker's any more. `sample` are cells that each memory of the
-- tenant has one of.
--
-- Triggers delete what depends on a memory. The tables at the end have rows that belong to no memory, and what a fault
-- left behind.
CREATE FUNCTION atlatl.erase_some(wanted bigint, who text, most integer, sample integer[], seconds double precision)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
SET enable_seqscan = off
AS $$
DECLARE
    state atlatl.erasure;
    former atlatl.embedding_index;
    keys bigint[];
    ids uuid[];
    last bigint;
    n bigint;
    name text;
BEGIN
    UPDATE atlatl.erasure e SET claimed_until = now() + make_interval(secs => least(greatest(seconds, 0), 300))
        WHERE e.id = wanted AND e.worker = who AND e.step = 'memories'
        RETURNING e.* INTO state;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF state.subject IS NOT NULL THEN
        IF state.last_key IS NULL THEN
            state.last_key := nextval('atlatl.version');
            UPDATE atlatl.erasure e SET last_key = state.last_key WHERE e.id = wanted;
        END IF;
        SELECT array_agg(s.id), max(s.key) INTO ids, last FROM (
            SELECT a.id, a.key FROM atlatl.author a
            WHERE a.tenant = state.tenant AND a.subject = state.subject
                AND a.key > state.upto_key AND a.key <= state.last_key
            ORDER BY a.key LIMIT most) s;
        IF ids IS NOT NULL THEN
            -- In the order in which writers lock them.
            PERFORM m.id FROM atlatl.memory m
                WHERE m.tenant = state.tenant AND m.id = ANY (ids) ORDER BY m.id FOR UPDATE;
            WITH gone AS (
                DELETE FROM atlatl.memory m WHERE m.tenant = state.tenant AND m.id = ANY (ids) RETURNING m.key)
            SELECT array_agg(g.key), count(*) INTO keys, n FROM gone g;
            DELETE FROM atlatl.document d WHERE d.tenant = state.tenant AND d.key = ANY (keys);
            DELETE FROM atlatl.author a
                WHERE a.tenant = state.tenant AND a.id = ANY (ids) AND a.subject = state.subject;
            UPDATE atlatl.erasure e SET (memories, upto_key) = (e.memories + n, last) WHERE e.id = wanted;
            RETURN cardinality(ids);
        END IF;
        -- A transaction may have ended later than one with a higher key.
        IF EXISTS (SELECT FROM atlatl.author a WHERE a.tenant = state.tenant AND a.subject = state.subject
            AND a.key <= state.last_key) THEN
            UPDATE atlatl.erasure e SET upto_key = -1 WHERE e.id = wanted;
            RETURN 1;
        END IF;
        -- Recalls that read the memories may still store their results.
        UPDATE atlatl.erasure e
            SET (step, starts, worker, claimed_until) = ('results', now() + interval '30 seconds', NULL, '-infinity')
            WHERE e.id = wanted;
        RETURN 0;
    END IF;
    PERFORM set_config('atlatl.tenant', state.tenant, true);
    SELECT i.* INTO former FROM atlatl.embedding_index i WHERE i.tenant = state.tenant ORDER BY i.model LIMIT 1;
    IF FOUND THEN
        DELETE FROM atlatl.embedding_index i WHERE i.tenant = state.tenant AND i.model = former.model;
        EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', former.relation);
        IF former.retired IS NOT NULL THEN
            EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', former.retired);
        END IF;
        RETURN 1;
    END IF;
    IF to_regclass('atlatl.near') IS NOT NULL THEN
        SELECT r.model INTO name FROM atlatl.near r WHERE r.tenant = state.tenant ORDER BY r.model LIMIT 1;
        IF FOUND THEN
            PERFORM atlatl.drop_near(name);
            RETURN 1;
        END IF;
    END IF;
    SELECT array_agg(s.key), max(s.key) INTO keys, last FROM (
        SELECT m.key FROM atlatl.memory m WHERE m.tenant = state.tenant AND m.key > state.upto_key
        ORDER BY m.key LIMIT most) s;
    IF keys IS NOT NULL THEN
        DELETE FROM atlatl.memory m WHERE m.tenant = state.tenant AND m.key = ANY (keys);
        GET DIAGNOSTICS n = ROW_COUNT;
        DELETE FROM atlatl.document d WHERE d.tenant = state.tenant AND d.key = ANY (keys);
        UPDATE atlatl.erasure e SET (memories, upto_key) = (e.memories + n, last) WHERE e.id = wanted;
        RETURN cardinality(keys);
    END IF;
    FOREACH name IN ARRAY ARRAY['document', 'embedding', 'vector', 'search_backlog', 'embedding_queue',
        'waiting', 'author', 'common_term', 'search_statistics', 'embedding_model', 'lease', 'secret', 'usage_delta',
        'usage', 'usage_day', 'search_document']
    LOOP
        CONTINUE WHEN to_regclass('atlatl.' || name) IS NULL;
        -- No index of search_document begins with the tenant. It is the last one, since every look at it reads the
        -- rows that are dead already.
        EXECUTE format('DELETE FROM atlatl.%1$I x WHERE x.tenant = $1 AND x.ctid = ANY (ARRAY('
            'SELECT y.ctid FROM atlatl.%1$I y WHERE y.tenant = $1 %2$s LIMIT $2))', name,
            CASE WHEN name = 'search_document' THEN 'AND y.cells && $3' ELSE '' END)
            USING state.tenant, most, sample;
        GET DIAGNOSTICS n = ROW_COUNT;
        IF n > 0 THEN
            RETURN n;
        END IF;
    END LOOP;
    -- A transaction may have ended later than one with a higher key.
    IF EXISTS (SELECT FROM atlatl.memory m WHERE m.tenant = state.tenant) THEN
        UPDATE atlatl.erasure e SET upto_key = -1 WHERE e.id = wanted;
        RETURN 1;
    END IF;
    -- A recall that read the memories before may still store its result: it has as long again as servers were given
    -- to forget the tenant.
    UPDATE atlatl.erasure e SET (step, starts) =
        ('results', greatest(now(), e.starts + (e.starts - e.requested) )) WHERE e.id = wanted;
    RETURN 0;
END
$$;
REVOKE ALL ON FUNCTION atlatl.erase_some FROM PUBLIC;

-- Adds what was erased in object storage. With `done` the erasure is complete, and a tenant is no longer listed.
-- Returns the erasure, unless it is not the worker's any more.
CREATE FUNCTION atlatl.note_erased_results(
    wanted bigint, who text, more bigint, more_bytes bigint, done boolean, seconds double precision)
RETURNS SETOF atlatl.erasure
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    state atlatl.erasure;
    name text;
BEGIN
    UPDATE atlatl.erasure e SET (results, result_bytes, claimed_until) =
            (e.results + more, e.result_bytes + more_bytes, now() + make_interval(secs => least(greatest(seconds, 0), 300)))
        WHERE e.id = wanted AND e.worker = who AND e.step = 'results'
        RETURNING e.* INTO state;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF done THEN
        IF state.subject IS NULL THEN
            -- Maintenance tasks that were late may have written some.
            FOREACH name IN ARRAY ARRAY['lease', 'secret', 'search_statistics', 'common_term', 'search_backlog',
                'usage', 'usage_delta', 'usage_day'] LOOP
                CONTINUE WHEN to_regclass('atlatl.' || name) IS NULL;
                EXECUTE format('DELETE FROM atlatl.%I x WHERE x.tenant = $1', name) USING state.tenant;
            END LOOP;
            DELETE FROM atlatl.tenant t WHERE t.name = state.tenant;
        END IF;
        -- A principal's name is personal too. Its digest shows that an erasure took place.
        UPDATE atlatl.erasure e
            SET (step, completed, worker, subject) = ('complete', now(), NULL, CASE WHEN e.subject IS NOT NULL
                THEN 'sha256:' || encode(sha256(convert_to(e.subject, 'UTF8')), 'hex') END)
            WHERE e.id = wanted OR (state.subject IS NULL AND e.tenant = state.tenant AND e.completed IS NULL);
    END IF;
    RETURN QUERY SELECT e.* FROM atlatl.erasure e WHERE e.id = wanted;
END
$$;
REVOKE ALL ON FUNCTION atlatl.note_erased_results FROM PUBLIC;

-- Ends the worker's claim. The erasure is claimed again after `seconds` at the earliest.
CREATE FUNCTION atlatl.release_erasure(wanted bigint, who text, seconds double precision) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE atlatl.erasure e SET (worker, claimed_until) = (NULL, now() + make_interval(secs => least(greatest(seconds, 0), 300)))
    WHERE e.id = wanted AND e.worker = who
$$;
REVOKE ALL ON FUNCTION atlatl.release_erasure FROM PUBLIC;

-- Roles that have access already need no further grant. They continue erasures, and cannot request one.
SELECT atlatl.admit('FUNCTION atlatl.claim_erasure, atlatl.erase_some, atlatl.note_erased_results, '
    'atlatl.release_erasure', 'EXECUTE');
