//! `atlatl tenants serve`: tenants, keys, usage and erasures over HTTP, for programs that administer.
//!
//! It is a process of its own, so that the servers of clients have neither its login nor its keys. Its keys
//! are in a file and belong to no tenant. Its role reads no memories: only with `--export` the process also
//! has the login of a server, and exports them.

mod export;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use atlatl_memory::{
    ErasureId, ErasureRequest, NewKey, Postgres, Registry, StoreError, TenantLimits,
};
use atlatl_server::auth::{ApiKey, AuthScope, is_tenant};
use atlatl_server::event::{EventBus, ServerEventKind};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequestParts, Path, RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Extension, Router};
use chrono::TimeDelta;
use lro_http::header::single;
use lro_http::{
    BearerTokens, Guard, Listener, Problem, ServeLimits, method_not_allowed, path_not_found,
    serve_async, stop_channel,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::export::export_tenant;
use super::TENANT_CACHE_EXPIRY;
use super::administration::{SchemaOwner, resources};
use super::resource::{ErasureResource, KeyResource, TenantResource, UsageResource};
use crate::access;
use crate::command::keys::random;
use crate::command::serve::events::AuditLog;
use crate::error::{Error, Status, log_message};
use crate::memory_config::{self, moment};
use crate::output::Output;
use crate::settings::{Settings, Sources};

/// The number of connections: a few programs that administer.
const MAX_CONNECTIONS: usize = 64;
/// How long running responses may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The default and the largest number of items of a page.
const PAGE_LIMITS: (usize, usize) = (100, 1000);
/// The default and the largest number of days of a usage.
const USAGE_DAYS: (u16, u16) = (30, 400);
/// The validity of a key in days, unless the request says otherwise.
const KEY_DAYS: u16 = 90;
/// The maximum length of a principal's name.
const MAX_SUBJECT_LEN: usize = 200;

/// Arguments of `atlatl tenants serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Address and port, or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    http: String,
    /// File with a key per line, which only its owner can
    /// read; requests send one as a bearer token
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    keys: PathBuf,
    /// Also export memories, with the login of a server in
    /// `memory.store`
    #[arg(long, verbatim_doc_comment)]
    export: bool,
    #[command(flatten)]
    owner: SchemaOwner,
}

/// What all requests share.
struct Api {
    registry: Registry,
    keys: BearerTokens,
    /// The database as a server sees it, which exports need.
    export: Option<Postgres>,
    /// Receives audit events.
    events: EventBus,
}

/// Who sent a request: `admin:` and the line of the key in its file.
#[derive(Debug, Clone)]
struct Actor(String);

type Reply = Result<Response, Problem>;

/// Serves the API until a termination signal.
pub(super) async fn serve(args: &ServeArgs, sources: &Sources) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let keys = access::read_token_file(&args.keys)?;
    let listener = access::listen_with_tokens(&args.http)?;
    let registry = args.owner.registry().await?;
    let export = if args.export { Some(open_for_export(&settings).await?) } else { None };
    let mut events = EventBus::new(lro::IdSeed::from_system);
    if let Some(audit) = AuditLog::open(&settings.config.server.audit)? {
        events = events.with(Arc::new(audit));
    }
    let hosts = settings.config.server.allowed_hosts.clone();
    // No page of a browser administers.
    let guard = Arc::new(Guard { hosts, origins: Vec::new(), tokens: None });
    let signals = Signals::new([SIGTERM, SIGINT]);
    let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
    let (stop, stopped) = stop_channel();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.now();
        }
    });
    Output::remark(format_args!("serving administration at {}", place(&listener)));
    let api = Arc::new(Api { registry, keys, export, events });
    let limits = ServeLimits::new(MAX_CONNECTIONS, DRAIN_TIMEOUT);
    let served = serve_async(router(&api, &guard), listener, limits, stopped.wait()).await;
    served.map_err(|error| Error::failure(format!("{}: {error}", args.http)))?;
    Ok(Status::Success)
}

