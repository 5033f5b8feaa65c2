//! Value: what our types are in the tables.

use bytes::BytesMut;
use mif::MemoryId;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::store::Source;

/// An id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Uuid(u128);

impl From<&MemoryId> for Uuid {
    fn from(id: &MemoryId) -> Self {
        Self(id.as_u128())
    }
}

impl From<Uuid> for MemoryId {
    fn from(id: Uuid) -> Self {
        Self::from_u128(id.0)
    }
}

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Source> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Source> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }
}

/// Text without the character that the database does not take; different texts stay different.
pub(super) fn storable(text: &str) -> String {
    if text.contains(['\0', '\\']) {
        text.replace('\\', "\\\\").replace('\0', "\\0")
    } else {
        text.to_owned()
    }
}

/// A list of texts as the database writes one.
pub(super) fn array<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let quoted = texts
        .into_iter()
        .map(|text| format!("\"{}\"", storable(text).replace('\\', "\\\\").replace('"', "\\\"")));
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

/// A number of rows.
pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_database_does_not_take_is_written_differently() {
        assert_eq!(storable("a\0b\\0"), "a\\0b\\\\0");
        let texts = ["a,b".to_owned(), "\"{\\".to_owned()];
        assert_eq!(array(&texts), r#"{"a,b","\"{\\\\"}"#);
        assert_eq!(array(&[]), "{}");
    }
}
