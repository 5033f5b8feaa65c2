//! The HTTP API for memories (companion specification §7).
//!
//! Spec A6: it pages by `limit` and `offset`, and never offloads.

use atlatl_memory::{MAX_HITS, SearchRequest};
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use lro_http::Problem;
use mif::{DetailLevel, Map, MemoryId, Value};

use super::App;
use super::admission::HttpState;
use super::extract::{LimitedBody, MemoryIdPath};
use super::problem::{store_problem, tool_problem};
use crate::event::ServerEventKind;
use crate::tools::arguments::{ArgumentError, Arguments, with_filter};
use crate::tools::response::MemorySet;

/// The default and the maximum number of memories per page.
const DEFAULT_PAGE_LEN: u64 = 50;
const MAX_PAGE_LEN: u64 = 1000;

const LIST_PARAMETERS: &[&str] = with_filter!([], ["status", "order", "detail", "limit", "offset"]);
const SEARCH_PARAMETERS: &[&str] =
    with_filter!(["query", "mode"], ["status", "detail", "explain", "limit", "offset"]);

/// Fields that the server sets, whatever the body contains.
const SERVER_FIELDS: [&str; 3] = ["id", "created", "modified"];

pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// `GET` of the protected resource metadata (RFC 9728), without authentication.
pub(super) async fn metadata(State(state): State<HttpState>) -> Result<Response, Problem> {
    let metadata = state.authentication.metadata();
    metadata.map(|text| json(StatusCode::OK, text)).ok_or_else(Problem::missing)
}

pub(super) async fn description() -> Response {
    json(StatusCode::OK, include_str!("openapi.json").to_owned())
}

/// `GET /v1/memories`.
pub(super) async fn list(
    Extension(app): Extension<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let arguments = parse_query(query.as_deref().unwrap_or_default())?;
    let (filter, order) = (arguments.filter()?, arguments.order()?);
    let detail = arguments.detail(DetailLevel::Full)?;
    let (limit, offset) = page(&arguments)?;
    let inner = &app.server.0;
    let now = inner.now();
    let total = inner.store.count(&filter, now).await.map_err(store_problem)?;
    let memories =
        inner.store.list_from(&filter, order, offset, limit, now).await.map_err(store_problem)?;
    let set = MemorySet::from_listing(&memories, total, detail);
    Ok(json(StatusCode::OK, page_json(&set, limit, offset)))
}

/// `POST /v1/search`.
pub(super) async fn search(
    Extension(app): Extension<App>,
    LimitedBody(body): LimitedBody,
) -> Result<Response, Problem> {
    let arguments = Arguments::read(text(&body)?, SEARCH_PARAMETERS)?;
    let (detail, explain) = (arguments.detail(DetailLevel::Full)?, arguments.explain()?);
    let (limit, offset) = page(&arguments)?;
    let now = app.server.0.now();
    let mut request = SearchRequest::new(arguments.query()?, now);
    request.filter = arguments.filter()?;
    request.mode = arguments.mode()?;
    let skip = usize::try_from(offset).unwrap_or(MAX_HITS).min(MAX_HITS);
    request.limit = Some(skip + limit);
    let mut found = app.server.0.search.results(&request).await.map_err(store_problem)?;
    found.hits.drain(..skip.min(found.hits.len()));
    let mut set = MemorySet::from_results(&found, detail);
    set.explain(&found, explain);
    let (count, total_matches) = (set.lines.len() as u64, set.total_matches);
    let tool = "POST /v1/search";
    let kind = ServerEventKind::MemoryRecalled { tool, count, total_matches };
    app.server.0.events.publish(None, kind);
    Ok(json(StatusCode::OK, page_json(&set, limit, offset)))
}

