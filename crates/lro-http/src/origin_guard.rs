//! Middleware that checks `Host`, `Origin`, the media type and the bearer token of requests.
//!
//! A web page can send requests to this machine. `Host` reveals DNS rebinding, `Origin` names the page,
//! and a JSON media type forces the browser to send a CORS preflight first. All three are checked.
//! Pages of other servers on this machine are foreign too: only the server's own origin and the listed
//! ones are allowed.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use crate::bearer::BearerTokens;
use crate::header::single;
use crate::route::Problem;

/// Host names of this machine.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The allowed hosts, origins and tokens of a server.
#[derive(Debug, Default)]
pub struct Guard {
    /// Allowed `Host` headers, besides the names of this machine.
    pub hosts: Vec<String>,
    /// Allowed `Origin` headers: the server's own and the configured ones.
    pub origins: Vec<String>,
    /// Accepted bearer tokens; `None` if the listener or the routes authenticate requests.
    pub tokens: Option<BearerTokens>,
}

impl Guard {
    /// Wraps `routes` in checks of the bearer token and the media type.
    pub fn layer_auth<S: Clone + Send + Sync + 'static>(
        self: &Arc<Self>,
        routes: Router<S>,
    ) -> Router<S> {
        routes
            .layer(from_fn(check_media_type))
            .layer(from_fn_with_state(Arc::clone(self), check_token))
    }

    /// Wraps `routes` in checks of `Host` and `Origin`.
    pub fn layer_origin<S: Clone + Send + Sync + 'static>(
        self: &Arc<Self>,
        routes: Router<S>,
    ) -> Router<S> {
        routes.layer(from_fn_with_state(Arc::clone(self), guard_origin))
    }

    /// Whether `host` is a name of this machine with any port, or an allowed one. An allowed host
    /// without a port matches every port.
    fn is_allowed_host(&self, host: &str) -> bool {
        let (name, port) = split_port(host);
        let valid_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        let local = LOCAL_HOSTS.iter().any(|local| name.eq_ignore_ascii_case(local));
        let allowed = self.hosts.iter().any(|allowed| {
            let (allowed_name, allowed_port) = split_port(allowed);
            name.eq_ignore_ascii_case(allowed_name)
                && (allowed_port.is_none() || allowed_port == port)
        });
        valid_port && (local || allowed)
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
}

