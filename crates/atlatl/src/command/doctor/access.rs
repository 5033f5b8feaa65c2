//! Checks of authentication: logins to remote servers, and access to an own HTTP server.

use std::net::SocketAddr;
use std::path::Path;

use atlatl_login::LoginError;
use lro::IdSeed;
use lro_http::{
    BearerError, BearerTokens, LOCAL_TOKEN, SocketError, UNIX_PREFIX, check_socket_path,
};

use super::client_entry::{ClientEntry, EntryCommand, UpstreamSpec};
use super::report::{Finding, Group, config_fix, quote_path, shell_quote};
use crate::access::TOKEN_FILE;
use crate::error::with_causes;
use crate::login_store::{Entry, open};
use crate::output::counted;
use crate::settings::Settings;

/// Checks the stored logins: file permissions and expiry.
pub(super) fn check_logins(settings: &Settings, servers: &[ClientEntry]) -> Group {
    let mut group = Group::new("logins");
    let Ok(logins) = open(settings) else {
        group.summary("no home directory for logins");
        return group;
    };
    match logins.list() {
        Err(error) => {
            group.record("login-file", [login_file_finding(&error)], "");
            group.summary("the logins cannot be read");
        }
        Ok(all) => {
            group.record("login-file", [], "only you have access to their files");
            let entries: Vec<Entry> = all.into_iter().map(Entry::from).collect();
            group.record(
                "login",
                entries.iter().filter_map(|entry| expired_login(entry, servers)),
                "none has expired",
            );
            group.summary(match entries.len() {
                0 => "none".to_owned(),
                n => counted(n as u64, "server", "servers"),
            });
        }
    }
    group
}

fn login_file_finding(error: &LoginError) -> Finding {
    match error {
        LoginError::NotPrivate { path, why, fix } => Finding::fault(
            "login-file",
            path.display(),
            format!("it {why}"),
            fix.strip_prefix("run `").and_then(|fix| fix.strip_suffix('`')).unwrap_or(fix),
        ),
        LoginError::Damaged { path } => Finding::fault(
            "login-file",
            path.display(),
            "not a valid login file",
            format!("rm {}, then `atlatl login URL`", quote_path(path)),
        ),
        LoginError::File { path, .. } => Finding::fault(
            "login-file",
            path.display(),
            with_causes(error),
            format!("ls -l {}, and make the file readable and writable", quote_path(path)),
        ),
        _ => Finding::fault("login-file", "logins", with_causes(error), "atlatl whoami"),
    }
}

/// Reports an expired login that cannot be refreshed: a fault if a client uses the server through
/// the proxy, otherwise a warning.
fn expired_login(entry: &Entry, servers: &[ClientEntry]) -> Option<Finding> {
    let end =
        entry.expires_at.filter(|end| !entry.refreshable && *end <= IdSeed::from_system().now)?;
    let in_use =
        servers.iter().filter(|server| server.launch.enabled).any(|server| match &server.command {
            EntryCommand::Proxy { upstream: UpstreamSpec::Url(url), .. } => {
                url::Url::parse(url).is_ok_and(|url| url == entry.server)
            }
            _ => false,
        });
    let message =
        format!("it expired at {}, and cannot be refreshed", end.format("%Y-%m-%d %H:%M UTC"));
    let fix = format!("atlatl login {}", shell_quote(entry.server.as_str()));
    let finding = if in_use { Finding::fault } else { Finding::warning };
    Some(finding("login", &entry.server, message, fix))
}

/// Checks `server.auth` and `server.listen`; `None` if neither is set.
pub(super) fn check_http(settings: &Settings) -> Option<Group> {
    let server = &settings.config.server;
    if server.listen.is_empty() && server.auth.is_empty() {
        return None;
    }
    let mut group = Group::new("http");
    group.record("server-auth", check_auth(settings, &server.auth), "the tokens can be read");
    group.record("server-listen", check_listen(settings), "only authorized clients have access");
    group.summary(if server.listen.is_empty() { "not served" } else { &server.listen });
    Some(group)
}

fn check_auth(settings: &Settings, auth: &str) -> Option<Finding> {
    if auth.is_empty() {
        return check_local_token(settings);
    }
    let Some(path) = auth.strip_prefix(TOKEN_FILE).map(Path::new) else {
        // The value is not shown: it may be a token in the wrong setting.
        let fix = config_fix(settings, "server.auth", "\"token-file:PATH\"");
        return Some(Finding::fault(
            "server-auth",
            "server.auth",
            "not of the form token-file:PATH",
            fix,
        ));
    };
    // Reading a pipe would block.
    if path.exists() && !path.is_file() {
        let fix = format!("mv {0} {0}.aside", quote_path(path));
        return Some(Finding::fault("server-auth", path.display(), "not a regular file", fix));
    }
    let error = BearerTokens::read(path, [0; 32]).err()?;
    let create_token = || {
        format!(
            "(umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \\n' > {0}) && chmod 600 {0}",
            quote_path(path)
        )
    };
    let fix = match &error {
        BearerError::OpenToOthers { .. } => format!("chmod 600 {}", quote_path(path)),
        BearerError::TooShort { line, .. } => {
            format!("in {}, line {line}, write a token of 32 characters or more", path.display())
        }
        _ => create_token(),
    };
    Some(Finding::fault("server-auth", path.display(), with_causes(&error), fix))
}

/// Checks the local token of this user, which a server on a TCP port creates and requires.
fn check_local_token(settings: &Settings) -> Option<Finding> {
    if settings.config.server.listen.starts_with(UNIX_PREFIX) {
        return None;
    }
    let path = settings.surroundings().state_dir.as_ref()?.join("atlatl").join(LOCAL_TOKEN);
    let error = BearerTokens::read(&path, [0; 32]).err().filter(|_| path.exists())?;
    let fix = match &error {
        BearerError::OpenToOthers { .. } => format!("chmod 600 {}", quote_path(&path)),
        // The next server creates a new token.
        _ => format!("rm {}", quote_path(&path)),
    };
    Some(Finding::fault("server-auth", path.display(), with_causes(&error), fix))
}

/// Reports a socket that another user could replace.
fn check_socket(path: &str) -> Option<Finding> {
    let error = check_socket_path(Path::new(path)).err()?;
    let fix = if let SocketError::OpenDirectory { path } = &error {
        format!("chmod go-w {}", quote_path(path))
    } else {
        let directory = Path::new(path).parent().unwrap_or(Path::new("."));
        format!("mkdir -p -m 700 {}", quote_path(directory))
    };
    Some(Finding::fault("server-listen", "server.listen", with_causes(&error), fix))
}

/// Reports an address that other machines can reach without `server.auth`. Host names are not
/// resolved.
fn check_listen(settings: &Settings) -> Option<Finding> {
    let server = &settings.config.server;
    if let Some(path) = server.listen.strip_prefix(UNIX_PREFIX) {
        return check_socket(path);
    }
    let address = server.listen.parse::<SocketAddr>().ok()?;
    if !server.auth.is_empty() || address.ip().to_canonical().is_loopback() {
        return None;
    }
    let loopback = format!("\"127.0.0.1:{}\"", address.port());
    Some(Finding::fault(
        "server-listen",
        "server.listen",
        format!(
            "{address} can be reached from other machines, and server.auth is not set: `serve` \
             refuses to start"
        ),
        config_fix(settings, "server.listen", loopback),
    ))
}
