//! The HTTP server of `atlatl results open`.
//!
//! Another user, another page and another machine must not read results. On Linux, connections of other
//! users are closed before a byte is read. A request needs the name of this server as its host, so that
//! another name that leads here is of no use, and no other origin. It needs the cookie of the session,
//! which the first request with the token of the URL gets; the token is of no use then.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atlatl_browse::{Deadline, ResultTable, TableFilter};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use lro::mcp::PAGE;
use lro::{IdSeed, Spools};
use lro_http::{Problem, header::single, method_not_allowed, path_not_found};
use lro_query::Cancel;
use lro_spool::{Address, ResultInfo, Spool};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::command::results::entry::ResultEntry;
use crate::command::results::stored_rows::source;
use crate::command::results::view::{self, ResultView};
use crate::command::stats;
use crate::error::{Error, with_causes};
use crate::output::{distance, expiry, size};
use crate::settings::Settings;

/// The list of results.
const INDEX: &str = include_str!("index.html");
/// The largest request.
const MAX_BODY_BYTES: usize = 64 << 10;
/// How long a search of all results may take.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The rows of each result that a search shows.
const SHOWN_MATCHES: usize = 3;

/// The secrets of a session.
pub(super) struct SessionKeys {
    /// For the first request; `None` after it.
    token: Mutex<Option<String>>,
    cookie: String,
}

impl SessionKeys {
    /// Random keys.
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self { token: Mutex::new(Some(random()?)), cookie: random()? })
    }

    pub(super) fn token(&self) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone().unwrap_or_default()
    }

    /// Whether `token` is the unused token, which is used then.
    fn take_token(&self, token: &str) -> bool {
        let mut unused = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let is_token = unused.as_deref().is_some_and(|unused| is_same(unused, token));
        if is_token {
            *unused = None;
        }
        is_token
    }
}

/// 256 random bits as hexadecimal digits.
fn random() -> Result<String, Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat())
}

/// Compares hashes, so that the time does not depend on where secrets differ.
fn is_same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

/// What requests share.
pub(super) struct ResultsServer {
    view: ResultView,
    spools: Vec<Arc<dyn Spool>>,
    settings: Settings,
    keys: SessionKeys,
    /// The host that requests name.
    host: String,
    /// The name of the cookie. Cookies of all ports go to all ports.
    cookie_name: String,
}

impl ResultsServer {
    pub(super) fn new(
        all: Spools,
        spools: Vec<Arc<dyn Spool>>,
        settings: &Settings,
        address: SocketAddr,
        keys: SessionKeys,
    ) -> Self {
        Self {
            view: ResultView::new(all, &settings.config),
            spools,
            settings: settings.clone(),
            keys,
            host: address.to_string(),
            cookie_name: format!("atlatl-{}", address.port()),
        }
    }

    /// Why a request is refused before its session is known.
    fn refusal(&self, headers: &HeaderMap) -> Option<&'static str> {
        if single(headers, &header::HOST) != Some(&*self.host) {
            return Some("wrong host");
        }
        let own = format!("http://{}", self.host);
        if headers.contains_key(header::ORIGIN) && single(headers, &header::ORIGIN) != Some(&*own) {
            return Some("another origin");
        }
        let site = HeaderName::from_static("sec-fetch-site");
        match single(headers, &site) {
            None | Some("same-origin" | "none") if headers.get_all(&site).iter().count() < 2 => {
                None
            }
            _ => Some("another site"),
        }
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
        pairs.any(|pair| {
            let value =
                pair.strip_prefix(&*self.cookie_name).and_then(|rest| rest.strip_prefix('='));
            value.is_some_and(|value| is_same(value, &self.keys.cookie))
        })
    }
}

type Shared = State<Arc<ResultsServer>>;

/// The pages and what they read.
pub(super) fn router(server: Arc<ResultsServer>) -> Router {
    Router::new()
        .route("/", get(async || Html(INDEX)))
        .route("/table", get(async || Html(view::HTML)))
        .route("/savings", get(savings))
        .route("/results", get(results))
        .route("/search", post(search))
        .route("/call", post(call))
        .fallback(path_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&server), guard))
        .with_state(server)
}

/// Refuses requests without a session, and adds the headers that keep a response to itself.
async fn guard(State(server): Shared, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let response = if let Some(reason) = server.refusal(headers) {
        Problem::new(StatusCode::FORBIDDEN, reason).into_response()
    } else if server.has_session(headers) {
        next.run(request).await
    } else if request.method() == Method::GET
        && let Some(token) = request.uri().query().and_then(|query| query.strip_prefix("token="))
        && server.keys.take_token(token)
    {
        begin_session(&server, request.uri().path())
    } else {
        let detail =
            "this URL was used already, or the session has ended: run `atlatl results open` again";
        Problem::new(StatusCode::UNAUTHORIZED, detail).into_response()
    };
    with_headers(response)
}

