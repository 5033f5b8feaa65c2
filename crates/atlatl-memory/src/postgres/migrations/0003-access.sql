-- Who may ask: tenants, their bounds and their keys. It only adds.
--
-- The role of a server cannot read these tables, and changes nothing in them: it asks for one key by its
-- id, and for one tenant by its name. Whoever owns the schema makes and revokes.

CREATE TABLE atlatl.tenant (
    name text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    made timestamptz NOT NULL DEFAULT now(),
    -- The most memories, and the most requests in a minute; none where there is no bound.
    memories bigint CHECK (memories >= 0),
    per_minute integer CHECK (per_minute > 0)
);

CREATE TABLE atlatl.access_key (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL REFERENCES atlatl.tenant ON DELETE CASCADE,
    -- Of the secret, which is nowhere.
    digest bytea NOT NULL,
    scopes text[] NOT NULL,
    -- What people call it.
    name text NOT NULL,
    made timestamptz NOT NULL DEFAULT now(),
    expires timestamptz,
    revoked timestamptz
);
CREATE INDEX access_key_tenant ON atlatl.access_key (tenant);

-- Bound by a policy as every table, and by the owner's alone: whoever is granted them sees nothing.
DO $$
DECLARE one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['tenant', 'access_key'] LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', one);
    END LOOP;
END $$;

CREATE FUNCTION atlatl.key_of(wanted text)
RETURNS TABLE (tenant text, digest bytea, scopes text[], expires bigint, revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.tenant, k.digest, k.scopes,
        floor(extract(epoch FROM k.expires) * 1000000)::bigint, k.revoked IS NOT NULL
    FROM atlatl.access_key k WHERE k.id = wanted
$$;
REVOKE ALL ON FUNCTION atlatl.key_of FROM PUBLIC;

CREATE FUNCTION atlatl.tenant_of(wanted text)
RETURNS TABLE (memories bigint, per_minute integer, made bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.memories, t.per_minute, floor(extract(epoch FROM t.made) * 1000000)::bigint
    FROM atlatl.tenant t WHERE t.name = wanted
$$;
REVOKE ALL ON FUNCTION atlatl.tenant_of FROM PUBLIC;

-- Some names behind one, in their order: what is done for every tenant when nobody asks.
CREATE FUNCTION atlatl.tenants_after(wanted text, most integer)
RETURNS TABLE (name text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.name FROM atlatl.tenant t WHERE t.name > wanted COLLATE "C" ORDER BY t.name LIMIT most
$$;
REVOKE ALL ON FUNCTION atlatl.tenants_after FROM PUBLIC;

-- Roles that were let in before need not be let in again.
SELECT atlatl.admit('FUNCTION atlatl.key_of, atlatl.tenant_of, atlatl.tenants_after', 'EXECUTE');
