//! Embedder: whether what makes vectors is there.

use std::{
    fs,
    net::{TcpStream, ToSocketAddrs as _},
    path::Path,
    time::Duration,
};

use atlatl_memory::embed::{self, EmbedderChoice};

use super::{finding::Finding, fix};
use crate::{error::with_causes, settings::Settings};

/// How long an endpoint on this machine may take to be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const CHECK: &str = "embedder";

/// What there is.
pub(super) struct Embedder {
    pub(super) findings: Vec<Finding>,
    pub(super) ok: String,
    /// What its vectors are filed under, where that is known.
    pub(super) model: Option<String>,
}

/// Looks at it. Only what is on this machine is asked.
pub(super) fn check(settings: &Settings) -> Embedder {
    let none = |finding| Embedder { findings: vec![finding], ok: String::new(), model: None };
    let choice: EmbedderChoice = match settings.config.memory.embedder.parse() {
        Ok(choice) => choice,
        Err(error) => {
            return none(trouble(settings, "memory.embedder", &with_causes(&error)));
        }
    };
    let fine = |ok: String, model| Embedder { findings: Vec::new(), ok, model };
    match &choice {
        EmbedderChoice::Local { directory } => {
            if let Some(why) = incomplete(directory) {
                return none(trouble(settings, &directory.display().to_string(), &why));
            }
            match embed::open(&choice, None) {
                Ok(opened) => {
                    let model = opened.map(|embedder| embedder.model().to_owned());
                    fine("the model loads".to_owned(), model)
                }
                Err(error) => {
                    none(trouble(settings, &directory.display().to_string(), &with_causes(&error)))
                }
            }
        }
        EmbedderChoice::OpenAi { endpoint, model } => match on_this_machine(endpoint.as_str()) {
            Some(address) if !reached(&address) => none(trouble(
                settings,
                endpoint.as_str(),
                "nothing answers at that address; memories are found by their words alone",
            )),
            Some(_) => fine("the endpoint is there".to_owned(), Some(model.clone())),
            None => {
                fine("the endpoint is elsewhere, and was not asked".to_owned(), Some(model.clone()))
            }
        },
        _ => fine("none is asked for".to_owned(), None),
    }
}

fn trouble(settings: &Settings, about: &str, why: &str) -> Finding {
    let fix = fix::set(settings, "memory.embedder", "\"none\"");
    Finding::fault(CHECK, about, why, format!("put it right, or {fix}"))
}

/// What a model's directory lacks.
fn incomplete(directory: &Path) -> Option<String> {
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

/// The address of an endpoint on this machine.
fn on_this_machine(endpoint: &str) -> Option<String> {
    let url = url::Url::parse(endpoint).ok()?;
    let host = url.host_str()?;
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let local = host.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    local.then(|| Some(format!("{host}:{}", url.port_or_known_default()?)))?
}

fn reached(address: &str) -> bool {
    let mut addresses = address.to_socket_addrs().into_iter().flatten();
    addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
}
