//! Fields of the elements of an array, as in `items.quantity`.

use super::super::{FieldPaths, Repair};
use super::words::{Clause, Words, replace_name};
use super::{is_plain, quoted};

/// Reads `items.quantity` from the elements of the array `items`, one row for each.
pub(super) fn repair(fields: &FieldPaths, statement: &str, column: &str) -> Option<Repair> {
    let names: Vec<&str> = column.split('.').map(|name| name.trim_matches('"')).collect();
    let is_array =
        |path: &[&str]| fields.arrays().iter().find(|array| is_same(array, path)).cloned();
    // The first name may be a table or its alias.
    let (array, rest) = (1..names.len()).find_map(|end| {
        let array = is_array(&names[..end]).or_else(|| is_array(names.get(1..end)?));
        Some((array?, &names[end..]))
    })?;
    if !rest.iter().all(|name| is_plain(name)) {
        return None;
    }
    let alias = format!("{}_element", array.last().filter(|name| is_plain(name))?);
    let value = format!("({alias}.value ->> '$.{}')", rest.join("."));
    let read = replace_name(statement, column, &value, Clause::Replace)?;
    let text = with_elements(&read.text, &array, &alias)?;
    Some(Repair { text, change: read.change })
}

fn is_same(path: &[String], names: &[&str]) -> bool {
    path.len() == names.len()
        && !path.is_empty()
        && path.iter().zip(names).all(|(name, wanted)| name.eq_ignore_ascii_case(wanted))
}

/// The statement with the elements of `array` joined to its only table.
fn with_elements(statement: &str, array: &[String], alias: &str) -> Option<String> {
    let words = Words::new(statement);
    let tables = words.tables()?;
    let end = tables.end;
    if words.text(tables.start, end).contains(&format!(" AS {alias}")) {
        return Some(statement.to_owned());
    }
    if !words.is_one_table(&tables) {
        return None;
    }
    let (first, inner) = array.split_first()?;
    let path: Vec<String> = inner.iter().map(|name| format!(".\"{name}\"")).collect();
    let path = path.concat();
    let column = format!("{}.{}", words.get(end - 1), quoted(first));
    let source = if path.is_empty() {
        format!("json_each({column})")
    } else {
        format!("json_each({column}, '${}')", path.replace('\'', "''"))
    };
    let before = words.text(0, end);
    let rest = words.text(end, words.len());
    let text = format!("{}, {source} AS {alias} {rest}", before.trim_end());
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    #[test]
    fn g18_fields_of_elements_are_read_from_one_row_per_element() {
        let records =
            "{\"id\":1,\"items\":[{\"sku\":\"a\",\"n\":2}],\"x\":{\"tags\":[{\"k\":1}]}}\n";
        let fields = FieldPaths::read(&Bytes(records.as_bytes()), 0).unwrap();
        let statement = "SELECT SUM(items.n) FROM results WHERE items.sku = 'a'";
        let first = repair(&fields, statement, "items.n").unwrap().text;
        let both = repair(&fields, &first, "items.sku").unwrap().text;
        assert_eq!(
            both,
            "SELECT SUM((items_element.value ->> '$.n')) FROM results, \
             json_each(results.\"items\") AS items_element WHERE \
             (items_element.value ->> '$.sku') = 'a'"
        );
        let aliased = repair(&fields, "SELECT x.tags.k FROM orders o", "x.tags.k").unwrap().text;
        assert_eq!(
            aliased,
            "SELECT (tags_element.value ->> '$.k') FROM orders o, \
             json_each(o.\"x\", '$.\"tags\"') AS tags_element"
        );
        let joined = "SELECT items.n FROM results JOIN users u ON u.id = results.id";
        assert_eq!(repair(&fields, joined, "items.n"), None);
        assert_eq!(repair(&fields, "SELECT id.x FROM results", "id.x"), None);
    }
}
