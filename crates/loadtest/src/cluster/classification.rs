//! The classification of responses: what they mean, and whether a server or the balancer sent them.

use std::time::Duration;

use serde_json::Value;

use super::http_client::Response;

/// How long to wait before the next request when the response does not say.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Clients wait no longer, whatever `Retry-After` says.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How a server reports a write with an unknown outcome.
const UNKNOWN_OUTCOME: &str = "the outcome is unknown";

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
pub(super) fn classify(expected: ExpectedBody, response: &Response) -> Classification {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let unknown = format!(r#"{{"detail":"lost the connection: {UNKNOWN_OUTCOME}"}}"#);
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
}
