-- Counts how many of the tenant's documents contain each phrase, up to `cap`. It only adds.
--
-- It runs as the owner for the reason given at atlatl.found, and names the tenant itself. Most phrases are
-- guesses that no document contains, and each look at the index also reads its list of pending entries, so 16
-- phrases are looked up together, and each only if one of them is there.
--
-- Only the index of words must be read. With old statistics the planner prefers to read all rows of the tenant,
-- for each phrase: hence the settings, and the tenant in a form that no index has. All partitions are read
-- then, but words begin with a mark of their tenant, so those of others have none of them.
CREATE FUNCTION atlatl.frequencies(phrases text[], cap bigint) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
AS $$
BEGIN
    RETURN QUERY EXECUTE $query$
        SELECT CASE WHEN g.is_present THEN (
            SELECT count(*) FROM (
                SELECT 1 FROM atlatl.document d WHERE d.tenant || '' = $1 AND d.words @@ p.phrase::tsquery LIMIT $3
            ) AS matching
        ) ELSE 0 END
        FROM (
            SELECT min(n) AS first, array_agg(phrase ORDER BY n) AS phrases, EXISTS (
                SELECT FROM atlatl.document d
                WHERE d.tenant || '' = $1 AND d.words @@ ('(' || string_agg(phrase, ') | (') || ')')::tsquery
            ) AS is_present
            FROM unnest($2) WITH ORDINALITY AS p (phrase, n) GROUP BY (n - 1) / 16
        ) AS g, unnest(g.phrases) WITH ORDINALITY AS p (phrase, n)
        ORDER BY g.first, p.n
    $query$ USING current_setting('atlatl.tenant', true), phrases, cap;
END
$$;
REVOKE ALL ON FUNCTION atlatl.frequencies FROM PUBLIC;

-- Roles that have access already need no further grant.
SELECT atlatl.admit('FUNCTION atlatl.frequencies', 'EXECUTE');
