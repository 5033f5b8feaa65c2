//! MCP over HTTP: a message in a POST, its response in the HTTP response.
//!
//! Both protocol generations are served without sessions and without server-initiated streams. The
//! only state of an older client, that it is a proxy or shows pages, is signed and encoded in its session
//! id.

use std::sync::Arc;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lro_http::Problem;
use lro_http::header::{SESSION, VERSION, check, mismatch, text};
use lro_query::Cancel;
use lro_wire::meta::{self, AppHost, PROTOCOL_VERSION, ProtocolGeneration};
use lro_wire::version::{SESSION_VERSIONS, STATELESS_VERSIONS, unsupported};
use lro_wire::{
    INVALID_REQUEST, JsonRpcError, METHOD_NOT_FOUND, MISSING_CAPABILITY, Message, Object,
    PARSE_ERROR, UNSUPPORTED_VERSION,
};

use super::extract::LimitedBody;
use super::problem::store_problem;
use super::{App, request_log};
use crate::auth::AuthScope;
use crate::client::{ClientInfo, Transport};
use crate::dispatch::{check_envelope, check_version};
use crate::signing::Signer;
use crate::tools::Tool;
use crate::trace::{RequestFacts, RequestSpan};

/// The purpose of a session's signature.
const SESSION_PURPOSE: &str = "session";

/// Cancels the request when the client disconnects, which is how a request is cancelled over HTTP.
/// What it awaits is dropped with it; the workers of extraction tools are stopped by the flag.
struct CancelOnDrop {
    cancel: Cancel,
    span: RequestSpan,
    is_answered: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.cancel.cancel();
        if !self.is_answered {
            self.span.fail("cancelled");
        }
    }
}

/// Answers other HTTP methods: there is no stream to open, and no session to end.
pub(super) async fn other_method() -> Response {
    let reason = "MCP messages are sent with POST";
    let mut response = Problem::new(StatusCode::METHOD_NOT_ALLOWED, reason).into_response();
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
    response
}

pub(super) async fn message(
    Extension(app): Extension<App>,
    Extension(facts): Extension<Arc<RequestFacts>>,
    headers: HeaderMap,
    LimitedBody(body): LimitedBody,
) -> Result<Response, Problem> {
    let bad = |code, reason: &str| {
        Ok(json(StatusCode::BAD_REQUEST, JsonRpcError::new(code, reason).without_id()))
    };
    let Ok(text) = String::from_utf8(body.into()) else {
        return bad(PARSE_ERROR, "the body is not valid UTF-8");
    };
    let Some(message) = Message::read(&text) else {
        if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            return bad(PARSE_ERROR, "the body is not valid JSON");
        }
        return bad(INVALID_REQUEST, "the body is not a single JSON-RPC message");
    };
    let Some(id) = message.id().filter(|_| message.method.is_some()) else {
        if message.method.is_none() && message.id.is_none() {
            return bad(INVALID_REQUEST, "the body is not a single JSON-RPC message");
        }
        // A request with a null id could not be matched with its response.
        let null = || Object::read(&text).is_some_and(|object| object.get("id").is_some());
        if message.method.is_some() && null() {
            return bad(INVALID_REQUEST, "the id is neither a string nor a number");
        }
        // Notifications and responses get no answer.
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    if !id.as_json().starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        return bad(INVALID_REQUEST, "the id is neither a string nor a number");
    }
    if let Some((scope, action)) = required_scope(&message)
        && let Err(denied) = app.state.check(&app.principal, scope, || action.to_owned())
    {
        return Ok(denied);
    }
    let span = request_log::start_span(app.state.set_parent, &facts, &message, &headers);
    let session_signer =
        if headers.contains_key(&SESSION) { Some(signer(&app).await?) } else { None };
    let client = match client(session_signer.as_ref(), &message, &headers) {
        Ok(client) => client,
        Err(RejectedMessage::Message(failure)) => {
            span.refuse(&failure);
            return Ok(json(StatusCode::BAD_REQUEST, failure.response(&id)));
        }
        Err(RejectedMessage::Session) => {
            span.fail("session");
            return Err(Problem::new(StatusCode::NOT_FOUND, "session not found"));
        }
    };
    span.say(
        "atlatl.era",
        if client.era == ProtocolGeneration::Sessions { "legacy" } else { "modern" },
    );
    let is_initialize = message.method.as_deref() == Some("initialize")
        && client.era == ProtocolGeneration::Sessions;
    let session_state = client.session_state().filter(|_| is_initialize);
    let cancel = Cancel::default();
    let mut cancel_guard =
        CancelOnDrop { cancel: cancel.clone(), span: span.clone(), is_answered: false };
    let answer = app.server.answer_traced(&message, client, &cancel, &span).await;
    cancel_guard.is_answered = true;
    drop(cancel_guard);
    if let Err(failure) = &answer {
        span.refuse(failure);
    }
    let mut response = match answer {
        Ok(result) => json(StatusCode::OK, id.response(result)),
        Err(failure) => json(status(&failure, client.era), failure.response(&id)),
    };
    if let Some(state) = session_state
        && let Ok(session) = signer(&app).await?.sign_token(SESSION_PURPOSE, state).parse()
    {
        response.headers_mut().insert(SESSION, session);
    }
    Ok(response)
}

