//! A strict OAuth authorization server with a protected MCP endpoint, and a minimal browser.
//!
//! The server checks what an authorization server has to check (PKCE, exact redirect URI, `resource`,
//! single use of codes, rotation of refresh tokens) and records every request. Faults make it break
//! single rules.

mod grant;
mod state;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::{Value, json};

pub use self::state::{AccessTokenSigner, AuthorityFault, AuthorityState, Counts};
use crate::http::{HttpServer, ReceivedRequest, reply, reply_json};

/// A running authorization server; it stops when the value is dropped.
#[derive(Debug)]
pub struct Authority {
    server: HttpServer,
    state: Arc<Mutex<AuthorityState>>,
}

impl Authority {
    /// Starts a server that follows all rules.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with faults.
    pub fn with(faults: &[AuthorityFault]) -> Self {
        let state = Arc::new(Mutex::new(AuthorityState::new(faults)));
        let shared = Arc::clone(&state);
        let server = HttpServer::start(move |request, stream| answer(request, stream, &shared));
        let authority = Self { server, state };
        authority.ledger().base = authority.server.url("");
        authority
    }

    /// The URL of the protected MCP endpoint.
    pub fn mcp(&self) -> String {
        self.server.url("/mcp")
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    /// The recorded requests and the settings.
    pub fn ledger(&self) -> MutexGuard<'_, AuthorityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of requests by kind.
    pub fn counts(&self) -> Counts {
        self.ledger().counts
    }

    /// All requests in their order.
    pub fn asked(&self) -> Vec<ReceivedRequest> {
        self.server.asked().clone()
    }
}

/// The fields of a form or query, without duplicate ones.
pub(crate) fn fields(text: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(text) {
        let duplicate = fields.insert(name.clone().into_owned(), value.into_owned()).is_some();
        if duplicate {
            fields.remove(&*name);
        }
    }
    fields
}

fn answer(
    request: &ReceivedRequest,
    stream: &mut TcpStream,
    state: &Mutex<AuthorityState>,
) -> io::Result<()> {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    match (&*request.method, request.path()) {
        ("GET", "/.well-known/oauth-protected-resource/mcp") => {
            reply_json(stream, "200 OK", &resource_metadata(&lock()))
        }
        ("GET", "/.well-known/oauth-authorization-server") => {
            let state = lock();
            match state.redirect_metadata_to() {
                Some(url) => reply(stream, "302 Found", &[("Location", &url)], b""),
                None => reply_json(stream, "200 OK", &server_metadata(&state)),
            }
        }
        ("GET", "/keys") => match &lock().signer {
            Some(signer) => reply_json(stream, "200 OK", &signer.key_set()),
            None => reply_json(stream, "404 Not Found", &json!({"error": "not_found"})),
        },
        ("POST", "/register") => grant::register(request, stream, &mut lock()),
        ("GET", "/authorize") => grant::authorize(request, stream, &mut lock()),
        ("POST", "/token") => grant::token(request, stream, state),
        ("POST", "/revoke") => grant::revoke(request, stream, &mut lock()),
        (_, "/mcp") => protected_endpoint(request, stream, &mut lock()),
        _ => reply_json(stream, "404 Not Found", &json!({"error": "not_found"})),
    }
}

/// Protected resource metadata (RFC 9728).
fn resource_metadata(state: &AuthorityState) -> Value {
    let resource = state.fault(|fault| match fault {
        AuthorityFault::Resource(other) => Some(other.clone()),
        _ => None,
    });
    let servers = state.fault(|fault| match fault {
        AuthorityFault::AuthorizationServers(others) => Some(others.clone()),
        _ => None,
    });
    json!({
        "resource": resource.unwrap_or_else(|| state.resource()),
        "authorization_servers": servers.unwrap_or_else(|| vec![state.base.clone()]),
        "scopes_supported": ["echo"],
        "bearer_methods_supported": ["header"],
    })
}

/// Authorization server metadata (RFC 8414).
fn server_metadata(state: &AuthorityState) -> Value {
    let base = &state.base;
    let at = |path: &str| format!("{base}{path}");
    let mut metadata = json!({
        "issuer": base,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"),
        "revocation_endpoint": at("/revoke"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        "authorization_response_iss_parameter_supported": true,
    });
    if state.signer.is_some() {
        metadata["jwks_uri"] = json!(at("/keys"));
    }
    for fault in &state.faults {
        match fault {
            AuthorityFault::IssuerInMetadata(other) => metadata["issuer"] = json!(other),
            AuthorityFault::PkceMethods(Some(methods)) => {
                metadata["code_challenge_methods_supported"] = json!(methods);
            }
            AuthorityFault::PkceMethods(None) => {
                if let Some(fields) = metadata.as_object_mut() {
                    fields.remove("code_challenge_methods_supported");
                }
            }
            AuthorityFault::ClientDocuments => {
                metadata["client_id_metadata_document_supported"] = json!(true);
            }
            AuthorityFault::Metadata(name, value) => metadata[*name] = json!(value),
            AuthorityFault::HugeMetadata(size) => metadata["padding"] = json!("x".repeat(*size)),
            _ => {}
        }
    }
    metadata
}

/// The protected endpoint: enough of MCP to show that a token works.
fn protected_endpoint(
    request: &ReceivedRequest,
    stream: &mut TcpStream,
    state: &mut AuthorityState,
) -> io::Result<()> {
    let authorization = request.header("authorization").unwrap_or_default().to_owned();
    state.seen.push(authorization.clone());
    let token = authorization.strip_prefix("Bearer ").and_then(|token| state.access.get(token));
    let good =
        token.filter(|token| token.ends > Instant::now() && token.audience == state.resource());
    let Some(token) = good else {
        let pointer = state.fault(|fault| match fault {
            AuthorityFault::ChallengePointer(other) => Some(other.clone()),
            _ => None,
        });
        let own = format!("{}/.well-known/oauth-protected-resource/mcp", state.base);
        let error = if authorization.is_empty() { "" } else { ", error=\"invalid_token\"" };
        let pointer = pointer.unwrap_or(own);
        let challenge = format!("Bearer resource_metadata=\"{pointer}\"{error}");
        return reply(stream, "401 Unauthorized", &[("WWW-Authenticate", &challenge)], b"");
    };
    if let Some(wanted) = &state.wanted_scope
        && !token.scope.split(' ').any(|scope| scope == wanted)
    {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{wanted}\"");
        return reply(stream, "403 Forbidden", &[("WWW-Authenticate", &challenge)], b"");
    }
    let body = request.json();
    let result = match body["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "protected", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{
            "name": "echo",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        }]}),
        Some("tools/call") => json!({"content": [
            {"type": "text", "text": body["params"]["arguments"]["text"].as_str().unwrap_or("")},
        ]}),
        Some(_) if body["id"] == Value::Null => return reply(stream, "202 Accepted", &[], b""),
        _ => return reply(stream, "405 Method Not Allowed", &[], b""),
    };
    reply_json(stream, "200 OK", &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
}

/// Visits an `http` URL on loopback and follows redirects. Returns the last page with its headers.
pub fn visit(url: &str) -> io::Result<String> {
    let mut url = url.to_owned();
    for _ in 0..5 {
        let page = fetch(&url)?;
        let location = page.lines().take_while(|line| !line.is_empty()).find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
        });
        match location {
            Some(next) => url = next,
            None => return Ok(page),
        }
    }
    Err(io::Error::other("more than five redirects"))
}

/// Visits a URL on a thread of its own.
pub fn visit_in_background(url: &str) -> thread::JoinHandle<io::Result<String>> {
    let url = url.to_owned();
    thread::spawn(move || visit(&url))
}

fn fetch(url: &str) -> io::Result<String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| io::Error::other(url.to_owned()))?;
    let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut page = String::new();
    let mut length = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
        page.push_str(line.trim_end());
        page.push('\n');
        if line.trim().is_empty() {
            break;
        }
    }
    reader.take(length.unwrap_or(u64::MAX)).read_to_string(&mut page)?;
    Ok(page)
}
