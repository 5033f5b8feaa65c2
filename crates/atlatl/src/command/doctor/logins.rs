//! Logins: whether those that are kept are good.

use atlatl_login::LoginError;
use lro::Moment;

use super::{
    finding::{Finding, Group},
    fix::{shell_word, word},
    server::{Behind, Server, What},
};
use crate::{
    error::with_causes,
    login_store::{Entry, open},
    output::counted,
    settings::Settings,
};

/// Looks at all of them.
pub(super) fn check(settings: &Settings, servers: &[Server]) -> Group {
    let mut group = Group::new("logins");
    let Ok(logins) = open(settings) else {
        group.summary("there is no home directory to keep them in");
        return group;
    };
    match logins.list() {
        Err(error) => {
            group.checked("login-file", [unusable(&error)], "");
            group.summary("they cannot be read");
        }
        Ok(all) => {
            group.checked("login-file", [], "their files are yours alone");
            let entries: Vec<Entry> = all.into_iter().map(Entry::from).collect();
            group.checked(
                "login",
                entries.iter().filter_map(|entry| stale(entry, servers)),
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

fn unusable(error: &LoginError) -> Finding {
    match error {
        LoginError::NotPrivate { path, why, mend } => Finding::fault(
            "login-file",
            path.display(),
            format!("it {why}"),
            mend.strip_prefix("run `").and_then(|mend| mend.strip_suffix('`')).unwrap_or(mend),
        ),
        LoginError::Damaged { path } => Finding::fault(
            "login-file",
            path.display(),
            "it does not hold a login",
            format!("rm {}, then `atlatl login URL`", word(path)),
        ),
        LoginError::File { path, .. } => Finding::fault(
            "login-file",
            path.display(),
            with_causes(error),
            format!("ls -l {}, and make it a file that you can read and write", word(path)),
        ),
        _ => Finding::fault("login-file", "logins", with_causes(error), "atlatl whoami"),
    }
}

/// A login that has ended. It is a fault where a client has that server behind the proxy.
fn stale(entry: &Entry, servers: &[Server]) -> Option<Finding> {
    let end =
        entry.expires_at.filter(|end| !entry.refreshable && *end <= Moment::of_system().now)?;
    let used =
        servers.iter().filter(|server| server.launch.enabled).any(|server| match &server.what {
            What::Proxy { behind: Behind::Url(url), .. } => {
                url::Url::parse(url).is_ok_and(|url| url == entry.server)
            }
            _ => false,
        });
    let says =
        format!("it expired at {}, and cannot be refreshed", end.format("%Y-%m-%d %H:%M UTC"));
    let fix = format!("atlatl login {}", shell_word(entry.server.as_str()));
    let make = if used { Finding::fault } else { Finding::warning };
    Some(make("login", &entry.server, says, fix))
}
