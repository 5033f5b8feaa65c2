//! The SQLite authorizer: what a statement may do, and which columns it reads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::Table;

/// Functions of SQLite that only compute, and always the same. A list of what is taken: a newer
/// SQLite brings nothing in by itself.
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

/// Functions that stand where tables stand.
const TABLE_FUNCTIONS: &[&str] = &["json_each", "json_tree"];

/// Tables that SQLite has of its own.
fn is_internal(table: &str) -> bool {
    let table = table.to_ascii_lowercase();
    ["sqlite_", "pragma_", "fts"].iter().any(|start| table.starts_with(start)) || table == "dbstat"
}

/// Watches statements while they are prepared. Clones share what was seen.
#[derive(Debug, Clone)]
pub(super) struct Guard(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tables: Vec<String>,
    /// Our own statements write the tables.
    ours: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Table and column, as the tables spell them.
    read: BTreeSet<(String, String)>,
    denied: Option<String>,
}

impl Guard {
    pub(super) fn new(tables: &[Table]) -> Self {
        let tables = tables.iter().map(|table| table.source.alias.as_str().to_owned()).collect();
        let (ours, seen) = (AtomicBool::new(true), Mutex::default());
        Self(Arc::new(Shared { tables, ours, seen }))
    }

    /// Lets through what is prepared while `work` runs: it is ours.
    pub(super) fn let_ours_through<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.ours.store(true, Ordering::Relaxed);
        let done = work();
        self.0.ours.store(false, Ordering::Relaxed);
        done
    }

    /// From here on only what reads is let through.
    pub(super) fn close(&self) {
        self.0.ours.store(false, Ordering::Relaxed);
    }

    /// Whether a column is read.
    pub(super) fn is_read(&self, table: &str, column: &str) -> bool {
        self.seen().read.contains(&(table.to_owned(), column.to_owned()))
    }

    /// What was not let through.
    pub(super) fn denied(&self) -> Option<String> {
        self.seen().denied.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing panics while the lock is held.
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn judge(&self, context: &AuthContext<'_>) -> Authorization {
        if self.0.ours.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        let why = match context.action {
            AuthAction::Select | AuthAction::Recursive => return Authorization::Allow,
            AuthAction::Read { table_name, column_name } => {
                let ours = self.0.tables.iter().any(|table| table == table_name);
                // Whatever stands in FROM without one of its columns being read, a common table
                // expression for example, is named without a column.
                let unread = column_name.is_empty() && !is_internal(table_name);
                if ours || unread || TABLE_FUNCTIONS.contains(&table_name) {
                    let read = (table_name.to_owned(), column_name.to_owned());
                    self.seen().read.insert(read);
                    return Authorization::Allow;
                }
                format!("table `{table_name}` is not offered")
            }
            AuthAction::Function { function_name } => {
                if FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(function_name)) {
                    return Authorization::Allow;
                }
                format!("function `{function_name}` is not offered")
            }
            _ => "a statement only reads".to_owned(),
        };
        self.seen().denied.get_or_insert(why);
        Authorization::Deny
    }
}
