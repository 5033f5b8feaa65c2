//! `cargo xtask conformance`: which clauses of the specification are shown, and by which tests.

mod clauses;
mod evidence;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
pub(crate) use clauses::ClauseTable;

pub(crate) use self::clauses::reference;
use crate::args::ConformanceArgs;
use crate::markdown::Document;
use crate::repository::Repository;
use crate::{output, test_list};

/// The numbered requirements, checked when they lie beside the checkout.
const REQUIREMENTS: &str = "../shared/conformance.md";

/// Checks the clause table, and prints it when a finished run is given.
pub(crate) fn run(repository: &Repository, args: &ConformanceArgs) -> Result<bool> {
    let table = ClauseTable::load(repository)?;
    let known = test_list::load(repository, &args.tests)?;
    let mut runs =
        args.junit.iter().map(|file| evidence::load(file)).collect::<Result<Vec<_>>>()?;
    let run =
        runs.pop().map(|last| runs.into_iter().flatten().chain(last).collect::<evidence::Run>());

    let mut findings = table.findings();
    findings.extend(missing_or_extra(repository, &table)?);
    findings.extend(evidence::findings(&table, &known, run.as_ref()));
    if let Some(run) = &run {
        for row in clauses::of_run(&table, run) {
            output::line(row);
        }
    }
    output::line(clauses::summary(&table));
    Ok(output::verdict("conformance", &findings))
}

/// Compares the clause ids with those of the requirements.
fn missing_or_extra(repository: &Repository, table: &ClauseTable) -> Result<Vec<String>> {
    let file = repository.path(REQUIREMENTS);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let required = required_ids(&text);
    let listed: BTreeSet<&str> = table.iter().map(|clause| clause.id.as_str()).collect();
    let missing = required.difference(&listed).map(|id| format!("{id}: not in the clause table"));
    let extra = listed.difference(&required).map(|id| format!("{id}: no such requirement"));
    Ok(missing.chain(extra).collect())
}

fn required_ids(text: &str) -> BTreeSet<&str> {
    Document::parse(text)
        .table_rows
        .iter()
        .map(|(_, cells)| cells[0])
        .filter(|id| clauses::is_id(id))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_from_the_first_column() {
        let text = "| id | clause |\n|---|---|\n| T4 | more |\n| R10 | native |\n| Tx | no |\n";
        assert_eq!(required_ids(text), BTreeSet::from(["R10", "T4"]));
    }
}
