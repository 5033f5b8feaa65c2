//! Storage: the two directories of results, and the ledger.

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use super::{
    directory::{There, output, planted, private},
    finding::{Finding, Group},
    ledger,
    spool::{Lying, room},
};
use crate::{
    output::{counted, size},
    settings::Settings,
    spool_config::Stores,
};

/// The newest result of all: when it was made, and where it lies.
pub(super) type Newest = Option<(DateTime<Utc>, PathBuf)>;

/// Looks at them.
pub(super) fn check(settings: &Settings) -> (Group, Newest) {
    let mut group = Group::new("storage");
    let stores = match Stores::from_settings(settings, None) {
        Ok(stores) => stores,
        Err(error) => {
            let why = error.reports().first().map(|report| report.message.clone());
            let why = why.unwrap_or_default();
            let fix = "name directories that are there: prompt.offload.output_dir, proxy.dir";
            group.checked(
                "output-dir",
                [Finding::fault("output-dir", "configuration", why, fix)],
                "",
            );
            return (group, None);
        }
    };
    let uid = settings.surroundings().uid;
    let by = settings.config.spool.readable_by;
    let (memory_dir, private_dir) = stores.directories();
    let there = There::look(memory_dir, true);
    group.checked(
        "output-dir",
        output(memory_dir, &there),
        format!("{} can be used", memory_dir.display()),
    );
    let there = There::look(private_dir, false);
    let ok = match there {
        There::Nothing => format!("{} can be made", private_dir.display()),
        _ => format!("{} is yours alone", private_dir.display()),
    };
    let created = there == There::Nothing && stores.creates_parents();
    let faults = private(private_dir, &there, uid, by).filter(|_| !created);
    group.checked("results-dir", faults, ok);
    if let Some(dir) = stores.alternate_directory() {
        let planted = planted(dir, &There::look(dir, false), uid, by);
        group.checked(
            "results-dir",
            planted,
            format!("nothing is in the way at {}", dir.display()),
        );
    }

    let (memory, other) = (Lying::inspect(memory_dir, false), Lying::inspect(private_dir, true));
    // In the directory for memory operations, which may be everyone's, others have files as well.
    group.checked("stored-owner", other.foreign(private_dir, uid), "every stored file is yours");
    let open = [memory.open(memory_dir, uid, by), other.open(private_dir, uid, by)];
    group.checked("stored-rights", open.into_iter().flatten(), "only you can read them");
    let used = [memory.usage(uid), other.usage(uid)];
    let mut full = room(settings, memory_dir, used[0], memory.free);
    // One device is short of space once.
    let free = other.free.filter(|_| memory.device != other.device);
    full.append(&mut room(settings, private_dir, used[1], free));
    let (results, bytes) = (used[0].0 + used[1].0, used[0].1 + used[1].1);
    let most = settings.config.spool.max_bytes;
    let usage =
        format!("{}, {} of {}", counted(results, "result", "results"), size(bytes), size(most));
    group.checked("quota", full, &usage);
    let ledger = ledger::check(settings);
    group.checked("ledger", ledger, "it can be written to");
    let free = other.free.or(memory.free).map(|free| format!("; {} free", size(free)));
    group.summary(format!("{usage}{}", free.unwrap_or_default()));
    let newest = [memory.newest(uid), other.newest(uid)];
    (group, newest.into_iter().flatten().max_by_key(|(made, _)| *made))
}
