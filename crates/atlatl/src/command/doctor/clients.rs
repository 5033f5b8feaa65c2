//! Clients: their files, and whether what stands in them can be started.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use super::{
    expand::expand,
    extraction,
    finding::{Finding, Group},
    fix::word,
    search::{DEFAULT_PATH, found},
    server::{Behind, Server, What, ours},
    sizes,
};
use crate::{
    command::install::discover::{Found, find},
    error::Error,
    output::counted,
    settings::{Settings, Sources},
};

/// Where programs are looked for.
pub(super) struct Surroundings {
    pub(super) path: OsString,
    pub(super) working_dir: PathBuf,
    /// This program.
    pub(super) itself: Option<PathBuf>,
}

impl Surroundings {
    pub(super) fn new(settings: &Settings, sources: &Sources) -> Self {
        Self {
            path: sources.os_variable("PATH").cloned().unwrap_or_default(),
            working_dir: settings.surroundings().working_dir.clone().unwrap_or_default(),
            itself: std::env::current_exe().ok(),
        }
    }
}

/// Checks the files; what of ours stands in them. Sizes are left out where the configuration, which
/// they depend on, does not load.
pub(super) fn check(
    settings: &Settings,
    here: &Surroundings,
    sources: &Sources,
    with_sizes: bool,
) -> Result<(Group, Vec<Server>), Error> {
    let mut group = Group::new("clients");
    let files = find(settings, &[])?;
    let mut servers = Vec::new();
    let mut unreadable = Vec::new();
    for file in &files {
        match file.read() {
            Ok(text) => servers.append(&mut ours(file, &text, settings, (here, sources))),
            Err(why) => unreadable.push(unusable(file, &why)),
        }
    }
    // One file may hold the servers of the user and those of a directory.
    let paths: BTreeSet<&PathBuf> = files.iter().map(|file| &file.file).collect();
    let count = counted(paths.len() as u64, "file", "files");
    group.checked("client-file", unreadable, format!("{count} can be read"));
    group.checked(
        "entry-arguments",
        servers.iter().filter_map(unclear),
        "this version understands them all",
    );
    // What is switched off harms nobody.
    let started = || servers.iter().filter(|server| server.launch.enabled);
    let expanded = |text: &str| expand(text, |name| sources.variable(name), &here.working_dir);
    let program = started().filter_map(|server| {
        // Where only the client knows what it starts, it cannot be looked for.
        let program = expanded(&server.program)?;
        let at = found(&program, &path_of(server, here), &here.working_dir);
        let anywhere = found(&program, OsStr::new(DEFAULT_PATH), &here.working_dir);
        command(server, at.as_deref(), anywhere.is_some(), here.itself.as_deref())
    });
    group.checked("atlatl-command", program.collect::<Vec<_>>(), "every entry finds this program");
    let behind = started().filter_map(|server| {
        let What::Proxy { behind: Behind::Program(words), .. } = &server.what else { return None };
        let program = expanded(words.first()?)?;
        let there = found(&program, &path_of(server, here), &directory(server, here));
        there.is_none().then(|| no_program(server, &program))
    });
    group.checked("server-program", behind.collect::<Vec<_>>(), "every server's program is there");
    group.checked("extraction-tools", extraction::check(&servers), "each client has them once");
    if with_sizes {
        group.checked("client-sizes", sizes::check(settings, &servers), "answers fit every client");
    }
    group.summary(summary(&files, &servers));
    Ok((group, servers))
}

/// The `PATH` that a client gives to what it starts.
pub(super) fn path_of(server: &Server, here: &Surroundings) -> OsString {
    let own = server.launch.env.iter().find(|(name, _)| name == "PATH");
    own.filter(|(_, value)| !value.contains("${"))
        .map_or_else(|| here.path.clone(), |(_, value)| value.into())
}

/// Where a client starts it.
pub(super) fn directory(server: &Server, here: &Surroundings) -> PathBuf {
    match &server.launch.cwd {
        Some(cwd) if !cwd.contains("${") => here.working_dir.join(cwd),
        _ => here.working_dir.clone(),
    }
}

fn summary(files: &[Found], servers: &[Server]) -> String {
    let proxied = servers.iter().filter(|server| matches!(server.what, What::Proxy { .. })).count();
    if files.is_empty() {
        return "no client's file is here".to_owned();
    }
    let titles: BTreeSet<&str> = files.iter().map(|file| file.client.title).collect();
    let titles: Vec<&str> = titles.into_iter().collect();
    let behind = match proxied {
        0 => "no server is behind the proxy (`atlatl install`)".to_owned(),
        n => format!("{} behind the proxy", counted(n as u64, "server", "servers")),
    };
    format!("{}: {behind}", titles.join(", "))
}

fn unusable(file: &Found, why: &str) -> Finding {
    Finding::fault(
        "client-file",
        file.shown(),
        format!("it cannot be used: {why}"),
        format!("${{EDITOR:-vi}} {}", word(&file.file)),
    )
}

fn unclear(server: &Server) -> Option<Finding> {
    let What::Unclear(why) = &server.what else { return None };
    Some(Finding::fault(
        "entry-arguments",
        server.shown(),
        format!("this version of atlatl does not understand its arguments: {why}"),
        format!("${{EDITOR:-vi}} {}, and compare with `atlatl proxy --help`", word(&server.file)),
    ))
}

/// Whether a client finds this program.
fn command(
    server: &Server,
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
            server.shown(),
            format!("it starts {program}, and there is no such program"),
            fix,
        )),
        None => Some(Finding::fault(
            "atlatl-command",
            server.shown(),
            format!("it starts `{program}`, which is not on PATH"),
            fix,
        )),
        Some(at) if !program.contains('/') && server.has_window() && !in_default => {
            Some(Finding::warning(
                "atlatl-command",
                server.shown(),
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

fn no_program(server: &Server, program: &str) -> Finding {
    let (says, how) = if program.contains('/') {
        (format!("the server's program {program} is not there"), "where it is")
    } else {
        (format!("the server's program `{program}` is not on PATH"), "its full path")
    };
    let file = server.file.display();
    Finding::fault(
        "server-program",
        server.shown(),
        says,
        format!("install {program}, or in {file}, write {how} in place of \"{program}\""),
    )
}
