//! Checks of the host: the system clock, and the sandboxed process that runs queries.

use std::fs;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use lro::IdSeed;
use lro_query::worker::{Program, Workers, landlock_available};
use lro_query::{Bytes, Cancel, Limits, QueryRequest, Source, jq, sql};

use super::report::{Finding, Group, config_fix, quote_path};
use super::storage::NewestResult;
use crate::error::with_causes;
use crate::settings::Settings;

/// The year of the first release. An earlier system time is wrong.
const FIRST_RELEASE: &str = "2026-01-01T00:00:00Z";
/// The tolerated difference between the clocks of two machines.
const MAX_CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

/// Checks the clock, which expiry depends on, against the newest stored result and install journal.
pub(super) fn check_clock(settings: &Settings, newest: NewestResult) -> Group {
    let mut group = Group::new("clock");
    let now = IdSeed::from_system().now;
    let state = settings.surroundings().state_dir.as_ref();
    let journals = state.map(|dir| dir.join("atlatl/installs"));
    let journal = journals.as_deref().and_then(newest_in);
    let mut findings = check_time(now, newest, "rm");
    // `atlatl uninstall` needs the journal, so it is touched rather than removed.
    findings.append(&mut check_future(now, journal, "touch"));
    group.record("clock", findings, "no file is from the future");
    group.summary(now.format("%Y-%m-%d %H:%M UTC"));
    group
}

/// The most recently modified file of a directory.
fn newest_in(dir: &Path) -> NewestResult {
    let files = fs::read_dir(dir).ok()?.flatten();
    let modified = |entry: fs::DirEntry| {
        let time = entry.metadata().ok()?.modified().ok()?;
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        let time = DateTime::from_timestamp(i64::try_from(since.as_secs()).ok()?, 0)?;
        Some((time, entry.path()))
    };
    files.filter_map(modified).max_by_key(|(time, _)| *time)
}

fn check_time(now: DateTime<Utc>, newest: NewestResult, command: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let time = now.format("%Y-%m-%d %H:%M UTC");
    if FIRST_RELEASE.parse::<DateTime<Utc>>().is_ok_and(|released| now < released) {
        findings.push(Finding::fault(
            "clock",
            "the system's clock",
            format!("it says {time}, which is before this program was built"),
            SET_CLOCK,
        ));
    }
    findings.append(&mut check_future(now, newest, command));
    findings
}

/// Warns about a file with a time in the future; `command` deals with it if the clock is right.
fn check_future(now: DateTime<Utc>, newest: NewestResult, command: &str) -> Vec<Finding> {
    let Some((time, path)) = newest.filter(|(time, _)| *time > now + MAX_CLOCK_SKEW) else {
        return Vec::new();
    };
    let format = "%Y-%m-%d %H:%M UTC";
    let (time, now) = (time.format(format), now.format(format));
    vec![Finding::warning(
        "clock",
        path.display(),
        format!("it was created at {time}, and the clock says {now}: one of them is wrong"),
        format!("{SET_CLOCK}; if the clock is right now: {command} {}", quote_path(&path)),
    )]
}

/// Enables time synchronization.
const SET_CLOCK: &str = if cfg!(target_os = "macos") {
    "sudo systemsetup -setusingnetworktime on"
} else {
    "sudo timedatectl set-ntp true"
};

/// Runs one jq filter and one SQL statement in the sandboxed worker process.
pub(super) fn check_queries(settings: &Settings) -> Group {
    let mut group = Group::new("queries");
    let Some(program) = Program::itself() else {
        let fix = "reinstall atlatl";
        group.record(
            "query",
            [Finding::fault("query", "atlatl", "the query worker does not start", fix)],
            "",
        );
        return group;
    };
    let (workers, limits) = (Workers::new(program, 1), Limits::from_config(&settings.config.query));
    let records = Bytes(b"{\"n\":41}\n");
    let source = Source::lines(&records, 0);
    let (filter, statement) =
        (jq::JqQuery::each(".n + 1"), sql::SqlQuery::new("SELECT n + 1 FROM results"));
    for (name, ask) in
        [("jq", QueryRequest::jq(&filter, source)), ("SQL", QueryRequest::sql(&statement, source))]
    {
        let answer = workers.run(&ask, &limits, &Cancel::default());
        let failure = match answer {
            Ok(answer) if answer.text().contains("42") => None,
            Ok(answer) => Some(format!("the result of 41 + 1 is {}", answer.text().trim())),
            Err(error) => Some(with_causes(&error)),
        };
        let finding = failure.map(|why| query_finding(settings, name, &why));
        group.record("query", finding, format!("{name} answers"));
    }
    // Landlock exists on Linux only.
    if cfg!(target_os = "linux") {
        let available = landlock_available();
        group.record(
            "query-files",
            landlock_finding(available),
            "the kernel denies them access to files",
        );
    }
    group.summary(match group.level() {
        None if cfg!(target_os = "linux") => {
            "jq and SQL work, in a process without access to files"
        }
        None => "jq and SQL work",
        Some(_) if group.findings.iter().all(|finding| finding.check == "query-files") => {
            "jq and SQL work"
        }
        Some(_) => "",
    });
    group
}

fn query_finding(settings: &Settings, engine: &str, why: &str) -> Finding {
    let defaults = lro_core::config::QueryConfig::default();
    let query = &settings.config.query;
    let fix = if query.wall_ms < defaults.wall_ms {
        config_fix(settings, "query.wall_ms", defaults.wall_ms)
    } else if query.memory_bytes != defaults.memory_bytes {
        config_fix(settings, "query.memory_bytes", defaults.memory_bytes)
    } else if query.output_bytes < defaults.output_bytes {
        config_fix(settings, "query.output_bytes", defaults.output_bytes)
    } else {
        "ulimit -a, and raise low limits: a query runs in a separate process".to_owned()
    };
    let message = format!("a trivial query fails: {why}");
    Finding::fault("query", engine, message, fix)
}

/// Warns if the kernel does not support Landlock.
fn landlock_finding(available: bool) -> Option<Finding> {
    (!available).then(|| {
        Finding::warning(
            "query-files",
            "the kernel",
            "it has no Landlock, the second sandbox around queries; all other limits apply",
            "Linux 5.13 or later with landlock among its security modules (lsm=landlock,…)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_from_before_the_program_is_a_fault_and_the_future_a_warning() {
        let at = |time: &str| time.parse::<DateTime<Utc>>().unwrap();
        let subjects = |now: &str, newest: &str| {
            let findings = check_time(at(now), Some((at(newest), "/x".into())), "rm");
            findings.iter().map(|finding| finding.about.clone()).collect::<Vec<_>>()
        };
        assert!(subjects("2026-11-15T12:00:00Z", "2026-11-15T12:04:59Z").is_empty());
        assert_eq!(subjects("2026-11-15T12:00:00Z", "2026-11-15T12:05:01Z"), ["/x"]);
        assert_eq!(
            subjects("1970-01-01T00:00:10Z", "1970-01-01T00:00:00Z"),
            ["the system's clock"]
        );
    }

    #[test]
    fn a_kernel_without_landlock_is_a_warning() {
        assert_eq!(landlock_finding(true), None);
        assert_eq!(landlock_finding(false).unwrap().check, "query-files");
    }
}
