//! HTTP clients in front of a server at a URL: what the proxy knows of a client between two requests.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lro_http::{Guard, StopHandle, UNIX_PREFIX, stop_channel};
use lro_proxy::downstream::http::{Upstream, run};
use lro_proxy::upstream::http::{Remote, RemoteOptions, UpstreamEndpoint};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http::{HttpServer, ReceivedRequest, reply};

use crate::fixture::{Fixture, VIEW_URI, page_capabilities};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_CONNECTIONS: usize = 16;
const SESSION: &str = "s-1";

/// A running gateway; it stops when the value is dropped.
struct Gateway {
    directory: TempDir,
    stop: Option<StopHandle>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    fn start(server: &HttpServer) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let address = format!("{UNIX_PREFIX}{}", socket.display());
        let listener = lro_http::listen(&address, false).unwrap();
        let endpoint = UpstreamEndpoint::parse(&server.url("/mcp")).unwrap();
        let remote = Remote::new(endpoint, RemoteOptions::default()).unwrap();
        let (stop, stopped) = stop_channel();
        let thread = thread::spawn(move || {
            let (relay, _kept) = Fixture::with_view().into_relay();
            let upstream = Upstream::Remote(remote);
            run(relay, upstream, listener, Guard::default(), MAX_CONNECTIONS, stopped).unwrap();
        });
        Self { directory, stop: Some(stop), thread: Some(thread) }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// Sends a request, in a session or not; returns the result or the error.
    fn ask(&self, session: Option<&str>, method: &str, params: &Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let message = message.to_string();
        let session = session.map_or(String::new(), |id| format!("Mcp-Session-Id: {id}\r\n"));
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n{session}\r\n{message}",
            message.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        // The body may come in chunks.
        let body = response.find('{').zip(response.rfind('}'));
        let (begin, end) = body.unwrap_or_else(|| panic!("{response}"));
        let answer: Value = serde_json::from_str(&response[begin..=end]).unwrap();
        let result = answer.get("result").or_else(|| answer.get("error"));
        result.unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// Introduces a client that shows pages; returns the capabilities of the server.
    fn initialize(&self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": page_capabilities(),
            "clientInfo": {"name": "t", "version": "1"},
        });
        self.ask(None, "initialize", &params)["capabilities"].take()
    }

    fn tools(&self, session: Option<&str>) -> Vec<Value> {
        let mut listed = self.ask(session, "tools/list", &json!({}));
        let Value::Array(tools) = listed["tools"].take() else { panic!("{listed}") };
        tools
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop.take().into_iter().for_each(StopHandle::now);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
    }
}

/// A server of the older era without tools and resources, with or without sessions.
fn server(has_sessions: bool) -> HttpServer {
    HttpServer::start(move |received: &ReceivedRequest, stream: &mut TcpStream| -> io::Result<()> {
        let message = received.json();
        let is_initialize = message["method"] == "initialize";
        let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
        if is_initialize {
            answer["result"] = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"},
            });
        } else {
            answer["error"] = json!({"code": -32601, "message": "method not found"});
        }
        let mut headers = vec![("Content-Type", "application/json")];
        if is_initialize && has_sessions {
            headers.push(("Mcp-Session-Id", SESSION));
        }
        reply(stream, "200 OK", &headers, answer.to_string().as_bytes())
    })
}

fn has_show(tools: &[Value]) -> bool {
    tools.iter().any(|tool| tool["name"] == "lro_show")
}

#[test]
fn a_server_without_sessions_is_offered_no_page() {
    let server = server(false);
    let gateway = Gateway::start(&server);
    assert_eq!(gateway.initialize(), json!({"tools": {}}));
    let tools = gateway.tools(None);
    assert!(!tools.is_empty() && !has_show(&tools), "{tools:?}");
    for tool in &tools {
        assert_eq!(tool["_meta"]["ui"]["visibility"], json!(["model"]), "{tool}");
    }
}

#[test]
fn a_session_that_began_before_a_restart_goes_on_without_the_page() {
    let server = server(true);
    let gateway = Gateway::start(&server);
    assert_eq!(gateway.initialize(), json!({"tools": {}, "resources": {}}));
    assert!(has_show(&gateway.tools(Some(SESSION))));
    let page = gateway.ask(Some(SESSION), "resources/read", &json!({"uri": VIEW_URI}));
    assert_eq!(page["contents"][0]["uri"], VIEW_URI, "{page}");
    drop(gateway);
    let restarted = Gateway::start(&server);
    for (method, member) in
        [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
    {
        let listed = restarted.ask(Some(SESSION), method, &json!({}));
        assert_eq!(listed, json!({member: []}), "{method}");
    }
    let call = json!({"name": "lro_show", "arguments": {"ref": "lro:x"}});
    let error = restarted.ask(Some(SESSION), "tools/call", &call)["message"].take();
    assert!(error.as_str().unwrap().contains("results open"), "{error}");
    for tool in restarted.tools(Some(SESSION)) {
        assert_eq!(tool["_meta"]["ui"]["visibility"], json!(["model"]), "{tool}");
    }
}
