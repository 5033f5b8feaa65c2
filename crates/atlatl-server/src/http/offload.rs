//! Downloads of stored results, whole or as a byte range.

use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use futures_util::stream::{self, Stream};
use lro::Spools;
use lro_http::Problem;
use lro_spool::{Address, PositionedRead, SpoolError, StoredResult};

use super::App;
use super::admission::HttpState;
use super::extract::MemoryIdPath;
use super::problem::store_problem;
use crate::limits;
use crate::signing::{SignedLinks, SignedUrl};

/// The size of one read.
const CHUNK_LEN: u64 = 1 << 20;

/// `GET /v1/offloads/{id}`, for authenticated clients.
pub(super) async fn read(
    Extension(app): Extension<App>,
    MemoryIdPath(id): MemoryIdPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    respond(app.spools, app.server.0.now(), address(&id)?, &headers).await
}

/// `GET /v1/offloads/{id}/{link}`, for holders of a signed link.
pub(super) async fn read_by_link(
    State(state): State<HttpState>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Path((id, link)) = path.map_err(|_| Problem::missing())?;
    let Address::Id(id) = address(&id)? else { return Err(Problem::missing()) };
    // The claimed tenant. The signature proves it.
    let named = SignedLinks::claimed_tenant(&link).ok_or_else(Problem::missing)?;
    let tenant = state.tenant(&named).await?.ok_or_else(Problem::missing)?;
    let (links, now) = (tenant.links.ok_or_else(Problem::missing)?, tenant.server.0.now());
    let status = links.verify(id, &link, now).await;
    match status.map_err(store_problem)? {
        SignedUrl::Valid => {}
        SignedUrl::Expired => {
            let said =
                "the link has expired; call lro_extract with only the reference for a new link";
            return Err(Problem::new(StatusCode::GONE, said));
        }
        SignedUrl::Invalid => return Err(Problem::missing()),
    }
    let mut response = respond(tenant.spools, now, Address::Id(id), &headers).await?;
    // The link must not end up in a cache or a referrer.
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, header::HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// Only ids are accepted: a name or a path would reveal more than an HTTP client should know.
fn address(id: &str) -> Result<Address, Problem> {
    match id.parse() {
        Ok(address @ Address::Id(_)) => Ok(address),
        _ => Err(Problem::missing()),
    }
}

async fn respond(
    spools: Option<Spools>,
    now: DateTime<Utc>,
    address: Address,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let spools = spools.ok_or_else(Problem::missing)?;
    let asked = headers.get(header::RANGE).and_then(|range| range.to_str().ok()).map(range);
    super::blocking(move || {
        let stored = spools.open(&address, now).map_err(|error| match error {
            SpoolError::Expired { .. } => Problem::new(
                StatusCode::GONE,
                "the result has expired; repeat the call that returned it",
            ),
            SpoolError::Remote { .. } | SpoolError::Io { .. } | SpoolError::InUse { .. } => {
                let said = "result storage is unavailable";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, said)
            }
            // Foreign, unknown and broken results look the same.
            _ => Problem::missing(),
        })?;
        let len = stored.len();
        let (start, end) = match asked {
            None | Some(None) => (0, len),
            Some(Some(asked)) => match bounds(asked, len) {
                Some(bounds) => bounds,
                None => return Ok(unsatisfiable(len)),
            },
        };
        let stored: Arc<dyn StoredResult> = stored.into();
        let mut response = Body::from_stream(chunk_stream(stored, start, end)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::ACCEPT_RANGES, header::HeaderValue::from_static("bytes"));
        headers.insert(header::CONTENT_LENGTH, (end - start).into());
        let form = header::HeaderValue::from_static("application/octet-stream");
        headers.insert(header::CONTENT_TYPE, form);
        if asked.flatten().is_some() {
            let last = end.saturating_sub(1);
            if let Ok(range) = format!("bytes {start}-{last}/{len}").parse() {
                headers.insert(header::CONTENT_RANGE, range);
            }
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        Ok(response)
    })
    .await?
}

/// Streams the bytes from `start` to `end` in chunks, read on blocking threads.
fn chunk_stream(
    stored: Arc<dyn PositionedRead>,
    start: u64,
    end: u64,
) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::unfold(start, move |at| {
        let stored = Arc::clone(&stored);
        async move {
            if at >= end {
                return None;
            }
            let wanted = usize::try_from((end - at).min(CHUNK_LEN)).unwrap_or_default();
            let read = limits::stream_read(move || {
                let mut bytes = vec![0; wanted];
                let read = stored.read_at(at, &mut bytes);
                read.map(|read| {
                    bytes.truncate(read);
                    bytes
                })
            });
            match read.await {
                // If the data ends early, the connection is closed: a partial result must not look
                // complete.
                Ok(Ok(bytes)) if bytes.is_empty() => {
                    Some((Err(io::ErrorKind::UnexpectedEof.into()), end))
                }
                Ok(Ok(bytes)) => {
                    let next = at + bytes.len() as u64;
                    Some((Ok(bytes), next))
                }
                _ => Some((Err(io::ErrorKind::Other.into()), end)),
            }
        }
    })
}

