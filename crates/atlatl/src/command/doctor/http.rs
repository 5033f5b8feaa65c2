//! HTTP: who may ask a server of ours, and from where.

use std::{net::SocketAddr, path::Path};

use lro_http::{AuthError, BearerTokens, LOCAL_TOKEN, SocketError, UNIX, checked_socket};

use super::{
    finding::{Finding, Group},
    fix::{self, word},
};
use crate::{access::TOKEN_FILE, error::with_causes, settings::Settings};

/// Looks at what is configured; nothing where HTTP is not.
pub(super) fn check(settings: &Settings) -> Option<Group> {
    let server = &settings.config.server;
    if server.listen.is_empty() && server.auth.is_empty() {
        return None;
    }
    let mut group = Group::new("http");
    group.checked("server-auth", auth(settings, &server.auth), "the tokens can be read");
    group.checked("server-listen", listen(settings), "only who may ask can ask");
    group.summary(if server.listen.is_empty() { "not served" } else { &server.listen });
    Some(group)
}

fn auth(settings: &Settings, auth: &str) -> Option<Finding> {
    if auth.is_empty() {
        return local_token(settings);
    }
    let Some(path) = auth.strip_prefix(TOKEN_FILE).map(Path::new) else {
        // Not the value: it may be a token that was put in the wrong place.
        let fix = fix::set(settings, "server.auth", "\"token-file:PATH\"");
        return Some(Finding::fault("server-auth", "server.auth", "it is no token-file:PATH", fix));
    };
    // A pipe would never end.
    if path.exists() && !path.is_file() {
        let fix = format!("mv {0} {0}.aside", word(path));
        return Some(Finding::fault("server-auth", path.display(), "it is no file", fix));
    }
    let error = BearerTokens::read(path, [0; 32]).err()?;
    let make = || {
        format!(
            "(umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \\n' > {0}) && chmod 600 {0}",
            word(path)
        )
    };
    let fix = match &error {
        AuthError::OpenToOthers { .. } => format!("chmod 600 {}", word(path)),
        AuthError::TooShort { line, .. } => {
            format!("in {}, line {line}, write a token of 32 characters or more", path.display())
        }
        _ => make(),
    };
    Some(Finding::fault("server-auth", path.display(), with_causes(&error), fix))
}

/// The token of this user, where a server on a port of this machine needs it and has created it.
fn local_token(settings: &Settings) -> Option<Finding> {
    if settings.config.server.listen.starts_with(UNIX) {
        return None;
    }
    let path = settings.surroundings().state_dir.as_ref()?.join("atlatl").join(LOCAL_TOKEN);
    let error = BearerTokens::read(&path, [0; 32]).err().filter(|_| path.exists())?;
    let fix = match &error {
        AuthError::OpenToOthers { .. } => format!("chmod 600 {}", word(&path)),
        // The next server creates another.
        _ => format!("rm {}", word(&path)),
    };
    Some(Finding::fault("server-auth", path.display(), with_causes(&error), fix))
}

/// A socket that another user could replace.
fn socket(path: &str) -> Option<Finding> {
    let error = checked_socket(Path::new(path)).err()?;
    let fix = if let SocketError::OpenDirectory { path } = &error {
        format!("chmod go-w {}", word(path))
    } else {
        let directory = Path::new(path).parent().unwrap_or(Path::new("."));
        format!("mkdir -p -m 700 {}", word(directory))
    };
    Some(Finding::fault("server-listen", "server.listen", with_causes(&error), fix))
}

/// An address beyond this machine without `server.auth`. Names are not looked up.
fn listen(settings: &Settings) -> Option<Finding> {
    let server = &settings.config.server;
    if let Some(path) = server.listen.strip_prefix(UNIX) {
        return socket(path);
    }
    let address = server.listen.parse::<SocketAddr>().ok()?;
    if !server.auth.is_empty() || address.ip().to_canonical().is_loopback() {
        return None;
    }
    let here = format!("\"127.0.0.1:{}\"", address.port());
    Some(Finding::fault(
        "server-listen",
        "server.listen",
        format!(
            "{address} can be reached from other machines, and server.auth is not set: `serve` refuses"
        ),
        fix::set(settings, "server.listen", here),
    ))
}
