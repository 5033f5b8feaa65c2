//! The tables of `bench extract`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    let rows = |name: &str| Row::parse_all(&results[name]).with_context(|| name.to_owned());
    let (recipes, filters, searches) = (rows("recipes")?, rows("filters")?, rows("searches")?);
    let overhead = results["overhead"].as_array().context("overhead")?;
    let peers = peers(results).context("peers")?;
    let goals = goals(&recipes, &filters, &searches, overhead);
    Ok(vec![
        ("extract goals", format!("{goals}\n\n{peers}")),
        ("extract recipes", RECIPES.write("recipe", &recipes)),
        ("extract filters", FILTERS.write("filter", &filters)),
        ("extract sql", sql(&recipes)),
        ("extract searches", SEARCHES.write("pattern", &searches)),
        ("extract overhead", overheads(overhead).context("overhead")?),
    ])
}

/// One question with the time of every engine.
struct Row {
    question: String,
    engines: Vec<Measurement>,
    /// How the engines disagree.
    error: Option<String>,
}

/// An engine's best time for a question.
struct Measurement {
    engine: String,
    answers: Option<u64>,
    wall: f64,
    processor: f64,
    statement: Option<f64>,
    runs: usize,
    error: Option<String>,
}

impl Row {
    fn parse_all(rows: &Value) -> Option<Vec<Self>> {
        rows.as_array()?.iter().map(Self::parse).collect()
    }

    fn parse(row: &Value) -> Option<Self> {
        Some(Self {
            question: row["question"].as_str()?.to_owned(),
            engines: row["engines"]
                .as_array()?
                .iter()
                .map(Measurement::parse)
                .collect::<Option<_>>()?,
            error: row["error"].as_str().map(str::to_owned),
        })
    }

    fn engine(&self, name: &str) -> Option<&Measurement> {
        self.engines.iter().find(|measured| measured.engine == name)
    }

    /// The wall seconds of an engine that answered.
    fn wall(&self, name: &str) -> Option<f64> {
        self.engine(name).map(|measured| measured.wall).filter(|wall| wall.is_finite())
    }

    /// How many times as long `engine` took as `other`.
    fn ratio(&self, engine: &str, other: &str) -> Option<f64> {
        Some(self.wall(engine)? / self.wall(other)?)
    }

    fn answers(&self) -> String {
        if self.error.is_none() {
            let first = self.engines.iter().find_map(|measured| measured.answers);
            return first.map_or_else(|| "–".to_owned(), |answers| answers.to_string());
        }
        let each = self.engines.iter().map(|measured| {
            let answers = measured.answers.map_or_else(|| "–".to_owned(), |n| n.to_string());
            format!("{} {answers}", measured.engine)
        });
        format!("**differ**: {}", each.collect::<Vec<_>>().join(", "))
    }
}

impl Measurement {
    fn parse(engine: &Value) -> Option<Self> {
        let best = |name: &str| -> Option<f64> {
            let runs = engine[name].as_array()?.iter().filter_map(Value::as_f64);
            Some(runs.fold(f64::INFINITY, f64::min))
        };
        Some(Self {
            engine: engine["engine"].as_str()?.to_owned(),
            answers: engine["answers"].as_u64(),
            wall: best("wall_seconds")?,
            processor: best("processor_seconds")?,
            statement: best("statement_wall_seconds"),
            runs: engine["wall_seconds"].as_array()?.len(),
            error: engine["error"].as_str().map(str::to_owned),
        })
    }

    fn render(&self, unit: Unit) -> String {
        match (unit, &self.error) {
            (_, Some(error)) => format!("error: {}", error.replace(['|', '\n'], " ")),
            (_, None) if self.runs == 0 => "–".to_owned(),
            (Unit::Seconds, None) => format!("{:.2} ({:.2})", self.wall, self.processor),
            (Unit::Milliseconds, None) => {
                format!("{:.1} ({:.0})", self.wall * 1e3, self.processor * 1e3)
            }
        }
    }
}

/// The unit of the times.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// A table with a row for each question and a column for each engine.
struct Layout {
    unit: Unit,
    /// Engines and the headings of their columns.
    engines: &'static [(&'static str, &'static str)],
    /// Columns of one engine's time divided by another's.
    ratios: &'static [(&'static str, &'static str, &'static str)],
}

