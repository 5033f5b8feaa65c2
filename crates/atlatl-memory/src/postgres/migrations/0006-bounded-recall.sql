-- Full-text search with BM25 whose cost does not grow with the number of matches. It only adds;
-- `atlatl db migrate --finish` drops what it replaces. Decision 0037 has the measurements.
--
-- One row per memory has everything that a recall reads: terms, filters and the text for phrases. So a recall reads one
-- table by one index, and the planner has nothing to choose. No index begins with the tenant: with old statistics the
-- planner believes that a tenant has one row, and reads all rows of the tenant for each key.
--
-- `cells` are sorted. A cell is a hash of tenant and term (28 bits) and a level (4 bits): twice the binary logarithm of
-- the term's weight in this memory. The index finds the memories in which a term weighs most without reading the
-- others. Tags, type, status and namespaces are terms with count 0, and so is one of 64 samples. `counts` has the
-- occurrences of each cell weighted by field, at most 255. `sequence` has the words in their order, each between
-- spaces, with two spaces between fields; fields that count twice are in it twice.
CREATE TABLE atlatl.search_document (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    key bigint NOT NULL,
    id uuid NOT NULL,
    cells integer[] NOT NULL,
    counts bytea NOT NULL,
    length integer NOT NULL,
    sequence text COLLATE "C" NOT NULL,
    memory_type text COLLATE "C" NOT NULL,
    namespace text COLLATE "C",
    status text COLLATE "C" NOT NULL,
    tags text[] COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    confidence double precision,
    fades boolean NOT NULL
) PARTITION BY HASH (tenant);
-- Keys come from one sequence, so they are unique over all tenants.
CREATE INDEX search_document_key ON atlatl.search_document (key);
-- A longer list of pending entries makes every recall slower: each scan of the index reads it.
CREATE INDEX search_document_cells ON atlatl.search_document USING gin (cells)
    WITH (fastupdate = on, gin_pending_list_limit = 128);

-- How many memories and words a tenant had when its terms were counted.
CREATE TABLE atlatl.search_statistics (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    documents bigint NOT NULL,
    words bigint NOT NULL,
    PRIMARY KEY (tenant)
);

-- The terms that more than 500 memories of a tenant contain: in how many, and in how many at each of the 16 levels.
CREATE TABLE atlatl.common_term (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    term integer NOT NULL,
    frequency integer NOT NULL,
    levels integer[] NOT NULL,
    PRIMARY KEY (tenant, term)
);

-- The documents that have no row in search_document: those of servers that do not know of it.
CREATE TABLE atlatl.search_backlog (
    tenant text COLLATE "C" NOT NULL DEFAULT current_setting('atlatl.tenant') CHECK (tenant <> ''),
    key bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);

DO $$
DECLARE one text; part text;
BEGIN
    FOR n IN 0..15 LOOP
        part := 'search_document_' || n;
        EXECUTE format(
            'CREATE TABLE atlatl.%I PARTITION OF atlatl.search_document FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
            part, n);
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', part);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', part);
        -- Statistics of arrays cost most of an ANALYZE, and no plan may depend on them.
        EXECUTE format('ALTER TABLE atlatl.%I ALTER cells SET STATISTICS 0, ALTER sequence SET STATISTICS 0', part);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['search_document', 'search_statistics', 'common_term', 'search_backlog'] LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE atlatl.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY tenant ON atlatl.%I USING (tenant = current_setting(''atlatl.tenant'', true)) '
            'WITH CHECK (tenant = current_setting(''atlatl.tenant'', true))', one);
        EXECUTE format(
            'CREATE POLICY owner ON atlatl.%I TO CURRENT_USER USING (true) WITH CHECK (true)', one);
    END LOOP;
END $$;

-- Keeps search_document free of deleted documents, and notes documents without a row there, whatever program wrote
-- them. A server that knows of search_document inserts the row in the same statement or before. Both run as the owner:
-- roles of older servers have no access to these tables.
CREATE FUNCTION atlatl.unindex_documents() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    DELETE FROM atlatl.search_document d USING gone g WHERE d.tenant = g.tenant AND d.key = g.key;
    DELETE FROM atlatl.search_backlog b USING gone g WHERE b.tenant = g.tenant AND b.key = g.key;
    RETURN NULL;
