//! The queries in the language of every engine.

use lro_query::search::Case;

/// Values for the placeholders of the recipes that match something.
pub(super) const KEYWORD: &str = "restart";
pub(super) const TAG: &str = "release";

/// The query of a recipe in SQL.
#[derive(Clone, Copy)]
pub(super) struct InSql {
    /// For SQLite, ours and plain.
    pub(super) sqlite: &'static str,
    /// The columns that the statement reads, for plain SQLite.
    pub(super) columns: &'static [&'static str],
    pub(super) duckdb: &'static str,
    pub(super) datafusion: &'static str,
}

/// By the number of the recipe.
pub(super) const IN_SQL: [InSql; 10] = [
    InSql {
        sqlite: "SELECT title, namespace FROM results",
        columns: &["title", "namespace"],
        duckdb: "SELECT title, namespace FROM results",
        datafusion: "SELECT title, namespace FROM results",
    },
    InSql {
        sqlite: "SELECT _record FROM results WHERE namespace GLOB '_semantic*'",
        columns: &["namespace", "_record"],
        duckdb: "SELECT * FROM results WHERE starts_with(namespace, '_semantic')",
        datafusion: "SELECT * FROM results WHERE starts_with(namespace, '_semantic')",
    },
    InSql {
        sqlite: "SELECT _record FROM results WHERE title REGEXP '(?i)restart'",
        columns: &["title", "_record"],
        duckdb: "SELECT * FROM results WHERE regexp_matches(title, 'restart', 'i')",
        datafusion: "SELECT * FROM results WHERE regexp_like(title, 'restart', 'i')",
    },
    InSql {
        sqlite: "SELECT id, title, namespace FROM results",
        columns: &["id", "title", "namespace"],
        duckdb: "SELECT id, title, namespace FROM results",
        datafusion: "SELECT id, title, namespace FROM results",
    },
    InSql {
        sqlite: "SELECT _record FROM results WHERE memory_type = 'semantic'",
        columns: &["memory_type", "_record"],
        duckdb: "SELECT * FROM results WHERE memory_type = 'semantic'",
        datafusion: "SELECT * FROM results WHERE memory_type = 'semantic'",
    },
    InSql {
        sqlite: "SELECT namespace, count(*) AS n FROM results GROUP BY namespace ORDER BY namespace",
        columns: &["namespace"],
        duckdb: "SELECT namespace, count(*) AS n FROM results GROUP BY namespace ORDER BY namespace",
        datafusion: "SELECT namespace, count(*) AS n FROM results GROUP BY namespace ORDER BY namespace",
    },
    InSql {
        sqlite: "SELECT _record FROM results \
                 WHERE EXISTS (SELECT 1 FROM json_each(tags) WHERE value = 'release')",
        columns: &["tags", "_record"],
        duckdb: "SELECT * FROM results WHERE list_contains(tags, 'release')",
        datafusion: "SELECT * FROM results WHERE array_has(tags, 'release')",
    },
    InSql {
        sqlite: "SELECT _record FROM results ORDER BY created",
        columns: &["created", "_record"],
        duckdb: "SELECT * FROM results ORDER BY created",
        datafusion: "SELECT * FROM results ORDER BY created",
    },
    InSql {
        sqlite: "SELECT _record FROM results ORDER BY provenance ->> '$.confidence' DESC",
        columns: &["provenance", "_record"],
        duckdb: "SELECT * FROM results ORDER BY provenance.confidence DESC",
        datafusion: "SELECT * FROM results ORDER BY provenance['confidence'] DESC",
    },
    InSql {
        sqlite: "SELECT _record FROM results WHERE content REGEXP '(?i)restart'",
        columns: &["content", "_record"],
        duckdb: "SELECT * FROM results WHERE regexp_matches(content, 'restart', 'i')",
        datafusion: "SELECT * FROM results WHERE regexp_like(content, 'restart', 'i')",
    },
];

/// Filters over each record, as written by a model.
pub(super) const FILTERS: [&str; 4] = [
    r#"select(.extensions.bench.priority >= 4 and (.namespace | startswith("_semantic"))) | {id, title}"#,
    "{id, words: (.content | split(\" \") | length)}",
    r#"select(.provenance.confidence > 0.8 and (.content | test("deploy"; "i"))) | [.id, .created]"#,
    r#".tags | map(ascii_upcase) | join(",")"#,
];

/// Patterns, one of each kind.
pub(super) const PATTERNS: [(&str, &str, Case); 5] = [
    ("literal", "Docker", Case::Sensitive),
    ("case ignored", "postgres", Case::Ignored),
    ("class", "[0-9]{4}-[0-9]{2}-[0-9]{2}T09", Case::Sensitive),
    ("alternation", "error|timeout|refused", Case::Sensitive),
    ("word boundary", r"\brestart\b", Case::Sensitive),
];
