//! Names of fields that differ from those of the records in case and underscores only.

use super::super::{FieldPaths, Repair, normalized};
use super::{is_plain, string_end};

/// Replaces the first name that no record has by the one that differs only in case and underscores.
///
/// In a filter over all records, such a name is silently null.
pub(crate) fn same_fields(filter: &str, fields: &FieldPaths) -> Option<Repair> {
    let names = || fields.paths().iter().flatten();
    for (at, name) in read_names(filter) {
        if names().any(|known| known == name) {
            continue;
        }
        let same = names().find(|known| normalized(known) == normalized(name) && is_plain(known));
        let Some(same) = same else { continue };
        // An object of the filter may have the name behind the place where it is built.
        if filter[..at].contains(&format!("{name}:")) && is_behind_object(filter, at, name) {
            continue;
        }
        let text = format!("{}{same}{}", &filter[..at], &filter[at + name.len()..]);
        return Some(Repair { text, change: (name.to_owned(), same.clone()) });
    }
    None
}

/// Whether an object with the member `name` ends before `at`.
fn is_behind_object(filter: &str, at: usize, name: &str) -> bool {
    let Some(member) = filter[..at].find(&format!("{name}:")) else { return false };
    let mut depth = 0_i32;
    for c in filter[member..at].chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth < 0 {
            return true;
        }
    }
    false
}

/// The plain names behind a dot, outside strings, and where they begin.
fn read_names(filter: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(next) = filter[at..].find(['"', '.']) {
        at += next;
        if filter[at..].starts_with('"') {
            at += string_end(&filter[at..]);
            continue;
        }
        at += 1;
        let rest = &filter[at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if is_plain(&rest[..end]) {
            names.push((at, &rest[..end]));
        }
        at += end;
    }
    names
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    #[test]
    fn g18_names_of_another_case_are_replaced() {
        let records = "{\"STATUS\":\"a\",\"nodeName\":\"b\",\"x\":{\"id\":1}}\n";
        let fields = FieldPaths::read(&Bytes(records.as_bytes()), 0).unwrap();
        let repaired = |filter: &str| {
            let mut text = filter.to_owned();
            while let Some(repair) = same_fields(&text, &fields) {
                text = repair.text;
            }
            text
        };
        assert_eq!(
            repaired(
                "group_by(.status) | map({status: .[0].status, n: length}) | sort_by(.status)"
            ),
            "group_by(.STATUS) | map({status: .[0].STATUS, n: length}) | sort_by(.status)"
        );
        assert_eq!(repaired("map(.node_name)"), "map(.nodeName)");
        assert_eq!(repaired("map(.x.id, .other, \".status\")"), "map(.x.id, .other, \".status\")");
    }
}
