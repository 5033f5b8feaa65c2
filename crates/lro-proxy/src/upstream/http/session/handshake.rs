//! The handshake with a server: the negotiated session, its renewal, and the discovery of tools.
//!
//! Only clients before 2026-07-28 have a session. When the server has dropped it, the proxy sends the
//! client's `initialize` again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use lro_http::header::{SESSION, VERSION, encode, mirror};
use lro_wire::{Message, Object};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::upstream::http::client::{HttpRequest, UpstreamError};
use crate::upstream::http::request::OutboundRequest;
use crate::upstream::http::response::{BodyFormat, InboundMessage};
use crate::upstream::http::session::{HttpSession, INITIALIZED};

/// The number of `tools/list` pages that are read to find a schema.
const MAX_TOOL_PAGES: usize = 50;

/// The negotiated session, shared by all exchanges.
#[derive(Debug, Default)]
pub(super) struct NegotiatedSession {
    state: Mutex<SessionState>,
    /// Serializes renewals; the time of the last failure.
    pub(super) renewal: tokio::sync::Mutex<Option<Instant>>,
    /// Whether the stream of unsolicited messages failed too often.
    listener_gave_up: AtomicBool,
}

/// The state of a session.
#[derive(Debug, Default, Clone)]
pub(super) struct SessionState {
    /// The client's `initialize`, to be sent again when the server has dropped the session.
    pub(super) initialize: Option<Bytes>,
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// How often a session was negotiated.
    pub(super) generation: u64,
    /// The task that reads unsolicited messages.
    listener: Option<AbortHandle>,
}

impl NegotiatedSession {
    pub(super) fn state(&self) -> SessionState {
        self.lock().clone()
    }

    /// Begins a session after the server accepted `initialize`.
    pub(super) fn begin(&self, initialize: &Bytes, session: Option<&HeaderValue>) {
        let mut state = self.lock();
        if let Some(listener) = state.listener.take() {
            listener.abort();
        }
        state.initialize = Some(initialize.clone());
        state.session = session.cloned();
        state.version = None;
        state.generation += 1;
    }

    /// Sets the protocol version from the response to `initialize`.
    pub(super) fn set_version_from(&self, line: &[u8]) {
        let version = std::str::from_utf8(line).ok().and_then(|text| {
            let result = Message::read(text)?.result?;
            Object::read(result.get())?.text("protocolVersion").map(|version| encode(&version))
        });
        self.lock().version = version;
    }

    /// Replaces the task that reads unsolicited messages.
    pub(super) fn set_listener(&self, listener: AbortHandle) {
        if let Some(earlier) = self.lock().listener.replace(listener) {
            earlier.abort();
        }
    }

    /// Records that the stream of unsolicited messages failed too often.
    pub(super) fn listener_gave_up(&self) {
        self.listener_gave_up.store(true, Ordering::Release);
    }

    /// Whether the stream of unsolicited messages has to be opened again; resets the flag.
    pub(super) fn take_listener_gave_up(&self) -> bool {
        self.listener_gave_up.swap(false, Ordering::AcqRel)
    }

    /// Ends the session and returns its last state.
    pub(super) fn end(&self) -> SessionState {
        let mut state = self.lock();
        if let Some(listener) = state.listener.take() {
            listener.abort();
        }
        std::mem::take(&mut *state)
    }

    fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionState {
    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// The headers of every request in the session.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let both = [(SESSION, &self.session), (VERSION, &self.version)];
        for (name, value) in both {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        headers
    }
}

impl HttpSession {
    /// Negotiates a new session after the server has dropped the one of this `generation`. One task does
    /// it for all that wait; if it fails, it fails for all. A cancelled request does not abort it.
    pub(super) async fn renew(self: &Arc<Self>, generation: u64) -> Result<(), UpstreamError> {
        let server = self.remote.name();
        let gone =
            || UpstreamError::Status { server: server.clone(), status: StatusCode::NOT_FOUND };
        let began = Instant::now();
        let mut failed = self.negotiated.renewal.lock().await;
        if self.negotiated.state().generation != generation {
            return Ok(());
        }
        if failed.is_some_and(|at| at > began) {
            return Err(gone());
        }
        let session = Arc::clone(self);
        let renewal = self.runtime.spawn(async move { session.initialize_again().await });
        let renewed = renewal.await.unwrap_or_else(|_| Err(gone()));
        *failed = renewed.is_err().then(Instant::now);
        renewed
    }

    async fn initialize_again(self: &Arc<Self>) -> Result<(), UpstreamError> {
        let server = self.remote.name();
        let gone =
            || UpstreamError::Status { server: server.clone(), status: StatusCode::NOT_FOUND };
        let initialize = self.negotiated.state().initialize.ok_or_else(gone)?;
        let answer = self.own_request(&initialize, HeaderMap::new()).await?;
        let Some((session, line)) = answer else { return Err(gone()) };
        self.negotiated.begin(&initialize, session.as_ref());
        self.negotiated.set_version_from(line.as_bytes());
        let initialized = json!({"jsonrpc": "2.0", "method": INITIALIZED}).to_string();
        let request = HttpRequest {
            method: Method::POST,
            headers: self.negotiated.state().headers(),
            body: initialized.into(),
            unlimited: false,
        };
        self.remote.send(&request).await?;
        self.listen();
        Ok(())
    }
}

impl HttpSession {
    /// Lists the server's tools to learn their schemas, with the metadata of the client's `request`.
    pub(super) async fn discover_tools(&self, request: &OutboundRequest) {
        let Some(meta) = std::str::from_utf8(&request.body).ok().and_then(|text| {
            let params = Message::read(text)?.params?;
            Object::read(params.get())?.get("_meta")?.get().parse::<Value>().ok()
        }) else {
            return;
        };
        let mut cursor = None;
        for page in 0..MAX_TOOL_PAGES {
            let mut params = json!({"_meta": meta});
            if let Some(cursor) = cursor {
                params["cursor"] = Value::String(cursor);
            }
            let request = json!({
                "jsonrpc": "2.0", "id": format!("atlatl-{page}"), "method": "tools/list",
                "params": params,
            })
            .to_string();
            let headers = Message::read(&request).map(|message| mirror(&message));
            let body = Bytes::from(request);
            let answer = self.own_request(&body, headers.unwrap_or_default()).await;
            let Ok(Some((_, line))) = answer else { return };
            let result = Message::read(&line).and_then(|message| message.result);
            cursor = result.and_then(|result| self.relay.learn_tools(result.get()));
            if cursor.is_none() {
                return;
            }
        }
    }

    /// Sends a request of the proxy itself. Returns the session id and the response, if it has a result.
    async fn own_request(
        &self,
        body: &Bytes,
        headers: HeaderMap,
    ) -> Result<Option<(Option<HeaderValue>, String)>, UpstreamError> {
        let request =
            HttpRequest { method: Method::POST, headers, body: body.clone(), unlimited: false };
        let response = self.remote.send(&request).await?;
        let session = response.headers().get(SESSION).cloned();
        let Some(format) =
            BodyFormat::from_response(&response).filter(|_| response.status().is_success())
        else {
            return Ok(None);
        };
        let mut reader = self.reader(response, format, self.remote.idle_timeout());
        while let Some(item) = reader.next().await? {
            let Some(InboundMessage::Whole(line)) = item.message else { continue };
            let Ok(line) = String::from_utf8(line) else { continue };
            if Message::read(&line).is_some_and(|message| message.result.is_some()) {
                return Ok(Some((session, line)));
            }
        }
        Ok(None)
    }
}
