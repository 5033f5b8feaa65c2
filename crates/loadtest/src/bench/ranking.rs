//! The tables of `bench ranking` and `bench retrieval`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// The kinds of queries of the ranking set, and the titles of their columns.
const QUERY_KINDS: [(&str, &str); 5] = [
    ("keyword", "keywords"),
    ("question", "questions"),
    ("paraphrase", "paraphrases"),
    ("all", "all"),
    ("cjk", "CJK"),
];
/// By how much a combined ranking may be below the better of its two parts.
const TOLERANCE: f64 = 0.01;

/// The parts of docs/performance.md that `bench ranking` writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("ranking", ranking(results).context("ranking")?),
        ("notes", notes(&results["notes"]).context("notes")?),
        ("months", months(&results["months"]).context("months")?),
        ("misspelt words", typos(&results["typos"]).context("typos")?),
    ])
}

/// The parts of docs/evidence.md that `bench retrieval` writes, with their tables.
pub(super) fn retrieval_tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    let sets = results["sets"].as_array().context("sets")?;
    let mut tables = Vec::new();
    for (part, prefix) in [("retrieval LoCoMo", "LoCoMo"), ("retrieval BEAM", "BEAM")] {
        let of_part = sets
            .iter()
            .filter(|set| set["name"].as_str().is_some_and(|name| name.starts_with(prefix)));
        let texts: Option<Vec<String>> = of_part.map(retrieval).collect();
        let texts = texts.with_context(|| format!("the results of {prefix}"))?;
        if !texts.is_empty() {
            tables.push((part, texts.join("\n\n")));
        }
    }
    Ok(tables)
}

/// The way of a row and its model, such as `hybrid, minilm`.
fn title(row: &Value) -> Option<String> {
    let way = row["way"].as_str()?;
    let model = row["model"]["name"].as_str();
    Some(model.map_or_else(|| way.to_owned(), |model| format!("{way}, {model}")))
}

fn percent(value: &Value) -> Option<String> {
    Some(format!("{:.1}", 100.0 * value.as_f64()?))
}

/// A measure in percent with its interval.
fn percent_with_interval(figures: &Value, name: &str) -> Option<String> {
    let bounds = &figures[format!("{name}_ci")];
    Some(format!(
        "{} ({}–{})",
        percent(&figures[name])?,
        percent(&bounds[0])?,
        percent(&bounds[1])?
    ))
}

fn ranking(results: &Value) -> Option<String> {
    let rows = results["rows"].as_array()?;
    let mut table = format!(
        "{} gold memories among {}.\n\n| ranked by | figure |",
        results["gold"], results["memories"]
    );
    for (kind, name) in QUERY_KINDS {
        let queries = rows.first()?["figures"][kind]["queries"].as_u64()?;
        let _ = write!(table, " {name} ({queries}) |");
    }
    table += " below the better part |\n|---|---|--:|--:|--:|--:|--:|---|";
    for row in rows {
        let figures = &row["figures"];
        let _ = write!(table, "\n| {} | R@10 |", title(row)?);
        for (kind, _) in QUERY_KINDS {
            let cell = match kind {
                "all" => percent_with_interval(&figures[kind], "recall_10")?,
                _ => percent(&figures[kind]["recall_10"])?,
            };
            let _ = write!(table, " {cell} |");
        }
        let _ = write!(table, " {} |", below_better_part(rows, row)?);
        for (figure, title) in [("ndcg_10", "nDCG@10"), ("mrr", "MRR")] {
            let _ = write!(table, "\n|  | {title} |");
            for (kind, _) in QUERY_KINDS {
                let _ = write!(table, " {:.3} |", figures[kind][figure].as_f64()?);
            }
            table += "  |";
        }
    }
    table += "\n\nR@10 is a percentage, with the interval that contains 95 % of the resampled sets \
              of queries.";
    Some(table)
}

