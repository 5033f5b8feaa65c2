//! Opens the spools that the configuration names: directories of this machine, or an object store.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use chrono::{DateTime, Utc};
use lro::{Event, EventKind, EventSink};
use lro_core::Operation;
use lro_core::config::ReadableBy;
use lro_spool::{
    Address, Bucket, DirOnDemand, DirOptions, DirSpool, Foreign, ObjectOptions, ObjectSpool, Quota,
    RequestSink, Scope, Spool, SpoolError, SweepReport,
};
use rustix::fs::{Access, access};

use crate::error::{Error, with_causes};
use crate::settings::secrets::{self, Secret};
use crate::settings::{Settings, Surroundings};

/// Prefixes of the environment variables that configure an object store client. The client decides
/// which of the variables it uses.
const OBJECT_STORE_VARIABLE_PREFIXES: [&str; 4] = ["AWS_", "GOOGLE_", "AZURE_", "GCE_METADATA_"];
/// The variables that name a file with a secret of an object store, in place of the variable without `_FILE`.
/// `packages/ops/chart` offers these.
const OBJECT_STORE_SECRET_FILES: [&str; 8] = [
    "AWS_ACCESS_KEY_ID_FILE",
    "AWS_SECRET_ACCESS_KEY_FILE",
    "AWS_SESSION_TOKEN_FILE",
    "GOOGLE_SERVICE_ACCOUNT_KEY_FILE",
    "GOOGLE_BEARER_TOKEN_FILE",
    "AZURE_STORAGE_ACCOUNT_KEY_FILE",
    "AZURE_STORAGE_SAS_TOKEN_FILE",
    "AZURE_CLIENT_SECRET_FILE",
];
/// The limit of one request to the object store. It is short because a client waits for the answer.
const OBJECT_STORE_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The two directories that results are stored in.
pub(crate) struct Stores {
    /// Spec F5: results of memory operations, directly in the output directory.
    memory: SpoolDir,
    /// All others, in a private directory with a folder per scope.
    other: SpoolDir,
    /// The other private directory that such results may be in: where earlier versions stored them, or
    /// where a process stores them that cannot write to the first. Only read and cleaned.
    alternate: Option<SpoolDir>,
    parents: Parents,
}

/// Whether missing parents of the private directory are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parents {
    Created,
    /// The parents of a configured directory must exist: the path may be mistyped.
    Required,
}

/// A directory of results with its options.
struct SpoolDir {
    path: PathBuf,
    options: DirOptions,
}

/// Which scopes an operation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The results of this directory and scope, and of memory operations.
    Here,
    /// All results of the user.
    Everywhere,
}

impl Stores {
    /// The directories that `settings` name, with the folder of the `--scope` argument.
    pub(crate) fn from_settings(settings: &Settings, scope: Option<&str>) -> Result<Self, Error> {
        let config = &settings.config;
        let output_dir = output_dir(settings)?;
        let surroundings = settings.surroundings();
        let (private, alternate, parents) = match &*config.proxy.dir {
            "" => default_dirs(settings, &output_dir),
            named => (absolute("proxy.dir", Path::new(named))?, None, Parents::Required),
        };
        let scope = parse_scope(surroundings, scope);
        let shared = |options: DirOptions, ttl| {
            options
                .quota(Quota::from(&config.spool))
                .sharing(config.spool.readable_by.into())
                .ttl(Duration::from_secs(ttl))
        };
        let flat = shared(DirOptions::flat(), config.prompt.offload.ttl_seconds);
        let scoped = shared(DirOptions::private(), config.proxy.ttl_seconds).scope(scope);
        let alternate = alternate.map(|path| SpoolDir { path, options: scoped.clone() });
        let scoped = match parents {
            Parents::Created => scoped.with_parents(),
            Parents::Required => scoped,
        };
        Ok(Self {
            memory: SpoolDir { path: output_dir, options: flat },
            other: SpoolDir { path: private, options: scoped },
            alternate,
            parents,
        })
    }

    /// The directory of memory operations' results, and the private one of all others.
    pub(crate) fn directories(&self) -> (&Path, &Path) {
        (&self.memory.path, &self.other.path)
    }

    /// Whether the private directory is created together with its parents.
    pub(crate) fn creates_parents(&self) -> bool {
        self.parents == Parents::Created
    }

    /// The other private directory that results may be in.
    pub(crate) fn alternate_directory(&self) -> Option<&Path> {
        self.alternate.as_ref().map(|place| &*place.path)
    }