END
$$;
CREATE FUNCTION atlatl.note_documents() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    INSERT INTO atlatl.search_backlog (tenant, key)
        SELECT c.tenant, c.key FROM created c
        WHERE NOT EXISTS (SELECT FROM atlatl.search_document d WHERE d.tenant = c.tenant AND d.key = c.key)
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION atlatl.unindex_documents, atlatl.note_documents FROM PUBLIC;
CREATE TRIGGER unindex AFTER DELETE ON atlatl.document REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION atlatl.unindex_documents();
CREATE TRIGGER note AFTER INSERT ON atlatl.document REFERENCING NEW TABLE AS created
    FOR EACH STATEMENT EXECUTE FUNCTION atlatl.note_documents();

-- Counts the terms of the tenant's memories that have one of the cells `sample`, multiplies by `factor`, and stores the
-- common ones. One memory in 64 has the cell of each sample, so that a large tenant is counted by some of them.
CREATE FUNCTION atlatl.count_terms(sample integer[], factor double precision) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
SET enable_indexonlyscan = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE whose text := nullif(current_setting('atlatl.tenant', true), '');
BEGIN
    INSERT INTO atlatl.search_statistics AS s (tenant, documents, words)
        SELECT whose, round(count(*) * factor), round(coalesce(sum(d.length), 0) * factor)
        FROM atlatl.search_document d WHERE d.tenant = whose AND d.cells && sample
        ON CONFLICT (tenant) DO UPDATE SET (documents, words) = (excluded.documents, excluded.words);
    DELETE FROM atlatl.common_term c WHERE c.tenant = whose;
    INSERT INTO atlatl.common_term (tenant, term, frequency, levels)
        SELECT whose, c.cell >> 4, round(sum(c.n) * factor), ARRAY(
            SELECT coalesce(round(sum(l.n) * factor), 0)::integer
            FROM generate_series(0, 15) AS level
            LEFT JOIN unnest(array_agg(c.cell & 15), array_agg(c.n)) AS l (level, n) ON l.level = level.level
            GROUP BY level.level ORDER BY level.level)
        FROM (
            SELECT u.cell, count(*) AS n
            FROM (SELECT d.cells FROM atlatl.search_document d WHERE d.tenant = whose AND d.cells && sample OFFSET 0) AS s,
                unnest(s.cells) AS u (cell)
            GROUP BY u.cell
        ) AS c
        GROUP BY c.cell >> 4 HAVING sum(c.n) * factor > 500;
END
$$;
REVOKE ALL ON FUNCTION atlatl.count_terms FROM PUBLIC;

-- What a filter admits. The parameters $2 to $9 are those of the functions below.
CREATE FUNCTION atlatl.filter_condition() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT '(d.expires IS NULL OR d.expires > $2) '
        'AND ($3 IS NULL OR d.namespace = $3 OR (d.namespace >= $3 || ''/'' AND d.namespace < $3 || ''0'')) '
        'AND ($4 IS NULL OR d.memory_type = $4) AND ($5 IS NULL OR d.status = $5) '
        'AND ($6 IS NULL OR d.tags @> $6) AND ($7 IS NULL OR d.created >= $7) AND ($8 IS NULL OR d.created < $8) '
        'AND ($9 IS NULL OR coalesce(d.confidence >= $9, false))'
$$;
REVOKE ALL ON FUNCTION atlatl.filter_condition FROM PUBLIC;

-- The condition for one of each list of cells, as in `{1,2};{3}`.
CREATE FUNCTION atlatl.cells_condition(lists text) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(format('d.cells && %L::integer[]', list::integer[]), ' AND ')
    FROM unnest(string_to_array(lists, ';')) AS list
$$;
REVOKE ALL ON FUNCTION atlatl.cells_condition FROM PUBLIC;

