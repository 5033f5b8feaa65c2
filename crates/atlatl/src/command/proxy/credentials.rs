//! Credentials: the login of this person at the server, for as long as the proxy runs.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use atlatl_login::{Bearer, LoginError, ServerLogin};
use http::HeaderValue;
use lro_proxy::upstream::http::{Credentials, Presented};

use crate::output::Output;

/// A token that was looked up is used for so long: other processes may renew it at any time, but a
/// file is not read for every request.
const LOOKED_UP: Duration = Duration::from_secs(5);

/// A login, which may not be there yet.
pub(super) struct OfLogin {
    login: ServerLogin,
    known: Mutex<Option<(Instant, Option<HeaderValue>)>>,
    /// The last thing that a person was told, so that it is not told for every request.
    told: Mutex<String>,
}

impl OfLogin {
    pub(super) fn new(login: ServerLogin) -> Self {
        Self { login, known: Mutex::default(), told: Mutex::default() }
    }

    fn learn(&self, bearer: Option<&Bearer>) -> Option<HeaderValue> {
        let header = bearer.and_then(|bearer| HeaderValue::from_str(&bearer.header()).ok());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((Instant::now(), header.clone()));
        header
    }

    /// What the client is told; the person who started the proxy is told too, once.
    fn told(&self, error: &LoginError) -> String {
        let told = crate::error::with_causes(error);
        let mut last = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != told {
            Output::remark(&told);
            last.clone_from(&told);
        }
        told
    }
}

impl Credentials for OfLogin {
    fn present(&self) -> Presented<'_, Option<HeaderValue>> {
        Box::pin(async {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((at, header)) = known
                && at.elapsed() < LOOKED_UP
            {
                return Ok(header);
            }
            let bearer = self.login.bearer().await.map_err(|error| self.told(&error))?;
            Ok(self.learn(bearer.as_ref()))
        })
    }

    fn refused<'a>(
        &'a self,
        sent: Option<&'a HeaderValue>,
        challenge: Option<&'a str>,
    ) -> Presented<'a, HeaderValue> {
        Box::pin(async move {
            let sent = sent.and_then(|sent| Bearer::of_header(sent.to_str().ok()?));
            let bearer = self.login.refused(sent.as_ref(), challenge).await;
            let bearer = bearer.map_err(|error| self.told(&error))?;
            self.learn(Some(&bearer)).ok_or_else(|| "the token fits into no header".to_owned())
        })
    }
}
