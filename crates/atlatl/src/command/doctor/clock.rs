//! Clock: whether it is about right, which times to live depend on.

use std::{fs, path::Path};

use chrono::{DateTime, TimeDelta, Utc};
use lro::Moment;

use super::{
    finding::{Finding, Group},
    fix::word,
    storage::Newest,
};
use crate::settings::Settings;

/// The year of this program's first release: no clock that is right says less.
const RELEASED: &str = "2026-01-01T00:00:00Z";
/// Clocks of two machines may differ so much.
const TOLERANCE: TimeDelta = TimeDelta::minutes(5);

/// Compares it with what was written down before.
pub(super) fn check(settings: &Settings, newest: Newest) -> Group {
    let mut group = Group::new("clock");
    let now = Moment::of_system().now;
    let state = settings.surroundings().state_dir.as_ref();
    let journals = state.map(|dir| dir.join("atlatl/installs"));
    let journal = journals.as_deref().and_then(newest_in);
    let mut found = judge(now, newest, "rm");
    // A journal is needed by `atlatl uninstall`, whatever its time.
    found.append(&mut future(now, journal, "touch"));
    group.checked("clock", found, "nothing is of the future");
    group.summary(now.format("%Y-%m-%d %H:%M UTC"));
    group
}

/// The file in a directory that was written last.
fn newest_in(dir: &Path) -> Newest {
    let files = fs::read_dir(dir).ok()?.flatten();
    let written = |entry: fs::DirEntry| {
        let time = entry.metadata().ok()?.modified().ok()?;
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        let time = DateTime::from_timestamp(i64::try_from(since.as_secs()).ok()?, 0)?;
        Some((time, entry.path()))
    };
    files.filter_map(written).max_by_key(|(time, _)| *time)
}

fn judge(now: DateTime<Utc>, made: Newest, mend: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let says = now.format("%Y-%m-%d %H:%M UTC");
    if RELEASED.parse::<DateTime<Utc>>().is_ok_and(|released| now < released) {
        found.push(Finding::fault(
            "clock",
            "the system's clock",
            format!("it says {says}, when this program did not exist"),
            SET_CLOCK,
        ));
    }
    found.append(&mut future(now, made, mend));
    found
}

/// A file that was made after now, and what to do with it where the clock is right.
fn future(now: DateTime<Utc>, made: Newest, mend: &str) -> Vec<Finding> {
    let Some((time, path)) = made.filter(|(time, _)| *time > now + TOLERANCE) else {
        return Vec::new();
    };
    let format = "%Y-%m-%d %H:%M UTC";
    let (time, now) = (time.format(format), now.format(format));
    vec![Finding::warning(
        "clock",
        path.display(),
        format!("it was made at {time}, and the clock says {now}: one of them is wrong"),
        format!("{SET_CLOCK}; if the clock is right now: {mend} {}", word(&path)),
    )]
}

/// How the clock is set by the network.
const SET_CLOCK: &str = if cfg!(target_os = "macos") {
    "sudo systemsetup -setusingnetworktime on"
} else {
    "sudo timedatectl set-ntp true"
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_from_before_the_program_is_a_fault_and_the_future_a_warning() {
        let at = |time: &str| time.parse::<DateTime<Utc>>().unwrap();
        let judged = |now: &str, made: &str| {
            let found = judge(at(now), Some((at(made), "/x".into())), "rm");
            found.iter().map(|finding| finding.about.clone()).collect::<Vec<_>>()
        };
        assert!(judged("2026-11-15T12:00:00Z", "2026-11-15T12:04:59Z").is_empty());
        assert_eq!(judged("2026-11-15T12:00:00Z", "2026-11-15T12:05:01Z"), ["/x"]);
        assert_eq!(judged("1970-01-01T00:00:10Z", "1970-01-01T00:00:00Z"), ["the system's clock"]);
    }
}
