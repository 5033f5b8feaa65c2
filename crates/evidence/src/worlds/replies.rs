//! Calls of the extraction tools in conditions that removed a way to query, and the errors of the
//! program about them. Neither may name what was removed.

use serde_json::Value;

use super::definitions::EXTRACT;
use crate::ablation::RemovedWays;

/// What stands before the hint of an error.
const HINT: &str = "\nHint: ";
/// What stands before a corrected call in a hint.
const CALL: &str = " Call again with ";
/// What stands between two pieces of advice in a hint.
const OR: &str = ", or ";
/// What the program says about both languages, then about jq alone and about SQL alone.
const LANGUAGES: [(&str, &str, &str); 3] = [
    ("jq or SQLite", "jq", "SQLite"),
    ("jq or SQL", "jq", "SQL"),
    ("jq and SQL read", "jq reads", "SQL reads"),
];
/// What the program says about recipes beside other tools.
const RECIPE_AND_OTHERS: &str = "a numbered recipe, ";

/// Why a call is not valid, where the program would name all ways to query, or would use one that
/// was removed.
pub(crate) fn refusal(removed: RemovedWays, tool: &str, arguments: &Value) -> Option<String> {
    if removed.is_empty() {
        return None;
    }
    if removed.sql && arguments["query"].as_str().is_some_and(is_statement) {
        return Some(
            "Error (syntax): query is not a jq filter\n\
             Hint: As in query=\"select(.field == \\\"value\\\")\"."
                .to_owned(),
        );
    }
    if tool != EXTRACT {
        return None;
    }
    let ways = [
        (removed.recipes, "recipe", "recipe (1-10)"),
        (removed.jq, "query", "query (jq)"),
        (removed.sql, "sql", "sql"),
    ];
    let remaining = || ways.iter().filter(|(is_removed, ..)| !is_removed);
    let set: Vec<&str> = remaining()
        .filter(|(_, name, _)| !arguments[*name].is_null())
        .map(|(_, name, _)| *name)
        .collect();
    match set.as_slice() {
        [] => {
            let names: Vec<&str> = remaining().map(|(_, name, _)| *name).collect();
            let hints: Vec<&str> = remaining().map(|(_, _, hint)| *hint).collect();
            let one_of = if hints.len() > 1 { "one of " } else { "" };
            Some(format!(
                "Error (arguments): missing {}\nHint: Set {one_of}{}.",
                listed(&names, "or"),
                listed(&hints, "or")
            ))
        }
        [_] => None,
        several => Some(format!(
            "Error (arguments): {} are mutually exclusive\nHint: Set only one of them.",
            listed(several, "and")
        )),
    }
}

/// Whether the program would run a jq filter as an SQL statement.
fn is_statement(filter: &str) -> bool {
    let filter = filter.trim().trim_start_matches('`');
    let filter = filter.strip_prefix("sql").unwrap_or(filter).trim_start();
    let Some((word, rest)) = filter.split_once(char::is_whitespace) else { return false };
    let is_call = rest.trim_start().starts_with(['(', '|']);
    ["select", "with"].iter().any(|keyword| word.eq_ignore_ascii_case(keyword)) && !is_call
}

/// Names as in `a, b or c`.
fn listed(names: &[&str], conjunction: &str) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => {
            format!("{} {conjunction} {last}", others.join(", "))
        }
        names => names.concat(),
    }
}

/// An error of the program without what it says about removed ways to query. Its first line can
/// still quote the agent.
pub(crate) fn without_removed(removed: RemovedWays, error: &str) -> String {
    if !removed.are_named_in(error) {
        return error.to_owned();
    }
    let mut error = error.to_owned();
    for (both, jq, sql) in LANGUAGES {
        if removed.sql {
            error = error.replace(both, jq);
        } else if removed.jq {
            error = error.replace(both, sql);
        }
    }
    if removed.recipes {
        error = error.replace(RECIPE_AND_OTHERS, "");
    }
    let Some((message, hint)) = error.split_once(HINT) else { return error };
    match remaining_hint(removed, hint) {
        hint if hint.is_empty() => message.to_owned(),
        hint => format!("{message}{HINT}{hint}"),
    }
}

