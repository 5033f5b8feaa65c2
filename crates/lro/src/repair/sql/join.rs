//! Columns of another table of the document, as in `SELECT team_id FROM events` where `users` has teams.

use super::super::{FieldPaths, Repair, normalized};
use super::words::Words;
use super::{plain_or_quoted, quoted};

/// A table of the document.
pub(crate) struct JoinTable {
    /// Its names in statements, its own one first.
    pub(crate) names: Vec<String>,
    /// Its fields.
    pub(crate) fields: FieldPaths,
}

/// Joins the only table of the statement with one that has `column` and that one of them refers to by id.
pub(crate) fn join(tables: &[JoinTable], statement: &str, column: &str) -> Option<Repair> {
    let words = Words::new(statement);
    let named = words.tables().filter(|named| words.is_one_table(named))?;
    let end = named.end;
    let first = tables.iter().find(|table| table.has_name(words.get(named.start)))?;
    let alias = words.get(end - 1);
    let name = column.rsplit('.').next().unwrap_or(column).trim_matches('"');
    let (second, (own, other)) = tables
        .iter()
        .filter(|table| !std::ptr::eq(*table, first) && table.field(name).is_some())
        .find_map(|table| Some((table, link(first, table)?)))?;
    let table = plain_or_quoted(second.names.first()?);
    let joined = format!(
        "{} JOIN {table} ON {alias}.{} = {table}.{} {}",
        words.text(0, end).trim_end(),
        quoted(own),
        quoted(other),
        words.text(end, words.len()),
    );
    let text = joined.trim_end().to_owned();
    Some(Repair { text, change: (column.to_owned(), format!("{table}.{name}")) })
}

impl JoinTable {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.top().find(|field| field.eq_ignore_ascii_case(name)).map(String::as_str)
    }

    fn has_name(&self, name: &str) -> bool {
        let name = name.trim_matches('"');
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The field with the id of a record of `other`: `user_id` or `userId` for the table `users`.
    fn reference_to(&self, other: &Self) -> Option<&str> {
        let names = other.names.iter().map(|name| normalized(name));
        let ids: Vec<String> =
            names.map(|name| format!("{}id", name.strip_suffix('s').unwrap_or(&name))).collect();
        self.fields.top().find(|field| ids.contains(&normalized(field))).map(String::as_str)
    }
}

/// The fields of the tables that are equal in records that belong together.
fn link<'a>(first: &'a JoinTable, second: &'a JoinTable) -> Option<(&'a str, &'a str)> {
    if let (Some(reference), Some(id)) = (first.reference_to(second), second.field("id")) {
        return Some((reference, id));
    }
    Some((first.field("id")?, second.reference_to(first)?))
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    fn table(name: &str, record: &str) -> JoinTable {
        let fields = FieldPaths::read(&Bytes(format!("{record}\n").as_bytes()), 0).unwrap();
        JoinTable { names: vec![name.to_owned()], fields }
    }

    #[test]
    fn g18_a_column_of_a_table_that_is_referred_to_is_joined() {
        let tables = [
            table("results", r#"{"x":1}"#),
            table("users", r#"{"id":"u-1","team_id":2,"name":"n"}"#),
            table("events", r#"{"id":"e-1","user_id":"u-1"}"#),
            table("teams", r#"{"id":2,"title":"t"}"#),
        ];
        let joined = |statement: &str, column: &str| {
            join(&tables, statement, column).map(|repair| repair.text)
        };
        assert_eq!(
            joined("SELECT team_id, COUNT(*) FROM events GROUP BY team_id", "team_id").unwrap(),
            "SELECT team_id, COUNT(*) FROM events JOIN users ON events.\"user_id\" = \
             users.\"id\" GROUP BY team_id"
        );
        assert_eq!(
            joined("SELECT u.title FROM users AS u", "u.title").unwrap(),
            "SELECT u.title FROM users AS u JOIN teams ON u.\"team_id\" = teams.\"id\""
        );
        assert_eq!(
            joined("SELECT user_id FROM users", "user_id").unwrap(),
            "SELECT user_id FROM users JOIN events ON users.\"id\" = events.\"user_id\""
        );
        for (statement, column) in [
            ("SELECT title FROM events", "title"),
            ("SELECT nothing FROM events", "nothing"),
            ("SELECT name FROM results", "name"),
            ("SELECT name FROM events, teams", "name"),
            ("SELECT name FROM (SELECT 1)", "name"),
        ] {
            assert_eq!(joined(statement, column), None, "{statement}");
        }
    }
}
