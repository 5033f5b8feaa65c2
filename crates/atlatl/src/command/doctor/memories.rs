//! Checks of the memory store, SQLite or PostgreSQL, and of its embedder.

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use atlatl_memory::embed::EmbedderChoice;
use atlatl_memory::{Health, Postgres, SqliteStore, StoreError, embed};

use super::report::{Finding, Group, config_fix, quote_path};
use crate::command::runtime;
use crate::error::{Error, connect_error, with_causes};
use crate::memory_config;
use crate::memory_config::{MIGRATE, StoreLocation, wants_migration};
use crate::output::{Waiting, counted};
use crate::settings::Settings;

/// Checks the store and the embedder.
pub(super) fn check_memories(settings: &Settings) -> Group {
    let mut group = Group::new("memories");
    let embedder = check_embedder(settings);
    let path = match memory_config::store_location(settings) {
        Ok(StoreLocation::File(path)) => path,
        Ok(StoreLocation::Database(database)) => {
            check_database(&mut group, &database, embedder.is_configured);
            group.record("embedder", embedder.findings, embedder.ok);
            return group;
        }
        Err(error) => {
            group.record("memory-store", [location_finding(&error)], "");
            return group;
        }
    };
    let model = embedder.model.as_deref();
    let spinner = Waiting::start("checking memories");
    let checked = SqliteStore::check(&path, model);
    drop(spinner);
    match checked {
        Ok(None) => {
            group.record("memory-store", [], "there is none yet");
            group.summary("none yet");
        }
        Ok(Some(health)) => {
            group.record("memory-store", damage_finding(&path, &health), "the file is not damaged");
            group.record(
                "memory-index",
                index_finding(&path, &health),
                "every memory is in the index",
            );
            if model.is_some() {
                let vectors = missing_vectors(&health).into_iter().chain(rejected_texts(&health));
                group.record("memory-vectors", vectors, "every memory has a vector");
            }
            group.summary(counted(health.memories, "memory", "memories"));
        }
        Err(error) => {
            group.record("memory-store", [store_finding(&path, &error)], "");
            group.summary("they cannot be reached");
        }
    }
    group.record("embedder", embedder.findings, embedder.ok);
    group
}

fn location_finding(error: &Error) -> Finding {
    let report = error.reports().first();
    let message = report.map(|report| report.message.clone()).unwrap_or_default();
    let fix = report.and_then(|report| report.hint.clone());
    let fix = fix.unwrap_or_else(|| "--set memory.store=sqlite:PATH".to_owned());
    Finding::fault("memory-store", "memory.store", message, fix)
}

fn store_finding(path: &Path, error: &StoreError) -> Finding {
    let about = path.display();
    match error {
        StoreError::Busy => Finding::warning(
            "memory-store",
            about,
            "another process has locked it for 2 s",
            format!("fuser -v {}, and end the process that hangs", quote_path(path)),
        ),
        StoreError::NotAStore { why, .. } if why.contains("version") => Finding::fault(
            "memory-store",
            about,
            format!("a newer version of atlatl created it: {why}"),
            "install that atlatl, or --set memory.store=sqlite:PATH for another file",
        ),
        StoreError::NotAStore { why, .. } => Finding::fault(
            "memory-store",
            about,
            format!("not a memory store: {why}"),
            format!("mv {0} {0}.aside", quote_path(path)),
        ),
        _ => Finding::fault(
            "memory-store",
            about,
            with_causes(error),
            format!(
                "ls -ld {} {}, and make yourself the owner of both",
                quote_path(path),
                quote_path(path.parent().unwrap_or(path))
            ),
        ),
    }
}

fn damage_finding(path: &Path, health: &Health) -> Option<Finding> {
    let damage = health.damage.as_ref()?;
    Some(Finding::fault(
        "memory-store",
        path.display(),
        format!("the file is damaged: {damage}"),
        format!(
            "sqlite3 {0} .recover | sqlite3 {0}.recovered, then put {0}.recovered in its place",
            quote_path(path)
        ),
    ))
}

fn index_finding(path: &Path, health: &Health) -> Option<Finding> {
    if health.missing == 0 && health.orphaned == 0 {
        return None;
    }
    let missing = counted(health.missing, "memory is", "memories are");
    let message =
        format!("{missing} not in the full-text index; {} in it without a memory", health.orphaned);
    Some(Finding::fault("memory-index", path.display(), message, "atlatl memory repair"))
}