/// Opens the database with the login of a server.
async fn open_for_export(settings: &Settings) -> Result<Postgres, Error> {
    let Some(options) = memory_config::second_login_options(settings)? else {
        return Err(Error::usage(
            "--export needs the login of a server, but memory.store is not a PostgreSQL database",
        )
        .with_hint("--set memory.store=postgres://USER@HOST/DATABASE"));
    };
    let database = Postgres::new(&options)?;
    memory_config::check_database(&database).await?;
    Ok(database)
}

fn place(listener: &Listener) -> String {
    match listener {
        Listener::Tcp(socket) => {
            let address = socket.local_addr();
            address.map(|address| format!("http://{address}")).unwrap_or_default()
        }
        Listener::Unix(socket) => format!("{}{}", lro_http::UNIX_PREFIX, socket.path().display()),
    }
}

fn router(api: &Arc<Api>, guard: &Arc<Guard>) -> Router {
    let routes = Router::new()
        .route("/v1/tenants", get(list_tenants))
        .route("/v1/tenants/{tenant}", put(put_tenant).delete(remove_tenant))
        .route("/v1/tenants/{tenant}/keys", get(list_keys).post(create_key))
        .route("/v1/tenants/{tenant}/erasures", get(list_erasures).post(erase_subject))
        .route("/v1/tenants/{tenant}/usage", get(tenant_usage))
        .route("/v1/tenants/{tenant}/export", get(export_tenant))
        .route("/v1/keys", get(list_all_keys))
        .route("/v1/keys/{key}", get(read_key).delete(revoke_key))
        .route("/v1/erasures", get(list_all_erasures))
        .route("/v1/erasures/{erasure}", get(read_erasure))
        .route("/v1/usage", get(usage))
        .fallback(path_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(api), authenticate))
        .with_state(Arc::clone(api));
    guard.layer_origin(routes)
}

/// Middleware that adds who sent the request, or refuses it.
async fn authenticate(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let line = api.keys.verify(single(request.headers(), &header::AUTHORIZATION));
    if let Some(line) = line {
        request.extensions_mut().insert(Actor(format!("admin:{line}")));
        return next.run(request).await;
    }
    let kind = ServerEventKind::AccessDenied {
        reason: "admin_key",
        issuer: None,
        tenant: None,
        subject: None,
    };
    api.events.publish(None, kind);
    let detail = "administration key required (Authorization: Bearer …)";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

impl Api {
    /// Writes a line about a change to the audit log.
    fn audit(&self, actor: &Actor, tenant: &str, action: String) {
        let (tenant, subject) = (tenant.to_owned(), actor.0.clone());
        self.events.publish(None, ServerEventKind::AccessUsed { tenant, subject, action });
    }
}

/// A segment of the path. One that is not UTF-8 is not found.
struct Segment(String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segment = Path::<String>::from_request_parts(parts, state).await;
        segment.map(|Path(segment)| Self(segment)).map_err(|_| Problem::missing())
    }
}

/// A segment that is the name of a tenant.
struct TenantSegment(String);

impl<S: Send + Sync> FromRequestParts<S> for TenantSegment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Segment(name) = Segment::from_request_parts(parts, state).await?;
        if is_tenant(&name) {
            return Ok(Self(name));
        }
        let detail = "invalid tenant name: expected 1 to 128 bytes without control characters";
        Err(Problem::new(StatusCode::BAD_REQUEST, detail))
    }
}

async fn list_tenants(State(api): State<Arc<Api>>, RawQuery(query): RawQuery) -> Reply {
    let query = parse_query(query.as_deref(), &["after", "limit"])?;
    let tenants = api.registry.tenants().await.map_err(store_problem)?;
    let tenants: Vec<TenantResource> = resources(tenants);
    page(&tenants, |tenant| tenant.name.clone(), TenantResource::to_json, &query)
}

/// The limits of a tenant. One that is left out does not apply.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsBody {
    most_memories: Option<u64>,
    per_minute: Option<u32>,
    most_bytes: Option<u64>,
    retention_days: Option<u16>,
}