-- The best of the tenant's memories by BM25 (k1 1.2, b 0.75). Candidates have one of `cells` ($10), or one of each list
-- of an arm; the caller selects them so that few are expected, and no more than `max_candidates` ($11) are read. `terms`
-- ($12) and `phrases` ($14) belong to the units `term_units` ($13) and `phrase_units` ($15) of the query: alternatives
-- are of the same unit, and then `merge` is true. `frequencies` ($16) has the number of memories of each unit, NULL for
-- those whose memories are all candidates: these are counted here. $17 is the mean length, $18 the number of memories,
-- `required_units` ($19) is 1 or the number of units. Memories without one of `all_terms` are not scored.
--
-- There is always a row: the first has the number of candidates and the frequencies, and no id if nothing matches.
CREATE FUNCTION atlatl.rank_statement(arms text[], all_terms integer[], merge boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    condition text := 'd.cells && $10'; arm text; complete text := 'true'; term integer;
    occurrence text := $q$
        SELECT c.key, c.admitted, t.unit, get_byte(c.counts, width_bucket((t.term << 4) | 15, c.cells) - 1)::float8 AS count,
            c.norm
        FROM candidate c, unnest($12, $13) AS t (term, unit)
        WHERE (c.admitted OR ($16)[t.unit] IS NULL) AND c.cells[width_bucket((t.term << 4) | 15, c.cells)] >> 4 = t.term
        UNION ALL
        SELECT c.key, c.admitted, p.unit,
            ((octet_length(c.sequence) - octet_length(replace(c.sequence, p.phrase, ''))) / octet_length(p.phrase))::float8,
            c.norm
        FROM candidate c, unnest($14, $15) AS p (phrase, unit) WHERE strpos(c.sequence, p.phrase) > 0
    $q$;
BEGIN
    FOREACH arm IN ARRAY arms LOOP
        condition := condition || ' OR (' || atlatl.cells_condition(arm) || ')';
    END LOOP;
    FOREACH term IN ARRAY all_terms LOOP
        complete := complete || format(' AND d.cells[width_bucket(%s, d.cells)] >> 4 = %s', (term << 4) | 15, term);
    END LOOP;
    IF merge THEN
        occurrence := 'SELECT o.key, bool_or(o.admitted) AS admitted, o.unit, sum(o.count) AS count, min(o.norm) AS norm '
            'FROM (' || occurrence || ') o GROUP BY o.key, o.unit';
    END IF;
    RETURN $q$
    WITH candidate AS MATERIALIZED (
        SELECT d.key, d.id, d.fades, d.cells, d.counts, 1.2 * (0.25 + 0.75 * d.length / $17) AS norm,
            CASE WHEN cardinality($14) > 0 THEN d.sequence END AS sequence,
            coalesce($q$ || atlatl.filter_condition() || ' AND ' || complete || $q$, false) AS admitted
        FROM (SELECT d.* FROM atlatl.search_document d WHERE d.tenant = $1 AND ($q$ || condition || $q$) LIMIT $11) d
    ),
    -- Only the units whose frequency is counted here need the memories that the filter excludes.
    occurrence AS MATERIALIZED ($q$ || occurrence || $q$),
    frequency AS MATERIALIZED (
        SELECT array_agg(coalesce(k.frequency, f.matches, 0) ORDER BY k.unit) AS each
        FROM unnest($16) WITH ORDINALITY AS k (frequency, unit)
        LEFT JOIN (SELECT o.unit, count(*) AS matches FROM occurrence o GROUP BY o.unit) f ON f.unit = k.unit
    ),
    weight AS MATERIALIZED (
        SELECT array_agg(greatest(ln((greatest($18 - u.frequency, 0) + 0.5) / (u.frequency + 0.5)), 1e-6) ORDER BY u.unit) AS each
        FROM frequency, unnest(frequency.each) WITH ORDINALITY AS u (frequency, unit)
    ),
    scored AS MATERIALIZED (
        SELECT o.key, sum((SELECT w.each FROM weight w)[o.unit] * 2.2 * o.count / (o.count + o.norm)) AS score
        FROM occurrence o WHERE o.admitted GROUP BY o.key HAVING count(*) >= $19
    ),
    best AS MATERIALIZED (
        SELECT c.id, s.score, c.fades, count(*) OVER () AS matches,
            row_number() OVER (ORDER BY s.score DESC, c.key) AS place
        FROM scored s JOIN candidate c ON c.key = s.key
        ORDER BY s.score DESC, c.key LIMIT $20
    )
    SELECT b.id, b.score, b.fades, coalesce(b.matches, 0), (SELECT count(*) FROM candidate),
        CASE WHEN b.place IS NULL OR b.place = 1 THEN (SELECT f.each FROM frequency f) END
    FROM (VALUES (1)) AS one (row) LEFT JOIN best b ON true
    ORDER BY b.place
    $q$;
END
$$;
REVOKE ALL ON FUNCTION atlatl.rank_statement FROM PUBLIC;

-- It runs as the owner: below a policy PostgreSQL does not use this index, since `&&` may reveal rows by its errors.
-- So it names the tenant itself. The settings leave one plan: a bitmap scan of search_document_cells in one
-- partition. EXECUTE plans for these cells, and lets the planner exclude the other partitions.
CREATE FUNCTION atlatl.rank_documents(
    now bigint, namespace_filter text, type_filter text, status_filter text, tag_filter text[], since bigint,
    until bigint, min_confidence double precision, cells integer[], arms text[], all_terms integer[],
    max_candidates bigint, terms integer[], term_units integer[], phrases text[], phrase_units integer[],
    frequencies bigint[], mean double precision, documents double precision, required_units bigint, max_results bigint,
    merge boolean)
RETURNS TABLE (id uuid, score double precision, fades boolean, matches bigint, candidates bigint, counted bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
SET enable_indexonlyscan = off
SET enable_mergejoin = off
SET enable_nestloop = off
SET jit = off
SET max_parallel_workers_per_gather = 0
SET work_mem = '32MB'
AS $$
BEGIN
    RETURN QUERY EXECUTE atlatl.rank_statement(arms, all_terms, merge) USING current_setting('atlatl.tenant', true), now,
        namespace_filter, type_filter, status_filter, tag_filter, since, until, min_confidence, cells, max_candidates,
        terms, term_units, phrases, phrase_units, frequencies, mean, documents, required_units, max_results;
END
$$;
REVOKE ALL ON FUNCTION atlatl.rank_documents FROM PUBLIC;

-- The condition for memories that match a query: each unit is lists of cells, as in `{1,2};{3}`, and phrases that are
-- separated by line feeds, of which one must occur, or an empty text.
CREATE FUNCTION atlatl.match_condition(units text[], phrases text[], all_units boolean) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg('(' || atlatl.cells_condition(u.lists) || CASE WHEN u.phrases = '' THEN '' ELSE ' AND (' || (
            SELECT string_agg(format('strpos(d.sequence, %L) > 0', phrase), ' OR ')
            FROM unnest(string_to_array(u.phrases, E'\n')) AS phrase) || ')' END || ')',
        CASE WHEN all_units THEN ' AND ' ELSE ' OR ' END)
    FROM unnest(units, phrases) AS u (lists, phrases)
$$;
REVOKE ALL ON FUNCTION atlatl.match_condition FROM PUBLIC;

-- The newest memories that match, by the index: for queries that few memories match. No more than `max_read` memories
-- with the cells of a match are read, in no order. There is always a row: each has whether that bound was reached, and
-- the first has no id if nothing matches.
CREATE FUNCTION atlatl.match_documents(
    now bigint, namespace_filter text, type_filter text, status_filter text, tag_filter text[], since bigint,
    until bigint, min_confidence double precision, units text[], phrases text[], all_units boolean, max_results bigint,
    max_read bigint)
RETURNS TABLE (id uuid, fades boolean, is_truncated boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
SET enable_indexonlyscan = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    no_phrases text[] := array_fill(''::text, ARRAY[cardinality(units)]);
    has_phrases boolean := '' <> ANY (phrases);
BEGIN
    RETURN QUERY EXECUTE 'WITH candidate AS MATERIALIZED (SELECT d.key, d.id, d.fades, '
        || CASE WHEN has_phrases THEN '(' || atlatl.match_condition(units, phrases, all_units) || ') AND ' ELSE '' END
        || atlatl.filter_condition() || ' AS matches FROM (SELECT d.* FROM atlatl.search_document d WHERE d.tenant = $1 AND ('
        || atlatl.match_condition(units, no_phrases, all_units) || ') LIMIT $11) d), '
        'hit AS MATERIALIZED (SELECT c.key, c.id, c.fades FROM candidate c WHERE c.matches ORDER BY c.key DESC LIMIT $10) '
        'SELECT h.id, h.fades, (SELECT count(*) >= $11 FROM candidate) FROM (VALUES (1)) AS one (row) '
        'LEFT JOIN hit h ON true ORDER BY h.key DESC'
    USING current_setting('atlatl.tenant', true), now, namespace_filter, type_filter, status_filter, tag_filter, since,
        until, min_confidence, max_results, max_read;
END
$$;
REVOKE ALL ON FUNCTION atlatl.match_documents FROM PUBLIC;

-- The memories that match among the newest `max_read` before the key `before`: for queries that many memories match.
-- The first row has the lowest key that was read, NULL if there was none, and no id if nothing matches.
CREATE FUNCTION atlatl.newest_documents(
    now bigint, namespace_filter text, type_filter text, status_filter text, tag_filter text[], since bigint,
    until bigint, min_confidence double precision, units text[], phrases text[], all_units boolean, before bigint,
    max_read bigint)
RETURNS TABLE (id uuid, fades boolean, lowest bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
    RETURN QUERY EXECUTE 'WITH page AS MATERIALIZED (SELECT m.key FROM atlatl.memory m WHERE m.tenant = $1 AND m.key < $10 '
        'ORDER BY m.key DESC LIMIT $11), hit AS MATERIALIZED (SELECT d.key, d.id, d.fades FROM page p '
        'JOIN atlatl.search_document d ON d.key = p.key WHERE d.tenant = $1 AND ('
        || atlatl.match_condition(units, phrases, all_units) || ') AND ' || atlatl.filter_condition()
        || ') SELECT h.id, h.fades, (SELECT min(p.key) FROM page p) FROM (VALUES (1)) AS one (row) '
        'LEFT JOIN hit h ON true ORDER BY h.key DESC'
    USING current_setting('atlatl.tenant', true), now, namespace_filter, type_filter, status_filter, tag_filter, since,
        until, min_confidence, before, max_read;
END
$$;
REVOKE ALL ON FUNCTION atlatl.newest_documents FROM PUBLIC;

-- The number of memories that have each of `terms`, among the first `max_read` that have one. Of two words with the
-- same hash only one may be in a memory: `texts` has each term as it is in `sequence`. `place` counts from 1.
CREATE FUNCTION atlatl.term_frequencies(terms integer[], texts text[], max_read bigint)
RETURNS TABLE (place bigint, frequency bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
SET enable_indexonlyscan = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
    RETURN QUERY EXECUTE 'SELECT t.place, count(*) FROM (SELECT d.cells, d.sequence FROM atlatl.search_document d '
        'WHERE d.tenant = $1 AND d.cells && $2 LIMIT $3) d, unnest(d.cells) AS c (cell) '
        'JOIN unnest($4, $5) WITH ORDINALITY AS t (term, word, place) ON t.term = c.cell >> 4 '
        'WHERE strpos(d.sequence, t.word) > 0 GROUP BY t.place'
    USING current_setting('atlatl.tenant', true),
        ARRAY(SELECT (t << 4) | level FROM unnest(terms) AS t, generate_series(0, 15) AS level), max_read, terms, texts;
END
$$;
REVOKE ALL ON FUNCTION atlatl.term_frequencies FROM PUBLIC;

-- With statistics of other tenants the planner believes that a tenant has a single row, and then every index that
-- begins with the tenant looks as good as the one that also has the key: a lookup by key or id reads all rows of the
-- tenant. Without statistics it assumes a two hundredth of the rows. Before version 18 existing statistics cannot be
-- removed, and would never be renewed: there only tables without any are changed.
DO $$
DECLARE one record; has_clear boolean := to_regproc('pg_catalog.pg_clear_attribute_stats') IS NOT NULL;
BEGIN
    FOR one IN SELECT c.oid, c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
        WHERE c.relnamespace = 'atlatl'::regnamespace AND c.relkind IN ('r', 'p')
            -- -1: never analyzed. pg_stats does not show the statistics of tables with row-level security to their owner.
            AND (has_clear OR c.reltuples < 0)
    LOOP
        EXECUTE format('ALTER TABLE atlatl.%I ALTER tenant SET STATISTICS 0', one.relname);
        IF has_clear THEN
            EXECUTE format('SELECT pg_clear_attribute_stats(%L, %L, %L, inherited) FROM unnest(ARRAY[false, true]) AS inherited',
                'atlatl', one.relname, 'tenant');
        END IF;
    END LOOP;
END $$;

-- Every document that exists waits for its row. A document that an older server commits meanwhile is not lost, because
-- the triggers above wait for writers.
INSERT INTO atlatl.search_backlog (tenant, key) SELECT d.tenant, d.key FROM atlatl.document d;

-- Roles that have access already need no further grant.
SELECT atlatl.admit('atlatl.search_document, atlatl.search_backlog', 'SELECT, INSERT, DELETE');
SELECT atlatl.admit('atlatl.search_statistics, atlatl.common_term', 'SELECT');
SELECT atlatl.admit('FUNCTION atlatl.count_terms, atlatl.rank_documents, atlatl.match_documents, '
    'atlatl.newest_documents, atlatl.term_frequencies', 'EXECUTE');
