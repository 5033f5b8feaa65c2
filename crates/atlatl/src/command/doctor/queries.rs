//! Queries: whether a filter and a statement are answered, in the bounded process that they run in.

use lro_query::{
    Ask, Cancel, Limits, QueryError, Source, jq, sql,
    worker::{Program, Workers, files_can_be_closed},
};
use lro_spool::{PositionedRead, SpoolError};

use super::{
    finding::{Finding, Group},
    mend,
};
use crate::{error::with_causes, settings::Settings};

/// Asks one of each.
pub(super) fn check(settings: &Settings) -> Group {
    let mut group = Group::new("queries");
    let Some(program) = Program::itself() else {
        let fix = "install atlatl anew";
        group.checked(
            "query",
            [Finding::fault("query", "atlatl", "it cannot start itself", fix)],
            "",
        );
        return group;
    };
    let (workers, limits) = (Workers::new(program, 1), Limits::of(&settings.config.query));
    let records = Records(b"{\"n\":41}\n");
    let source = Source::lines(&records, 0);
    let (filter, statement) =
        (jq::Query::each(".n + 1"), sql::Query::new("SELECT n + 1 FROM results"));
    for (name, ask) in [("jq", Ask::jq(&filter, source)), ("SQL", Ask::sql(&statement, source))] {
        let answer = workers.run(&ask, &limits, &Cancel::default());
        let trouble = match answer {
            Ok(answer) if answer.text().contains("42") => None,
            Ok(answer) => Some(format!("41 + 1 is said to be {}", answer.text().trim())),
            Err(error) => Some(said(&error)),
        };
        let finding = trouble.map(|why| failed(settings, name, &why));
        group.checked("query", finding, format!("{name} answers"));
    }
    // Elsewhere there is no such wall to have.
    if cfg!(target_os = "linux") {
        let closed = files_can_be_closed();
        group.checked("query-files", open(closed), "the system keeps files from them");
    }
    group.summary(match group.level() {
        None if cfg!(target_os = "linux") => {
            "jq and SQL answer, in a process that can open no file"
        }
        None => "jq and SQL answer",
        Some(_) if group.findings.iter().all(|finding| finding.check == "query-files") => {
            "jq and SQL answer"
        }
        Some(_) => "",
    });
    group
}

fn said(error: &QueryError) -> String {
    with_causes(error)
}

fn failed(settings: &Settings, engine: &str, why: &str) -> Finding {
    let defaults = lro_core::config::QueryConfig::default();
    let query = &settings.config.query;
    let fix = if query.wall_ms < defaults.wall_ms {
        mend::set(settings, "query.wall_ms", defaults.wall_ms)
    } else if query.memory_bytes != defaults.memory_bytes {
        mend::set(settings, "query.memory_bytes", defaults.memory_bytes)
    } else if query.output_bytes < defaults.output_bytes {
        mend::set(settings, "query.output_bytes", defaults.output_bytes)
    } else {
        "ulimit -a, and raise what is low: a query runs in a process of its own".to_owned()
    };
    let says = format!("a question that takes a moment is not answered: {why}");
    Finding::fault("query", engine, says, fix)
}

/// What the kernel does not have.
fn open(closed: bool) -> Option<Finding> {
    (!closed).then(|| {
        Finding::warning(
            "query-files",
            "the kernel",
            "it has no Landlock, the second wall around queries; all other bounds hold",
            "Linux 5.13 or later with landlock among its security modules (lsm=landlock,…)",
        )
    })
}

/// Records in memory.
struct Records(&'static [u8]);

impl PositionedRead for Records {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let read = buf.len().min(self.0.len() - from);
        buf[..read].copy_from_slice(&self.0[from..from + read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_landlock_is_a_warning() {
        assert_eq!(open(true), None);
        assert_eq!(open(false).unwrap().check, "query-files");
    }
}
