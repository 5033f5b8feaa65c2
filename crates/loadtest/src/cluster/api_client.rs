//! An API client of one tenant. It classifies and counts every response, and searches it for data of
//! other tenants.
//!
//! Each tenant writes a *canary* into its memories, a word that no other tenant writes. A response
//! with the canary of another tenant is a leak.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use xtask::output;

use super::http_client::{HttpClient, Request, RequestError, Response};
use super::report::Counters;
use super::tenants::Tenant;

/// All clients use the same id for all messages, which exposes a server that mixes up responses.
const REQUEST_ID: u64 = 1;
/// Longer than the balancer's timeout, so that the balancer is the one to report it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait before the next request when the response does not say.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Clients wait no longer, whatever `Retry-After` says.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How a server reports a write with an unknown outcome.
const UNKNOWN_OUTCOME: &str = "the change may be there or not";
/// The beginning of every canary.
const CANARY_PREFIX: &str = "canary";

/// A client of one tenant.
#[derive(Debug)]
pub(super) struct ApiClient<'a> {
    pub(super) tenant: &'a Tenant,
    http: HttpClient,
    pub(super) counters: Counters,
}

/// The outcome of a request, with an excerpt of the response for reports.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) excerpt: String,
}

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    Success(Value),
    Denied(String),
    /// The server did not execute the request, and said so.
    Unavailable,
    /// The server may have executed the request.
    Unknown,
    /// No server should respond so.
    Invalid(String),
}

impl<'a> ApiClient<'a> {
    pub(super) fn new(tenant: &'a Tenant, port: u16) -> Self {
        let http = HttpClient::new(port, REQUEST_TIMEOUT);
        Self { tenant, http, counters: Counters::default() }
    }

    /// Calls an MCP tool.
    pub(super) fn call_tool(&mut self, name: &str, arguments: &Value) -> Reply {
        self.send_message("tools/call", name, &json!({"name": name, "arguments": arguments}))
    }

    /// Sends an MCP message; `what` names it in reports.
    pub(super) fn send_message(&mut self, method: &str, what: &str, params: &Value) -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": REQUEST_ID, "method": method, "params": params});
        let request = Request::post("/mcp", body.to_string());
        self.send(what, request, ExpectedBody::JsonRpc(REQUEST_ID))
    }

    /// Sends a request with the tenant's key; `what` names it in reports.
    pub(super) fn send(&mut self, what: &str, request: Request, expected: ExpectedBody) -> Reply {
        let request = request.with_key(&self.tenant.key);
        self.counters.calls += 1;
        let response = match self.http.send(&request) {
            Ok(response) => response,
            Err(error) => {
                let outcome = match error {
                    RequestError::Refused => Outcome::Unavailable,
                    _ => Outcome::Unknown,
                };
                self.counters.count_failure(what, error);
                thread::sleep(RETRY_DELAY);
                return Reply { outcome, excerpt: String::new() };
            }
        };
        for canary in foreign_canaries(&response.to_bytes(), &self.tenant.canary) {
            self.counters.leaks += 1;
            output::line(format_args!(
                "FOREIGN: {} ({}) got {canary} from {what} ({} {}): {}",
                self.tenant.name,
                self.tenant.canary,
                request.method,
                request.path,
                response.excerpt()
            ));
        }
        let classification = classify(expected, &response);
        self.counters.count_response(response.status, &classification);
        let outcome = match classification {
            Classification::Success(value) => Outcome::Success(value),
            Classification::Denied(reason) => Outcome::Denied(reason),
            Classification::Invalid(reason) => Outcome::Invalid(reason),
            Classification::UnknownOutcome => Outcome::Unknown,
            Classification::Unavailable { delay, .. } => {
                thread::sleep(delay);
                Outcome::Unavailable
            }
            // The balancer had no server to forward to.
            Classification::Balancer(503) => {
                thread::sleep(RETRY_DELAY);
                Outcome::Unavailable
            }
            // The balancer forwarded the request and got no response.
            Classification::Balancer(_) => {
                thread::sleep(RETRY_DELAY);
                Outcome::Unknown
            }
        };
        Reply { outcome, excerpt: response.excerpt() }
    }

    /// The value of a request for something of this tenant; a denial is recorded as an error.
    pub(super) fn expect_success(&mut self, what: &str, reply: Reply) -> Option<Value> {
        match reply.outcome {
            Outcome::Success(value) => Some(value),
            Outcome::Denied(reason) | Outcome::Invalid(reason) => {
                self.counters.record_error(what, &reason, reply.excerpt);
                None
            }
            Outcome::Unavailable | Outcome::Unknown => None,
        }
    }

    /// Like [`Self::expect_denied`], for something of another tenant.
    pub(super) fn expect_foreign_denied(&mut self, what: &str, reply: Reply) {
        self.counters.foreign_requests += 1;
        self.expect_denied(what, reply);
    }

    /// Records a success as an error.
    pub(super) fn expect_denied(&mut self, what: &str, reply: Reply) {
        match reply.outcome {
            Outcome::Success(_) => self.counters.record_error(what, "was given", reply.excerpt),
            Outcome::Invalid(reason) => self.counters.record_error(what, &reason, reply.excerpt),
            Outcome::Denied(_) | Outcome::Unavailable | Outcome::Unknown => {}
        }
    }
}

