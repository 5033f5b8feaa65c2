//! Checks of the memory store, SQLite or PostgreSQL, and of its embedder.

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use atlatl_memory::embed::EmbedderChoice;
use atlatl_memory::{Health, Postgres, SqliteStore, StoreError, embed};

use super::report::{Finding, Group, config_fix, quote_path};
use crate::error::{Error, with_causes};
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
            let vectors = settings.config.memory.embedder != "none";
            check_database(&mut group, &database, vectors);
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
    match database.about() {
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

/// The result of checking the embedder.
struct EmbedderCheck {
    findings: Vec<Finding>,
    ok: String,
    /// The model name that vectors are stored under, if known.
    model: Option<String>,
}

/// Checks the configured embedder. Remote endpoints are not contacted.
fn check_embedder(settings: &Settings) -> EmbedderCheck {
    let failed =
        |finding| EmbedderCheck { findings: vec![finding], ok: String::new(), model: None };
    let choice: EmbedderChoice = match settings.config.memory.embedder.parse() {
        Ok(choice) => choice,
        Err(error) => {
            return failed(embedder_finding(settings, "memory.embedder", &with_causes(&error)));
        }
    };
    let passed = |ok: String, model| EmbedderCheck { findings: Vec::new(), ok, model };
    match &choice {
        EmbedderChoice::Local { directory } => {
            if let Some(why) = missing_model_file(directory) {
                return failed(embedder_finding(settings, &directory.display().to_string(), &why));
            }
            match embed::open(&choice, None) {
                Ok(opened) => {
                    let model = opened.map(|embedder| embedder.model().to_owned());
                    passed("the model loads".to_owned(), model)
                }
                Err(error) => failed(embedder_finding(
                    settings,
                    &directory.display().to_string(),
                    &with_causes(&error),
                )),
            }
        }
        EmbedderChoice::OpenAi { endpoint, model } => match local_address(endpoint.as_str()) {
            Some(address) if !is_reachable(&address) => failed(embedder_finding(
                settings,
                endpoint.as_str(),
                "cannot connect to the endpoint; memories are found only by words",
            )),
            Some(_) => passed("the endpoint is reachable".to_owned(), Some(model.clone())),
            None => passed(
                "the endpoint is on another machine and was not contacted".to_owned(),
                Some(model.clone()),
            ),
        },
        _ => passed("no embedder is configured".to_owned(), None),
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
    let weights =
        entries.flatten().any(|entry| entry.path().extension() == Some("safetensors".as_ref()));
    if !directory.join("tokenizer.json").is_file() {
        return Some("the model's directory has no tokenizer.json".to_owned());
    }
    (!weights).then(|| "the model's directory has no .safetensors file".to_owned())
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
