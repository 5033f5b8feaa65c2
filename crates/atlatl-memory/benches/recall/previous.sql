-- The full-text index of 0.1.0 (commit 7bd98a0, 0001-memories.sql): the columns of its table `document` that a recall
-- read, its index, policies and function, in a schema of its own.
CREATE SCHEMA previous;
CREATE TABLE previous.document (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant'),
    key bigint NOT NULL,
    words tsvector,
    length integer NOT NULL,
    PRIMARY KEY (tenant, key)
) PARTITION BY HASH (tenant);

DO $$
BEGIN
    FOR n IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE previous.%I PARTITION OF previous.document FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
            'document_' || n, n);
        EXECUTE format('ALTER TABLE previous.%I ENABLE ROW LEVEL SECURITY', 'document_' || n);
        EXECUTE format('ALTER TABLE previous.%I FORCE ROW LEVEL SECURITY', 'document_' || n);
    END LOOP;
END $$;
ALTER TABLE previous.document ENABLE ROW LEVEL SECURITY;
ALTER TABLE previous.document FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON previous.document USING (tenant = current_setting('atlatl.tenant', true))
    WITH CHECK (tenant = current_setting('atlatl.tenant', true));
CREATE POLICY owner ON previous.document TO CURRENT_USER USING (true) WITH CHECK (true);

CREATE FUNCTION previous.found(whole text, each text[], unordered text[], weigh boolean)
RETURNS TABLE (key bigint, score double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE $query$
        WITH hit AS MATERIALIZED (
            SELECT d.key, d.words, d.length::float8 AS length, d.words @@ '''~'':*'::tsquery AS bare
            FROM previous.document d WHERE d.tenant = $1 AND d.words @@ $2
        ),
        stored AS MATERIALIZED (
            SELECT count(*)::float8 AS n FROM previous.document d WHERE $5 AND d.tenant = $1
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
REVOKE ALL ON FUNCTION previous.found FROM PUBLIC;
GRANT USAGE ON SCHEMA previous TO app;
GRANT EXECUTE ON FUNCTION previous.found TO app;