    /// The scope's folder in the other private directory, if there is one. Results are read from there
    /// until they expire.
    pub(crate) fn alternate(&self) -> Option<Arc<dyn Spool>> {
        let SpoolDir { path, options } = self.alternate.as_ref()?;
        let store = DirSpool::existing(path, options.clone()).ok().flatten()?;
        Some(Arc::new(store))
    }

    /// Opens the scope's folder in the other private directory, if it exists.
    pub(crate) fn open_alternate(&self) -> Option<DirSpool> {
        let SpoolDir { path, options } = self.alternate.as_ref()?;
        DirSpool::existing(path, options.clone()).ok().flatten()?;
        // Not the one above: it covers a single folder, whose size would be recorded as that of all.
        DirSpool::open(path, options.clone()).ok()
    }

    /// The spool that stores results of `operation`.
    pub(crate) fn spool_for(&self, operation: &Operation) -> Arc<dyn Spool> {
        let SpoolDir { path, options } =
            if operation.is_memory() { &self.memory } else { &self.other };
        Arc::new(DirOnDemand::new(path.clone(), options.clone()))
    }

    /// Opens the directory that stores results of `operation`.
    pub(crate) fn open_dir(&self, operation: &Operation) -> Result<DirSpool, SpoolError> {
        let SpoolDir { path, options } =
            if operation.is_memory() { &self.memory } else { &self.other };
        DirSpool::open(path, options.clone())
    }

    /// Visits the folders that exist and creates none. Returns an error for each folder that cannot be
    /// opened: a directory that another user created must not hide the others.
    pub(crate) fn each(&self, reach: Reach, mut visit: impl FnMut(&DirSpool)) -> Vec<SpoolError> {
        let mut failures = Vec::new();
        for SpoolDir { path, options } in [&self.memory, &self.other] {
            match reach {
                Reach::Everywhere => {
                    failures.append(&mut DirSpool::each_scope(path, options, &mut visit));
                }
                Reach::Here => match DirSpool::existing(path, options.clone()) {
                    Ok(Some(store)) => visit(&store),
                    Ok(None) => {}
                    Err(error) => failures.push(error),
                },
            }
        }
        // Failures there are not reported: in a shared temporary directory another user can put
        // something in its place, and nothing depends on it. `atlatl doctor` reports them.
        if let Some(SpoolDir { path, options }) = &self.alternate {
            match reach {
                Reach::Everywhere => drop(DirSpool::each_scope(path, options, &mut visit)),
                Reach::Here => {
                    if let Ok(Some(store)) = DirSpool::existing(path, options.clone()) {
                        visit(&store);
                    }
                }
            }
        }
        failures
    }

    /// Runs `operation` on each spool until one of them contains `address`.
    pub(crate) fn find<T>(
        &self,
        address: &Address,
        reach: Reach,
        operation: impl Fn(&DirSpool) -> Result<T, SpoolError>,
    ) -> Result<T, SpoolError> {
        let mut outcome = None;
        let mut missing = SpoolError::NotFound { asked: address.to_string() };
        let failures = self.each(reach, |store| {
            if outcome.is_some() {
                return;
            }
            match operation(store) {
                // The path of one directory is foreign to the other.
                Err(
                    SpoolError::NotFound { .. }
                    | SpoolError::NotOurs { why: Foreign::Elsewhere, .. },
                ) => {}
                Err(error @ SpoolError::NotOurs { .. }) => missing = error,
                other => outcome = Some(other),
            }
        });
        outcome.unwrap_or_else(|| Err(failures.into_iter().next().unwrap_or(missing)))
    }

    /// Removes expired results in all scopes and publishes an event for each.
    pub(crate) fn sweep(&self, now: DateTime<Utc>, events: &dyn EventSink) -> SweepReport {
        let mut all = SweepReport::default();
        for dir in [&self.memory, &self.other] {
            let failures = dir.sweep(now, events, &mut all);
            all.failures.extend(failures);
        }
        if let Some(alternate) = &self.alternate {
            // Folders there that cannot be opened are not reported, see `each`.
            drop(alternate.sweep(now, events, &mut all));
        }
        all
    }

    /// Sweeps the directories in which a result has expired or whose last sweep is long ago. For
    /// commands that run often and must not read every stored result each time.
    pub(crate) fn sweep_if_due(&self, now: DateTime<Utc>, events: &dyn EventSink) {
        for dir in [&self.memory, &self.other].into_iter().chain(&self.alternate) {
            if DirSpool::sweep_is_due(&dir.path, &dir.options, now) {
                drop(dir.sweep(now, events, &mut SweepReport::default()));
            }
        }
    }
}

