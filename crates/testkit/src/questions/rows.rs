//! Rows of a reply, and their comparison with those of an answer.

use serde_json::Value;

/// A row without the names of its columns, which the question leaves open.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) cells: Vec<Value>,
    /// Whether the columns have names. The values of an array are no further columns of a row.
    named: bool,
}

/// Whether the order of rows matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    Given,
    Any,
}

impl Row {
    /// An object of columns, an array of their values, or a value. A container of one value is that
    /// value.
    pub(super) fn new(value: Value) -> Self {
        let (cells, named): (Vec<Value>, bool) = match value {
            Value::Object(members) => (members.into_iter().map(|(_, value)| value).collect(), true),
            Value::Array(values) => (values, false),
            other => return Self { cells: vec![other], named: false },
        };
        match <[Value; 1]>::try_from(cells) {
            Ok([one]) => Self::new(one),
            Err(cells) => Self { cells, named },
        }
    }
}

/// Whether rows are those of the answer: its columns are among theirs, each at one place in all
/// rows. Further columns with names are no mistake.
pub(super) fn same_rows(rows: &[Row], answer: &[Value], order: RowOrder) -> bool {
    if rows.len() != answer.len() {
        // One row of many columns, or one array of values: `[["a", "b"]]` for `["a", "b"]`.
        let [only] = rows else { return false };
        let values: Vec<Row> = only.cells.iter().cloned().map(Row::new).collect();
        return values.len() == answer.len() && same_rows(&values, answer, order);
    }
    let expected: Vec<Row> = answer.iter().cloned().map(Row::new).collect();
    let (Some(columns), Some(width)) = (common_width(&expected), common_width(rows)) else {
        return false;
    };
    if width < columns || width > columns && !rows.iter().all(|row| row.named) {
        return false;
    }
    let places = |column: usize| {
        let wanted = project(&expected, &[column]);
        let found = |place: &usize| agree(project(rows, &[*place]), wanted.clone(), order);
        (0..width).filter(found).collect::<Vec<_>>()
    };
    let places: Vec<Vec<usize>> = (0..columns).map(places).collect();
    let all: Vec<usize> = (0..columns).collect();
    any_choice(&places, &mut Vec::new(), &|chosen| {
        agree(project(rows, chosen), project(&expected, &all), order)
    })
}

/// The number of columns, if it is the same in all rows.
fn common_width(rows: &[Row]) -> Option<usize> {
    let width = rows.first().map_or(0, |row| row.cells.len());
    rows.iter().all(|row| row.cells.len() == width).then_some(width)
}

fn project(rows: &[Row], columns: &[usize]) -> Vec<Vec<Value>> {
    let cells = |row: &Row| columns.iter().map(|column| row.cells[*column].clone()).collect();
    rows.iter().map(cells).collect()
}

/// Whether as many rows with as many cells are equal.
fn agree(mut left: Vec<Vec<Value>>, mut right: Vec<Vec<Value>>, order: RowOrder) -> bool {
    if order == RowOrder::Any {
        left.sort_by_cached_key(|cells| sort_key(cells));
        right.sort_by_cached_key(|cells| sort_key(cells));
    }
    left.iter().flatten().zip(right.iter().flatten()).all(|(left, right)| same(left, right))
}

fn sort_key(cells: &[Value]) -> String {
    let key =
        |cell: &Value| cell.as_f64().map_or_else(|| cell.to_string(), |number| number.to_string());
    cells.iter().map(key).collect::<Vec<_>>().join(",")
}

/// Equal values; numbers by their value.
fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => (left - right).abs() <= f64::EPSILON * left.abs(),
        _ => left == right,
    }
}

/// Whether a choice of one place for each column is accepted, with no place twice.
fn any_choice(
    places: &[Vec<usize>],
    chosen: &mut Vec<usize>,
    accept: &dyn Fn(&[usize]) -> bool,
) -> bool {
    let Some(next) = places.get(chosen.len()) else { return accept(chosen) };
    for place in next {
        if chosen.contains(place) {
            continue;
        }
        chosen.push(*place);
        if any_choice(places, chosen, accept) {
            return true;
        }
        chosen.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is(rows: &Value, answer: &Value, order: RowOrder) -> bool {
        let rows: Vec<Row> = rows.as_array().unwrap().iter().cloned().map(Row::new).collect();
        same_rows(&rows, answer.as_array().unwrap(), order)
    }

    #[test]
    fn further_columns_are_no_mistake() {
        let rows = json!([
            {"rank": 1, "login": "a", "n": 7, "share": 0.5},
            {"rank": 2, "login": "b", "n": 5, "share": 0.3},
        ]);
        assert!(is(&rows, &json!([["a", 7], ["b", 5]]), RowOrder::Given));
        assert!(is(&rows, &json!([[5, "b"], [7, "a"]]), RowOrder::Any));
        assert!(!is(&rows, &json!([[5, "b"], [7, "a"]]), RowOrder::Given));
        assert!(is(&rows, &json!(["a", "b"]), RowOrder::Given));
        assert!(!is(&rows, &json!([["a", 5], ["b", 7]]), RowOrder::Any), "pairs belong together");
        assert!(is(&json!([{"id": "x", "closed": "t"}]), &json!(["t"]), RowOrder::Given));
    }

    #[test]
    fn a_column_has_one_place_in_all_rows() {
        let rows = json!([{"x": 1, "y": 9, "z": 0}, {"x": 9, "y": 2, "z": 0}]);
        assert!(!is(&rows, &json!([1, 2]), RowOrder::Given));
        assert!(!is(&json!([{"x": 3, "y": 4}]), &json!([[3, 3]]), RowOrder::Given));
        assert!(is(&json!([{"x": 3, "y": 3}]), &json!([[3, 3]]), RowOrder::Given));
    }

    #[test]
    fn values_of_an_array_are_no_columns() {
        assert!(!is(&json!([["a", "b", "c"]]), &json!(["b"]), RowOrder::Given));
        assert!(!is(&json!([["a", 7, 1], ["b", 5, 2]]), &json!(["a", "b"]), RowOrder::Given));
        assert!(is(&json!([["a", "b"]]), &json!(["b", "a"]), RowOrder::Any));
        assert!(!is(&json!([["a", "b"]]), &json!(["b", "a"]), RowOrder::Given));
    }
}
