//! The server that is asked: as little as can be, so that what is measured is the way to it.

use serde_json::{Value, json};
use testkit::http::{HttpServer, ReceivedRequest, reply};

pub(crate) fn start() -> HttpServer {
    HttpServer::start(|asked, stream| {
        if asked.method != "POST" {
            return reply(stream, "405 Method Not Allowed", &[], b"");
        }
        let message = asked.json();
        if message["id"].is_null() {
            return reply(stream, "202 Accepted", &[], b"");
        }
        let body = answer(&message);
        let headers = [("Content-Type", "application/json"), ("Mcp-Session-Id", "bench")];
        let headers = if is_modern(asked) { &headers[..1] } else { &headers[..] };
        reply(stream, "200 OK", headers, body.as_bytes())
    })
}

fn is_modern(asked: &ReceivedRequest) -> bool {
    asked.header("mcp-protocol-version") == Some("2026-07-28")
}

fn answer(message: &Value) -> String {
    let params = &message["params"];
    let result = match (message["method"].as_str(), params["name"].as_str()) {
        (Some("initialize"), _) => json!({
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }),
        (Some("tools/list"), _) => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
            "tools": [
                {"name": "echo", "inputSchema": {"type": "object"}},
                {"name": "big", "inputSchema": {"type": "object"}},
            ],
        }),
        (_, Some("big")) => {
            // As of the server on standard streams: no comma, or it would be a table.
            let line = "All work and no play makes a long text out of a short sentence.\n";
            let bytes =
                usize::try_from(params["arguments"]["bytes"].as_u64().unwrap_or(0)).unwrap_or(0);
            text(&line.repeat(bytes / line.len() + 1))
        }
        _ => text(&params["arguments"].to_string()),
    };
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()
}

fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}
