-- Indexes of vectors (HNSW) for tenants that have many. It only adds.
--
-- Putting a vector into such an index is slow, so no writer does it: a trigger notes which vectors
-- came, changed or went, whatever program wrote them, and a custodian brings the index up to date.
-- What is noted is compared without the index meanwhile. An index is a table of its own, of one tenant
-- and one model: it can be filled, asked and dropped without touching anybody else's. The table is made
-- when it is needed, by a function: its type is of an extension that may come later or never.

-- The indexes there are. `complete` says that every vector is in the table or noted in `waiting`;
-- until then nobody asks it. `since` is a transaction after which every writer knows of the index, and
-- up to the key `upto` what was there before is noted.
CREATE TABLE atlatl.near (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    model text COLLATE "C" NOT NULL,
    dimensions integer NOT NULL,
    relation text COLLATE "C" NOT NULL,
    since xid8,
    upto bigint NOT NULL DEFAULT -1,
    complete boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, model)
);

-- Vectors that the index does not have as they are. `turn` changes when one is noted again: whoever
-- brought the index up to date takes away what it saw, and no later note.
CREATE TABLE atlatl.waiting (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    model text COLLATE "C" NOT NULL,
    key bigint NOT NULL,
    turn bigint NOT NULL DEFAULT nextval('atlatl.version'),
    PRIMARY KEY (tenant, model, key)
);

DO $$
DECLARE one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['near', 'waiting'] LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY tenant ON atlatl.%I USING (tenant = current_setting(''atlatl.tenant'', true)) '
            'WITH CHECK (tenant = current_setting(''atlatl.tenant'', true))', one);
        EXECUTE format(
            'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', one);
    END LOOP;
END $$;

-- Runs as the owner: programs that know nothing of it, and were granted nothing, write vectors too.
CREATE FUNCTION atlatl.note_vector() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
    INSERT INTO atlatl.waiting AS w (tenant, model, key)
        SELECT n.tenant, n.model, changed.key FROM atlatl.near n
        WHERE n.tenant = changed.tenant AND n.model = changed.model
        ON CONFLICT (tenant, model, key) DO UPDATE SET turn = nextval('atlatl.version');
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION atlatl.note_vector FROM PUBLIC;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON atlatl.vector
    FOR EACH ROW EXECUTE FUNCTION atlatl.note_vector();

-- Grants a privilege to every role that may write vectors.
CREATE FUNCTION atlatl.admit(what text, privileges text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE who text;
BEGIN
    FOR who IN
        SELECT DISTINCT a.grantee::regrole::text FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'atlatl.vector'::regclass AND a.privilege_type = 'INSERT'
            AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT %s ON %s TO %s', privileges, what, who);
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION atlatl.admit FROM PUBLIC;

-- What the index of this tenant and model is called. Nothing of their text is in it.
CREATE FUNCTION atlatl.near_name(wanted text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'near_' || left(encode(sha256(convert_to(
        length(whose) || ':' || whose || wanted, 'UTF8')), 'hex'), 40)
    FROM nullif(current_setting('atlatl.tenant', true), '') AS whose
$$;
REVOKE ALL ON FUNCTION atlatl.near_name FROM PUBLIC;

-- Makes the index of the transaction's tenant for a model, unless it is there and whole; what it is
-- called. A broken one is made anew, and always empty, so that it takes no time. Nothing where it
-- cannot be: without the extension, for more dimensions than it takes, or for too many models.
CREATE FUNCTION atlatl.make_near(wanted text, size integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    whose text := current_setting('atlatl.tenant', true);
    name text := atlatl.near_name(wanted);
    place text := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector');
BEGIN
    IF name IS NULL OR place IS NULL OR size IS NULL OR size NOT BETWEEN 1 AND 2000 THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(name, 0));
    IF EXISTS (
        SELECT 1 FROM atlatl.near n
        JOIN pg_index i ON i.indexrelid = to_regclass('atlatl.' || n.relation || '_hnsw')
        WHERE n.tenant = whose AND n.model = wanted AND i.indisvalid
    ) THEN
        RETURN name;
    END IF;
    IF (SELECT count(*) FROM atlatl.near n WHERE n.tenant = whose AND n.model <> wanted) >= 16 THEN
        RETURN NULL;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', name);
    EXECUTE format(
        'CREATE TABLE atlatl.%I (tenant text COLLATE "C" NOT NULL DEFAULT current_setting(''atlatl.tenant'') '
        'CHECK (tenant = %L), key bigint NOT NULL, embedding %I.vector(%s) NOT NULL, '
        'PRIMARY KEY (tenant, key))', name, whose, place, size);
    EXECUTE format('CREATE INDEX %I ON atlatl.%I USING hnsw (embedding %I.vector_ip_ops)',
        name || '_hnsw', name, place);
    EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
        'CREATE POLICY tenant ON atlatl.%I USING (tenant = current_setting(''atlatl.tenant'', true)) '
        'WITH CHECK (tenant = current_setting(''atlatl.tenant'', true))', name);
    EXECUTE format(
        'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', name);
    PERFORM atlatl.admit(format('atlatl.%I', name), 'SELECT, INSERT, UPDATE, DELETE');
    INSERT INTO atlatl.near AS n (tenant, model, dimensions, relation) VALUES (whose, wanted, size, name)
        ON CONFLICT (tenant, model) DO UPDATE
        SET (dimensions, since, upto, complete) = (excluded.dimensions, NULL, -1, false);
    DELETE FROM atlatl.waiting w WHERE w.tenant = whose AND w.model = wanted;
    RETURN name;
END
$$;
REVOKE ALL ON FUNCTION atlatl.make_near FROM PUBLIC;

-- Removes the index of the transaction's tenant for a model; whether there was one.
CREATE FUNCTION atlatl.drop_near(wanted text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    whose text := current_setting('atlatl.tenant', true);
    name text := atlatl.near_name(wanted);
BEGIN
    DELETE FROM atlatl.near n WHERE n.tenant = whose AND n.model = wanted;
    IF name IS NULL OR NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM atlatl.waiting w WHERE w.tenant = whose AND w.model = wanted;
    EXECUTE format('DROP TABLE IF EXISTS atlatl.%I', name);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION atlatl.drop_near FROM PUBLIC;

-- Roles that were let in before need not be let in again.
SELECT atlatl.admit('atlatl.near', 'SELECT, UPDATE (since, upto, complete)');
SELECT atlatl.admit('atlatl.waiting', 'SELECT, INSERT, UPDATE, DELETE');
SELECT atlatl.admit('FUNCTION atlatl.make_near, atlatl.drop_near', 'EXECUTE');
