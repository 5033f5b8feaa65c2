//! Opens the object store that the configuration names.

use std::{env, time::Duration};

use lro_spool::{Bucket, ObjectOptions, ObjectSpool, Quota};

use crate::{error::Error, settings::Settings};

/// The variables that every client of such storage knows; which of them mean something, the storage
/// says.
const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
/// How long one request may take: someone waits for the answer.
const REQUEST: Duration = Duration::from_secs(10);

/// The results of `memory.tenant` in the storage that `spool.url` names, if it names one.
pub(crate) fn open(settings: &Settings) -> Result<Option<ObjectSpool>, Error> {
    let Some(bucket) = bucket(settings)? else { return Ok(None) };
    let config = &settings.config;
    let spool = ObjectSpool::new(&bucket, &config.memory.tenant, Quota::from(&config.spool));
    spool.map(Some).map_err(|error| wrong(&error.to_string()))
}

/// The storage that `spool.url` names, if it names one.
pub(crate) fn bucket(settings: &Settings) -> Result<Option<Bucket>, Error> {
    let config = &settings.config;
    if config.spool.url.is_empty() {
        return Ok(None);
    }
    let known = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let variables = env::vars().filter(|(name, _)| known(name));
    let options = ObjectOptions::new(&settings.surroundings().temp_dir)
        .local(config.spool.max_bytes, config.spool.min_free_bytes)
        .time_limit(REQUEST);
    Bucket::from_url(&config.spool.url, variables, options)
        .map(Some)
        .map_err(|error| wrong(&crate::error::with_causes(&error)))
}

fn wrong(error: &str) -> Error {
    Error::usage(format!("spool.url: {error}"))
}