/// The expected body of a successful response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedBody {
    /// JSON of the HTTP API.
    Json,
    /// The response to a JSON-RPC request with this id.
    JsonRpc(u64),
    /// Bytes of any kind.
    Bytes,
}

/// What a response means, and whether a server or the balancer sent it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Classification {
    /// JSON, or the `result` of a message; null for bytes.
    Success(Value),
    /// The server did not execute the request, and says so as it should.
    Unavailable { kind: String, delay: Duration },
    /// The write may have been executed.
    UnknownOutcome,
    /// The server says that there is no such object, or that the request is not allowed.
    Denied(String),
    /// The balancer responded, because no server did.
    Balancer(u16),
    /// No server should respond so.
    Invalid(String),
}

/// Classifies a response.
fn classify(expected: ExpectedBody, response: &Response) -> Classification {
    let content_type = response.header("content-type").unwrap_or_default();
    let is_problem = content_type.starts_with("application/problem+json");
    let retry_after = response.header("retry-after").and_then(|seconds| seconds.parse().ok());
    let text = || String::from_utf8_lossy(&response.body);
    match response.status {
        200 | 201 | 202 | 204 | 206 => classify_body(expected, response),
        status @ (408 | 502 | 503 | 504) if !is_problem => Classification::Balancer(status),
        413 if is_problem => {
            Classification::Unavailable { kind: "413".to_owned(), delay: Duration::ZERO }
        }
        503 if is_problem && retry_after.is_some() && text().contains(UNKNOWN_OUTCOME) => {
            Classification::UnknownOutcome
        }
        status @ (429 | 503) if is_problem => match retry_after.map(Duration::from_secs) {
            Some(delay) => Classification::Unavailable {
                kind: status.to_string(),
                delay: delay.min(MAX_RETRY_DELAY),
            },
            None => Classification::Invalid(format!("{status} without Retry-After")),
        },
        status @ 400..500 if is_problem => {
            Classification::Denied(format!("{status} {}", problem_detail(response)))
        }
        // JSON-RPC errors of MCP.
        400 | 404 if matches!(expected, ExpectedBody::JsonRpc(_)) => {
            classify_body(expected, response)
        }
        status => Classification::Invalid(format!("{status} {}", problem_detail(response))),
    }
}

