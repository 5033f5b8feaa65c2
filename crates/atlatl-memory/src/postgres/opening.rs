//! Opening: what a transaction begins with: its kind, its tenant, its role and its time limit.

use std::fmt::Write;

use super::options::PostgresOptions;

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The words that begin a transaction, in one message. Its first row names the transaction, which is
/// needed where its end is not heard; one that only reads has no name.
#[derive(Debug)]
pub(super) struct Opening(String);

impl Opening {
    pub(super) fn new(tenant: &str, access: Access, options: &PostgresOptions) -> Self {
        let (begin, name) = match access {
            Access::Read => ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "''"),
            Access::Write => ("BEGIN", "pg_current_xact_id()::text"),
        };
        Self(format!(
            "{begin}; SELECT {name}, set_config('atlatl.tenant', {}, true), \
             set_config('role', {}, true), set_config('statement_timeout', '{}', true)",
            literal(tenant),
            literal(&options.role),
            options.statement_timeout.as_millis(),
        ))
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
        let opening = Opening::new("'; DROP TABLE x; --\\", Access::Write, &options);
        assert!(!opening.sql().contains("DROP") && !opening.sql().contains('\\'));
        assert_eq!(literal("a'é"), "convert_from(decode('6127c3a9', 'hex'), 'UTF8')");
    }
}
