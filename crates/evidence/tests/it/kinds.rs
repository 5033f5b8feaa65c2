//! Results that are not memories, through the proxy.

use evidence::agents::scripted::Script;
use evidence::task::{CorpusKind, Family};

use crate::fixture::{Plan, require_sandbox};

const FAMILIES: [Family; 4] =
    [Family::IdLookup, Family::AggregateFilter, Family::GroupArgmax, Family::NeedleRead];
const TASKS: usize = 3;
/// Each kind with the sizes of the gate.
const KINDS: [(CorpusKind, &[usize]); 3] =
    [(CorpusKind::Issues, &[50, 200]), (CorpusKind::Log, &[2000]), (CorpusKind::Map, &[200])];

fn run(conditions: &[&str], script: Script) {
    for (kind, sizes) in KINDS {
        let mut plan = Plan::new(conditions, &FAMILIES, TASKS);
        (plan.kind, plan.sizes) = (kind, sizes);
        let run = plan.run(script);
        run.assert_all_right(conditions.len() * FAMILIES.len() * TASKS * sizes.len());
    }
}

#[test]
fn native_tools_answer_about_issues_logs_and_maps() {
    run(&["s2-c1", "s2-c4"], Script::OracleNativeSql);
    run(&["s2-c1"], Script::OracleNativeJq);
}

#[test]
fn a_shell_answers_about_issues_logs_and_maps() {
    require_sandbox();
    run(&["s1-c1", "s8"], Script::OracleShell);
}

#[test]
fn pages_and_files_answer_about_issues_logs_and_maps() {
    run(&["s3-80", "s5", "s7"], Script::Pager);
}