fn classify_body(expected: ExpectedBody, response: &Response) -> Classification {
    if expected == ExpectedBody::Bytes {
        return Classification::Success(Value::Null);
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&response.body) else {
        return Classification::Invalid(format!("{} without JSON", response.status));
    };
    let ExpectedBody::JsonRpc(id) = expected else { return Classification::Success(value) };
    if value["id"] != id {
        return Classification::Invalid("the answer has another id".to_owned());
    }
    if let Some(error) = value.get("error") {
        let message = error["message"].as_str().unwrap_or_default();
        return Classification::Denied(format!("error {}: {message}", error["code"]));
    }
    let result = value["result"].take();
    if result["isError"] != true {
        return Classification::Success(result);
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let first = text.lines().next().unwrap_or_default().to_owned();
    if text.contains(UNKNOWN_OUTCOME) {
        Classification::UnknownOutcome
    } else if first.starts_with("Error (unavailable): ") {
        let kind = "tool error, unavailable".to_owned();
        Classification::Unavailable { kind, delay: RETRY_DELAY }
    } else {
        Classification::Denied(format!("tool error: {first}"))
    }
}

fn problem_detail(response: &Response) -> String {
    let problem: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    problem["detail"].as_str().unwrap_or_default().to_owned()
}

/// A canary. It begins with the tenant's number, so that a truncated canary still differs from those
/// of other tenants.
pub(super) fn new_canary(tenant: usize, random: u64) -> String {
    format!("{CANARY_PREFIX}{tenant:03}x{:010x}", random & 0xff_ffff_ffff)
}

/// The canaries in a response that are not `own`, whole or truncated.
fn foreign_canaries(response: &[u8], own: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(response);
    let own = own.strip_prefix(CANARY_PREFIX).unwrap_or(own);
    text.match_indices(CANARY_PREFIX)
        .map(|(at, _)| &text[at + CANARY_PREFIX.len()..])
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            &rest[..end.min(own.len())]
        })
        // Without a number behind it, it is the English word.
        .filter(|tail| tail.starts_with(|c: char| c.is_ascii_digit()) && !own.starts_with(tail))
        .map(|tail| format!("{CANARY_PREFIX}{tail}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(
        expected: ExpectedBody,
        status: &str,
        headers: &str,
        body: &str,
    ) -> Classification {
        let headers = headers.lines().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let (status, body) = (status.parse().unwrap(), body.as_bytes().to_vec());
        classify(expected, &Response { status, headers: headers.collect(), body })
    }

    const PROBLEM: &str = "Content-Type: application/problem+json\r\n";

    #[test]
    fn our_own_refusals_differ_from_the_balancers_pages() {
        let busy = r#"{"detail":"the memory store is busy"}"#;
        let soon = format!("{PROBLEM}Retry-After: 1\r\n");
        let later = format!("{PROBLEM}Retry-After: 3600\r\n");
        let unavailable =
            |kind: &str, delay| Classification::Unavailable { kind: kind.to_owned(), delay };
        let second = Duration::from_secs(1);
        for body in [ExpectedBody::Json, ExpectedBody::JsonRpc(1), ExpectedBody::Bytes] {
            let is_invalid = |status| {
                matches!(classified(body, status, PROBLEM, busy), Classification::Invalid(_))
            };
            assert_eq!(classified(body, "503", &soon, busy), unavailable("503", second));
            assert_eq!(classified(body, "429", &later, busy), unavailable("429", second));
            assert_eq!(classified(body, "413", PROBLEM, busy), unavailable("413", Duration::ZERO));
            for status in ["503", "429", "500", "507", "501", "302"] {
                assert!(is_invalid(status), "{status}");
            }
            for page in ["408", "502", "503", "504"] {
                let html = classified(body, page, "Content-Type: text/html\r\n", "<html>");
                assert_eq!(html, Classification::Balancer(page.parse().unwrap()));
            }
            let missing = classified(body, "404", PROBLEM, r#"{"detail":"none"}"#);
            assert_eq!(missing, Classification::Denied("404 none".to_owned()));
        }
        let unknown = format!(r#"{{"detail":"lost while it wrote: {UNKNOWN_OUTCOME}"}}"#);
        let json = |status, headers: &str, body: &str| {
            classified(ExpectedBody::Json, status, headers, body)
        };
        assert_eq!(json("503", &soon, &unknown), Classification::UnknownOutcome);
        assert!(matches!(json("503", PROBLEM, &unknown), Classification::Invalid(_)));
        assert!(matches!(json("500", &soon, &unknown), Classification::Invalid(_)));
        assert!(matches!(json("200", "", "no JSON"), Classification::Invalid(_)));
        let bytes = classified(ExpectedBody::Bytes, "206", "", "no JSON");
        assert_eq!(bytes, Classification::Success(Value::Null));
    }

    #[test]
    fn messages_have_errors_of_three_kinds() {
        let message = |body: &str| classified(ExpectedBody::JsonRpc(1), "200", "", body);
        let success = message(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#);
        assert_eq!(success, Classification::Success(json!({"a": 1})));
        assert!(matches!(message(r#"{"id":2,"result":{}}"#), Classification::Invalid(_)));
        assert!(matches!(message(r#"{"id":"1","result":{}}"#), Classification::Invalid(_)));
        let error = message(r#"{"id":1,"error":{"code":-32602,"message":"no"}}"#);
        assert_eq!(error, Classification::Denied("error -32602: no".to_owned()));
        let tool = |text: &str| {
            let result = json!({"isError": true, "content": [{"text": text}]});
            message(&json!({"id": 1, "result": result}).to_string())
        };
        let busy = tool("Error (unavailable): busy\nHint: x");
        assert!(matches!(busy, Classification::Unavailable { .. }));
        let unknown = tool(&format!("Error (storage): {UNKNOWN_OUTCOME}\nHint: look"));
        assert_eq!(unknown, Classification::UnknownOutcome);
        let reason = "tool error: Error (not_found): there is no memory x".to_owned();
        let denied = tool("Error (not_found): there is no memory x\nHint: y");
        assert_eq!(denied, Classification::Denied(reason));
    }

    #[test]
    fn only_what_is_another_tenants_is_foreign() {
        let (ann, bob) = (new_canary(1, 0xabc), new_canary(2, u64::MAX));
        assert_eq!((&*ann, &*bob), ("canary001x0000000abc", "canary002xffffffffff"));
        for clean in [
            String::new(),
            "canary, canary and canaries".to_owned(),
            ann.clone(),
            format!("{ann}{ann}"),
            format!("{{\"content\":\"{ann} sings\",\"tags\":[\"{ann}\"]}}"),
            // Truncated, as a preview may be.
            ann[..12].to_owned(),
        ] {
            assert!(foreign_canaries(clean.as_bytes(), &ann).is_empty(), "{clean}");
        }
        for leaked in [
            bob.clone(),
            format!("x{bob}y"),
            format!("{ann} {bob} {ann}"),
            // Truncated behind the number of the tenant.
            bob[..9].to_owned(),
        ] {
            assert_eq!(foreign_canaries(leaked.as_bytes(), &ann).len(), 1, "{leaked}");
        }
        let twice = format!("{bob}{bob} {ann}");
        assert_eq!(foreign_canaries(twice.as_bytes(), &ann), [&*bob, &*bob]);
        // Bytes that are not UTF-8 hide nothing.
        let odd = [&[0xff, 0xc3][..], bob.as_bytes(), &[0xe2, 0x82]].concat();
        assert_eq!(foreign_canaries(&odd, &ann), [bob]);
    }
}