impl SpoolDir {
    /// Removes expired results in every scope. Returns the scopes that cannot be opened.
    fn sweep(
        &self,
        now: DateTime<Utc>,
        events: &dyn EventSink,
        all: &mut SweepReport,
    ) -> Vec<SpoolError> {
        let mut next_expiry = None;
        let failures =
            DirSpool::each_scope(&self.path, &self.options, |store| match store.sweep(now) {
                Ok(mut swept) => {
                    for expired in &swept.expired {
                        let tool = expired.sidecar.tool.clone();
                        let kind = EventKind::OffloadFileExpired { tool };
                        events.publish(Event::new(now, expired.id(), kind));
                    }
                    all.expired.append(&mut swept.expired);
                    all.failures.append(&mut swept.failures);
                    all.in_use += swept.in_use;
                    all.leftovers += swept.leftovers;
                    next_expiry = next_expiry.into_iter().chain(swept.next_expiry).min();
                }
                Err(error) => all.failures.push(error),
            });
        DirSpool::recount(&self.path, &self.options, next_expiry, now);
        failures
    }
}

/// The private directory if `proxy.dir` names none, and the other one that results may be in.
///
/// The default is the user's own state directory: in a shared temporary directory another user can
/// create `atlatl-{uid}` first, and every result would be passed on whole. The runtime directory would
/// be as safe, but it is in memory, and results can have gigabytes. The temporary directory is used if
/// the user chose it, if the group may read results (a home directory is closed to it), or if the
/// state directory is not writable.
fn default_dirs(settings: &Settings, output_dir: &Path) -> (PathBuf, Option<PathBuf>, Parents) {
    let config = &settings.config;
    let surroundings = settings.surroundings();
    let temporary = output_dir.join(format!("atlatl-{}", surroundings.uid));
    let is_configured = !config.prompt.offload.output_dir.is_empty();
    let state = surroundings.state_dir.as_ref().map(|dir| dir.join("atlatl/results"));
    match state {
        _ if is_configured => (temporary, None, Parents::Required),
        state if config.spool.readable_by != ReadableBy::Owner => {
            (temporary, state, Parents::Required)
        }
        Some(state) if is_writable(&state) => (state, Some(temporary), Parents::Created),
        state => (temporary, state, Parents::Required),
    }
}

/// Whether `dir` can be written to, or created with its parents. A file in its place is not avoided:
/// only the user can put it there, and `atlatl doctor` reports it.
fn is_writable(dir: &Path) -> bool {
    if dir.is_file() {
        return true;
    }
    let nearest = dir.ancestors().find(|path| path.symlink_metadata().is_ok());
    nearest.is_some_and(|path| {
        path.is_dir() && access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    })
}

/// Parses the argument of `--scope`. `dir:PATH` is the scope of a directory, independent of the working
/// directory; any other text is a name within the working directory.
pub(crate) fn parse_scope(surroundings: &Surroundings, argument: Option<&str>) -> Scope {
    // A working directory that was removed still has a scope: the one of the empty path.
    let working_dir = surroundings.working_dir.as_deref().unwrap_or(Path::new(""));
    let (dir, name) = match argument.and_then(|argument| argument.strip_prefix("dir:")) {
        Some(dir) => (scope_dir(Path::new(dir), working_dir, surroundings.home.as_deref()), ""),
        None => (working_dir.to_owned(), argument.unwrap_or_default()),
    };
    Scope::from_fields([
        surroundings.uid.to_string().as_bytes(),
        dir.as_os_str().as_encoded_bytes(),
        name.as_bytes(),
    ])
}

pub(crate) use parse_scope as scope_of;

/// The directory that `dir:PATH` means, in the spelling that a process in it has for its working
/// directory. A directory that does not exist has a scope too: a moved project still finds its results.
fn scope_dir(dir: &Path, working_dir: &Path, home: Option<&Path>) -> PathBuf {
    let dir = match (dir.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => working_dir.join(dir),
    };
    dir.canonicalize().unwrap_or_else(|_| dir.components().collect())
}

