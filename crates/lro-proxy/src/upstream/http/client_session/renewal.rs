//! Initializes the session again when the server has dropped it.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use super::{HttpSession, INITIALIZED};
use crate::upstream::http::client::Ask;
use crate::upstream::http::error::UpstreamError;

impl HttpSession {
    /// Greets the server anew: it has forgotten what was agreed upon in that `generation`. One greets
    /// for all who wait, and fails for all; whoever goes away meanwhile does not cut it short.
    pub(super) async fn renew(self: &Arc<Self>, generation: u64) -> Result<(), UpstreamError> {
        let server = self.remote.name();
        let gone =
            || UpstreamError::Status { server: server.clone(), status: StatusCode::NOT_FOUND };
        let began = Instant::now();
        let mut failed = self.greeted.renewing.lock().await;
        if self.greeted.now().generation != generation {
            return Ok(());
        }
        if failed.is_some_and(|at| at > began) {
            return Err(gone());
        }
        let link = Arc::clone(self);
        let greets = self.runtime.spawn(async move { link.greet_again().await });
        let greeted = greets.await.unwrap_or_else(|_| Err(gone()));
        *failed = greeted.is_err().then(Instant::now);
        greeted
    }

    async fn greet_again(self: &Arc<Self>) -> Result<(), UpstreamError> {
        let server = self.remote.name();
        let gone =
            || UpstreamError::Status { server: server.clone(), status: StatusCode::NOT_FOUND };
        let agreed = self.greeted.now();
        let initialize = agreed.initialize.ok_or_else(gone)?;
        let answer = self.answer(&initialize, HeaderMap::new()).await?;
        let Some((session, line)) = answer else { return Err(gone()) };
        self.greeted.begin(&initialize, session.as_ref());
        self.greeted.answered(line.as_bytes());
        let ready = json!({"jsonrpc": "2.0", "method": INITIALIZED}).to_string();
        let ask = Ask {
            method: Method::POST,
            headers: self.greeted.now().headers(),
            body: ready.into(),
            patient: false,
        };
        self.remote.ask(&ask).await?;
        self.listen();
        Ok(())
    }
}