/// `POST /v1/memories`.
pub(super) async fn create(
    Extension(app): Extension<App>,
    LimitedBody(body): LimitedBody,
) -> Result<Response, Problem> {
    let fields = parse_memory(&body)?;
    let inner = &app.server.0;
    inner.reserve_memory().await.map_err(tool_problem)?;
    let memory = inner.capture.capture(fields, inner.moment()).await.map_err(store_problem)?;
    inner.notify_write(&memory.id, None);
    let mut response = json(StatusCode::CREATED, memory.to_json());
    if let Ok(place) = format!("/v1/memories/{}", memory.id).parse() {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// `GET /v1/memories/{id}`.
pub(super) async fn read(
    Extension(app): Extension<App>,
    MemoryIdPath(id): MemoryIdPath,
) -> Result<Response, Problem> {
    let id: MemoryId = id.parse().map_err(|_| Problem::missing())?;
    let memory =
        app.server.0.memory(&id).await.map_err(store_problem)?.ok_or_else(Problem::missing)?;
    Ok(json(StatusCode::OK, memory.to_json()))
}

/// `PUT /v1/memories/{id}`: replaces all fields of the memory by those of the body.
pub(super) async fn replace(
    Extension(app): Extension<App>,
    MemoryIdPath(id): MemoryIdPath,
    LimitedBody(body): LimitedBody,
) -> Result<Response, Problem> {
    let id: MemoryId = id.parse().map_err(|_| Problem::missing())?;
    let message = parse_memory(&body)?;
    let inner = &app.server.0;
    let stored = inner.memory(&id).await.map_err(store_problem)?.ok_or_else(Problem::missing)?;
    // Fields that the body does not have are removed.
    let stored = stored.at(DetailLevel::Full);
    let mut fields: Map = stored.into_keys().map(|name| (name, Value::Null)).collect();
    fields.extend(message);
    let memory = inner.capture.update(&id, &fields, inner.now()).await.map_err(store_problem)?;
    let memory = memory.ok_or_else(Problem::missing)?;
    inner.notify_write(&memory.id, None);
    Ok(json(StatusCode::OK, memory.to_json()))
}

/// `DELETE /v1/memories/{id}`.
pub(super) async fn delete(
    Extension(app): Extension<App>,
    MemoryIdPath(id): MemoryIdPath,
) -> Result<StatusCode, Problem> {
    let id: MemoryId = id.parse().map_err(|_| Problem::missing())?;
    let inner = &app.server.0;
    if !inner.capture.delete(&id).await.map_err(store_problem)? {
        return Err(Problem::missing());
    }
    inner.events.publish(None, ServerEventKind::MemoryDeleted { id });
    Ok(StatusCode::NO_CONTENT)
}

/// Parses the fields of a memory from a body. Unknown fields are kept, as in every memory. Fields
/// of the server are ignored, so that a memory can be read and written back.
fn parse_memory(body: &[u8]) -> Result<Map, Problem> {
    let value: Value = text(body)?.parse().map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, format!("invalid JSON in the body: {error}"))
    })?;
    let Value::Object(map) = value else {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "the body is not a JSON object"));
    };
    let message = |(name, value): &(String, Value)| {
        !value.is_null() && !SERVER_FIELDS.contains(&name.as_str())
    };
    Ok(map.into_iter().filter(message).collect())
}

fn page(arguments: &Arguments) -> Result<(usize, u64), ArgumentError> {
    let limit = arguments.number("limit")?.unwrap_or(DEFAULT_PAGE_LEN);
    if !(1..=MAX_PAGE_LEN).contains(&limit) {
        let hint = format!("use 1 to {MAX_PAGE_LEN}; the default is {DEFAULT_PAGE_LEN}");
        return Err(ArgumentError::new(format!("\"limit\" is {limit}"), hint));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok((limit, arguments.number("offset")?.unwrap_or(0)))
}

/// Formats a page with its position in the whole set.
fn page_json(set: &MemorySet, limit: usize, offset: u64) -> String {
    let json = set.explained_json(None);
    let json = json.strip_suffix(r#","next_cursor":null}"#).unwrap_or(&json);
    let total = set.total_matches;
    format!(r#"{json},"total":{total},"limit":{limit},"offset":{offset}}}"#)
}

/// Parses query parameters. `tags` may occur several times.
fn parse_query(query: &str) -> Result<Arguments, ArgumentError> {
    let mut map = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = Value::String(value.into_owned());
        match (map.get_mut(name.as_ref()), name.as_ref()) {
            (Some(Value::Array(tags)), "tags") => tags.push(value),
            (_, "tags") => drop(map.insert(name.into_owned(), Value::Array(vec![value]))),
            _ => drop(map.insert(name.into_owned(), value)),
        }
    }
    Arguments::read(&Value::Object(map).to_string(), LIST_PARAMETERS)
}

fn text(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the body is not valid UTF-8"))
}

fn json(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
