//! Remote: the server at a URL, by the settings.

use std::{sync::Arc, time::Duration};

use http::header;
use lro_proxy::upstream::http::{Endpoint, Remote, RemoteOptions};
use lro_spool::Scope;

use super::{credentials::OfLogin, headers::headers};
use crate::{
    error::Error,
    login_store,
    settings::{Settings, Sources},
};

/// The server at `url`, and how it is told from others.
pub(super) fn remote(
    url: &str,
    typed: &[String],
    settings: &Settings,
    sources: &Sources,
) -> Result<(Remote, String), Error> {
    let endpoint = Endpoint::named(url).map_err(|error| Error::usage(format!("--url: {error}")))?;
    let config = &settings.config.proxy;
    let mut options = RemoteOptions::default();
    options.headers = headers(&endpoint, &config.headers, typed, |name| sources.variable(name))?;
    // A header that somebody set is what they want to be known by.
    if !options.headers.contains_key(header::AUTHORIZATION)
        && endpoint.socket().is_none()
        && let Ok(logins) = login_store::open(settings)
    {
        options.credentials = Some(Arc::new(OfLogin::new(logins.of(endpoint.url()))));
    }
    options.silence = Duration::from_secs(config.silence_seconds);
    let label = label(&endpoint);
    let remote =
        Remote::new(endpoint, options).map_err(|error| Error::failure(error.to_string()))?;
    Ok((remote, label))
}

/// The host, and what keeps two servers of one host apart.
fn label(endpoint: &Endpoint) -> String {
    if let Some(socket) = endpoint.socket() {
        let which = Scope::from_fields([socket.as_os_str().as_encoded_bytes()]);
        return format!("localhost:{which}");
    }
    let url = endpoint.url();
    let which = Scope::from_fields([url.as_str().as_bytes()]);
    format!("{}:{which}", url.host_str().unwrap_or_default())
}
