//! Request extractors with size and time limits.
//!
//! The framework's own rejections are plain text, which a client that expects RFC 9457 cannot
//! parse.

use std::time::Duration;

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

/// The timeout of a request body, since a client that sends nothing occupies a permit.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an oversized body is read and discarded: a client that has not sent everything does
/// not read the response, and would not see the reason.
const MAX_DISCARDED_LEN: usize = 128 << 20;
/// After this many discarded bytes the connection pauses. Only one connection pauses at a time, so
/// that any number of oversized bodies causes a bounded load.
const DISCARD_CHUNK_LEN: usize = 1 << 20;
const DISCARD_PAUSE: Duration = Duration::from_millis(10);

/// A whole body, no longer than [`MAX_BODY_LEN`].
pub(super) struct LimitedBody(pub(super) Bytes);

impl FromRequest<HttpState> for LimitedBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Problem> {
        // An oversized body may time out while it waits for others. The response then still names
        // the size.
        let mut too_long = is_too_long(request.headers());
        match timeout(BODY_TIMEOUT, read_body(request, &state.discard, &mut too_long)).await {
            Ok(taken) => taken.map(Self),
            Err(_) if too_long => Err(too_large()),
            Err(_) => Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "timed out while reading the request body",
            )),
        }
    }
}

async fn read_body(
    request: Request,
    discard: &Semaphore,
    too_long: &mut bool,
) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    if *too_long && parts.headers.contains_key(header::EXPECT) {
        // The client asks before it sends the body (`Expect: 100-continue`).
        return Err(too_large());
    }
    let mut pieces = body.into_data_stream();
    let (mut taken, mut length, mut discarded) = (Vec::new(), 0_usize, 0_usize);
    while let Some(piece) = pieces.next().await {
        let message = "incomplete request body";
        let piece = piece.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, message))?;
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
    let message = format!("the request body is larger than {MAX_BODY_LEN} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// The id in a path. A segment that is not UTF-8 is not found.
pub(super) struct MemoryIdPath(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for MemoryIdPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        id.map(|Path(id)| Self(id)).map_err(|_| Problem::missing())
    }
}
