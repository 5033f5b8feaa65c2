//! The table of `bench ranking`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// The kinds of queries, and what their columns are called.
const KINDS: [(&str, &str); 5] = [
    ("keyword", "keywords"),
    ("question", "questions"),
    ("paraphrase", "paraphrases"),
    ("all", "all"),
    ("cjk", "CJK"),
];

/// The part of docs/performance.md that this benchmark writes, with its table.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![("ranking", table(results).context("ranking")?)])
}

fn table(results: &Value) -> Option<String> {
    let rows = results["rows"].as_array()?;
    let mut table = format!(
        "{} gold memories among {}.\n\n| ranked by | figure |",
        results["gold"], results["memories"]
    );
    for (kind, name) in KINDS {
        let queries = rows.first()?["figures"][kind]["queries"].as_u64()?;
        let _ = write!(table, " {name} ({queries}) |");
    }
    table += "\n|---|---|--:|--:|--:|--:|--:|";
    for row in rows {
        let way = row["way"].as_str()?;
        let name =
            row["model"]["name"].as_str().map_or_else(String::new, |name| format!(", {name}"));
        for (figure, title) in [("ndcg_10", "nDCG@10"), ("recall_50", "recall@50")] {
            let first = if figure == "ndcg_10" { format!("{way}{name}") } else { String::new() };
            let _ = write!(table, "\n| {first} | {title} |");
            for (kind, _) in KINDS {
                let _ = write!(table, " {:.3} |", row["figures"][kind][figure].as_f64()?);
            }
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_becomes_a_table_and_a_broken_one_an_error() {
        let figures = json!({"queries": 4, "ndcg_10": 0.5, "recall_50": 0.75});
        let figures = json!({
            "keyword": figures, "question": figures, "paraphrase": figures, "all": figures,
            "cjk": figures,
        });
        let results = json!({"gold": 2, "memories": 9, "rows": [
            {"way": "lexical", "model": {"name": null}, "figures": figures},
            {"way": "hybrid", "model": {"name": "m"}, "figures": figures},
        ]});
        let tables = tables(&results).unwrap();
        assert!(tables[0].1.contains("| CJK (4) |\n"));
        assert!(tables[0].1.ends_with(
            "\n| hybrid, m | nDCG@10 | 0.500 | 0.500 | 0.500 | 0.500 | 0.500 |\
             \n|  | recall@50 | 0.750 | 0.750 | 0.750 | 0.750 | 0.750 |"
        ));
        assert!(super::tables(&json!({})).is_err());
    }
}
