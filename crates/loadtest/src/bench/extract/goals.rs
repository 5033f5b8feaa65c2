//! Goals: what was wanted, beside what was measured.

use std::fmt::Write;

use serde_json::Value;

use super::{Row, mean};

/// On which side of a figure the goal lies.
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

pub(super) fn table(
    recipes: &[Row],
    filters: &[Row],
    searches: &[Row],
    overhead: &[Value],
) -> String {
    let worst = |rows: &[Row], engine: &str, other: &str| -> Option<f64> {
        let ratios: Option<Vec<f64>> = rows.iter().map(|row| row.ratio(engine, other)).collect();
        ratios?.into_iter().reduce(f64::max)
    };
    let medians = overhead.iter().filter_map(|row| row["p50_milliseconds"].as_f64());
    let agree = |rows: &[Row]| rows.iter().all(|row| row.error.is_none());
    let rows = [
        (
            "recipes: times faster than jq, geometric mean, at least 15",
            mean(recipes, "jq", "recipe"),
            Goal::AtLeast(15.0),
            agree(recipes),
        ),
        (
            "recipes: the slowest beside DataFusion, at most 1",
            worst(recipes, "recipe", "DataFusion"),
            Goal::AtMost(1.0),
            agree(recipes),
        ),
        (
            "filters for each record: times faster than jq, geometric mean, at least 1.8",
            mean(filters, "jq", "worker"),
            Goal::AtLeast(1.8),
            agree(filters),
        ),
        (
            "SQL: times bare rusqlite, loading included, geometric mean, at most 1.2",
            mean(recipes, "sql", "rusqlite"),
            Goal::AtMost(1.2),
            agree(recipes),
        ),
        (
            "SQL: times DuckDB, loading included, geometric mean, at most 1",
            mean(recipes, "sql", "DuckDB"),
            Goal::AtMost(1.0),
            agree(recipes),
        ),
        (
            "SQL: times DataFusion, loading included, geometric mean, at most 1",
            mean(recipes, "sql", "DataFusion"),
            Goal::AtMost(1.0),
            agree(recipes),
        ),
        (
            "search: times rg, the worst pattern, at most 1.3",
            worst(searches, "search", "rg"),
            Goal::AtMost(1.3),
            agree(searches),
        ),
        (
            "worker: milliseconds for a trivial question, p50, at most 3",
            medians.reduce(f64::max),
            Goal::AtMost(3.0),
            true,
        ),
    ];
    let mut table = String::from("| goal | measured | verdict |\n|---|--:|---|");
    for (goal, figure, wanted, agree) in rows {
        let shown = figure.map_or_else(|| "–".to_owned(), Goal::shown);
        let verdict = match figure {
            None => "not measured",
            Some(_) if !agree => "missed: answers differ",
            Some(figure) if wanted.is_reached(figure) => "reached",
            Some(_) => "missed",
        };
        // Writing to a String cannot fail.
        let _ = write!(table, "\n| {goal} | {shown} | {verdict} |");
    }
    table
}

impl Goal {
    fn is_reached(&self, figure: f64) -> bool {
        match self {
            Self::AtLeast(least) => figure >= *least,
            Self::AtMost(most) => figure <= *most,
        }
    }

    fn shown(figure: f64) -> String {
        if figure >= 10.0 { format!("{figure:.1}") } else { format!("{figure:.2}") }
    }
}
