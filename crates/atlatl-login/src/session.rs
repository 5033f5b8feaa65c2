//! The login at one server: its token, refreshed when that is due, by one process at a time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::challenge::missing_scopes;
use crate::error::LoginError;
use crate::folder::Found;
use crate::logins::Logins;
use crate::refresh::{Refreshed, refresh};
use crate::secret::{Bearer, Secret};
use crate::server::ServerKey;
use crate::stored_token::now;

/// A token that is refused within this time was never any good.
const A_WHILE: Duration = Duration::from_mins(1);

/// A person's login at one server. Copies share what was tried.
#[derive(Debug, Clone)]
pub struct ServerLogin {
    logins: Logins,
    server: ServerKey,
    /// The token that the last refusal was answered with, and when: refused at once, no further one
    /// helps. Refused much later, it has been revoked like any other.
    retried: Arc<Mutex<Option<(Secret, Instant)>>>,
}

impl ServerLogin {
    pub(crate) fn new(logins: Logins, server: ServerKey) -> Self {
        Self { logins, server, retried: Arc::default() }
    }

    /// The access token, refreshed when it has less than a minute to live; none where there is no
    /// login.
    pub async fn bearer(&self) -> Result<Option<Bearer>, LoginError> {
        let Some(Found { kept, .. }) = self.find()? else { return Ok(None) };
        if kept.is_fresh(now()) {
            return Ok(Some(kept.bearer()));
        }
        // What cannot be refreshed, or not now, is used to its last second.
        let last = kept.is_valid(now()).then(|| kept.bearer());
        if last.is_some() && kept.refresh_token.is_none() {
            return Ok(last);
        }
        match self.renew(&kept.access_token).await {
            Ok(bearer) => Ok(Some(bearer)),
            Err(LoginError::Unreachable { .. } | LoginError::Busy { .. }) if last.is_some() => {
                Ok(last)
            }
            Err(error) => Err(error),
        }
    }

    /// The server refused what was sent (`401`, `403`), with this challenge if it gave one: another
    /// token to try, once, or what a person has to do.
    pub async fn refused(
        &self,
        sent: Option<&Bearer>,
        challenge: Option<&str>,
    ) -> Result<Bearer, LoginError> {
        let server = self.server.url();
        if let Some(scopes) = challenge.and_then(|text| missing_scopes(text, server)) {
            return Err(LoginError::Scope { server: server.clone(), scopes });
        }
        let Some(sent) = sent else {
            // Somebody may have logged in meanwhile.
            return self.bearer().await?.ok_or_else(|| self.needed());
        };
        let retried = self.retried().clone();
        if retried.is_some_and(|(token, at)| token == *sent.token() && at.elapsed() < A_WHILE) {
            return Err(self.needed());
        }
        let bearer = self.renew(sent.token()).await?;
        *self.retried() = Some((bearer.token().clone(), Instant::now()));
        Ok(bearer)
    }

    fn retried(&self) -> std::sync::MutexGuard<'_, Option<(Secret, Instant)>> {
        self.retried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self) -> Result<Option<Found>, LoginError> {
        Ok(self.logins.folder.of(&self.server)?.into_iter().next())
    }

    fn needed(&self) -> LoginError {
        LoginError::Needed { server: self.server.url().clone() }
    }

    /// The runtime ends, or a task panicked: the login is as it is on disk.
    fn cut_short(&self) -> LoginError {
        let asked = self.server.url().host_str().unwrap_or_default().to_owned();
        LoginError::Unreachable { asked, why: "the refresh was cut short".to_owned() }
    }

    /// A token other than `stale`: the one that another process got meanwhile, or a new one.
    async fn renew(&self, stale: &Secret) -> Result<Bearer, LoginError> {
        // A task of its own: whoever asks may go away, but a refresh token that was used must be
        // replaced, or the login is lost.
        let (this, stale) = (self.clone(), stale.clone());
        let task = tokio::spawn(async move { this.renew_alone(&stale).await });
        task.await.unwrap_or_else(|_| Err(self.cut_short()))
    }

    async fn renew_alone(&self, stale: &Secret) -> Result<Bearer, LoginError> {
        if self.find()?.is_none() {
            return Err(self.needed());
        }
        let locked = self.logins.folder.lock(&self.server).await?;
        // Read again: whoever held the lock before has refreshed.
        let found = self.find()?.ok_or_else(|| self.needed())?;
        if found.kept.access_token != *stale && found.kept.is_fresh(now()) {
            return Ok(found.kept.bearer());
        }
        let Some(token) = found.kept.refresh_token.clone() else { return Err(self.needed()) };
        let client = self.logins.client(&found.kept.server)?;
        match refresh(&client, &found.kept, &token).await? {
            Refreshed::Granted(granted) => {
                let kept = found.kept.renewed(granted, now());
                let bearer = kept.bearer();
                // Syncing waits for the disk.
                let written = tokio::task::spawn_blocking(move || locked.keep(&kept)).await;
                written.unwrap_or_else(|_| Err(self.cut_short()))?;
                Ok(bearer)
            }
            Refreshed::Rejected => {
                // Only what was rejected: a person may have copied another file into its place.
                if self.find()?.as_ref() == Some(&found) {
                    locked.remove(&found)?;
                }
                Err(self.needed())
            }
            Refreshed::ClientUnknown => Err(self.needed()),
        }
    }
}