fn rejected_texts(health: &Health) -> Option<Finding> {
    (health.refused > 0).then(|| {
        let memories = counted(health.refused, "memory has", "memories have");
        Finding::warning(
            "memory-vectors",
            "memory.embedder",
            format!("{memories} no vector because the embedder refused the text; recall finds them by words"),
            "use an embedder with a longer input, or shorten these memories",
        )
    })
}

fn missing_vectors(health: &Health) -> Option<Finding> {
    (health.waiting > 0).then(|| {
        Finding::warning(
            "memory-vectors",
            "memory.embedder",
            format!("{} no vector yet", counted(health.waiting, "memory has", "memories have")),
            "atlatl serve (it makes them while it runs)",
        )
    })
}

/// Checks that a PostgreSQL database answers, has the schema and, for vectors, pgvector.
fn check_database(group: &mut Group, database: &Postgres, vectors: bool) {
    let about = match runtime::block_on(database.about()) {
        Ok(about) => about,
        Err(error) => {
            group.record("memory-store", [location_finding(&error)], "");
            return;
        }
    };
    match about {
        Ok(about) => {
            group.record("memory-store", [], "the database is reachable");
            if vectors {
                let missing = about.pgvector.is_none().then(|| missing_pgvector(&about.place));
                group.record("memory-vectors", missing, "pgvector is installed");
            }
            group.summary(format!("in {}, schema {}", about.place, about.schema));
        }
        Err(error) => {
            group.record("memory-store", [database_finding(&error)], "");
            group.summary("they cannot be reached");
        }
    }
}

fn missing_pgvector(place: &str) -> Finding {
    Finding::warning(
        "memory-vectors",
        place,
        "pgvector is not installed: vector search uses plain SQL and is slower",
        "as its superuser: CREATE EXTENSION vector",
    )
}

fn database_finding(error: &StoreError) -> Finding {
    if let Some(refused) = connect_error(error) {
        return Finding::fault("memory-store", "memory.store", &refused.why, &refused.hint);
    }
    let (message, fix) = match error {
        StoreError::NotAStore { why, .. } if wants_migration(why) => (why.clone(), MIGRATE),
        StoreError::NotAStore { why, .. } => {
            (why.clone(), "ALTER ROLE, or another user in memory.store")
        }
        StoreError::Unavailable(_) | StoreError::Busy => (
            with_causes(error),
            "pg_isready with its host and port; then its password, $PGPASSWORD",
        ),
        _ => (with_causes(error), "atlatl db check"),
    };
    Finding::fault("memory-store", "memory.store", message, fix)
}

/// The time limit for connecting to a local embedding endpoint.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const EMBEDDER_CHECK: &str = "embedder";
/// What `auto` says without a model.
#[cfg(feature = "local")]
const NO_MODEL: &str = "no embedding model is installed: search ranks only by words (atlatl \
                        memory model install FILE)";

/// The result of checking the embedder.
#[derive(Default)]
struct EmbedderCheck {
    findings: Vec<Finding>,
    ok: String,
    /// The model name that vectors are stored under, if known.
    model: Option<String>,
    /// Whether there is an embedder, even if it does not work.
    is_configured: bool,
}

impl EmbedderCheck {
    fn failed(finding: Finding) -> Self {
        Self { findings: vec![finding], is_configured: true, ..Self::default() }
    }

    fn passed(ok: impl Into<String>, model: Option<String>) -> Self {
        Self { ok: ok.into(), is_configured: true, model, findings: Vec::new() }
    }

    fn unconfigured(ok: impl Into<String>) -> Self {
        Self { ok: ok.into(), ..Self::default() }
    }
}

