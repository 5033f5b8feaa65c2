//! Tenants: who has memories in a cluster, each with a key and a word that nobody else writes.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::canary;
use super::postgres::{self, OWNER};
use super::process::stdout;
use super::state::State;
use xtask::output;

/// Who looks whether servers answer; no client is of this tenant.
pub(super) const PROBE: &str = "probe";

/// A tenant, as whoever asks in its name knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) key: String,
    /// The word that stands in all its memories and in no other's.
    pub(super) canary: String,
}

/// Where the keys lie; only you can read them.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("keys.json")
}

/// Migrates the database and makes so many tenants and the one that probes, with their keys.
pub(super) fn make(state: &State, count: usize) -> Result<()> {
    let run = |what: &str, args: &[&str]| {
        let mut atlatl = Command::new(&state.programs.atlatl);
        atlatl.args(args).args(["--as", &postgres::url(state, OWNER), "--output", "json"]);
        atlatl.env_clear().env("HOME", &state.dir).current_dir(&state.dir);
        stdout(what, &mut atlatl)
    };
    output::progress("migrating the database");
    run("atlatl db migrate", &["db", "migrate"])?;
    output::progress(format_args!("making {count} tenants with their keys"));
    let names = (1..=count).map(|number| format!("tenant-{number:02}"));
    let tenants = names.chain([PROBE.to_owned()]).enumerate().map(|(number, name)| {
        run("atlatl tenants create", &["tenants", "create", &name])?;
        let made = run("atlatl keys create", &["keys", "create", "--tenant", &name])?;
        let made: Value = serde_json::from_str(&made).context("what atlatl keys create said")?;
        let key = made["key"].as_str().context("a key")?.to_owned();
        Ok(Tenant { name, key, canary: canary::new(number, random()?) })
    });
    let tenants = tenants.collect::<Result<Vec<Tenant>>>()?;
    let new = File::options().write(true).create_new(true).mode(0o600).open(file(&state.dir));
    let mut new = new.context("a file for the keys")?;
    Ok(writeln!(new, "{}", serde_json::to_string_pretty(&tenants)?)?)
}

/// The tenants of a cluster, and the one that probes.
pub(super) fn load(dir: &Path) -> Result<(Vec<Tenant>, Tenant)> {
    let text = fs::read_to_string(file(dir)).context("the keys of the cluster")?;
    let mut tenants: Vec<Tenant> =
        serde_json::from_str(&text).context("the keys of the cluster")?;
    let probe = tenants.pop().filter(|last| last.name == PROBE).context("a tenant that probes")?;
    Ok((tenants, probe))
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes).context("random numbers")?;
    Ok(u64::from_le_bytes(bytes))
}
