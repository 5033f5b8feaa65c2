//! Queries: whether a filter and a statement are answered, in the bounded process that they run in.

use lro_query::{
    Ask, Bytes, Cancel, Limits, Source, jq, sql,
    worker::{Program, Workers, files_can_be_closed},
};

use super::{
    finding::{Finding, Group},
    fix,
};
use crate::{error::with_causes, settings::Settings};

/// Asks one of each.
pub(super) fn check(settings: &Settings) -> Group {
    let mut group = Group::new("queries");
    let Some(program) = Program::itself() else {
        let fix = "reinstall atlatl";
        group.checked(
            "query",
            [Finding::fault("query", "atlatl", "it cannot start itself", fix)],
            "",
        );
        return group;
    };
    let (workers, limits) = (Workers::new(program, 1), Limits::from_config(&settings.config.query));
    let records = Bytes(b"{\"n\":41}\n");
    let source = Source::lines(&records, 0);
    let (filter, statement) =
        (jq::Query::each(".n + 1"), sql::Query::new("SELECT n + 1 FROM results"));
    for (name, ask) in [("jq", Ask::jq(&filter, source)), ("SQL", Ask::sql(&statement, source))] {
        let answer = workers.run(&ask, &limits, &Cancel::default());
        let trouble = match answer {
            Ok(answer) if answer.text().contains("42") => None,
            Ok(answer) => Some(format!("41 + 1 is said to be {}", answer.text().trim())),
            Err(error) => Some(with_causes(&error)),
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

fn failed(settings: &Settings, engine: &str, why: &str) -> Finding {
    let defaults = lro_core::config::QueryConfig::default();
    let query = &settings.config.query;
    let fix = if query.wall_ms < defaults.wall_ms {
        fix::set(settings, "query.wall_ms", defaults.wall_ms)
    } else if query.memory_bytes != defaults.memory_bytes {
        fix::set(settings, "query.memory_bytes", defaults.memory_bytes)
    } else if query.output_bytes < defaults.output_bytes {
        fix::set(settings, "query.output_bytes", defaults.output_bytes)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_landlock_is_a_warning() {
        assert_eq!(open(true), None);
        assert_eq!(open(false).unwrap().check, "query-files");
    }
}
