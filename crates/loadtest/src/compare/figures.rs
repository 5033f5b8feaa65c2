//! The times in the output of a benchmark, whatever its structure, by a name made of its labels.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Members that name the object they are in.
const LABELS: [&str; 5] = ["payload", "run", "question", "engine", "way"];
/// Members that repeat the distribution of a time that is counted once, and goals.
const SKIPPED: [&str; 9] = [
    "quartiles",
    "extremes",
    "most",
    "p90",
    "p99",
    "goals",
    "goal_added_milliseconds",
    "statement_wall_seconds",
    "streamed",
];
/// Engines and steps that are not ours; their times say how alike the rounds were.
const PEERS: [&str; 5] = ["bare", "rusqlite", "direct", "bare_scan", "bare_write_and_sync"];

/// The times of `results`; of several measurements of one figure, the best.
pub(super) fn times(results: &Value) -> BTreeMap<String, f64> {
    let mut times = BTreeMap::new();
    collect(results, &mut Vec::new(), false, &mut times);
    times
}

fn collect(
    value: &Value,
    path: &mut Vec<String>,
    is_time: bool,
    times: &mut BTreeMap<String, f64>,
) {
    match value {
        Value::Object(members) => {
            let labels = labels(members);
            let depth = path.len();
            path.extend(labels);
            for (key, member) in members {
                if SKIPPED.contains(&&**key) || LABELS.contains(&&**key) {
                    continue;
                }
                let time = is_time || is_time_name(key);
                path.push(key.clone());
                collect(member, path, time, times);
                path.pop();
            }
            path.truncate(depth);
        }
        Value::Array(items) if is_time && items.iter().all(Value::is_number) => {
            let best = items.iter().filter_map(Value::as_f64).fold(f64::INFINITY, f64::min);
            add(path, best, times);
        }
        Value::Array(items) => {
            for item in items {
                collect(item, path, is_time, times);
            }
        }
        Value::Number(number) if is_time => {
            add(path, number.as_f64().unwrap_or(f64::INFINITY), times);
        }
        _ => {}
    }
}

fn labels(members: &Map<String, Value>) -> Vec<String> {
    let labels = LABELS.iter().filter_map(|label| members.get(*label)?.as_str());
    labels.map(str::to_owned).collect()
}

/// `megabytes_per_second` is a speed, `processor_seconds` is counted in hundredths.
fn is_time_name(key: &str) -> bool {
    (key.ends_with("seconds") && !key.starts_with("processor")) || key.starts_with("milliseconds")
}

fn add(path: &[String], time: f64, times: &mut BTreeMap<String, f64>) {
    let is_peer = |name: &String| PEERS.iter().any(|peer| name.starts_with(peer));
    if time.is_finite() && time > 0.0 && !path.iter().any(is_peer) {
        times.insert(path.join(", "), time);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::times;

    #[test]
    fn times_are_named_by_their_labels_and_peers_are_left_out() {
        let results = json!({
            "scan": [{"payload": "rows", "bytes": 7, "best_of_rounds": [
                {"run": "bare scan", "seconds": 1.0},
                {"run": "find", "seconds": 2.0, "megabytes_per_second": 3.0},
            ]}],
            "recipes": [{"question": "1", "engines": [
                {"engine": "sql", "wall_seconds": [3.0, 2.5], "processor_seconds": [9.0]},
                {"engine": "rusqlite", "wall_seconds": [1.0]},
            ]}],
            "small": {"ways": [{"way": "ours", "milliseconds": {"p50": 0.5, "p99": 4.0}}]},
        });
        let named: Vec<(String, f64)> = times(&results).into_iter().collect();
        assert_eq!(
            named,
            [
                ("recipes, 1, engines, sql, wall_seconds".to_owned(), 2.5),
                ("scan, rows, best_of_rounds, find, seconds".to_owned(), 2.0),
                ("small, ways, ours, milliseconds, p50".to_owned(), 0.5),
            ]
        );
    }
}