/// The advice of a hint that does not name a removed way, with the corrected call.
fn remaining_hint(removed: RemovedWays, hint: &str) -> String {
    let (advice, call) = match hint.split_once(CALL) {
        Some((advice, call)) => (advice, Some(call)),
        None => (hint, None),
    };
    let parts = advice.split(OR).filter(|part| !removed.are_named_in(part));
    let mut rest = parts.collect::<Vec<_>>().join(OR);
    if advice.ends_with('.') && !rest.is_empty() && !rest.ends_with('.') {
        rest.push('.');
    }
    if let Some(call) = call.filter(|call| !removed.are_named_in(call)) {
        rest.push_str(CALL);
        rest.push_str(call);
    }
    rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RECIPES: RemovedWays = RemovedWays { recipes: true, jq: false, sql: false };
    const JQ: RemovedWays = RemovedWays { recipes: false, jq: true, sql: false };
    const SQL: RemovedWays = RemovedWays { recipes: false, jq: false, sql: true };

    #[test]
    fn a_call_without_a_way_to_query_learns_the_remaining_ones() {
        let alone = |removed| refusal(removed, EXTRACT, &json!({"ref": "lro:1", "sql": null}));
        assert_eq!(alone(RemovedWays::default()), None, "the program says it");
        assert_eq!(
            alone(RECIPES).unwrap(),
            "Error (arguments): missing query or sql\nHint: Set one of query (jq) or sql."
        );
        assert_eq!(
            alone(JQ).unwrap(),
            "Error (arguments): missing recipe or sql\nHint: Set one of recipe (1-10) or sql."
        );
        let only_sql = RemovedWays { recipes: true, ..JQ };
        assert_eq!(alone(only_sql).unwrap(), "Error (arguments): missing sql\nHint: Set sql.");
        let both = json!({"ref": "lro:1", "query": ".", "sql": "SELECT 1"});
        assert_eq!(
            refusal(RECIPES, EXTRACT, &both).unwrap(),
            "Error (arguments): query and sql are mutually exclusive\nHint: Set only one of them."
        );
        assert_eq!(refusal(RECIPES, EXTRACT, &json!({"ref": "lro:1", "query": "."})), None);
        assert_eq!(refusal(RECIPES, "read_large_output", &json!({"ref": "lro:1"})), None);
    }

    #[test]
    fn jq_alone_runs_no_statements() {
        let refused = |query: &str| {
            let arguments = json!({"ref": "lro:1", "query": query});
            let refusal = refusal(SQL, "query_large_output", &arguments);
            assert!(refusal.as_ref().is_none_or(|text| !SQL.are_named_in(text)), "{refusal:?}");
            refusal.is_some()
        };
        for statement in [
            "SELECT count(*) FROM results",
            "select id from results",
            "```sql\nSELECT 1\n```",
            "WITH a AS (SELECT 1) SELECT * FROM a",
        ] {
            assert!(refused(statement), "{statement}");
        }
        for filter in ["select(.a > 1)", "select (.a > 1)", ".title", "with_entries(.value)"] {
            assert!(!refused(filter), "{filter}");
        }
        let arguments = json!({"ref": "lro:1", "query": "SELECT 1"});
        assert_eq!(refusal(RECIPES, EXTRACT, &arguments), None, "SQL is allowed");
    }

    #[test]
    fn errors_do_not_name_what_was_removed() {
        let error = |hint: &str| format!("Error (syntax): not supported\nHint: {hint}");
        let rest = |removed: RemovedWays, hint: &str| {
            let rest = without_removed(removed, &error(hint));
            assert!(!removed.are_named_in(&rest), "{rest}");
            let hint = rest.split_once(HINT).map(|(_, hint)| hint.to_owned());
            hint.unwrap_or_default()
        };
        let last = "For the last answers, use ORDER BY n DESC LIMIT 5 in sql, or \
                    query=\".[-5:][]\" with whole=true.";
        assert_eq!(rest(SQL, last), "query=\".[-5:][]\" with whole=true.");
        assert_eq!(rest(JQ, last), "For the last answers, use ORDER BY n DESC LIMIT 5 in sql.");
        let look_around = "match the surroundings too, or select the records by a jq or SQL filter \
                           with two conditions. Call again with lro_extract(ref=\"lro:1\", \
                           sql=\"SELECT 1\")";
        assert_eq!(
            rest(SQL, look_around),
            "match the surroundings too, or select the records by a jq filter with two conditions."
        );
        assert!(rest(JQ, look_around).ends_with("sql=\"SELECT 1\")"));
        assert_eq!(
            rest(RECIPES, "Use a numbered recipe, a search or a read: they need no worker."),
            "Use a search or a read: they need no worker."
        );
        assert_eq!(
            rest(JQ, "Use functions of jq or SQLite that only compute."),
            "Use functions of SQLite that only compute."
        );
        assert_eq!(rest(RECIPES, "recipes are numbered from 1 to 10"), "", "no hint remains");
        let other = error("Run one statement at a time.");
        assert_eq!(without_removed(JQ, &other), other);
        let text = "the text has 9 bytes; jq and SQL read up to 5";
        assert_eq!(without_removed(SQL, text), "the text has 9 bytes; jq reads up to 5");
    }
}