const RECIPES: Layout = Layout {
    unit: Unit::Seconds,
    engines: &[
        ("recipe", "ours"),
        ("jq", "jq"),
        ("gojq", "gojq"),
        ("jaq", "jaq"),
        ("DuckDB", "DuckDB"),
        ("DataFusion", "DataFusion"),
    ],
    ratios: &[
        ("times faster than jq", "jq", "recipe"),
        ("than DuckDB", "DuckDB", "recipe"),
        ("than DataFusion", "DataFusion", "recipe"),
    ],
};

const FILTERS: Layout = Layout {
    unit: Unit::Seconds,
    engines: &[("worker", "ours"), ("jq", "jq"), ("gojq", "gojq"), ("jaq", "jaq")],
    ratios: &[("times faster than jq", "jq", "worker"), ("than jaq", "jaq", "worker")],
};

const SQL: Layout = Layout {
    unit: Unit::Seconds,
    engines: &[
        ("sql", "ours"),
        ("rusqlite", "rusqlite"),
        ("DuckDB", "DuckDB"),
        ("DataFusion", "DataFusion"),
    ],
    ratios: &[
        ("times bare rusqlite", "sql", "rusqlite"),
        ("times DuckDB", "sql", "DuckDB"),
        ("times DataFusion", "sql", "DataFusion"),
    ],
};

const SEARCHES: Layout = Layout {
    unit: Unit::Milliseconds,
    engines: &[("search", "ours"), ("rg", "rg")],
    ratios: &[("times rg", "search", "rg")],
};

impl Layout {
    fn write(&self, question: &str, rows: &[Row]) -> String {
        let mut table = format!("| {question} | answers |");
        let headings = self.engines.iter().map(|(_, heading)| heading);
        for heading in headings.chain(self.ratios.iter().map(|(heading, ..)| heading)) {
            // Writing to a String cannot fail.
            let _ = write!(table, " {heading} |");
        }
        table += "\n|---|--:|";
        table += &"--:|".repeat(self.engines.len() + self.ratios.len());
        for row in rows {
            let _ = write!(table, "\n{}", self.row(row));
        }
        table + &self.means(rows)
    }

    fn row(&self, row: &Row) -> String {
        let question = if row.question.contains(['|', '`', '\\', '"']) {
            format!("`{}`", row.question)
        } else {
            row.question.clone()
        };
        let mut line = format!("| {question} | {} |", row.answers());
        for (engine, _) in self.engines {
            let cell = row.engine(engine).map(|measured| measured.render(self.unit));
            let _ = write!(line, " {} |", cell.unwrap_or_else(|| "missing".to_owned()));
        }
        for (_, engine, other) in self.ratios {
            let _ = write!(line, " {} |", times(row.ratio(engine, other)));
        }
        line
    }

