//! Installs: whether `atlatl uninstall` would give every file back.

use std::{fs, path::PathBuf};

use atlatl_lro::clients::{Kind, Wish, entries, repair, uninstall};

use super::{
    finding::{Finding, Group},
    fix::word,
};
use crate::{
    command::install::discover::find,
    install_journal::{Install, Installs},
    settings::Settings,
};

/// Looks at everything that was written down.
pub(super) fn check(settings: &Settings, group: &mut Group) {
    let Ok(installs) = Installs::open(settings) else { return };
    let files = find(settings, &[]).unwrap_or_default();
    let files: Vec<PathBuf> = files.into_iter().map(|found| found.file).collect();
    let leftovers = installs.leftovers(&files);
    group.checked(
        "install-leftovers",
        leftovers.iter().map(|path| {
            Finding::warning(
                "install-leftovers",
                path.display(),
                "an interrupted `atlatl install` or `uninstall` left this temporary file",
                format!("rm {}", word(path)),
            )
        }),
        "no interrupted run left temporary files",
    );
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
            group.checked("install-journal", found, "`atlatl uninstall` restores every file");
            let sse: Vec<Finding> = all.iter().flat_map(legacy_transport).collect();
            group.checked("server-transport", sse, "no server behind the proxy speaks HTTP+SSE");
        }
    }
}

/// Servers that an earlier version put behind the proxy although it does not speak their transport.
fn legacy_transport(install: &Install) -> Vec<Finding> {
    let text = fs::read_to_string(&install.file).ok();
    let repaired = text.zip(install.place()).and_then(|(text, place)| {
        repair(&text, &place, &Wish::new("atlatl"), &install.journal).ok()
    });
    let names = repaired.map(|repaired| repaired.restored).unwrap_or_default();
    let finding = |name: String| {
        Finding::fault(
            "server-transport",
            format!("{name} in {}", install.file.display()),
            "it speaks the legacy HTTP+SSE transport, which the proxy does not support",
            format!("atlatl install --client {} (restores the entry)", install.client),
        )
    };
    names.into_iter().map(finding).collect()
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