/// Sets the cookie, and removes the token from the address bar.
fn begin_session(server: &ResultsServer, path: &str) -> Response {
    let cookie =
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", server.cookie_name, server.keys.cookie);
    let location = if path == "/table" { "/table" } else { "/" };
    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, location.to_owned())];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn with_headers(mut response: Response) -> Response {
    // The pages are one file each: their scripts and styles are in them, and they load nothing else.
    const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                          connect-src 'self'; base-uri 'none'; form-action 'none'; \
                          frame-ancestors 'none'";
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Cancels work when it is dropped with its request: the client has closed the connection.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs blocking work beside the requests. It is cancelled when the client closes the connection.
async fn blocking(work: impl FnOnce(&Cancel) -> Response + Send + 'static) -> Response {
    let cancel = Cancel::default();
    let _guard = CancelOnDrop(cancel.clone());
    let done = tokio::task::spawn_blocking(move || work(&cancel)).await;
    done.unwrap_or_else(|_| Problem::broken().into_response())
}

fn failure(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"error": message}))).into_response()
}

/// A call of the table.
#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Box<RawValue>,
}

async fn call(State(server): Shared, Json(call): Json<Call>) -> Response {
    if call.name != PAGE {
        return failure(StatusCode::NOT_FOUND, "no such tool");
    }
    blocking(move |cancel| {
        let now = IdSeed::from_system().now;
        match server.view.page(call.arguments.get(), now, cancel) {
            Ok(page) => Json(page).into_response(),
            Err(message) => failure(StatusCode::UNPROCESSABLE_ENTITY, &message),
        }
    })
    .await
}

/// All results that are not expired, the newest first.
fn listed(server: &ResultsServer) -> Vec<(Arc<dyn Spool>, ResultInfo)> {
    let now = IdSeed::from_system().now;
    let mut all = Vec::new();
    for spool in &server.spools {
        // A directory that cannot be read has no results to show; `atlatl doctor` says why.
        let results = spool.list().unwrap_or_default();
        let current = results.into_iter().filter(|info| !info.sidecar.is_expired(info.id(), now));
        all.extend(current.map(|info| (Arc::clone(spool), info)));
    }
    all.sort_by_key(|(_, info)| std::cmp::Reverse(info.id()));
    all
}

async fn results(State(server): Shared) -> Response {
    blocking(move |_| {
        let now = IdSeed::from_system().now;
        let rows: Vec<Value> = listed(&server)
            .iter()
            .map(|(_, info)| {
                let entry = ResultEntry::from_listed(info, now);
                json!({
                    "ref": entry.reference,
                    "server": lro_core::escape_invisible(entry.server_name()),
                    "tool": lro_core::escape_invisible(entry.title()),
                    "arguments": entry.arguments.as_deref().map(lro_core::escape_invisible),
                    "content": entry.content_summary(),
                    "records": entry.records,
                    "bytes": entry.bytes,
                    "size": size(entry.bytes),
                    "created_at": entry.created_at,
                    "stored": distance(entry.created_at, now),
                    "expires": expiry(entry.expires_at, now),
                })
            })
            .collect();
        Json(json!({"results": rows})).into_response()
    })
    .await
}

/// A search in all results.
#[derive(Deserialize)]
struct Search {
    pattern: String,
}

async fn search(State(server): Shared, Json(search): Json<Search>) -> Response {
    if search.pattern.trim().is_empty() {
        return failure(StatusCode::UNPROCESSABLE_ENTITY, "the pattern is empty");
    }
    blocking(move |cancel| {
        let began = Instant::now();
        let cancel = cancel.clone();
        let is_over = move || cancel.is_cancelled() || began.elapsed() > SEARCH_TIMEOUT;
        let filter = TableFilter { order: None, search: Some(search.pattern) };
        let all = listed(&server);
        let (mut matches, mut searched, mut failed) = (Vec::new(), 0, 0);
        let deadline = Deadline::new(is_over.clone());
        for (spool, info) in &all {
            if is_over() {
                break;
            }
            searched += 1;
            match matches_in(&**spool, info, &filter, &deadline) {
                Ok(None) => {}
                Ok(Some(found)) => matches.push(found),
                // It took too long: not searched.
                Err(_) if is_over() => searched -= 1,
                Err(_) => failed += 1,
            }
        }
        let report =
            json!({"matches": matches, "searched": searched, "results": all.len(), "failed": failed});
        Json(report).into_response()
    })
    .await
}

/// The matching rows of a result, and the first of them.
fn matches_in(
    spool: &dyn Spool,
    info: &ResultInfo,
    filter: &TableFilter,
    deadline: &Deadline,
) -> Result<Option<Value>, String> {
    let stored = spool.open(&Address::Id(info.id()), IdSeed::from_system().now);
    let stored = stored.map_err(|error| with_causes(&error))?;
    let (source, begin, content) = source(stored).map_err(|error| error.message())?;
    let mut table =
        ResultTable::open(source, begin, content, deadline).map_err(|error| with_causes(&error))?;
    let page = table.page(filter, 0, SHOWN_MATCHES, deadline).map_err(|error| error.to_string())?;
    if page.matched == 0 {
        return Ok(None);
    }
    let lines = page.rows.iter().map(|row| {
        let cells = row.cells.iter().flatten().map(|cell| cell.text.as_str());
        json!({"n": row.number, "text": cells.collect::<Vec<_>>().join(" · ")})
    });
    Ok(Some(json!({
        "ref": info.id().reference().to_string(),
        "matched": page.matched,
        "total": table.total(),
        "rows": lines.collect::<Vec<_>>(),
    })))
}

async fn savings(State(server): Shared) -> Response {
    blocking(move |_| match stats::savings_page(&server.settings) {
        Ok(page) => Html(page).into_response(),
        Err(error) => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.message()).into_response()
        }
    })
    .await
}
