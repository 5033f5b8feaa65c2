//! The command that clients start this program with: a path, or a package launcher.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;
use crate::settings::{Settings, Sources};

/// The package of this program, in the registries of Python and of Node.
const PACKAGE: &str = "atlatl-lro";

/// The commands that clients start this program with.
pub(crate) struct OwnCommand {
    /// For files of the user.
    pub(crate) user: Vec<String>,
    /// For files of a project.
    pub(crate) project: Vec<String>,
    /// Whether the program of `user` is in a build or temporary directory.
    pub(crate) temporary: bool,
}

/// The kind of directory that a program is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// A permanent directory.
    Installed,
    /// The cache of a package launcher, which starts the program with these words.
    Cached(Vec<String>),
    /// A build directory or a directory for temporary files.
    Temporary,
}

impl Location {
    /// Classifies `program` by its path alone. Launchers may change the layout of their caches; an unknown
    /// path counts as installed.
    pub(crate) fn classify(program: &Path, temp_dir: &Path) -> Self {
        let parts: Vec<&str> = program
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => part.to_str(),
                _ => None,
            })
            .collect();
        let has = |matches: &dyn Fn(&str) -> bool| parts.iter().any(|part| matches(part));
        let launcher: &[&str] = if has(&is_uv_bucket) {
            &["uvx"]
        } else if has(&|part| part == "_npx") {
            &["npx", "-y"]
        } else if has(&|part| part.starts_with("bunx-")) {
            &["bunx"]
        } else if has(&|part| part == "pnpm") && has(&is_dlx) {
            &["pnpm", "dlx"]
        } else if has(&is_dlx) {
            &["yarn", "dlx"]
        } else if is_pipx_cache(&parts) {
            &["pipx", "run"]
        } else {
            let temporary = ["/tmp", "/var/tmp", "/dev/shm"].map(Path::new);
            let temporary = temporary.into_iter().chain([temp_dir]);
            return if temporary.into_iter().any(|dir| program.starts_with(dir)) || is_build(&parts)
            {
                Self::Temporary
            } else {
                Self::Installed
            };
        };
        Self::Cached(launcher.iter().chain([&PACKAGE]).map(ToString::to_string).collect())
    }
}

/// The commands that clients start this program with. A project's files are shared with people who have
/// the program elsewhere; a client that is started from a desktop does not have the `PATH` of a shell. A
/// path in a launcher's cache works until the cache is cleaned, so the command of the launcher is used.
pub(crate) fn own_command(settings: &Settings, sources: &Sources) -> Result<OwnCommand, Error> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::failure(format!("this program: {error}")))?;
    let temp_dir = &settings.surroundings().temp_dir;
    let text = |program: PathBuf| {
        program.into_os_string().into_string().map_err(|_| {
            Error::failure("the path of this program is not UTF-8, which configuration files need")
        })
    };
    let project = vec!["atlatl".to_owned()];
    match Location::classify(&program, temp_dir) {
        Location::Cached(command) => {
            Ok(OwnCommand { user: command.clone(), project: command, temporary: false })
        }
        Location::Installed => {
            Ok(OwnCommand { user: vec![text(program)?], project, temporary: false })
        }
        Location::Temporary => {
            let path = sources.os_variable("PATH").cloned().unwrap_or_default();
            let installed = installed_on_path(&path, temp_dir);
            let temporary = installed.is_none();
            let user = vec![text(installed.unwrap_or(program))?];
            Ok(OwnCommand { user, project, temporary })
        }
    }
}

/// A bucket of uv's cache, such as `archive-v0`.
fn is_uv_bucket(part: &str) -> bool {
    ["archive-v", "environments-v", "builds-v"].iter().any(|bucket| {
        part.strip_prefix(bucket).is_some_and(|version| {
            !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit())
        })
    })
}

fn is_dlx(part: &str) -> bool {
    part == "dlx" || part.starts_with("dlx-")
}

/// `pipx run` keeps environments in `pipx/.cache` or `.cache/pipx`, and `pipx install` in
/// `pipx/venvs`.
fn is_pipx_cache(parts: &[&str]) -> bool {
    parts.windows(2).any(|pair| matches!(pair, ["pipx", ".cache"] | [".cache" | "Caches", "pipx"]))
}

/// `target/debug` and `target/release`, also below a target triple.
fn is_build(parts: &[&str]) -> bool {
    let profile = parts.iter().rposition(|part| matches!(*part, "debug" | "release"));
    profile.is_some_and(|at| parts[..at].iter().rev().take(2).any(|part| *part == "target"))
}

/// The first `atlatl` of `PATH` that is in a permanent directory.
fn installed_on_path(path: &OsStr, temp_dir: &Path) -> Option<PathBuf> {
    let mut programs = std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("atlatl"))
        .filter(|program| program.is_file());
    programs.find(|program| {
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        Location::classify(&real, temp_dir) == Location::Installed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g72_a_launchers_cache_is_recognised_by_its_path() {
        let cached = |words: &str| Location::Cached(words.split(' ').map(str::to_owned).collect());
        for (program, location) in [
            ("/home/a/.cache/uv/archive-v0/q1w2/bin/atlatl", cached("uvx atlatl-lro")),
            ("/c/environments-v2/atlatl-lro-1f/bin/atlatl", cached("uvx atlatl-lro")),
            ("/home/a/.local/share/uv/tools/atlatl-lro/bin/atlatl", Location::Installed),
            (
                "/home/a/.npm/_npx/5d/node_modules/atlatl-lro-linux-x64/bin/atlatl",
                cached("npx -y atlatl-lro"),
            ),
            (
                "/home/a/.cache/pnpm/dlx/1f/2/node_modules/x/bin/atlatl",
                cached("pnpm dlx atlatl-lro"),
            ),
            ("/tmp/xfs-1f/dlx-42/node_modules/x/bin/atlatl", cached("yarn dlx atlatl-lro")),
            ("/tmp/bunx-1000-atlatl-lro@latest/node_modules/x/atlatl", cached("bunx atlatl-lro")),
            ("/home/a/.local/pipx/.cache/1f/bin/atlatl", cached("pipx run atlatl-lro")),
            ("/home/a/.local/share/pipx/venvs/atlatl-lro/bin/atlatl", Location::Installed),
            ("/home/a/src/atlatl/target/release/atlatl", Location::Temporary),
            ("/src/target/x86_64-unknown-linux-musl/release/atlatl", Location::Temporary),
            ("/tmp/atlatl-0.1.0/atlatl", Location::Temporary),
            ("/scratch/atlatl", Location::Temporary),
            ("/usr/local/bin/atlatl", Location::Installed),
            ("/home/release/bin/atlatl", Location::Installed),
        ] {
            assert_eq!(
                Location::classify(Path::new(program), Path::new("/scratch")),
                location,
                "{program}"
            );
        }
    }
}
