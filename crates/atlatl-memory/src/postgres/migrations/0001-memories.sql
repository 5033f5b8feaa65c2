-- Memories of many tenants. The tenant is the first column of every key; what a statement does not
-- say of it, its default and the policies below say: the tenant that the transaction set.

CREATE SEQUENCE atlatl.version AS bigint;

-- What filters and orders ask for, narrow; the memory itself and its words lie beside it. A change
-- gives a memory a new key, so that a vector is of that version or of none.
CREATE TABLE atlatl.memory (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    key bigint NOT NULL DEFAULT nextval('atlatl.version'),
    id uuid NOT NULL,
    memory_type text COLLATE "C" NOT NULL,
    namespace text COLLATE "C",
    status text COLLATE "C" NOT NULL,
    tags text[] COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL,
    expires bigint,
    confidence double precision,
    fades boolean NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, key)
) PARTITION BY HASH (tenant);
CREATE INDEX memory_created ON atlatl.memory (tenant, created, id);
CREATE INDEX memory_changed ON atlatl.memory (tenant, changed, id);
CREATE INDEX memory_namespace ON atlatl.memory (tenant, namespace, created, id);
CREATE INDEX memory_expires ON atlatl.memory (tenant, expires) WHERE expires IS NOT NULL;

-- `json` is the text that was put, every digit of it. `words` is made outside and begins every word
-- with the tenant's mark, so that the index of words is one by tenant too; a document with very many
-- words begins them with `~` and has no places for them. `length` counts words.
CREATE TABLE atlatl.document (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant'),
    key bigint NOT NULL,
    json text NOT NULL,
    words tsvector,
    length integer NOT NULL,
    PRIMARY KEY (tenant, key)
) PARTITION BY HASH (tenant);
CREATE INDEX document_words ON atlatl.document USING gin (words);

-- An empty vector says that none can be made.
CREATE TABLE atlatl.vector (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant'),
    model text COLLATE "C" NOT NULL,
    key bigint NOT NULL,
    vector real[] NOT NULL,
    PRIMARY KEY (tenant, model, key)
) PARTITION BY HASH (tenant);
CREATE INDEX vector_key ON atlatl.vector (tenant, key);

-- A few rows by tenant: not worth partitions.
CREATE TABLE atlatl.lease (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    task text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (tenant, task)
);
CREATE TABLE atlatl.secret (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    secret bytea NOT NULL,
    PRIMARY KEY (tenant)
);

-- A partition that is asked by its own name has no policy and gives nothing.
DO $$
DECLARE parent text; part text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['memory', 'document', 'vector'] LOOP
        FOR n IN 0..15 LOOP
            part := parent || '_' || n;
            EXECUTE format(
                'CREATE TABLE atlatl.%I PARTITION OF atlatl.%I FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                part, parent, n);
            EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', part);
            EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', part);
        END LOOP;
    END LOOP;
    -- The owner is bound by policies too, and has one of its own: what it runs is a migration, or a
    -- function below, which names the tenant itself.
    FOREACH parent IN ARRAY ARRAY['memory', 'document', 'vector', 'lease', 'secret'] LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', parent);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', parent);
        EXECUTE format(
            'CREATE POLICY tenant ON atlatl.%I USING (tenant = current_setting(''atlatl.tenant'', true)) '
            'WITH CHECK (tenant = current_setting(''atlatl.tenant'', true))', parent);
        EXECUTE format(
            'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', parent);
    END LOOP;
END $$;

-- The tenant's documents that have the words, each with how well. It runs as the owner: below a
-- policy PostgreSQL does not use an index of words, since `@@` may tell of rows by its errors. So it
-- names the tenant itself. It plans for the words that are asked for, hence EXECUTE.
--
-- `whole` is the question; `each` are its phrases one by one, and `unordered` the same phrases for
-- documents without places; `weigh` says that rare phrases count more. The measure follows BM25
-- (k1 1.2, b 0.75) as far as ts_rank, which has the frequency in it, lets it.
CREATE FUNCTION atlatl.found(whole text, each text[], unordered text[], weigh boolean)
RETURNS TABLE (key bigint, score double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE $query$
        WITH hit AS MATERIALIZED (
            SELECT d.key, d.words, d.length::float8 AS length, d.words @@ '''~'':*'::tsquery AS bare
            FROM atlatl.document d WHERE d.tenant = $1 AND d.words @@ $2
        ),
        stored AS MATERIALIZED (
            SELECT count(*)::float8 AS n FROM atlatl.document d WHERE $5 AND d.tenant = $1
        ),
        phrase AS MATERIALIZED (
            SELECT p.phrase, p.unordered, CASE WHEN $5 THEN (
                SELECT greatest(ln(greatest(stored.n - count(*) + 0.5, 0.5) / (count(*) + 0.5)), 1e-6)
                FROM hit WHERE hit.words @@ CASE WHEN hit.bare THEN p.unordered ELSE p.phrase END
            ) ELSE 1 END AS weight
            FROM unnest($3, $4) AS p (phrase, unordered), stored
        ),
        usual AS MATERIALIZED (SELECT greatest(avg(hit.length), 1) AS length FROM hit)
        SELECT hit.key,
            (SELECT sum(phrase.weight * ts_rank('{0.6, 0.6, 0.8, 1}', hit.words,
                    CASE WHEN hit.bare THEN phrase.unordered ELSE phrase.phrase END))
                FROM phrase)::float8
                / (1 + 1.2 * (0.25 + 0.75 * hit.length / usual.length))
        FROM hit, usual
    $query$ USING current_setting('atlatl.tenant', true), whole::tsquery, each::tsquery[],
        unordered::tsquery[], weigh;
END
$$;
REVOKE ALL ON FUNCTION atlatl.found FROM PUBLIC;