async fn put_tenant(
    State(api): State<Arc<Api>>,
    Extension(actor): Extension<Actor>,
    TenantSegment(tenant): TenantSegment,
    body: Result<Bytes, BytesRejection>,
) -> Reply {
    let LimitsBody { most_memories, per_minute, most_bytes, retention_days } = parse_body(body)?;
    if per_minute == Some(0) || retention_days == Some(0) {
        return Err(invalid("per_minute and retention_days must be at least 1"));
    }
    let limits =
        TenantLimits { memories: most_memories, per_minute, bytes: most_bytes, retention_days };
    let is_new = api.registry.put_tenant(&tenant, limits).await.map_err(store_problem)?;
    api.audit(&actor, &tenant, "PUT /v1/tenants/{tenant}".to_owned());
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let body = json!({
        "tenant": tenant,
        "most_memories": most_memories,
        "per_minute": per_minute,
        "most_bytes": most_bytes,
        "retention_days": retention_days,
    });
    Ok(json_response(status, &body))
}

async fn remove_tenant(
    State(api): State<Arc<Api>>,
    Extension(actor): Extension<Actor>,
    TenantSegment(tenant): TenantSegment,
) -> Reply {
    begin_erasure(&api, &actor, &tenant, None, "DELETE /v1/tenants/{tenant}").await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasureBody {
    subject: String,
}

async fn erase_subject(
    State(api): State<Arc<Api>>,
    Extension(actor): Extension<Actor>,
    TenantSegment(tenant): TenantSegment,
    body: Result<Bytes, BytesRejection>,
) -> Reply {
    let ErasureBody { subject } = parse_body(body)?;
    let is_valid = (1..=MAX_SUBJECT_LEN).contains(&subject.len());
    if !is_valid || subject.contains(char::is_control) {
        return Err(invalid("subject must have 1 to 200 bytes without control characters"));
    }
    let action = "POST /v1/tenants/{tenant}/erasures";
    begin_erasure(&api, &actor, &tenant, Some(&subject), action).await
}

/// Requests an erasure, which the servers work on. The open one is returned if there is one.
async fn begin_erasure(
    api: &Api,
    actor: &Actor,
    tenant: &str,
    subject: Option<&str>,
    action: &str,
) -> Reply {
    let requested_by = Some(actor.0.as_str());
    let request = ErasureRequest { tenant, subject, requested_by, delay: TENANT_CACHE_EXPIRY };
    let begun = api.registry.begin_erasure(&request).await.map_err(store_problem)?;
    let erasure = begun.ok_or_else(Problem::missing)?;
    api.audit(actor, tenant, action.to_owned());
    Ok(json_response(StatusCode::ACCEPTED, &ErasureResource::from(erasure).to_json()))
}

async fn list_all_erasures(State(api): State<Arc<Api>>, RawQuery(query): RawQuery) -> Reply {
    erasures_page(&api, None, query.as_deref()).await
}

async fn list_erasures(
    State(api): State<Arc<Api>>,
    TenantSegment(tenant): TenantSegment,
    RawQuery(query): RawQuery,
) -> Reply {
    erasures_page(&api, Some(&tenant), query.as_deref()).await
}

async fn erasures_page(api: &Api, tenant: Option<&str>, query: Option<&str>) -> Reply {
    let query = parse_query(query, &["after", "limit"])?;
    let erasures = api.registry.erasures(tenant).await.map_err(store_problem)?;
    let erasures: Vec<ErasureResource> = resources(erasures);
    let id = |erasure: &ErasureResource| format!("{:020}", erasure.id);
    page(&erasures, id, ErasureResource::to_json, &query)
}

async fn read_erasure(State(api): State<Arc<Api>>, Segment(id): Segment) -> Reply {
    let id: ErasureId = id.parse().map_err(|_| Problem::missing())?;
    let erasure = api.registry.erasure(id).await.map_err(store_problem)?;
    let erasure = erasure.ok_or_else(Problem::missing)?;
    Ok(json_response(StatusCode::OK, &ErasureResource::from(erasure).to_json()))
}

async fn list_all_keys(State(api): State<Arc<Api>>, RawQuery(query): RawQuery) -> Reply {
    keys_page(&api, None, query.as_deref()).await
}

async fn list_keys(
    State(api): State<Arc<Api>>,
    TenantSegment(tenant): TenantSegment,
    RawQuery(query): RawQuery,
) -> Reply {
    keys_page(&api, Some(&tenant), query.as_deref()).await
}

async fn keys_page(api: &Api, tenant: Option<&str>, query: Option<&str>) -> Reply {
    let query = parse_query(query, &["after", "limit"])?;
    let keys = keys(api, tenant).await?;
    let now = moment().now;
    page(&keys, |key| key.id.clone(), |key| key.to_json(now), &query)
}

/// Returns the keys of all tenants, or of one.
async fn keys(api: &Api, tenant: Option<&str>) -> Result<Vec<KeyResource>, Problem> {
    api.registry.keys(tenant).await.map(resources).map_err(store_problem)
}

/// Returns the key with this id.
async fn find_key(api: &Api, id: &str) -> Result<KeyResource, Problem> {
    let keys = keys(api, None).await?;
    keys.into_iter().find(|key| key.id == id).ok_or_else(Problem::missing)
}

async fn read_key(State(api): State<Arc<Api>>, Segment(id): Segment) -> Reply {
    let key = find_key(&api, &id).await?;
    Ok(json_response(StatusCode::OK, &key.to_json(moment().now)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    /// A key without a name is always another one.
    name: Option<String>,
    scopes: Option<Vec<String>>,
    expires_days: Option<u16>,
    #[serde(default)]
    no_expiry: bool,
}

/// Creates a key. A tenant has one usable key of a name, so that a request with a name creates no other
/// one if it is repeated.
async fn create_key(
    State(api): State<Arc<Api>>,
    Extension(actor): Extension<Actor>,
    TenantSegment(tenant): TenantSegment,
    body: Result<Bytes, BytesRejection>,
) -> Reply {
    let KeyBody { name, scopes, expires_days, no_expiry } = parse_body(body)?;
    let is_name = |name: &String| {
        (1..=MAX_SUBJECT_LEN).contains(&name.len()) && !name.contains(char::is_control)
    };
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        return Err(invalid("name must have 1 to 200 bytes without control characters"));
    }
    if expires_days == Some(0) || (no_expiry && expires_days.is_some()) {
        return Err(invalid("expires_days must be at least 1, and excludes no_expiry"));
    }
    let default = || vec!["memory:read".to_owned(), "memory:write".to_owned()];
    let scopes = scopes.unwrap_or_else(default);
    let is_scope = |word: &String| AuthScope::ALL.iter().any(|scope| scope.word() == word);
    if scopes.is_empty() || !scopes.iter().all(is_scope) {
        return Err(invalid("scopes must be memory:read, memory:write or memory:admin"));
    }
    let now = moment().now;
    if let Some(name) = &name
        && keys(&api, Some(&tenant))
            .await?
            .iter()
            .any(|key| key.name == *name && key.is_usable(now))
    {
        let detail = "the tenant has a usable key of this name: revoke it, or use another name";
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let name = name.unwrap_or_default();
    let key = ApiKey::new(random().map_err(|_| Problem::broken())?);
    let days = i64::from(expires_days.unwrap_or(KEY_DAYS));
    let expires = (!no_expiry).then(|| now + TimeDelta::days(days));
    let words: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let new = NewKey {
        id: key.id(),
        tenant: &tenant,
        digest: &key.digest(),
        scopes: &words,
        name: &name,
        expires,
    };
    if !api.registry.put_key(&new).await.map_err(store_problem)? {
        return Err(Problem::missing());
    }
    api.audit(&actor, &tenant, format!("POST /v1/tenants/{{tenant}}/keys {}", key.id()));
    let body = json!({
        "id": key.id(),
        "key": key.expose(),
        "tenant": tenant,
        "name": name,
        "scopes": scopes,
        "expires": expires.map(|at| at.to_rfc3339()),
    });
    Ok(json_response(StatusCode::CREATED, &body))
}

/// Revokes a key. A key that is revoked already stays so.
async fn revoke_key(
    State(api): State<Arc<Api>>,
    Extension(actor): Extension<Actor>,
    Segment(id): Segment,
) -> Reply {
    let key = find_key(&api, &id).await?;
    if api.registry.revoke_key(&id).await.map_err(store_problem)? {
        api.audit(&actor, &key.tenant, format!("DELETE /v1/keys/{id}"));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn usage(State(api): State<Arc<Api>>, RawQuery(query): RawQuery) -> Reply {
    usage_page(&api, None, query.as_deref()).await
}

async fn tenant_usage(
    State(api): State<Arc<Api>>,
    TenantSegment(tenant): TenantSegment,
    RawQuery(query): RawQuery,
) -> Reply {
    usage_page(&api, Some(&tenant), query.as_deref()).await
}

async fn usage_page(api: &Api, tenant: Option<&str>, query: Option<&str>) -> Reply {
    let query = parse_query(query, &["after", "limit", "days"])?;
    let (default, largest) = USAGE_DAYS;
    let days = number(&query, "days", default.into(), largest.into())?;
    let days = u16::try_from(days).unwrap_or(largest);
    let usage = api.registry.usage(tenant, days).await.map_err(store_problem)?;
    let usage: Vec<UsageResource> = resources(usage);
    page(&usage, |usage| format!("{} {}", usage.day, usage.tenant), UsageResource::to_json, &query)
}

type Query = HashMap<String, String>;

/// Parses query parameters. An unknown one is an error, since it may be a misspelt limit.
fn parse_query(query: Option<&str>, known: &[&str]) -> Result<Query, Problem> {
    let mut parameters = Query::new();
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if !known.contains(&name.as_ref()) {
            return Err(invalid(&format!(
                "unknown query parameter: expected {}",
                known.join(", ")
            )));
        }
        parameters.insert(name.into_owned(), value.into_owned());
    }
    Ok(parameters)
}

fn number(query: &Query, name: &str, default: usize, largest: usize) -> Result<usize, Problem> {
    let Some(text) = query.get(name) else { return Ok(default) };
    let number = text.parse::<usize>().ok().filter(|number| (1..=largest).contains(number));
    number.ok_or_else(|| invalid(&format!("{name} must be a number from 1 to {largest}")))
}

/// Returns a page of `items` in the order of their ids: those after the parameter `after`, and the id
/// after which the next page begins.
fn page<T>(
    items: &[T],
    id: impl Fn(&T) -> String,
    to_json: impl Fn(&T) -> Value,
    query: &Query,
) -> Reply {
    let (default, largest) = PAGE_LIMITS;
    let limit = number(query, "limit", default, largest)?;
    let after = query.get("after");
    let mut rest: Vec<(String, &T)> = items.iter().map(|item| (id(item), item)).collect();
    rest.retain(|(id, _)| after.is_none_or(|after| id > after));
    rest.sort_by(|(one, _), (other, _)| one.cmp(other));
    let is_more = rest.len() > limit;
    rest.truncate(limit);
    let next = rest.last().filter(|_| is_more).map(|(id, _)| id.clone());
    let items: Vec<Value> = rest.iter().map(|(_, item)| to_json(item)).collect();
    Ok(json_response(StatusCode::OK, &json!({"items": items, "next": next})))
}

/// Parses a body. An empty one is an object without members.
fn parse_body<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Problem> {
    let body = body.map_err(|rejection| {
        Problem::new(rejection.into_response().status(), "cannot read the request body")
    })?;
    let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
    serde_json::from_slice(body).map_err(|error| invalid(&format!("invalid body: {error}")))
}

fn invalid(detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Maps an error of the database. Its text may name hosts, so only standard error has it.
fn store_problem(error: StoreError) -> Problem {
    match error {
        // The name was checked before.
        StoreError::NotAStore { why, .. } => Problem::new(StatusCode::CONFLICT, why),
        StoreError::Busy | StoreError::Unavailable(_) | StoreError::Connect(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        StoreError::Unsure(_) => {
            let detail = format!("{error}; check before you retry");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        }
        error => {
            Output::remark(format_args!("administration: {}", log_message(&error)));
            Problem::broken()
        }
    }
}
