//! Negotiated session state (protocol version, session id) for clients before 2026-07-28.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use lro_http::header::{SESSION, VERSION, encoded};
use lro_wire::{Message, Object};
use tokio::task::AbortHandle;

/// The agreement.
#[derive(Debug, Default)]
pub(super) struct NegotiatedSession {
    now: Mutex<Agreement>,
    /// One at a time greets anew; when it last failed.
    pub(super) renewing: tokio::sync::Mutex<Option<Instant>>,
    /// The stream of what is said unasked broke off too often.
    gave_up: AtomicBool,
}

/// What the server gave, and what it was asked with.
#[derive(Debug, Default, Clone)]
pub(super) struct Agreement {
    /// The `initialize` of the client, to be said again when the server has forgotten us.
    pub(super) initialize: Option<Bytes>,
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// How often an agreement was made.
    pub(super) generation: u64,
    /// Reads what the server says unasked.
    listening: Option<AbortHandle>,
}

impl NegotiatedSession {
    pub(super) fn now(&self) -> Agreement {
        self.lock().clone()
    }

    /// The server took `initialize` and gave a session, or none.
    pub(super) fn begin(&self, initialize: &Bytes, session: Option<&HeaderValue>) {
        let mut now = self.lock();
        if let Some(listening) = now.listening.take() {
            listening.abort();
        }
        now.initialize = Some(initialize.clone());
        now.session = session.cloned();
        now.version = None;
        now.generation += 1;
    }

    /// The answer to `initialize` says which version is spoken.
    pub(super) fn answered(&self, line: &[u8]) {
        let version = std::str::from_utf8(line).ok().and_then(|text| {
            let result = Message::read(text)?.result?;
            Object::read(result.get())?.text("protocolVersion").map(|version| encoded(&version))
        });
        self.lock().version = version;
    }

    /// `listening` reads what the server says unasked; the one before does not any more.
    pub(super) fn listens(&self, listening: AbortHandle) {
        if let Some(earlier) = self.lock().listening.replace(listening) {
            earlier.abort();
        }
    }

    /// The stream of what the server says unasked is not asked for any more.
    pub(super) fn gave_up(&self) {
        self.gave_up.store(true, Ordering::Release);
    }

    /// Whether that stream was given up; asked once.
    pub(super) fn misses_its_stream(&self) -> bool {
        self.gave_up.swap(false, Ordering::AcqRel)
    }

    /// There will be nothing more; what was agreed upon.
    pub(super) fn end(&self) -> Agreement {
        let mut now = self.lock();
        if let Some(listening) = now.listening.take() {
            listening.abort();
        }
        std::mem::take(&mut *now)
    }

    fn lock(&self) -> MutexGuard<'_, Agreement> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agreement {
    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// What every request carries.
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
