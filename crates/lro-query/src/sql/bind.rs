//! Bind: what a prepared statement must be, and the values it is given.

use rusqlite::Statement;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::cell::{Kinds, cell};
use super::error;
use crate::error::About;
use crate::params::Params;
use crate::worker::Fault;

/// The guard has seen its parts; this looks at the whole.
pub(super) fn check(statement: &Statement<'_>) -> Result<(), Fault> {
    // A plan shows addresses in memory, which differ from run to run.
    if statement.is_explain() != 0 {
        return Err(Fault::syntax("plans are not offered", About::Refused));
    }
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Fault::syntax("a statement only reads", About::Refused));
    }
    Ok(())
}

/// Binds every parameter that the statement names (N3).
pub(super) fn params(statement: &mut Statement<'_>, params: &Params) -> Result<(), Fault> {
    for i in 1..=statement.parameter_count() {
        let Some(name) = statement.parameter_name(i) else {
            let message = "parameters have names, as in :namespace";
            return Err(Fault::syntax(message, About::Variable));
        };
        let found = params.iter().find(|(param, _)| *param == &name[1..]);
        let Some((_, json)) = found else {
            return Err(Fault::syntax(format!("{name} has no value"), About::Variable));
        };
        let json = json.as_bytes().trim_ascii();
        let (mut decoded, mut kinds) = (Vec::new(), Kinds::default());
        let cell = cell(json, 0..json.len(), &mut decoded, &mut kinds);
        let value: ValueRef<'_> = cell.value(json, &decoded);
        let bound = statement.raw_bind_parameter(i, ToSqlOutput::Borrowed(value));
        bound.map_err(|error| error::running(&error))?;
    }
    Ok(())
}
