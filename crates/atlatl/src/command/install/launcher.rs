//! The command that clients start this program with.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

/// The package of this program, in the registries of Python and of Node.
const PACKAGE: &str = "atlatl-lro";

/// Where a running program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// In a directory that stays.
    Installed,
    /// In the cache of a package launcher, which starts it with these words.
    Cached(Vec<String>),
    /// In a build directory or a directory for temporary files.
    Temporary,
}

impl Location {
    /// Where `program` is, by its path alone. The launchers' layouts are theirs to change; a path that
    /// none of them explains counts as installed.
    pub(crate) fn classify(program: &Path, temp_dir: &Path) -> Self {
        let parts: Vec<&str> = program
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => part.to_str(),
                _ => None,
            })
            .collect();
        let has = |wanted: &dyn Fn(&str) -> bool| parts.iter().any(|part| wanted(part));
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

/// The first `atlatl` of `PATH` that stays where it is.
pub(crate) fn installed_on_path(path: &OsStr, temp_dir: &Path) -> Option<PathBuf> {
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