/// The kinds of queries for which R@10 of a combined ranking is more than a point below the better
/// of words and vectors.
fn below_better_part(rows: &[Value], row: &Value) -> Option<String> {
    if row["way"] != "hybrid" {
        return Some(String::new());
    }
    let is_part = |other: &&Value| {
        other["way"] == "lexical"
            || (other["way"] == "vector" && other["model"]["name"] == row["model"]["name"])
    };
    let mut kinds = Vec::new();
    for (kind, name) in QUERY_KINDS {
        let recall = |row: &Value| row["figures"][kind]["recall_10"].as_f64();
        let parts: Option<Vec<f64>> = rows.iter().filter(is_part).map(recall).collect();
        let better = parts?.into_iter().fold(0.0, f64::max);
        let difference = recall(row)? - better;
        if difference < -TOLERANCE {
            kinds.push(format!("{name} −{:.1}", -100.0 * difference));
        }
    }
    Some(if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") })
}

fn notes(results: &Value) -> Option<String> {
    let queries = results["queries"].as_f64()?;
    let mut table = format!(
        "{queries} questions about {} notes.\n\n\
         | ranked by | first | in the first 5 | not in the first 20 | MRR | paraphrases in the first 5 |\n\
         |---|--:|--:|--:|--:|--:|",
        results["memories"]
    );
    for row in results["rows"].as_array()? {
        let (all, paraphrases) = (&row["figures"]["all"], &row["figures"]["paraphrase"]);
        let count = |name: &str| Some((all[name].as_f64()? * queries).round());
        let of_kind = paraphrases["queries"].as_f64()?;
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {:.3} | {} of {of_kind} |",
            title(row)?,
            count("recall_1")?,
            count("any_5")?,
            queries - count("any_20")?,
            all["mrr"].as_f64()?,
            (paraphrases["any_5"].as_f64()? * of_kind).round(),
        );
    }
    Some(table)
}

fn months(results: &Value) -> Option<String> {
    let queries = results["queries"].as_f64()?;
    let mut table = format!(
        "{queries} questions that name a month, about {} notes.\n\n\
         | ranked by | the answer was created | first | in the first 5 | MRR |\n\
         |---|---|--:|--:|--:|",
        results["memories"]
    );
    for row in results["rows"].as_array()? {
        for (times, name) in [
            ("one_time", "with all notes"),
            ("month_later", "a month later"),
            ("same_month", "in that month"),
        ] {
            let figures = &row[times];
            let count = |name: &str| Some((figures[name].as_f64()? * queries).round());
            let _ = write!(
                table,
                "\n| {} | {name} | {} | {} | {:.3} |",
                title(row)?,
                count("recall_1")?,
                count("any_5")?,
                figures["mrr"].as_f64()?,
            );
        }
    }
    Some(table)
}

fn typos(results: &Value) -> Option<String> {
    let mut table = format!(
        "{} queries with one edit in their rarest word, and that word alone.\n\n\
         | ranked by | query | R@10, right | R@10, misspelt | ratio |\n|---|---|--:|--:|--:|",
        results["cases"]
    );
    for row in results["rows"].as_array()? {
        for (form, name) in [("query", "whole"), ("word", "the word alone")] {
            let figures = &row[form];
            let _ = write!(
                table,
                "\n| {} | {name} | {} | {} | {:.2} |",
                title(row)?,
                percent_with_interval(&figures["right"], "recall_10")?,
                percent_with_interval(&figures["misspelt"], "recall_10")?,
                figures["ratio"].as_f64()?,
            );
        }
    }
    Some(table)
}

