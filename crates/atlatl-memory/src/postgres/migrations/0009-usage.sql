-- What tenants use, and limits in bytes and days. It only adds. Decision 0044 has the reasons.

ALTER TABLE atlatl.tenant
    -- The most bytes of memories, and the days that a memory is kept after its last change; none where there is no bound.
    ADD COLUMN bytes bigint CHECK (bytes >= 0),
    ADD COLUMN retention_days integer CHECK (retention_days > 0);

-- How many memories and bytes a tenant has, up to the rows of atlatl.usage_delta. Without `counted` they are not counted
-- yet. Bytes are those of the JSON.
CREATE TABLE atlatl.usage (
    tenant text COLLATE "C" PRIMARY KEY CHECK (tenant <> ''),
    memories bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    counted timestamptz
);

-- Changes since then: a row for each statement that wrote or deleted memories. A counter that every writer updates
-- would make writers wait for each other.
CREATE TABLE atlatl.usage_delta (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    memories bigint NOT NULL,
    bytes bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX usage_delta_tenant ON atlatl.usage_delta (tenant);

-- What a tenant used on a day (UTC), and had at its end.
CREATE TABLE atlatl.usage_day (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    day date NOT NULL,
    requests bigint NOT NULL DEFAULT 0,
    database_ms bigint NOT NULL DEFAULT 0,
    memories bigint,
    bytes bigint,
    PRIMARY KEY (tenant, day)
);

DO $$
DECLARE one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['usage', 'usage_delta', 'usage_day'] LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', one);
    END LOOP;
END $$;

-- Notes what a statement changed, whatever program sent it.
CREATE FUNCTION atlatl.note_usage() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    sign integer := CASE WHEN TG_OP = 'DELETE' THEN -1 ELSE 1 END;
BEGIN
    INSERT INTO atlatl.usage_delta (tenant, memories, bytes)
        SELECT c.tenant, sign * count(*), sign * sum(octet_length(c.json)) FROM changed c GROUP BY c.tenant;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION atlatl.note_usage FROM PUBLIC;
CREATE TRIGGER usage_inserted AFTER INSERT ON atlatl.document
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION atlatl.note_usage();
CREATE TRIGGER usage_deleted AFTER DELETE ON atlatl.document
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION atlatl.note_usage();

-- What the transaction's tenant has now; no row if it is not counted yet.
CREATE FUNCTION atlatl.stored_usage() RETURNS TABLE (memories bigint, bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT greatest(u.memories + d.memories, 0)::bigint, greatest(u.bytes + d.bytes, 0)::bigint
    FROM atlatl.usage u,
        (SELECT coalesce(sum(x.memories), 0) AS memories, coalesce(sum(x.bytes), 0) AS bytes
            FROM atlatl.usage_delta x WHERE x.tenant = current_setting('atlatl.tenant', true)) d
    WHERE u.tenant = current_setting('atlatl.tenant', true) AND u.counted IS NOT NULL
$$;
REVOKE ALL ON FUNCTION atlatl.stored_usage FROM PUBLIC;

-- Counts the memories of the transaction's tenant, once. Returns whether that is done: the first call only announces it,
-- so that no change is added by fold_usage from then on until the count has it. A tenant that is being erased, or was
-- erased, is not counted.
CREATE FUNCTION atlatl.count_usage() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    whose text := nullif(current_setting('atlatl.tenant', true), '');
BEGIN
    IF whose IS NULL OR atlatl.is_erasing(whose)
        OR (EXISTS (SELECT FROM atlatl.erasure e WHERE e.tenant = whose AND e.subject IS NULL)
            AND NOT EXISTS (SELECT FROM atlatl.tenant t WHERE t.name = whose))
        OR EXISTS (SELECT FROM atlatl.usage u WHERE u.tenant = whose AND u.counted IS NOT NULL) THEN
        RETURN true;
    END IF;
    INSERT INTO atlatl.usage (tenant) VALUES (whose) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM atlatl.usage u WHERE u.tenant = whose AND u.counted IS NULL FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- Another process counts.
        RETURN true;
    END IF;
    -- One statement, and so one snapshot: a change is in the count, or its row stays.
    WITH base AS (
        SELECT count(*) AS memories, coalesce(sum(octet_length(d.json)), 0) AS bytes
        FROM atlatl.document d WHERE d.tenant = whose),
    gone AS (DELETE FROM atlatl.usage_delta x WHERE x.tenant = whose)
    UPDATE atlatl.usage u SET (memories, bytes, counted) = (b.memories, b.bytes, now())
        FROM base b WHERE u.tenant = whose;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION atlatl.count_usage FROM PUBLIC;

-- Adds at most `most` changes of all tenants to their counts. Returns how many; 0 if another process does. Changes of
-- tenants that nobody asked to count are dropped: they are in the count when it begins.
CREATE FUNCTION atlatl.fold_usage(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('usage', 9)) THEN
        RETURN 0;
    END IF;
    WITH taken AS (
        DELETE FROM atlatl.usage_delta x WHERE x.id = ANY (ARRAY(
            SELECT y.id FROM atlatl.usage_delta y
            WHERE NOT EXISTS (SELECT FROM atlatl.usage u WHERE u.tenant = y.tenant AND u.counted IS NULL)
            ORDER BY y.id LIMIT most FOR UPDATE OF y SKIP LOCKED))
        RETURNING x.tenant, x.memories, x.bytes),
    sums AS (
        SELECT t.tenant, sum(t.memories) AS memories, sum(t.bytes) AS bytes FROM taken t GROUP BY t.tenant),
    added AS (
        UPDATE atlatl.usage u SET (memories, bytes) = (u.memories + s.memories, u.bytes + s.bytes)
        FROM sums s WHERE u.tenant = s.tenant)
    SELECT count(*) INTO n FROM taken;
    RETURN n;
END
$$;
REVOKE ALL ON FUNCTION atlatl.fold_usage FROM PUBLIC;

-- Adds what tenants used to this day.
CREATE FUNCTION atlatl.add_usage(tenants text[], requests bigint[], milliseconds bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO atlatl.usage_day AS d (tenant, day, requests, database_ms)
        SELECT n.tenant, (now() AT TIME ZONE 'UTC')::date, n.requests, n.milliseconds
        FROM unnest(tenants, requests, milliseconds) AS n (tenant, requests, milliseconds)
        JOIN atlatl.tenant t ON t.name = n.tenant
        WHERE NOT atlatl.is_erasing(n.tenant)
        ORDER BY n.tenant
        ON CONFLICT (tenant, day) DO UPDATE
            SET (requests, database_ms) = (d.requests + excluded.requests, d.database_ms + excluded.database_ms)
$$;
REVOKE ALL ON FUNCTION atlatl.add_usage FROM PUBLIC;

-- Notes what the transaction's tenant has today, and forgets days older than 400.
CREATE FUNCTION atlatl.note_usage_day() RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO atlatl.usage_day AS d (tenant, day, memories, bytes)
        SELECT t.name, (now() AT TIME ZONE 'UTC')::date, s.memories, s.bytes
        FROM atlatl.stored_usage() s, atlatl.tenant t
        WHERE t.name = current_setting('atlatl.tenant', true) AND NOT atlatl.is_erasing(t.name)
        ON CONFLICT (tenant, day) DO UPDATE SET (memories, bytes) = (excluded.memories, excluded.bytes);
    DELETE FROM atlatl.usage_day d WHERE d.tenant = current_setting('atlatl.tenant', true)
        AND d.day < (now() AT TIME ZONE 'UTC')::date - 400
$$;
REVOKE ALL ON FUNCTION atlatl.note_usage_day FROM PUBLIC;

-- A tenant as servers look it up. Programs of older schemas call tenant_of.
CREATE FUNCTION atlatl.tenant_record(wanted text)
RETURNS TABLE (memories bigint, per_minute integer, made bigint, bytes bigint, retention_days integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.memories, t.per_minute, floor(extract(epoch FROM t.made) * 1000000)::bigint, t.bytes, t.retention_days
    FROM atlatl.tenant t WHERE t.name = wanted AND NOT atlatl.is_erasing(t.name)
$$;
REVOKE ALL ON FUNCTION atlatl.tenant_record FROM PUBLIC;

-- Roles that have access already need no further grant.
SELECT atlatl.admit('FUNCTION atlatl.stored_usage, atlatl.count_usage, atlatl.fold_usage, atlatl.add_usage, '
    'atlatl.note_usage_day, atlatl.tenant_record', 'EXECUTE');