/// Returns the scope that a message needs, and the action for the audit log. The handshake and the
/// listing of tools need none.
fn required_scope(message: &Message<'_>) -> Option<(AuthScope, &'static str)> {
    match message.method.as_deref().unwrap_or_default() {
        "ping"
        | "initialize"
        | "server/discover"
        | "tools/list"
        | "prompts/list"
        | "resources/templates/list" => None,
        "tools/call" => {
            let name = message.params().and_then(|params| params.text("name"));
            match name.and_then(|name| Tool::from_name(&name)).filter(|tool| tool.writes()) {
                Some(tool) => Some((AuthScope::Write, tool.name())),
                None => Some((AuthScope::Read, "")),
            }
        }
        _ => Some((AuthScope::Read, "")),
    }
}

/// Why a message is rejected.
enum RejectedMessage {
    Message(JsonRpcError),
    Session,
}

impl From<JsonRpcError> for RejectedMessage {
    fn from(failure: JsonRpcError) -> Self {
        Self::Message(failure)
    }
}

/// Returns the signer of sessions, whose key may have to be read from the store.
async fn signer(app: &App) -> Result<Signer, Problem> {
    app.server.0.signer().await.cloned().map_err(store_problem)
}

/// Determines the client from the message and the headers, which must agree.
fn client(
    signer: Option<&Signer>,
    message: &Message<'_>,
    headers: &HeaderMap,
) -> Result<ClientInfo, RejectedMessage> {
    let version = text(headers, &VERSION);
    // The header occurs twice or is not text: an intermediary may have read another value.
    if version.is_none() && headers.contains_key(&VERSION) {
        return Err(mismatch(&VERSION).into());
    }
    let in_body = meta::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION));
    let modern = in_body.is_some()
        || version.is_some_and(|version| STATELESS_VERSIONS.contains(&version))
        || message.method.as_deref() == Some("server/discover");
    if modern {
        modern_headers(message, headers, version, in_body.as_deref())?;
        return Ok(ClientInfo::from_request(message, Transport::Http));
    }
    if let Some(version) = version.filter(|version| !SESSION_VERSIONS.contains(version)) {
        return Err(unsupported(&SESSION_VERSIONS, version).into());
    }
    let client = ClientInfo::new(ProtocolGeneration::Sessions, Transport::Http);
    let Some(signer) = signer else {
        // Of the older methods, only `initialize` declares capabilities.
        let host = AppHost::from_request(message);
        return Ok(client.as_proxy(meta::is_proxy(message)).with_app_host(host));
    };
    let session = text(headers, &SESSION).and_then(|id| signer.verify_token(SESSION_PURPOSE, id));
    session.and_then(|state| client.with_session_state(&state)).ok_or(RejectedMessage::Session)
}

/// Checks in the order that is most helpful to a client: missing headers, mismatches, then
/// unsupported versions.
fn modern_headers(
    message: &Message<'_>,
    headers: &HeaderMap,
    version: Option<&str>,
    in_body: Option<&str>,
) -> Result<(), JsonRpcError> {
    // An unsupported version is reported below, after the headers agree.
    match check_envelope(message) {
        Err(failure) if failure.code != UNSUPPORTED_VERSION => return Err(failure),
        _ => {}
    }
    if version != in_body {
        return Err(mismatch(&VERSION));
    }
    check_version(in_body.unwrap_or_default())?;
    check(message, headers)
}

/// Returns the HTTP status of an error. Older clients treat anything but 200 as a broken transport.
fn status(failure: &JsonRpcError, era: ProtocolGeneration) -> StatusCode {
    match (era, failure.code) {
        (ProtocolGeneration::Stateless, METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        (ProtocolGeneration::Stateless, MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn json(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
