//! Row-level security: checks and restores the protection of every table with tenant rows.
//!
//! A backup may have been restored without the policies, before their roles existed, or for another
//! owner. Then tenants see each other's rows, or the functions that run as the owner see none.

use super::session::{Session, quoted};
use crate::store::StoreError;

/// A table without a required protection.
#[derive(Debug)]
struct UnprotectedTable {
    table: String,
    missing: MissingProtection,
}

#[derive(Debug, PartialEq, Eq)]
enum MissingProtection {
    /// Row-level security, enforced for the owner too.
    RowSecurity,
    /// The policy that restricts rows to their tenant.
    TenantPolicy,
    /// The policy that gives the table's owner access to all rows.
    OwnerPolicy,
}

/// Describes the first unprotected table and the fix. Returns `None` if all are protected.
pub(super) async fn check(db: &Session) -> Result<Option<String>, StoreError> {
    Ok(unprotected_tables(db).await?.first().map(|UnprotectedTable { table, missing }| {
        let table = quoted(table);
        let missing = match missing {
            MissingProtection::RowSecurity => "has no row-level security",
            MissingProtection::TenantPolicy => "lacks the policy for tenants",
            MissingProtection::OwnerPolicy => "lacks the policy for its owner",
        };
        format!("table {table} {missing}, for example after a restore: run `atlatl db migrate`")
    }))
}

/// Restores missing protection as the owner. Returns whether there was any. Other tables are not
/// touched, since servers may be running.
pub(super) async fn enable(db: &Session) -> Result<bool, StoreError> {
    let unprotected_tables = unprotected_tables(db).await?;
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
            // A policy for another role may exist.
            MissingProtection::OwnerPolicy => format!(
                "DROP POLICY IF EXISTS owner ON atlatl.{table}; \
                 CREATE POLICY owner ON atlatl.{table} TO CURRENT_USER \
                 USING (true) WITH CHECK (true)"
            ),
        })
        .await?;
    }
    Ok(!unprotected_tables.is_empty())
}

/// Finds unprotected tables. Partitions need no policy, because without one direct access returns
/// no rows. Tables that only the owner reads have no default for the tenant and no tenant policy.
async fn unprotected_tables(db: &Session) -> Result<Vec<UnprotectedTable>, StoreError> {
    let sql = "WITH held AS (SELECT c.oid, c.relname::text AS name, c.relowner AS owner, \
                   c.relispartition AS part, c.relrowsecurity AND c.relforcerowsecurity AS bound, \
                   coalesce(a.atthasdef, false) AS tenants FROM pg_class c \
                   LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' \
                   WHERE c.relnamespace = 'atlatl'::regnamespace AND c.relkind IN ('r', 'p') \
                   AND c.relname <> 'migration') \
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
    let found = db.query(sql, &[]).await?;
    Ok(found
        .iter()
        .map(|row| UnprotectedTable { table: row.get(0), missing: missing(row.get(1)) })
        .collect())
}