/// Checks the configured embedder. Remote endpoints are not contacted.
fn check_embedder(settings: &Settings) -> EmbedderCheck {
    let choice: EmbedderChoice = match settings.config.memory.embedder.parse() {
        Ok(choice) => choice,
        Err(error) => {
            let why = with_causes(&error);
            return EmbedderCheck::failed(embedder_finding(settings, "memory.embedder", &why));
        }
    };
    match &choice {
        EmbedderChoice::Auto => check_installed_models(settings),
        EmbedderChoice::Local { directory } => {
            match missing_model_file(directory).map_or_else(|| load_model(directory), Err) {
                Ok(model) => EmbedderCheck::passed("the model loads", Some(model)),
                Err(why) => {
                    let about = directory.display().to_string();
                    EmbedderCheck::failed(embedder_finding(settings, &about, &why))
                }
            }
        }
        EmbedderChoice::OpenAi { endpoint, model } => match local_address(endpoint.as_str()) {
            Some(address) if !is_reachable(&address) => {
                let why = "cannot connect to the endpoint; memories are found only by words";
                EmbedderCheck::failed(embedder_finding(settings, endpoint.as_str(), why))
            }
            Some(_) => EmbedderCheck::passed("the endpoint is reachable", Some(model.clone())),
            None => EmbedderCheck::passed(
                "the endpoint is on another machine and was not contacted",
                Some(model.clone()),
            ),
        },
        _ => EmbedderCheck::unconfigured("no embedder is configured"),
    }
}

/// Checks the manifests of all installed models, and loads the model that is used: the first with a
/// valid manifest.
#[cfg(feature = "local")]
fn check_installed_models(settings: &Settings) -> EmbedderCheck {
    let mut check = EmbedderCheck::unconfigured(NO_MODEL);
    let mut is_selected = false;
    for model in embed::installed_models(&memory_config::model_directories(settings)) {
        check.is_configured = true;
        let checked = match &model.manifest {
            Ok(_) if is_selected => continue,
            Ok(manifest) => {
                is_selected = true;
                check.model = Some(manifest.model_name());
                check.ok = format!("{} loads", manifest.name);
                load_model(&model.directory).map(drop)
            }
            Err(error) => Err(with_causes(error)),
        };
        if let Err(why) = checked {
            let none = config_fix(settings, "memory.embedder", "\"none\"");
            let fix = format!("install it again with atlatl memory model install FILE, or {none}");
            let about = model.directory.display();
            check.findings.push(Finding::fault(EMBEDDER_CHECK, about, why, fix));
        }
    }
    check
}

#[cfg(not(feature = "local"))]
fn check_installed_models(_: &Settings) -> EmbedderCheck {
    EmbedderCheck::unconfigured("this program was built without local models")
}

/// Verifies the digest of a model that has a manifest, and loads it. Returns its name.
fn load_model(directory: &Path) -> Result<String, String> {
    #[cfg(feature = "local")]
    if let Some(manifest) =
        embed::ModelManifest::read(directory).map_err(|error| with_causes(&error))?
    {
        manifest.verify(directory).map_err(|error| with_causes(&error))?;
    }
    let choice = EmbedderChoice::Local { directory: directory.to_owned() };
    match embed::open(&choice, None) {
        Ok(opened) => Ok(opened.map(|model| model.model().to_owned()).unwrap_or_default()),
        Err(error) => Err(with_causes(&error)),
    }
}

fn embedder_finding(settings: &Settings, about: &str, why: &str) -> Finding {
    let fix = config_fix(settings, "memory.embedder", "\"none\"");
    Finding::fault(EMBEDDER_CHECK, about, why, format!("fix the configuration, or {fix}"))
}

/// The file that a model directory lacks.
fn missing_model_file(directory: &Path) -> Option<String> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return Some(format!("the model's directory cannot be read: {error}")),
    };
    let is_weights = |path: PathBuf| {
        path.extension().is_some_and(|kind| kind == "gguf" || kind == "safetensors")
    };
    let weights = entries.flatten().any(|entry| is_weights(entry.path()));
    if !directory.join("tokenizer.json").is_file() {
        return Some("the model's directory has no tokenizer.json".to_owned());
    }
    (!weights).then(|| "the model's directory has no .gguf or .safetensors file".to_owned())
}

/// The address of an endpoint on the local machine.
fn local_address(endpoint: &str) -> Option<String> {
    let url = url::Url::parse(endpoint).ok()?;
    let host = url.host_str()?;
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let local = host.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    local.then(|| Some(format!("{host}:{}", url.port_or_known_default()?)))?
}

fn is_reachable(address: &str) -> bool {
    let mut addresses = address.to_socket_addrs().into_iter().flatten();
    addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
}
