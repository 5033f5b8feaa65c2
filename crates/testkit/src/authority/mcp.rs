//! The protected endpoint: as much of MCP as shows that a token works.

use std::{io, net::TcpStream, time::Instant};

use serde_json::{Value, json};

use super::{Fault, Ledger};
use crate::http::{Asked, reply, reply_json};

pub(super) fn answer(asked: &Asked, stream: &mut TcpStream, ledger: &mut Ledger) -> io::Result<()> {
    let authorization = asked.header("authorization").unwrap_or_default().to_owned();
    ledger.seen.push(authorization.clone());
    let token = authorization.strip_prefix("Bearer ").and_then(|token| ledger.access.get(token));
    let good =
        token.filter(|token| token.ends > Instant::now() && token.audience == ledger.resource());
    let Some(token) = good else {
        let pointer = ledger.fault(|fault| match fault {
            Fault::ChallengePointer(other) => Some(other.clone()),
            _ => None,
        });
        let own = format!("{}/.well-known/oauth-protected-resource/mcp", ledger.base);
        let error = if authorization.is_empty() { "" } else { ", error=\"invalid_token\"" };
        let pointer = pointer.unwrap_or(own);
        let challenge = format!("Bearer resource_metadata=\"{pointer}\"{error}");
        return reply(stream, "401 Unauthorized", &[("WWW-Authenticate", &challenge)], b"");
    };
    if let Some(wanted) = &ledger.wanted_scope
        && !token.scope.split(' ').any(|scope| scope == wanted)
    {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{wanted}\"");
        return reply(stream, "403 Forbidden", &[("WWW-Authenticate", &challenge)], b"");
    }
    let request = asked.json();
    let result = match request["method"].as_str() {
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
            {"type": "text", "text": request["params"]["arguments"]["text"].as_str().unwrap_or("")},
        ]}),
        Some(_) if request["id"] == Value::Null => return reply(stream, "202 Accepted", &[], b""),
        _ => return reply(stream, "405 Method Not Allowed", &[], b""),
    };
    reply_json(stream, "200 OK", &json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}
