-- What a role that administers tenants, and does not own the schema, needs beside its privileges. It only adds.
-- Decision 0045 has the reasons.

-- How many memories a tenant has. The role cannot read memories.
CREATE FUNCTION atlatl.memory_count(whose text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) FROM atlatl.memory m WHERE m.tenant = whose
$$;
REVOKE ALL ON FUNCTION atlatl.memory_count FROM PUBLIC;
