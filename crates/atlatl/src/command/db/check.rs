//! `atlatl db check`.

use atlatl_memory::Postgres;
use serde_json::json;

use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output, grouped},
};

pub(super) fn run(database: &Postgres, output: &mut Output) -> Result<Status, Error> {
    let about = database.about().map_err(memory_config::of_database)?;
    if output.mode() == Mode::Json {
        output.json(&json!({
            "place": about.place,
            "server": about.server,
            "role": about.role,
            "schema": about.schema,
            "known": about.known,
            "pgvector": about.pgvector,
            "connections": about.connections,
        }))?;
        return Ok(Status::Success);
    }
    let schema = match about.schema - about.known {
        0 => format!("version {}, the newest that this program knows", about.schema),
        _ => format!("version {}; this program knows {}, and works", about.schema, about.known),
    };
    let pgvector = match &about.pgvector {
        Some(version) => format!("{version}; it compares vectors"),
        None => "not there: vectors are compared by plain SQL, more slowly".to_owned(),
    };
    for (name, value) in [
        ("database", about.place),
        ("server", format!("PostgreSQL {}", about.server)),
        ("role", format!("{}, bound by the policies", about.role)),
        ("schema", schema),
        ("pgvector", pgvector),
        ("connections", format!("at most {}", grouped(about.connections.into()))),
    ] {
        output.line(format!("{name:<12} {value}"))?;
    }
    Ok(Status::Success)
}
