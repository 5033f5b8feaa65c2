//! Request extractors with size and time limits, whose rejections are RFC 9457 problems.
//!
//! The framework's own answers are plain text, which a program that expects RFC 9457 cannot read.

use std::time::Duration;

use atlatl_memory::StoreError;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use lro_http::Problem;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::MAX_BODY_LEN;
use super::admission::HttpState;
use crate::tools::arguments::ArgumentError;
use crate::tools::response::ToolError;

/// How long a body may take: whoever sends none keeps a place that others want.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// So much of a body is taken in to no end: who has not sent all of it does not read an answer, and is
/// not told why nobody listens.
const MAX_DISCARDED_LEN: usize = 128 << 20;
/// After so much of it nothing more is taken for a while, which only one of all that send too much may
/// sit out at a time: however many they are, they cost no more than that.
const DISCARD_CHUNK_LEN: usize = 1 << 20;
const DISCARD_PAUSE: Duration = Duration::from_millis(10);

/// A whole body, no longer than [`MAX_BODY_LEN`].
pub(super) struct LimitedBody(pub(super) Bytes);

impl FromRequest<HttpState> for LimitedBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Problem> {
        // Who sends too much may have to wait for others who do: that is not what they are told.
        let mut too_long = is_too_long(request.headers());
        match timeout(BODY_TIMEOUT, taken(request, &state.discard, &mut too_long)).await {
            Ok(taken) => taken.map(Self),
            Err(_) if too_long => Err(too_large()),
            Err(_) => {
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body does not arrive in time"))
            }
        }
    }
}

async fn taken(
    request: Request,
    discard: &Semaphore,
    too_long: &mut bool,
) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    if *too_long && parts.headers.contains_key(header::EXPECT) {
        // They ask before they send.
        return Err(too_large());
    }
    let mut pieces = body.into_data_stream();
    let (mut taken, mut length, mut discarded) = (Vec::new(), 0_usize, 0_usize);
    while let Some(piece) = pieces.next().await {
        let said = "the body does not end as announced";
        let piece = piece.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, said))?;
        length += piece.len();
        *too_long |= length > MAX_BODY_LEN;
        if !*too_long {
            taken.extend_from_slice(&piece);
            continue;
        }
        taken = Vec::new();
        if length > MAX_DISCARDED_LEN {
            break;
        }
        discarded += piece.len();
        if discarded >= DISCARD_CHUNK_LEN {
            discarded = 0;
            let _turn = discard.acquire().await;
            sleep(DISCARD_PAUSE).await;
        }
    }
    if *too_long { Err(too_large()) } else { Ok(taken.into()) }
}

fn is_too_long(headers: &HeaderMap) -> bool {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let announced = announced.and_then(|length| length.parse::<u64>().ok());
    announced.is_some_and(|length| length > MAX_BODY_LEN as u64)
}

fn too_large() -> Problem {
    let said = format!("a body has at most {MAX_BODY_LEN} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, said)
}

/// The id in a path. What is no text is no id.
pub(super) struct MemoryIdPath(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for MemoryIdPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        id.map(|Path(id)| Self(id)).map_err(|_| Problem::missing())
    }
}

// --- Problem: what the API says where memories or arguments are in the way.

impl From<ArgumentError> for Problem {
    fn from(error: ArgumentError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{} ({})", error.message, error.hint))
    }
}

/// What a store could not do.
pub(super) fn store_problem(error: StoreError) -> Problem {
    match error {
        StoreError::Invalid(error) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
        StoreError::Busy | StoreError::Unavailable(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        // Nobody can say more before the store is back.
        StoreError::Unsure(_) => {
            let said = format!("{error}; look before you ask again");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, said)
        }
        StoreError::Storage(_) => Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        _ => Problem::broken(),
    }
}

/// What a tool would say.
pub(super) fn tool_problem(error: ToolError) -> Problem {
    match error {
        ToolError::Arguments(error) => error.into(),
        ToolError::NotFound(_) => Problem::missing(),
        ToolError::QuotaExceeded(most) => {
            let said = format!("there are {most} memories, as many as there may be");
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, said)
        }
        ToolError::Store(error) => store_problem(error),
    }
}
