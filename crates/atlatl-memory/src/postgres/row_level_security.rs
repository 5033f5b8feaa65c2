//! Policies: whether every table that has rows of tenants' is bound by them, as migrations left it.
//!
//! A backup may have been restored without them, before the roles were there that they name, or for
//! another owner. Then tenants see each other, or the functions that run as the owner see nothing.

use super::migrations::quoted;
use super::session::Session;
use crate::store::StoreError;

/// A table that is not bound as it should be.
#[derive(Debug)]
struct UnprotectedTable {
    table: String,
    missing: MissingProtection,
}

#[derive(Debug, PartialEq, Eq)]
enum MissingProtection {
    /// Row level security, which its owner is bound by too.
    RowSecurity,
    /// The policy by which rows are their tenant's.
    TenantPolicy,
    /// The policy by which whoever owns the table sees all of it.
    OwnerPolicy,
}

/// What the first table that is not bound lacks, and what helps.
pub(super) fn check(db: &Session) -> Result<Option<String>, StoreError> {
    Ok(unprotected_tables(db)?.first().map(|UnprotectedTable { table, missing }| {
        let table = quoted(table);
        let missing = match missing {
            MissingProtection::RowSecurity => "is not bound by its policies",
            MissingProtection::TenantPolicy => "lacks the policy of its tenants",
            MissingProtection::OwnerPolicy => "lacks the policy of its owner",
        };
        format!("its table {table} {missing}, as a restore may leave it: run `atlatl db migrate`")
    }))
}

/// Binds what is not bound, as the owner; whether there was something. Touches no table else: servers
/// may be at work.
pub(super) fn enable(db: &Session) -> Result<bool, StoreError> {
    let unprotected_tables = unprotected_tables(db)?;
    for UnprotectedTable { table, missing } in &unprotected_tables {
        let table = quoted(table);
        db.batch(&match missing {
            MissingProtection::RowSecurity => format!(
                "ALTER TABLE atlatl.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
            ),
            MissingProtection::TenantPolicy => format!(
                "CREATE POLICY tenant ON atlatl.{table} \
                 USING (tenant = current_setting('atlatl.tenant', true)) \
                 WITH CHECK (tenant = current_setting('atlatl.tenant', true))"
            ),
            // One that names somebody else may be there.
            MissingProtection::OwnerPolicy => format!(
                "DROP POLICY IF EXISTS owner ON atlatl.{table}; \
                 CREATE POLICY owner ON atlatl.{table} TO CURRENT_USER \
                 USING (true) WITH CHECK (true)"
            ),
        })?;
    }
    Ok(!unprotected_tables.is_empty())
}

/// Partitions have no policy: whoever asks them by their names gets nothing. What only the owner reads
/// has no tenant by default, and no policy of tenants.
fn unprotected_tables(db: &Session) -> Result<Vec<UnprotectedTable>, StoreError> {
    let sql = "WITH held AS (SELECT c.oid, c.relname::text AS name, c.relowner AS owner, \
                   c.relispartition AS part, c.relrowsecurity AND c.relforcerowsecurity AS bound, \
                   coalesce(a.atthasdef, false) AS tenants FROM pg_class c \
                   LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' \
                   WHERE c.relnamespace = 'atlatl'::regnamespace AND c.relkind IN ('r', 'p') \
                   AND (a.attname IS NOT NULL OR c.relname = 'tenant')) \
               SELECT name, 0 FROM held WHERE NOT bound \
               UNION ALL SELECT name, 1 FROM held WHERE NOT part AND tenants AND NOT EXISTS \
                   (SELECT 1 FROM pg_policy p WHERE p.polrelid = held.oid AND p.polname = 'tenant') \
               UNION ALL SELECT name, 2 FROM held WHERE NOT part AND NOT EXISTS \
                   (SELECT 1 FROM pg_policy p, unnest(p.polroles) AS whose WHERE p.polrelid = held.oid \
                    AND p.polname = 'owner' AND pg_has_role(owner, whose, 'USAGE')) \
               ORDER BY 2, 1";
    let missing = |n: i32| match n {
        0 => MissingProtection::RowSecurity,
        1 => MissingProtection::TenantPolicy,
        _ => MissingProtection::OwnerPolicy,
    };
    let found = db.query(sql, &[])?;
    Ok(found
        .iter()
        .map(|row| UnprotectedTable { table: row.get(0), missing: missing(row.get(1)) })
        .collect())
}
