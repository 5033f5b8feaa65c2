//! Installs: whether `atlatl uninstall` would give every file back.

use std::fs;

use atlatl_clients::{Kind, entries, launches, uninstall};

use super::{
    finding::{Finding, Group},
    mend::word,
    server::{Behind, Server, What},
};
use crate::{
    installs::{Install, Installs},
    settings::Settings,
};

/// Whether a server was put behind the proxy by this user, and is what it was then.
pub(super) fn agreed(settings: &Settings, server: &Server) -> bool {
    let install =
        Installs::open(settings).and_then(|installs| installs.of(&server.file, &server.place));
    let Ok(Some(install)) = install else { return false };
    let What::Proxy { behind: Behind::Program(words), .. } = &server.what else { return false };
    let place = &server.place;
    let before = entries(&install.original, place).unwrap_or_default();
    let same = before.iter().any(|entry| {
        entry.name == server.launch.name && entry.kind == Kind::Program(words.clone())
    });
    // A variable can make any program run another.
    let launches = launches(&install.original, place).unwrap_or_default();
    same && launches.contains(&server.launch)
}

/// Looks at everything that was written down.
pub(super) fn check(settings: &Settings, group: &mut Group) {
    let Ok(installs) = Installs::open(settings) else { return };
    match installs.all() {
        Err(error) => {
            let why = error.reports().first().map(|report| report.message.clone());
            let state = settings.surroundings().state_dir.clone().unwrap_or_default();
            let dir = state.join("atlatl/installs");
            let fix = format!("move that file out of {}", word(&dir));
            let says = "what `atlatl install` changed is not known any more";
            let about = why.unwrap_or_default();
            group.checked(
                "install-journal",
                [Finding::fault("install-journal", about, says, fix)],
                "",
            );
        }
        Ok(all) => {
            let found: Vec<Finding> =
                all.iter().filter_map(|install| judge(install, &installs)).collect();
            group.checked("install-journal", found, "`atlatl uninstall` gives every file back");
        }
    }
}

fn judge(install: &Install, installs: &Installs) -> Option<Finding> {
    let file = install.file.display();
    let Ok(text) = fs::read_to_string(&install.file) else {
        // One that is there and cannot be read was said already.
        return (!install.file.exists()).then(|| {
            Finding::warning(
                "install-journal",
                file,
                "`atlatl install` changed it, and it is gone since",
                format!("atlatl uninstall --client {} (forgets it)", install.client),
            )
        });
    };
    let place = install.place()?;
    // A file that does not parse was said already.
    let after = uninstall(&text, &place, &install.journal).ok()?;
    let journal = &install.journal;
    let names = journal.wrapped.iter().map(|one| &one.name);
    let names = names.chain(journal.replaced.iter().map(|one| &one.name));
    let names: Vec<&String> = names.chain(journal.added.iter().map(|one| &one.name)).collect();
    let left: Vec<String> = entries(&after, &place)
        .ok()?
        .into_iter()
        .filter(|entry| matches!(entry.kind, Kind::Ours(_)) && names.contains(&&entry.name))
        .map(|entry| entry.name)
        .collect();
    (!left.is_empty()).then(|| {
        Finding::warning(
            "install-journal",
            file,
            format!(
                "edited since `atlatl install`: `atlatl uninstall` would leave {} as is",
                left.join(", ")
            ),
            format!(
                "change it back by hand; as it was: jq -r .original {}",
                word(&installs.path(&install.file, install.project.as_deref()))
            ),
        )
    })
}
