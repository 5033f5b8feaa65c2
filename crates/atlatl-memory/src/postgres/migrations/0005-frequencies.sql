-- Counts how many of the tenant's documents contain each phrase, up to `cap`. It only adds.
--
-- It runs as the owner for the reason given at atlatl.found, and names the tenant itself. One statement
-- counts all phrases, so that it is planned once. The planner does not know the phrases then, and may
-- prefer to read all rows, hence the settings: they leave the index of words.
CREATE FUNCTION atlatl.frequencies(phrases text[], cap bigint) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
AS $$
BEGIN
    RETURN QUERY EXECUTE $query$
        SELECT (
            SELECT count(*) FROM (
                SELECT 1 FROM atlatl.document d WHERE d.tenant = $1 AND d.words @@ p.phrase LIMIT $3
            ) AS matching
        )
        FROM unnest($2) WITH ORDINALITY AS p (phrase, n) ORDER BY p.n
    $query$ USING current_setting('atlatl.tenant', true), phrases::tsquery[], cap;
END
$$;
REVOKE ALL ON FUNCTION atlatl.frequencies FROM PUBLIC;

-- Roles that have access already need no further grant.
SELECT atlatl.admit('FUNCTION atlatl.frequencies', 'EXECUTE');
