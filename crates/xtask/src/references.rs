//! `cargo xtask references`: documents, and parts of documents, made from the program and its code.

mod program;
mod source_code;

use std::fs;

use anyhow::{Context, Result};

use crate::atlatl::{Atlatl, BinArgs};
use crate::conformance::{self, ClauseTable};
use crate::output;
use crate::repository::Repository;

const REFRESH: &str = "cargo xtask references";

/// What to do with the generated documents.
#[derive(Debug, clap::Args)]
pub(crate) struct ReferencesArgs {
    #[command(flatten)]
    bin: BinArgs,
    /// Write nothing; fail if a document is outdated
    #[arg(long)]
    check: bool,
}

/// A document with its path and the function that makes its text.
struct Reference {
    path: &'static str,
    generate: fn(&Repository, &Atlatl) -> Result<String>,
}

const REFERENCES: &[Reference] = &[
    Reference {
        path: "docs/reference/cli.md",
        generate: |_, atlatl| program::command_line(atlatl).map(|text| whole(&text)),
    },
    Reference {
        path: "docs/reference/configuration.md",
        generate: |_, atlatl| atlatl.stdout(&["config", "reference"]).map(|text| whole(&text)),
    },
    Reference { path: source_code::ENVIRONMENT_PAGE, generate: source_code::environment_reference },
    Reference {
        path: "docs/reference/tools.md",
        generate: |_, atlatl| program::tools(atlatl).map(|text| whole(&text)),
    },
    Reference {
        path: "docs/reference/events.md",
        generate: |repository, _| source_code::event_reference(repository).map(|text| whole(&text)),
    },
    Reference {
        path: source_code::ERRORS_PAGE,
        generate: |repository, _| source_code::error_reference(repository),
    },
    Reference {
        path: "docs/reference/conformance.md",
        generate: |repository, _| {
            Ok(whole(&conformance::reference(&ClauseTable::load(repository)?)))
        },
    },
];

/// Writes the documents, or with `--check` says which are stale.
pub(crate) fn run(repository: &Repository, args: &ReferencesArgs) -> Result<bool> {
    let atlatl = Atlatl::find(repository, &args.bin)?;
    let mut findings = Vec::new();
    for reference in REFERENCES {
        match reference.refresh(repository, &atlatl, args.check) {
            Ok(stale) => findings.extend(stale),
            Err(error) => findings.push(format!("{}: {error:#}", reference.path)),
        }
    }
    Ok(output::verdict("generated references", &findings))
}

/// The text of a document that is generated as a whole.
fn whole(body: &str) -> String {
    format!("<!-- Made by `{REFRESH}`. -->\n\n{}\n", body.trim())
}

impl Reference {
    fn refresh(
        &self,
        repository: &Repository,
        atlatl: &Atlatl,
        check: bool,
    ) -> Result<Option<String>> {
        let text = (self.generate)(repository, atlatl)?;
        let path = repository.path(self.path);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(None);
        }
        if check {
            return Ok(Some(format!("{}: stale; run `{REFRESH}`", self.path)));
        }
        fs::create_dir_all(path.parent().context("a reference is in a directory")?)?;
        fs::write(&path, text)?;
        output::line(format_args!("wrote {}", self.path));
        Ok(None)
    }
}