/// `prompt.offload.output_dir` as an absolute path, the empty default filled in.
pub(crate) fn output_dir(settings: &Settings) -> Result<PathBuf, Error> {
    let configured = &settings.config.prompt.offload.output_dir;
    let temp_dir = &settings.surroundings().temp_dir;
    let dir = if configured.is_empty() { temp_dir } else { Path::new(configured) };
    absolute("prompt.offload.output_dir", dir)
}

/// Makes a configured path absolute. Paths with `..` are resolved here, once: in the path of a result
/// they are refused.
fn absolute(key: &str, dir: &Path) -> Result<PathBuf, Error> {
    let unusable = |error: io::Error| Error::failure(format!("{key}: {error}"));
    if dir.components().any(|component| component == Component::ParentDir) {
        return dir.canonicalize().map_err(unusable);
    }
    std::path::absolute(dir).map_err(unusable)
}

/// Opens the spool of `memory.tenant` in the object store of `spool.url`, if that is set.
pub(crate) fn open_object_spool(
    settings: &Settings,
    requests: Option<RequestSink>,
) -> Result<Option<ObjectSpool>, Error> {
    let Some(bucket) = open_bucket(settings, requests)? else { return Ok(None) };
    let config = &settings.config;
    let spool = ObjectSpool::new(&bucket, &config.memory.tenant, Quota::from(&config.spool));
    spool.map(Some).map_err(|error| invalid_spool_url(&error.to_string()))
}

/// Opens the object store of `spool.url`, if that is set. Its requests are reported to `requests`.
pub(crate) fn open_bucket(
    settings: &Settings,
    requests: Option<RequestSink>,
) -> Result<Option<Bucket>, Error> {
    let config = &settings.config;
    if config.spool.url.is_empty() {
        return Ok(None);
    }
    let variables = object_store_variables(env::vars().collect())?;
    let mut options = ObjectOptions::new(&settings.surroundings().temp_dir)
        .local(config.spool.max_bytes, config.spool.min_free_bytes)
        .time_limit(OBJECT_STORE_REQUEST_TIMEOUT);
    if let Some(requests) = requests {
        options = options.requests(requests);
    }
    Bucket::from_url(&config.spool.url, variables, options)
        .map(Some)
        .map_err(|error| invalid_spool_url(&with_causes(&error)))
}

/// The variables for an object store client, with the secrets that are in files.
fn object_store_variables(all: Vec<(String, String)>) -> Result<Vec<(String, String)>, Error> {
    let value =
        |name: &str| all.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let mut from_files = Vec::new();
    for file_name in OBJECT_STORE_SECRET_FILES {
        let name = secrets::replaced_by(file_name);
        if let Some(Secret::File(path)) = secrets::find([name, file_name], value)? {
            from_files.push((name.to_owned(), secrets::read_file(file_name, &path)?));
        }
    }
    let is_option = |name: &str| {
        OBJECT_STORE_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && !OBJECT_STORE_SECRET_FILES.contains(&name)
    };
    let set = all.into_iter().filter(|(name, _)| is_option(name));
    Ok(set.chain(from_files).collect())
}

fn invalid_spool_url(error: &str) -> Error {
    Error::usage(format!("spool.url: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn owned(set: &[(&str, &str)]) -> Vec<(String, String)> {
        set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn g51_credentials_of_a_bucket_come_from_files_and_other_variables_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "a/secret+key=\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let file = path.to_str().unwrap();
        let read = object_store_variables(owned(&[
            ("PATH", "/bin"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", ""),
            ("AWS_SECRET_ACCESS_KEY_FILE", file),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/token"),
        ]));
        let expected = owned(&[
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", ""),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/token"),
            ("AWS_SECRET_ACCESS_KEY", "a/secret+key="),
        ]);
        assert_eq!(read.unwrap(), expected, "the last one applies");
        let both = [("AWS_SESSION_TOKEN", "s3cret"), ("AWS_SESSION_TOKEN_FILE", file)];
        let said = object_store_variables(owned(&both)).unwrap_err().message();
        assert!(said.contains("both set") && !said.contains("s3cret"), "{said}");
    }

    /// The values of the chart name variables, and the pods have `…_FILE` for each.
    #[test]
    fn g51_the_chart_offers_the_files_that_the_program_reads() {
        let schema =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../packages/ops/chart/values.schema.json");
        let schema: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
        let offered = &schema["properties"]["bucket"]["properties"]["secretKeys"]["items"]["enum"];
        let names = OBJECT_STORE_SECRET_FILES.map(secrets::replaced_by);
        assert_eq!(offered, &serde_json::json!(names));
    }
}
