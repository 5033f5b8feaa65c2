//! The way of LOCA-bench through the proxy, with a server of our own in place of its servers.

use std::collections::BTreeMap;

use evidence::loca::{Environment, EnvironmentCall, measure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::program;

fn environment(tools: &[&str], sql: &str, answer: Vec<Vec<Value>>) -> Environment {
    let server = testkit::tool::built_program("questions-server", "testkit");
    let call = |tool: &&str| EnvironmentCall { tool: (*tool).to_owned(), arguments: json!({}) };
    Environment {
        server: vec![server.to_str().unwrap().to_owned()],
        variables: BTreeMap::new(),
        calls: tools.iter().map(call).collect(),
        sql: sql.to_owned(),
        answer,
    }
}

#[test]
fn an_answer_longer_than_a_reply_is_read_to_its_end() {
    let program = program();
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
               SELECT i FROM n";
    let answer = (1..=1000).map(|i| vec![json!(i)]).collect();
    let environment = environment(&["list_issues"], sql, answer);
    let directory = TempDir::new().unwrap();
    let measured = measure(&environment, &program, directory.path()).unwrap();
    assert!(measured.is_right && !measured.is_right_in_one_call(), "{measured:?}");
    assert!(measured.sql_calls > 1, "{measured:?}");
    assert!(measured.reply_tokens > 1600, "{measured:?}");
}

#[test]
fn one_statement_over_two_results_is_compared_with_the_answer() {
    let program = program();
    let sql = "SELECT number, (SELECT count(*) > 0 FROM r1) AS others FROM results \
               WHERE number = 3977";
    let answer = vec![vec![json!(3977), json!(1)]];
    let environment = environment(&["list_issues", "list_commits"], sql, answer);
    let directory = TempDir::new().unwrap();
    let measured = measure(&environment, &program, directory.path()).unwrap();
    assert!(measured.is_right_in_one_call(), "{measured:?}");
    assert_eq!(measured.calls, 2);
    assert!(measured.stored_tokens < measured.returned_tokens / 10, "{measured:?}");
    assert_eq!(measured.shown_tokens, measured.stored_tokens);
    let wrong = Environment { answer: vec![vec![json!(1), json!(1)]], ..environment };
    let directory = TempDir::new().unwrap();
    assert!(!measure(&wrong, &program, directory.path()).unwrap().is_right);
}
