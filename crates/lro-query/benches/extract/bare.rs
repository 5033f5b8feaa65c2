//! Plain rusqlite, in this process and without limits.
//!
//! One insert statement in one transaction loads the columns that a statement reads; `serde_json`
//! extracts these fields and skips the others. Then every value of every row is read; nothing is
//! written.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use regex::Regex;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::contest::{Answered, Took, timed};

/// Loads the records and runs a statement.
pub(super) fn ask(path: &Path, columns: &[&str], statement: &str) -> Result<Answered, String> {
    let (loading, connection) = timed(|| load(path, columns));
    let connection = connection.map_err(|error| error.to_string())?;
    let (asking, answers) = timed(|| rows(&connection, statement));
    let answers = answers.map_err(|error| error.to_string())?;
    let took =
        Took { wall: loading.wall + asking.wall, processor: loading.processor + asking.processor };
    Ok(Answered { took, statement: Some(asking), answers })
}

fn load(path: &Path, columns: &[&str]) -> Result<Connection, Box<dyn std::error::Error>> {
    let connection = Connection::open_in_memory()?;
    regexp(&connection)?;
    let names = columns.join(", ");
    let marks = vec!["?"; columns.len()].join(", ");
    connection.execute_batch(&format!("CREATE TABLE results ({names}); BEGIN"))?;
    let mut insert =
        connection.prepare(&format!("INSERT INTO results ({names}) VALUES ({marks})"))?;
    let text = fs::read_to_string(path)?;
    for line in text.lines() {
        let fields = Fields(columns).deserialize(&mut serde_json::Deserializer::from_str(line))?;
        for (i, (column, field)) in columns.iter().zip(fields).enumerate() {
            if *column == "_record" {
                insert.raw_bind_parameter(i + 1, line)?;
            } else {
                insert.raw_bind_parameter(i + 1, field.map(value).transpose()?)?;
            }
        }
        insert.raw_execute()?;
    }
    connection.execute_batch("COMMIT")?;
    drop(insert);
    Ok(connection)
}

/// Strings as text, all else as JSON: no statement here uses a number.
fn value(raw: &RawValue) -> serde_json::Result<Cow<'_, str>> {
    let json = raw.get();
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        None => Ok(Cow::Borrowed(json)),
        Some(inside) if !inside.contains('\\') => Ok(Cow::Borrowed(inside)),
        Some(_) => serde_json::from_str(json).map(Cow::Owned),
    }
}

fn rows(connection: &Connection, statement: &str) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare(statement)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    let mut answers = 0;
    while let Some(row) = rows.next()? {
        for i in 0..width {
            black_box(row.get_ref(i)?);
        }
        answers += 1;
    }
    Ok(answers)
}

fn regexp(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("regexp", 2, flags, |context| {
        let regex = context
            .get_or_create_aux(0, |pattern| Regex::new(pattern.as_str().unwrap_or_default()))?;
        Ok(match context.get_raw(1) {
            ValueRef::Text(text) => str::from_utf8(text).is_ok_and(|text| regex.is_match(text)),
            _ => false,
        })
    })
}

/// The fields of these names, as written.
struct Fields<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = vec![None; self.0.len()];
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match self.0.iter().position(|wanted| *wanted == name) {
                Some(i) => fields[i] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields)
    }
}
