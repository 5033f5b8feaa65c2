//! `atlatl results pin`: keeps results longer than their time to live.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lro::IdSeed;

use super::entry::ResultEntry;
use super::{ResultsSelector, with_missing_hint};
use crate::error::{Error, Status};
use crate::output::{Mode, Output, expiry};
use crate::settings::Settings;
use crate::spool_config::Stores;
use crate::units::parse_days;

/// As long as a result can be stored.
const FOREVER: Duration = Duration::from_hours(100 * 365 * 24);

/// Arguments of `atlatl results pin`.
#[derive(Debug, clap::Args)]
pub(crate) struct PinArgs {
    #[command(flatten)]
    selector: ResultsSelector,
    /// Keep them for this time, such as 12h or 30d, instead of
    /// until you remove them; a bare number counts days
    #[arg(long = "for", value_name = "TIME", value_parser = parse_days, verbatim_doc_comment)]
    time: Option<Duration>,
}

/// Lets the results expire later.
pub(super) fn run(
    args: &PinArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let now = IdSeed::from_system().now;
    let stores = Stores::from_settings(settings, args.selector.scope.as_deref())?;
    let until = end(now, args.time.unwrap_or(FOREVER));
    let mut kept = Vec::new();
    for (address, _) in args.selector.find(&stores, now)? {
        let info = stores
            .find(&address, args.selector.reach(), |store| store.keep_until(&address, until, now))
            .map_err(with_missing_hint)?;
        kept.push(ResultEntry::from_listed(&info, now));
    }
    match output.mode() {
        Mode::Json => output.json(&kept)?,
        Mode::Human => {
            for entry in &kept {
                let expires = expiry(entry.expires_at, now);
                output.line(format_args!("{}: expires {expires}", entry.reference))?;
            }
        }
    }
    Ok(Status::Success)
}

fn end(now: DateTime<Utc>, time: Duration) -> DateTime<Utc> {
    let time = TimeDelta::from_std(time.min(FOREVER)).unwrap_or(TimeDelta::MAX);
    now.checked_add_signed(time).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_is_a_hundred_years() {
        let now = DateTime::UNIX_EPOCH;
        assert_eq!(end(now, Duration::MAX), end(now, FOREVER));
        assert_eq!(end(DateTime::<Utc>::MAX_UTC, FOREVER), DateTime::<Utc>::MAX_UTC);
        assert_eq!(expiry(end(now, FOREVER), now), "never");
    }
}