/// Splits a host from its port.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        // The colons of an IPv6 address are inside its brackets.
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// Checks `Host` and `Origin` before the body is read, and forbids caching and media type sniffing in
/// every response.
async fn guard_origin(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = check_origin(&guard, request, next).await;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Checks `Host` and `Origin`, and answers CORS preflight requests.
async fn check_origin(guard: &Guard, request: Request, next: Next) -> Response {
    // A target in absolute form is for proxies; its authority could contradict `Host`.
    if request.uri().authority().is_some() || request.uri().scheme().is_some() {
        let detail = "the request target must be a path: absolute form is for proxies";
        return Problem::new(StatusCode::BAD_REQUEST, detail).into_response();
    }
    let headers = request.headers();
    if !single(headers, &header::HOST).is_some_and(|host| guard.is_allowed_host(host)) {
        let detail = "Host header not allowed (server.allowed_hosts)";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    if !headers.contains_key(header::ORIGIN) {
        return next.run(request).await;
    }
    let Some(origin) =
        single(headers, &header::ORIGIN).filter(|origin| guard.is_allowed_origin(origin))
    else {
        let detail = "origin not allowed (server.allowed_origins)";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    };
    let origin = HeaderValue::from_str(origin).ok();
    let mut response =
        if request.method() == Method::OPTIONS { preflight() } else { next.run(request).await };
    if let Some(origin) = origin {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Origin"));
    let exposed = HeaderValue::from_static("Mcp-Session-Id, Location, Content-Range");
    response.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    response
}

fn preflight() -> Response {
    let allowed = "Authorization, Content-Type, Accept, Range, Last-Event-ID, MCP-Protocol-Version, \
                   Mcp-Method, Mcp-Name, Mcp-Session-Id";
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, allowed),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Checks the bearer token.
async fn check_token(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let authorization = single(request.headers(), &header::AUTHORIZATION);
    if guard.tokens.as_ref().is_none_or(|tokens| tokens.verify(authorization).is_some()) {
        return next.run(request).await;
    }
    let detail = "bearer token required (Authorization: Bearer …)";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    let challenge = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// Checks that the body is JSON, which a page cannot send without a CORS preflight.
async fn check_media_type(request: Request, next: Next) -> Response {
    let has_body = matches!(*request.method(), Method::POST | Method::PUT);
    let is_json = single(request.headers(), &header::CONTENT_TYPE).is_some_and(|value| {
        let essence = value.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    });
    if has_body && !is_json {
        let detail = "Content-Type must be application/json";
        return Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::fs::OpenOptionsExt;
    use std::thread;
    use std::time::Duration;

    use axum::routing::any;

    use super::*;
    use crate::listen::listen;
    use crate::serve::{ServeLimits, serve, stop_channel};

    fn guard() -> Guard {
        Guard {
            hosts: vec!["memory.example".to_owned(), "other.example:8443".to_owned()],
            origins: vec!["https://app.example".to_owned()],
            tokens: None,
        }
    }

    #[test]
    fn hosts_are_ours_or_allowed() {
        for (host, allowed) in [
            ("localhost", true),
            ("LOCALHOST:7171", true),
            ("127.0.0.1:1", true),
            ("[::1]:7171", true),
            ("[::1]", true),
            ("memory.example", true),
            ("memory.example:99", true),
            ("other.example:8443", true),
            ("other.example:1", false),
            ("other.example", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("localhost:7171.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1:evil", false),
            ("0.0.0.0", false),
            ("127.0.0.2", false),
            ("", false),
            (":7171", false),
            ("localhost@evil.example", false),
        ] {
            assert_eq!(guard().is_allowed_host(host), allowed, "{host}");
        }
    }

    #[test]
    fn origins_are_ours_or_allowed() {
        for (origin, allowed) in [
            ("https://app.example", true),
            ("HTTPS://App.Example", true),
            ("http://localhost:5173", false),
            ("https://127.0.0.1", false),
            ("http://[::1]:80", false),
            ("http://app.example", false),
            ("https://app.example.evil", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
            ("file://localhost", false),
            ("http://localhost.evil.example", false),
            ("http://localhost:1@evil.example", false),
        ] {
            assert_eq!(guard().is_allowed_origin(origin), allowed, "{origin}");
        }
    }

    /// Sends requests to a server that admits whatever passes the guard; returns the whole responses.
    fn responses(guard: Guard, requests: &[String]) -> Vec<String> {
        let listener = listen("127.0.0.1:0", false).unwrap();
        let address = listener.address().unwrap().unwrap();
        let (stop, stopped) = stop_channel();
        let limits = ServeLimits::new(8, Duration::from_secs(1));
        let router = move || {
            let guard = Arc::new(guard);
            guard.layer_origin(guard.layer_auth(Router::new().route("/", any(async || "admitted"))))
        };
        let serving = thread::spawn(move || serve(router, listener, limits, stopped.wait()));
        let ask = |request: &String| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answers = requests.iter().map(ask).collect();
        stop.now();
        serving.join().unwrap().unwrap();
        answers
    }

    type Header = (&'static str, &'static str);

    fn request(method: &str, headers: &[(&str, &str)]) -> String {
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} / HTTP/1.1\r\nConnection: close\r\n{}\r\n", headers.concat())
    }

    const HOST: Header = ("Host", "memory.example");
    const ORIGIN: Header = ("Origin", "https://app.example");
    const JSON: Header = ("Content-Type", "application/json; charset=utf-8");

    #[test]
    fn host_origin_and_media_type_are_judged_together() {
        let cases: &[(u16, &str, &[Header])] = &[
            (200, "GET", &[HOST]),
            (200, "GET", &[HOST, ORIGIN]),
            (200, "POST", &[HOST, ORIGIN, JSON]),
            (200, "PUT", &[HOST, JSON]),
            (200, "DELETE", &[HOST]),
            (204, "OPTIONS", &[HOST, ORIGIN]),
            (200, "OPTIONS", &[HOST]),
            (415, "POST", &[HOST, ORIGIN]),
            (415, "PUT", &[HOST, ("Content-Type", "text/plain")]),
            (415, "POST", &[HOST, JSON, JSON]),
            (403, "GET", &[]),
            (403, "GET", &[("Host", "evil.example")]),
            (403, "GET", &[HOST, HOST]),
            (403, "OPTIONS", &[HOST, ("Origin", "https://evil.example")]),
            (403, "POST", &[HOST, ("Origin", "null"), JSON]),
            (403, "POST", &[HOST, ORIGIN, ORIGIN, JSON]),
            (403, "POST", &[("Host", "evil.example"), ORIGIN, JSON]),
        ];
        let requests: Vec<String> =
            cases.iter().map(|(_, method, headers)| request(method, headers)).collect();
        for ((status, method, headers), answer) in cases.iter().zip(responses(guard(), &requests)) {
            let context = format!("{method} {headers:?}: {answer}");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{context}");
            // Only an allowed page may read the response.
            let is_open = *status != 403 && headers.contains(&ORIGIN);
            let opened = "access-control-allow-origin: https://app.example\r\nvary: Origin\r\n\
                          access-control-expose-headers: ";
            assert_eq!(answer.contains(opened), is_open, "{context}");
            assert_eq!(
                answer.contains("access-control-allow-methods: "),
                *status == 204,
                "{context}"
            );
        }
    }

    #[test]
    fn g08_a_target_in_absolute_form_is_refused() {
        let requests = ["http://memory.example/", "http://evil.example/", "HTTPS://memory.example"]
            .map(|target| {
                format!(
                    "GET {target} HTTP/1.1\r\nConnection: close\r\nHost: memory.example\r\n\r\n"
                )
            });
        for answer in responses(guard(), &requests) {
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
            assert!(answer.contains("absolute form"), "{answer}");
        }
    }

    #[test]
    fn g08_no_answer_is_cached_or_taken_for_another_type() {
        let requests = [
            request("GET", &[HOST]),
            request("OPTIONS", &[HOST, ORIGIN]),
            request("GET", &[("Host", "evil.example")]),
        ];
        for answer in responses(guard(), &requests) {
            for header in ["cache-control: no-store\r\n", "x-content-type-options: nosniff\r\n"] {
                assert!(answer.contains(header), "{answer}");
            }
        }
    }

    #[test]
    fn requests_without_a_valid_token_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let token = "0123456789abcdefghijklmnopqrstuv";
        let mut private = OpenOptions::new();
        private.write(true).create_new(true).mode(0o600);
        private.open(&file).unwrap().write_all(token.as_bytes()).unwrap();
        let guard = Guard { tokens: Some(BearerTokens::read(&file, [1; 32]).unwrap()), ..guard() };
        let bearer = format!("bearer  {token}");
        let wrong = format!("Bearer {token}x");
        let requests = [
            request("GET", &[HOST, ("Authorization", &bearer)]),
            request("GET", &[HOST]),
            request("GET", &[HOST, ("Authorization", &wrong)]),
            request("GET", &[HOST, ("Authorization", &format!("Basic {token}"))]),
            request("GET", &[HOST, ("Authorization", &bearer), ("Authorization", &bearer)]),
        ];
        let answers = responses(guard, &requests);
        assert!(answers[0].starts_with("HTTP/1.1 200 "), "{}", answers[0]);
        for answer in &answers[1..] {
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
            assert!(answer.contains("www-authenticate: Bearer\r\n"), "{answer}");
        }
    }
}
