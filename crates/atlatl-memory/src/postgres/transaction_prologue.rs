//! The statements that begin a transaction: isolation, tenant, role and statement timeout.

use std::fmt::Write;

use super::options::PostgresOptions;
use crate::filter::Filter;

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads by keys and in orders: the same plan does for all values.
    Keys,
    /// Reads what some condition lets through: a plan for its values may be a better one.
    Condition,
    Write,
}

impl Access {
    /// Of a read of what `filter` lets through.
    pub(super) fn by(filter: &Filter) -> Self {
        if *filter == Filter::default() { Self::Keys } else { Self::Condition }
    }
}

/// The words that begin a transaction, in one message. Its first row names the transaction, which is
/// needed where its end is not heard; one that only reads has no name.
#[derive(Debug)]
pub(super) struct Prologue(String);

impl Prologue {
    /// `user` is who the connection is anyway.
    pub(super) fn new(
        tenant: &str,
        access: Access,
        options: &PostgresOptions,
        user: Option<&str>,
    ) -> Self {
        let (begin, name) = match access {
            Access::Keys | Access::Condition => {
                ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "''")
            }
            Access::Write => ("BEGIN", "pg_current_xact_id()::text"),
        };
        let mut sql = format!(
            "{begin}; SELECT {name}, set_config('atlatl.tenant', {}, true), \
             set_config('statement_timeout', '{}', true)",
            literal(tenant),
            options.statement_timeout.as_millis(),
        );
        // Writing to a string cannot fail.
        if access == Access::Keys {
            // Left to itself the database takes the one plan for the worse, since it counts the costs
            // of all partitions, and makes a new one each time, which takes longer than the answer.
            sql += ", set_config('plan_cache_mode', 'force_generic_plan', true)";
        }
        if user != Some(&options.role) {
            let _ = write!(sql, ", set_config('role', {}, true)", literal(&options.role));
        }
        Self(sql)
    }

    pub(super) fn sql(&self) -> &str {
        &self.0
    }
}

/// Any text as SQL. In digits, so that nothing in it can be taken for SQL, whatever the settings of
/// the database say of quotes.
fn literal(text: &str) -> String {
    let mut digits = String::with_capacity(2 * text.len());
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    format!("convert_from(decode('{digits}', 'hex'), 'UTF8')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_quotes() {
        let options = PostgresOptions::new("postgres://h/d");
        let opening = Prologue::new("'; DROP TABLE x; --\\", Access::Write, &options, None);
        assert!(!opening.sql().contains("DROP") && !opening.sql().contains('\\'));
        assert_eq!(literal("a'é"), "convert_from(decode('6127c3a9', 'hex'), 'UTF8')");
    }
}