fn unsatisfiable(len: u64) -> Response {
    let said = format!("the result has {len} bytes");
    let range = [(header::CONTENT_RANGE, format!("bytes */{len}"))];
    (range, Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, said)).into_response()
}

/// Parses a single byte range. Several ranges are treated like none.
fn range(header: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        digits => digits.parse().ok().map(Some),
    };
    match (number(first)?, number(last)?) {
        (None, None) => None,
        (Some(first), Some(last)) if last < first => None,
        range => Some(range),
    }
}

fn bounds(range: (Option<u64>, Option<u64>), len: u64) -> Option<(u64, u64)> {
    match range {
        (Some(first), last) if first < len => {
            Some((first, last.map_or(len, |last| last.saturating_add(1).min(len))))
        }
        (None, Some(last)) if last > 0 && len > 0 => Some((len.saturating_sub(last), len)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[test]
    fn ranges() {
        for (header, len, expected) in [
            ("bytes=0-9", 100, Some((0, 10))),
            ("bytes=90-", 100, Some((90, 100))),
            ("bytes=90-400", 100, Some((90, 100))),
            ("bytes=-5", 100, Some((95, 100))),
            ("bytes=-500", 100, Some((0, 100))),
            ("bytes=100-", 100, None),
            ("bytes=-0", 100, None),
            ("bytes=5-5", 100, Some((5, 6))),
            ("bytes=0-", 0, None),
            ("bytes=-5", 0, None),
        ] {
            let asked = range(header).expect("a range");
            assert_eq!(bounds(asked, len), expected, "{header}");
        }
        for odd in ["bytes=", "bytes=-", "bytes=9-1", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", ""]
        {
            assert_eq!(range(odd), None, "{odd}");
        }
    }

    /// A stored result whose end may be missing.
    struct TruncatedResult {
        bytes: Vec<u8>,
        there: usize,
    }

    impl PositionedRead for TruncatedResult {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
            let there = &self.bytes[..self.there];
            let rest = there.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
    }

    #[tokio::test]
    async fn pieces_are_what_was_asked_for_and_a_missing_end_is_an_error() {
        let bytes: Vec<u8> =
            (0..u32::try_from(5 * CHUNK_LEN / 8).unwrap()).flat_map(u32::to_le_bytes).collect();
        let of = |there: usize, start: u64, end: u64| {
            chunk_stream(Arc::new(TruncatedResult { bytes: bytes.clone(), there }), start, end)
        };
        let (start, end) = (7, 2 * CHUNK_LEN + 100);
        let chunks: Vec<_> = of(bytes.len(), start, end).collect().await;
        let chunks: Vec<Vec<u8>> = chunks.into_iter().map(Result::unwrap).collect();
        let sizes: Vec<u64> = chunks.iter().map(|piece| piece.len() as u64).collect();
        assert_eq!(sizes, [CHUNK_LEN, CHUNK_LEN, 93]);
        assert!(chunks.concat() == bytes[7..usize::try_from(end).unwrap()]);
        let cut: Vec<_> = of(10, start, end).collect().await;
        assert_eq!(cut.len(), 2);
        assert!(cut[0].as_ref().is_ok_and(|piece| piece[..] == bytes[7..10]) && cut[1].is_err());
    }
}
