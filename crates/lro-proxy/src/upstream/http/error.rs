//! Errors of an exchange with a server.

use std::error::Error;
use std::time::Duration;

use http::StatusCode;
use lro_core::excerpt;
use lro_wire::{INTERNAL_ERROR, JsonRpcError, Object};
use serde_json::json;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// It could not be asked.
    #[error("{server} cannot be reached: {why}")]
    Unreachable {
        /// The server.
        server: String,
        /// What stood in the way.
        why: String,
    },
    /// It answered with a status and nothing that answers the request.
    #[error("{server} answered {status} and no message")]
    Status {
        /// The server.
        server: String,
        /// The status.
        status: StatusCode,
    },
    /// It refused, and said why to whoever reads statuses (RFC 9457).
    #[error("{server} answered {status}: {said}")]
    Refused {
        /// The server.
        server: String,
        /// The status.
        status: StatusCode,
        /// Its words: one line, cut, with hidden characters made visible.
        said: String,
    },
    /// It sends us elsewhere, where what is meant for it does not go.
    #[error("{server} redirects, which is followed within it only; name the other URL yourself")]
    Redirect {
        /// The server.
        server: String,
    },
    /// It answered in a form that holds no messages.
    #[error("{server} answered in a form that is neither JSON nor a stream of events")]
    Form {
        /// The server.
        server: String,
    },
    /// The answer broke off.
    #[error("{server} ended the answer before it was complete")]
    Dropped {
        /// The server.
        server: String,
    },
    /// Nothing came.
    #[error("{server} said nothing for {} s (proxy.silence_seconds)", silence.as_secs())]
    Silent {
        /// The server.
        server: String,
        /// How long was waited.
        silence: Duration,
    },
    /// There is no room for the answer.
    #[error("the answer of {server} is too long to be carried")]
    TooLong {
        /// The server.
        server: String,
    },
    /// The user is not logged in, or may not.
    #[error("{0}")]
    Login(String),
}

/// As much is shown of what a server says.
const SAID: usize = 200;

impl UpstreamError {
    /// A refusal with the `detail` of a problem, if `text` is one.
    pub(crate) fn of_problem(server: &str, status: StatusCode, text: &str) -> Option<Self> {
        let detail = Object::read(text)?.text("detail")?;
        let said = excerpt(&detail, SAID).replace(['\r', '\n', '\t'], " ");
        Some(Self::Refused { server: server.to_owned(), status, said })
    }

    /// The words of an error and of what caused it, without the URL, which may hold a secret.
    pub(crate) fn unreachable(server: &impl ToString, error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            why = format!("{why}: {error}");
            cause = error.source();
        }
        Self::Unreachable { server: server.to_string(), why }
    }

    /// As the answer to a request.
    pub(crate) fn failure(&self) -> JsonRpcError {
        let failure = JsonRpcError::new(INTERNAL_ERROR, self.to_string());
        match self {
            Self::Status { status, .. } | Self::Refused { status, .. } => {
                failure.with(json!({"status": status.as_u16()}))
            }
            _ => failure,
        }
    }
}
