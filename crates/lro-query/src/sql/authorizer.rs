//! The SQLite authorizer: what a statement may do, and which columns it reads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::Table;

/// The functions of SQLite that are deterministic and only compute. It is an allowlist, so that a newer
/// SQLite adds none by itself.
const FUNCTIONS: &[&str] = &[
    "abs",
    "avg",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "cume_dist",
    "date",
    "datetime",
    "dense_rank",
    "first_value",
    "format",
    "glob",
    "group_concat",
    "hex",
    "if",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_each",
    "json_error_position",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_patch",
    "json_pretty",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_tree",
    "json_type",
    "json_valid",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "likelihood",
    "likely",
    "lower",
    "ltrim",
    "max",
    "min",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "printf",
    "quote",
    "rank",
    "regexp",
    "regexp_capture",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "soundex",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "subtype",
    "sum",
    "time",
    "timediff",
    "total",
    "trim",
    "typeof",
    "unhex",
    "unicode",
    "unixepoch",
    "unlikely",
    "upper",
    "->",
    "->>",
];

/// Table-valued functions.
const TABLE_FUNCTIONS: &[&str] = &["json_each", "json_tree"];

/// Whether the table is internal to SQLite.
fn is_internal(table: &str) -> bool {
    let table = table.to_ascii_lowercase();
    ["sqlite_", "pragma_", "fts"].iter().any(|start| table.starts_with(start)) || table == "dbstat"
}

/// Authorises the actions of a statement while it is prepared, and logs the columns it reads. Clones
/// share the log.
#[derive(Debug, Clone)]
pub(super) struct Authorizer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tables: Vec<String>,
    /// Set while our own statements are prepared, which write the tables.
    full_access: AtomicBool,
    log: Mutex<AccessLog>,
}

#[derive(Debug, Default)]
struct AccessLog {
    /// Table and column, as spelled in the tables.
    read: BTreeSet<(String, String)>,
    denial: Option<String>,
}

impl Authorizer {
    pub(super) fn new(tables: &[Table]) -> Self {
        let tables = tables.iter().map(|table| table.source.alias.as_str().to_owned()).collect();
        let (full_access, log) = (AtomicBool::new(true), Mutex::default());
        Self(Arc::new(Shared { tables, full_access, log }))
    }

    /// Allows all actions while `work` runs, for our own statements.
    pub(super) fn with_full_access<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.full_access.store(true, Ordering::Relaxed);
        let result = work();
        self.0.full_access.store(false, Ordering::Relaxed);
        result
    }

    /// Allows only reading from now on.
    pub(super) fn restrict_to_reads(&self) {
        self.0.full_access.store(false, Ordering::Relaxed);
    }

    /// Whether a statement reads a column.
    pub(super) fn is_read(&self, table: &str, column: &str) -> bool {
        self.log().read.contains(&(table.to_owned(), column.to_owned()))
    }

    /// The first action that was denied.
    pub(super) fn denial(&self) -> Option<String> {
        self.log().denial.clone()
    }

    fn log(&self) -> MutexGuard<'_, AccessLog> {
        // Nothing panics while the lock is locked.
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The callback of SQLite.
    pub(super) fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        if self.0.full_access.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        let reason = match context.action {
            AuthAction::Select | AuthAction::Recursive => return Authorization::Allow,
            AuthAction::Read { table_name, column_name } => {
                let is_source = self.0.tables.iter().any(|table| table == table_name);
                // SQLite reports a table without a column if none of its columns is read, for example
                // a common table expression.
                let unread = column_name.is_empty() && !is_internal(table_name);
                if is_source || unread || TABLE_FUNCTIONS.contains(&table_name) {
                    let read = (table_name.to_owned(), column_name.to_owned());
                    self.log().read.insert(read);
                    return Authorization::Allow;
                }
                format!("table `{table_name}` is not allowed")
            }
            AuthAction::Function { function_name } => {
                if FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(function_name)) {
                    return Authorization::Allow;
                }
                format!("function `{function_name}` is not allowed")
            }
            _ => "only read-only statements are allowed".to_owned(),
        };
        self.log().denial.get_or_insert(reason);
        Authorization::Deny
    }
}