    fn means(&self, rows: &[Row]) -> String {
        let mut line = format!("\n| geometric mean | |{}", " |".repeat(self.engines.len()));
        for (_, engine, other) in self.ratios {
            let _ = write!(line, " {} |", times(mean(rows, engine, other)));
        }
        line
    }
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// The geometric mean of how many times as long `engine` took as `other`; `None` unless both
/// answered every question.
fn mean(rows: &[Row], engine: &str, other: &str) -> Option<f64> {
    let logs: Option<Vec<f64>> =
        rows.iter().map(|row| Some(row.ratio(engine, other)?.ln())).collect();
    let logs = logs.filter(|logs| !logs.is_empty())?;
    let count = f64::from(u32::try_from(logs.len()).ok()?);
    Some((logs.iter().sum::<f64>() / count).exp())
}

fn sql(rows: &[Row]) -> String {
    let statements = rows.iter().filter_map(|row| Some((row, row.engine("rusqlite")?.statement?)));
    let each: Vec<String> = statements
        .map(|(row, seconds)| {
            let number = row.question.split('.').next().unwrap_or_default();
            format!("{number}: {seconds:.3}")
        })
        .collect();
    format!(
        "{}\n\nOf bare rusqlite's seconds these are the statement's own, on the loaded table: {}.",
        SQL.write("question", rows),
        each.join(", "),
    )
}

fn overheads(overhead: &[Value]) -> Option<String> {
    let mut table = String::from(
        "| trivial question | asked | p50, ms | p90, ms | p99, ms |\n|---|--:|--:|--:|--:|",
    );
    for row in overhead {
        let at = |name: &str| row[name].as_f64();
        let _ = write!(
            table,
            "\n| {} | {} | {:.2} | {:.2} | {:.2} |",
            row["engine"].as_str()?,
            row["questions"],
            at("p50_milliseconds")?,
            at("p90_milliseconds")?,
            at("p99_milliseconds")?,
        );
    }
    Some(table)
}

fn peers(results: &Value) -> Option<String> {
    let each = results["peers"].as_object()?.iter().map(|(name, version)| {
        let version = version.as_str().map(|version| version.trim_start_matches(&**name).trim());
        format!("{name} {}", version.unwrap_or("missing").trim_start_matches('-'))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let bytes = results["bytes"].as_f64()?;
    let load = |when: &str| results["load_average"][when].as_f64();
    let load = load("before").zip(load("after")).map(|(before, after)| {
        format!(" Load average {before:.1} before, {after:.1} after; ours adds up to 2.")
    });
    let load = load.unwrap_or_default();
    Some(format!("200 000 memories, {:.0} MB. Peers: {each}.{load}", bytes / 1e6))
}

/// A bound of a figure.
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

fn goals(recipes: &[Row], filters: &[Row], searches: &[Row], overhead: &[Value]) -> String {
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
    for (goal, figure, bound, agree) in rows {
        let cell = figure.map_or_else(|| "–".to_owned(), Goal::render);
        let verdict = match figure {
            None => "not measured",
            Some(_) if !agree => "missed: answers differ",
            Some(figure) if bound.is_reached(figure) => "reached",
            Some(_) => "missed",
        };
        // Writing to a String cannot fail.
        let _ = write!(table, "\n| {goal} | {cell} | {verdict} |");
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

    fn render(figure: f64) -> String {
        if figure >= 10.0 { format!("{figure:.1}") } else { format!("{figure:.2}") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(question: &str, engines: &[(&str, u64, f64)]) -> Value {
        let engines: Vec<Value> = engines
            .iter()
            .map(|(engine, answers, wall)| {
                json!({"engine": engine, "answers": answers, "wall_seconds": [9.0, wall],
                       "processor_seconds": [wall, 9.0]})
            })
            .collect();
        json!({"question": question, "engines": engines})
    }

    #[test]
    fn a_run_becomes_tables_with_verdicts_and_missing_peers_are_listed() {
        let engines = [("recipe", 7, 0.1), ("sql", 7, 0.9), ("jq", 7, 2.0), ("rusqlite", 7, 1.0)];
        let mut differs = row("`a|b`", &[("worker", 1, 1.0), ("jq", 2, 1.5)]);
        differs["error"] = json!("they differ");
        let results = json!({
            "bytes": 124_000_000,
            "peers": {"jq": "jq-1.6", "DuckDB": null},
            "recipes": [row("1. Titles", &engines)],
            "filters": [differs],
            "searches": [row("literal: x", &[("search", 3, 0.014), ("rg", 3, 0.010)])],
            "overhead": [{"engine": "jq", "questions": 9, "p50_milliseconds": 2.0,
                          "p90_milliseconds": 2.5, "p99_milliseconds": 4.0}],
        });
        let tables = tables(&results).unwrap();
        let part = |name: &str| &tables.iter().find(|(part, _)| *part == name).unwrap().1;
        assert!(part("extract goals").ends_with("Peers: jq 1.6, DuckDB missing."));
        assert!(part("extract recipes").contains(
            "\n| 1. Titles | 7 | 0.10 (0.10) | 2.00 (2.00) | missing | missing | missing | missing \
             | 20.00 | – | – |"
        ));
        assert!(part("extract filters").contains("**differ**: worker 1, jq 2"));
        assert!(part("extract searches").contains("| 14.0 (14) | 10.0 (10) | 1.40 |"));
        let goals = part("extract goals");
        assert!(goals.contains("| 20.0 | reached |"), "{goals}");
        assert!(goals.contains("| 1.50 | missed: answers differ |"), "{goals}");
        assert!(goals.contains("| 1.40 | missed |"), "{goals}");
        assert!(goals.contains("| – | not measured |"), "{goals}");
        assert!(super::tables(&json!({})).is_err());
    }
}
