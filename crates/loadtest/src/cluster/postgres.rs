//! `PostgreSQL` of a cluster: made new, started, asked, and looked at whether it answers.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::process::{NOBODY, Service, User, command, is_root, stdout};
use super::programs::Programs;
use super::state::{State, text};

/// Owns the schema.
pub(super) const OWNER: &str = "memories_owner";
/// What servers run as; it owns nothing.
pub(super) const APP: &str = "memories";
/// The database.
pub(super) const DATABASE: &str = "memories";
/// Connections that a server takes, at most.
const OF_A_SERVER: usize = 8;

/// Where its data lies.
pub(super) fn data(state: &State) -> PathBuf {
    state.place.join("data")
}

/// A directory that whoever `PostgreSQL` runs as can reach, with the programs in it where they lie
/// where only root may look.
pub(super) fn place(dir: &Path, programs: &mut Programs) -> Result<PathBuf> {
    if !is_root()? {
        let place = dir.join("postgres");
        fs::create_dir(&place)?;
        return Ok(place);
    }
    let place = tempfile::Builder::new().prefix("atlatl-cluster.").tempdir()?.keep();
    chown(&place, Some(NOBODY), Some(NOBODY)).context("a directory of nobody's")?;
    if let Some((package, within)) = programs.package() {
        let copy = place.join("package");
        // Links, so that nothing is copied where both lie on one file system.
        let linked = stdout("cp", Command::new("cp").arg("-al").args([package, &copy]));
        if linked.is_err() {
            let _ = fs::remove_dir_all(&copy);
            stdout("cp", Command::new("cp").arg("-a").args([package, &copy]))?;
        }
        programs.postgres = copy.join(within);
    }
    Ok(place)
}

/// Makes its data directory.
pub(super) fn make(state: &State) -> Result<()> {
    let mut words = User::Nobody.words()?;
    words.push(text(&state.programs.postgres.join("initdb"))?);
    words.extend(["-D".to_owned(), text(&data(state))?]);
    let mut initdb = command(&words);
    initdb.args(["-U", "postgres", "-A", "trust", "--encoding=UTF8", "--locale=C"]);
    stdout("initdb", &mut initdb).map(drop)
}

pub(super) fn service(state: &State) -> Result<Service> {
    let most = (state.replicas.len() * OF_A_SERVER + 20).max(100);
    let args = [
        "-D".to_owned(),
        text(&data(state))?,
        "-p".to_owned(),
        state.postgres.port.to_string(),
        "-clisten_addresses=127.0.0.1".to_owned(),
        // The path of a socket may not be longer than a hundred letters; nobody needs one.
        "-cunix_socket_directories=".to_owned(),
        "-cfsync=on".to_owned(),
        format!("-cmax_connections={most}"),
    ];
    Ok(Service {
        name: "postgres".to_owned(),
        program: state.programs.postgres.join("postgres"),
        args: args.into(),
        env: Vec::new(),
        // Without waiting for clients, who do not go by themselves.
        end: "INT",
        user: User::Nobody,
    })
}

/// Whether it answers a question.
pub(super) fn answers(state: &State) -> bool {
    sql(state, "postgres", "SELECT 1").is_ok()
}

/// What statements of the superuser's say.
pub(super) fn sql(state: &State, database: &str, statements: &str) -> Result<String> {
    let mut psql = Command::new(state.programs.postgres.join("psql"));
    psql.env_clear().env("PGCONNECT_TIMEOUT", "2").current_dir("/");
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
    psql.args(["-U", "postgres", "-p", &state.postgres.port.to_string(), "-d", database]);
    for statement in statements.split(';') {
        psql.args(["-c", statement]);
    }
    stdout("psql", &mut psql)
}

/// How a role reaches the database.
pub(super) fn url(state: &State, role: &str) -> String {
    format!("postgres://{role}@127.0.0.1:{}/{DATABASE}", state.postgres.port)
}
