//! Checks of client configuration files: their entries, and whether `atlatl uninstall` can restore
//! them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use atlatl_lro::clients::{EntryKind, InstallOptions, entries, repair, uninstall};

use super::client_entry::{
    ClientEntry, DEFAULT_PATH, EntryCommand, LaunchEnvironment, UpstreamSpec, atlatl_entries,
    expand_variables, find_program, search_path, working_dir,
};
use super::compatibility;
use super::report::{Finding, Group, quote_path};
use crate::command::install::discover::{Found, find};
use crate::error::Error;
use crate::install_journal::{Install, Installs};
use crate::output::counted;
use crate::settings::{Settings, Sources};

/// Checks the client files and returns Atlatl's entries. `check_limits` is false if the
/// configuration is invalid, because the token limits are compared with it.
pub(super) fn check_clients(
    settings: &Settings,
    environment: &LaunchEnvironment,
    sources: &Sources,
    check_limits: bool,
) -> Result<(Group, Vec<ClientEntry>), Error> {
    let mut group = Group::new("clients");
    let files = find(settings, &[])?;
    let mut servers = Vec::new();
    let mut unreadable = Vec::new();
    for file in &files {
        match file.read() {
            Ok(text) => {
                servers.append(&mut atlatl_entries(file, &text, settings, (environment, sources)));
            }
            Err(why) => unreadable.push(unreadable_file(file, &why)),
        }
    }
    // One file may hold both user and project entries, and is counted once.
    let paths: BTreeSet<&PathBuf> = files.iter().map(|file| &file.file).collect();
    let count = counted(paths.len() as u64, "file", "files");
    group.record("client-file", unreadable, format!("{count} can be read"));
    group.record(
        "entry-arguments",
        servers.iter().filter_map(invalid_arguments),
        "all entries are valid",
    );
    // Disabled entries are not checked.
    let enabled = || servers.iter().filter(|server| server.launch.enabled);
    let expanded = |text: &str| {
        expand_variables(text, |name| sources.variable(name), &environment.working_dir)
    };
    let program = enabled().filter_map(|server| {
        // A variable that only the client can expand cannot be checked.
        let program = expanded(&server.program)?;
        let at =
            find_program(&program, &search_path(server, environment), &environment.working_dir);
        let anywhere = find_program(&program, OsStr::new(DEFAULT_PATH), &environment.working_dir);
        check_command(server, at.as_deref(), anywhere.is_some(), environment.itself.as_deref())
    });
    group.record("atlatl-command", program.collect::<Vec<_>>(), "every entry finds this program");
    let upstream = enabled().filter_map(|server| {
        let EntryCommand::Proxy { upstream: UpstreamSpec::Program(words), .. } = &server.command
        else {
            return None;
        };
        let program = expanded(words.first()?)?;
        let there = find_program(
            &program,
            &search_path(server, environment),
            &working_dir(server, environment),
        );
        there.is_none().then(|| missing_program(server, &program))
    });
    group.record("server-program", upstream.collect::<Vec<_>>(), "every server's program exists");
    group.record(
        "extraction-tools",
        compatibility::check_extraction_tools(&servers),
        "each client has the tools once",
    );
    if check_limits {
        group.record(
            "client-sizes",
            compatibility::check_sizes(settings, &servers),
            "replies fit the limits of every client",
        );
    }
    group.summary(summary(&files, &servers));
    Ok((group, servers))
}

fn summary(files: &[Found], servers: &[ClientEntry]) -> String {
    let proxied = servers
        .iter()
        .filter(|server| matches!(server.command, EntryCommand::Proxy { .. }))
        .count();
    if files.is_empty() {
        return "no client configuration found".to_owned();
    }
    let titles: BTreeSet<&str> = files.iter().map(|file| file.client.title).collect();
    let titles: Vec<&str> = titles.into_iter().collect();
    let behind = match proxied {
        0 => "no server is behind the proxy (`atlatl install`)".to_owned(),
        n => format!("{} behind the proxy", counted(n as u64, "server", "servers")),
    };
    format!("{}: {behind}", titles.join(", "))
}

fn unreadable_file(file: &Found, why: &str) -> Finding {
    Finding::fault(
        "client-file",
        file.display_name(),
        format!("it cannot be used: {why}"),
        format!("${{EDITOR:-vi}} {}", quote_path(&file.file)),
    )
}

fn invalid_arguments(server: &ClientEntry) -> Option<Finding> {
    let EntryCommand::Invalid(why) = &server.command else { return None };
    Some(Finding::fault(
        "entry-arguments",
        server.label(),
        format!("its arguments are not valid for this version of atlatl: {why}"),
        format!(
            "${{EDITOR:-vi}} {}, and compare with `atlatl proxy --help`",
            quote_path(&server.file)
        ),
    ))
}