/// Two tables of one set: all questions by measure, and the kinds of questions.
fn retrieval(set: &Value) -> Option<String> {
    let rows = set["rows"].as_array()?;
    let mut table = format!(
        "{}: {} questions about {} conversations with {} turns (SHA-256 {}…).\n\n\
         | ranked by | R@1 | R@5 | R@10 | any@10 | MRR | nDCG@10 |\n|---|--:|--:|--:|--:|--:|--:|",
        set["name"].as_str()?,
        set["queries"],
        set["conversations"],
        set["memories"],
        set["sha256"].as_str()?.get(..16)?,
    );
    for row in rows {
        let all = &row["figures"]["all"];
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {} | {:.3} | {:.3} |",
            title(row)?,
            percent(&all["recall_1"])?,
            percent(&all["recall_5"])?,
            percent_with_interval(all, "recall_10")?,
            percent_with_interval(all, "any_10")?,
            all["mrr"].as_f64()?,
            all["ndcg_10"].as_f64()?,
        );
    }
    let kinds: Vec<(&String, u64)> = rows.first()?["figures"]
        .as_object()?
        .iter()
        .filter(|(kind, _)| *kind != "all")
        .filter_map(|(kind, figures)| Some((kind, figures["queries"].as_u64()?)))
        .collect();
    table += "\n\n| R@10, any@10 |";
    for (kind, queries) in &kinds {
        let _ = write!(table, " {} ({queries}) |", kind.replace('_', " "));
    }
    let _ = write!(table, "\n|---|{}", "--:|".repeat(kinds.len()));
    for row in rows {
        let _ = write!(table, "\n| {} |", title(row)?);
        for (kind, _) in &kinds {
            let figures = &row["figures"][kind.as_str()];
            let (recall, any) = (percent(&figures["recall_10"])?, percent(&figures["any_10"])?);
            let _ = write!(table, " {recall}, {any} |");
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figures(recall_10: f64) -> Value {
        json!({
            "queries": 4, "recall_1": 0.25, "recall_5": 0.5, "recall_10": recall_10,
            "recall_10_ci": [0.1, 0.9], "any_5": 0.5, "any_10": 0.75, "any_10_ci": [0.2, 1.0],
            "any_20": 0.75, "mrr": 0.4, "ndcg_10": 0.5,
        })
    }

    fn row(way: &str, model: Option<&str>, paraphrase: f64) -> Value {
        let other = figures(0.75);
        let figures = json!({
            "keyword": other, "question": other, "paraphrase": figures(paraphrase), "all": other,
            "cjk": other,
        });
        json!({"way": way, "model": model.map(|name| json!({"name": name})), "figures": figures})
    }

    #[test]
    fn a_run_becomes_tables_that_name_what_is_below_the_better_part() {
        let rows = [
            row("lexical", None, 0.1),
            row("vector", Some("m"), 0.6),
            row("hybrid", Some("m"), 0.5),
        ];
        let pair = json!({"right": figures(0.8), "misspelt": figures(0.6), "ratio": 0.75});
        let results = json!({
            "gold": 2, "memories": 9, "rows": rows,
            "notes": {"memories": 200, "queries": 4, "rows": rows},
            "months": {"memories": 200, "queries": 4, "rows": [{
                "way": "hybrid", "model": {"name": "m"}, "one_time": figures(0.5),
                "month_later": figures(0.5), "same_month": figures(1.0),
            }]},
            "typos": {"cases": 200, "rows": [
                {"way": "lexical", "model": null, "query": pair, "word": pair},
            ]},
        });
        let tables = tables(&results).unwrap();
        assert!(tables[0].1.contains(" CJK (4) | below the better part |\n"));
        assert!(tables[0].1.contains(
            "\n| hybrid, m | R@10 | 75.0 | 75.0 | 50.0 | 75.0 (10.0–90.0) | 75.0 | paraphrases −10.0 |\
             \n|  | nDCG@10 | 0.500 | 0.500 | 0.500 | 0.500 | 0.500 |  |\n"
        ));
        assert!(tables[1].1.contains("\n| lexical | 1 | 2 | 1 | 0.400 | 2 of 4 |\n"));
        assert!(tables[2].1.contains("\n| hybrid, m | a month later | 1 | 2 | 0.400 |\n"));
        assert!(tables[3].1.ends_with(
            "\n| lexical | the word alone | 80.0 (10.0–90.0) | 60.0 (10.0–90.0) | 0.75 |"
        ));
        assert!(super::tables(&json!({})).is_err());
    }

    #[test]
    fn every_set_becomes_its_own_part_and_a_broken_one_an_error() {
        let row = json!({"way": "lexical", "model": null, "figures": {
            "all": figures(0.75), "event_ordering": figures(0.5),
        }});
        let set = |name: &str| {
            json!({
                "name": name, "sha256": "0123456789abcdef0123", "conversations": 3, "memories": 9,
                "queries": 4, "rows": [row],
            })
        };
        let results = json!({"sets": [set("BEAM 100K"), set("BEAM 500K")]});
        let tables = retrieval_tables(&results).unwrap();
        let [(part, table)] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!(*part, "retrieval BEAM");
        assert!(table.starts_with(
            "BEAM 100K: 4 questions about 3 conversations with 9 turns (SHA-256 0123456789abcdef…)."
        ));
        assert!(table.contains(
            "\n| lexical | 25.0 | 50.0 | 75.0 (10.0–90.0) | 75.0 (20.0–100.0) | 0.400 | 0.500 |\n"
        ));
        assert!(table.ends_with(
            "\n| R@10, any@10 | event ordering (4) |\n|---|--:|\n| lexical | 50.0, 75.0 |"
        ));
        assert!(retrieval_tables(&json!({"sets": [{"name": "LoCoMo"}]})).is_err());
    }
}