/// Reports an Atlatl program that the client cannot find, or may not find without a shell's `PATH`.
fn check_command(
    server: &ClientEntry,
    at: Option<&Path>,
    in_default: bool,
    itself: Option<&Path>,
) -> Option<Finding> {
    let program = &server.program;
    let full = at.or(itself).map_or("/path/to/atlatl".into(), Path::to_string_lossy);
    let fix = format!("in {}, write \"{full}\" in place of \"{program}\"", server.file.display());
    match at {
        None if program.contains('/') => Some(Finding::fault(
            "atlatl-command",
            server.label(),
            format!("it starts {program}, which does not exist"),
            fix,
        )),
        None => Some(Finding::fault(
            "atlatl-command",
            server.label(),
            format!("it starts `{program}`, which is not on PATH"),
            fix,
        )),
        Some(at) if !program.contains('/') && server.is_desktop_client() && !in_default => {
            Some(Finding::warning(
                "atlatl-command",
                server.label(),
                format!(
                    "it starts `{program}`, which is {}: {} may not find it there when it is \
                     started from the desktop, without a shell's PATH",
                    at.display(),
                    server.client.title
                ),
                fix,
            ))
        }
        Some(_) => None,
    }
}

fn missing_program(server: &ClientEntry, program: &str) -> Finding {
    let (message, how) = if program.contains('/') {
        (format!("the server's program {program} does not exist"), "its path")
    } else {
        (format!("the server's program `{program}` is not on PATH"), "its full path")
    };
    let file = server.file.display();
    Finding::fault(
        "server-program",
        server.label(),
        message,
        format!("install {program}, or in {file}, write {how} in place of \"{program}\""),
    )
}

/// Checks the install journals and the files that they describe.
pub(super) fn check_installs(settings: &Settings, group: &mut Group) {
    let Ok(installs) = Installs::open(settings) else { return };
    let files = find(settings, &[]).unwrap_or_default();
    let files: Vec<PathBuf> = files.into_iter().map(|file| file.file).collect();
    let leftovers = installs.leftovers(&files);
    group.record(
        "install-leftovers",
        leftovers.iter().map(|path| {
            Finding::warning(
                "install-leftovers",
                path.display(),
                "an interrupted `atlatl install` or `uninstall` left this temporary file",
                format!("rm {}", quote_path(path)),
            )
        }),
        "no interrupted run left temporary files",
    );
    match installs.all() {
        Err(error) => {
            let why = error.reports().first().map(|report| report.message.clone());
            let state = settings.surroundings().state_dir.clone().unwrap_or_default();
            let dir = state.join("atlatl/installs");
            let fix = format!("move that file out of {}", quote_path(&dir));
            let message = "cannot read what `atlatl install` changed";
            let about = why.unwrap_or_default();
            group.record(
                "install-journal",
                [Finding::fault("install-journal", about, message, fix)],
                "",
            );
        }
        Ok(all) => {
            let findings: Vec<Finding> =
                all.iter().filter_map(|install| check_install(install, &installs)).collect();
            group.record("install-journal", findings, "`atlatl uninstall` restores every file");
            let sse: Vec<Finding> = all.iter().flat_map(legacy_transport).collect();
            group.record("server-transport", sse, "no server behind the proxy speaks HTTP+SSE");
        }
    }
}

/// Reports HTTP+SSE servers that an earlier version wrapped although the proxy does not support the
/// transport.
fn legacy_transport(install: &Install) -> Vec<Finding> {
    let text = fs::read_to_string(&install.file).ok();
    let repaired = text.zip(install.place()).and_then(|(text, place)| {
        repair(&text, &place, &InstallOptions::new("atlatl"), &install.journal).ok()
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

/// Reports a file that is missing, or that `atlatl uninstall` cannot fully restore.
fn check_install(install: &Install, installs: &Installs) -> Option<Finding> {
    let file = install.file.display();
    let Ok(text) = fs::read_to_string(&install.file) else {
        // An unreadable file is reported by `check_clients`.
        return (!install.file.exists()).then(|| {
            Finding::warning(
                "install-journal",
                file,
                "`atlatl install` changed it, and it no longer exists",
                format!("atlatl uninstall --client {} (removes the record)", install.client),
            )
        });
    };
    let place = install.place()?;
    // A file that does not parse is reported by `check_clients`.
    let after = uninstall(&text, &place, &install.journal).ok()?;
    let journal = &install.journal;
    let names = journal.wrapped.iter().map(|one| &one.name);
    let names = names.chain(journal.replaced.iter().map(|one| &one.name));
    let names: Vec<&String> = names.chain(journal.added.iter().map(|one| &one.name)).collect();
    let left: Vec<String> = entries(&after, &place)
        .ok()?
        .into_iter()
        .filter(|entry| matches!(entry.kind, EntryKind::Ours(_)) && names.contains(&&entry.name))
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
                "restore it by hand; the original: jq -r .original {}",
                quote_path(&installs.path(&install.file, install.project.as_deref()))
            ),
        )
    })
}
