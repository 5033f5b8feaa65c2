//! Verdict: what an answer says to whoever asked, whoever gave it.

use std::time::Duration;

use serde_json::Value;

use super::http_client::Response;

/// Clients wait no longer, whatever they are told.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long they wait where nobody says.
const A_MOMENT: Duration = Duration::from_millis(100);
/// What a write that may or may not be there is told with.
const UNSURE: &str = "the change may be there or not";

/// In which form an answer is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON of the API.
    Json,
    /// The answer to a message with this id.
    Message(u64),
    /// Bytes of any kind.
    Bytes,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Classification {
    /// What was asked for: JSON, or the `result` of a message; null for bytes.
    Given(Value),
    /// The server does not do it now, says so as it should, and has done nothing.
    NotNow { kind: String, wait: Duration },
    /// A write may be there or not.
    Unsure,
    /// The server says that there is no such thing, or that it may not be asked for so.
    Denied(String),
    /// The balancer answered, since no server did.
    Balancer(u16),
    /// Nothing that a server should say.
    Wrong(String),
}

/// Judges an answer.
pub(super) fn classify(form: Form, response: &Response) -> Classification {
    let kind = response.header("content-type").unwrap_or_default();
    let problem = kind.starts_with("application/problem+json");
    let waits = response.header("retry-after").and_then(|seconds| seconds.parse().ok());
    let text = || String::from_utf8_lossy(&response.body);
    match response.status {
        200 | 201 | 202 | 204 | 206 => given(form, response),
        status @ (408 | 502 | 503 | 504) if !problem => Classification::Balancer(status),
        413 if problem => Classification::NotNow { kind: "413".to_owned(), wait: Duration::ZERO },
        503 if problem && waits.is_some() && text().contains(UNSURE) => Classification::Unsure,
        status @ (429 | 503) if problem => match waits.map(Duration::from_secs) {
            Some(wait) => {
                Classification::NotNow { kind: status.to_string(), wait: wait.min(LONGEST_WAIT) }
            }
            None => Classification::Wrong(format!("{status} without Retry-After")),
        },
        status @ 400..500 if problem => {
            Classification::Denied(format!("{status} {}", detail(response)))
        }
        // MCP has errors of its own form.
        400 | 404 if matches!(form, Form::Message(_)) => given(form, response),
        status => Classification::Wrong(format!("{status} {}", detail(response))),
    }
}

fn given(form: Form, response: &Response) -> Classification {
    if form == Form::Bytes {
        return Classification::Given(Value::Null);
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&response.body) else {
        return Classification::Wrong(format!("{} without JSON", response.status));
    };
    let Form::Message(id) = form else { return Classification::Given(value) };
    if value["id"] != id {
        return Classification::Wrong("the answer has another id".to_owned());
    }
    if let Some(error) = value.get("error") {
        let message = error["message"].as_str().unwrap_or_default();
        return Classification::Denied(format!("error {}: {message}", error["code"]));
    }
    let result = value["result"].take();
    if result["isError"] != true {
        return Classification::Given(result);
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let first = text.lines().next().unwrap_or_default().to_owned();
    if text.contains(UNSURE) {
        Classification::Unsure
    } else if first.starts_with("Error (unavailable): ") {
        Classification::NotNow { kind: "tool error, unavailable".to_owned(), wait: A_MOMENT }
    } else {
        Classification::Denied(format!("tool error: {first}"))
    }
}

/// What a problem says, in its own words.
fn detail(response: &Response) -> String {
    let problem: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    problem["detail"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(form: Form, status: &str, headers: &str, body: &str) -> Classification {
        let headers = headers.lines().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let (status, body) = (status.parse().unwrap(), body.as_bytes().to_vec());
        classify(form, &Response { status, headers: headers.collect(), body })
    }

    const PROBLEM: &str = "Content-Type: application/problem+json\r\n";

    #[test]
    fn our_own_refusals_are_told_from_the_balancers_pages() {
        let busy = r#"{"detail":"the memory store is busy"}"#;
        let soon = format!("{PROBLEM}Retry-After: 1\r\n");
        let later = format!("{PROBLEM}Retry-After: 3600\r\n");
        let not_now = |kind: &str, wait| Classification::NotNow { kind: kind.to_owned(), wait };
        let second = Duration::from_secs(1);
        for form in [Form::Json, Form::Message(1), Form::Bytes] {
            assert_eq!(judged(form, "503", &soon, busy), not_now("503", second));
            assert_eq!(judged(form, "429", &later, busy), not_now("429", second));
            assert_eq!(judged(form, "413", PROBLEM, busy), not_now("413", Duration::ZERO));
            assert!(matches!(judged(form, "503", PROBLEM, busy), Classification::Wrong(_)));
            assert!(matches!(judged(form, "429", PROBLEM, busy), Classification::Wrong(_)));
            for page in ["408", "502", "503", "504"] {
                let said = judged(form, page, "Content-Type: text/html\r\n", "<html>");
                assert_eq!(said, Classification::Balancer(page.parse().unwrap()));
            }
            let missing = judged(form, "404", PROBLEM, r#"{"detail":"none"}"#);
            assert_eq!(missing, Classification::Denied("404 none".to_owned()));
            for odd in ["500", "507", "501", "302"] {
                assert!(
                    matches!(judged(form, odd, PROBLEM, busy), Classification::Wrong(_)),
                    "{odd}"
                );
            }
        }
        let unsure = format!(r#"{{"detail":"lost while it wrote: {UNSURE}"}}"#);
        assert_eq!(judged(Form::Json, "503", &soon, &unsure), Classification::Unsure);
        assert!(matches!(judged(Form::Json, "503", PROBLEM, &unsure), Classification::Wrong(_)));
        assert!(matches!(judged(Form::Json, "500", &soon, &unsure), Classification::Wrong(_)));
        assert!(matches!(judged(Form::Json, "200", "", "no JSON"), Classification::Wrong(_)));
        assert_eq!(judged(Form::Bytes, "206", "", "no JSON"), Classification::Given(Value::Null));
    }

    #[test]
    fn messages_have_errors_of_three_kinds() {
        let said = |body: &str| judged(Form::Message(1), "200", "", body);
        let given = said(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#);
        assert_eq!(given, Classification::Given(serde_json::json!({"a": 1})));
        assert!(matches!(said(r#"{"id":2,"result":{}}"#), Classification::Wrong(_)));
        assert!(matches!(said(r#"{"id":"1","result":{}}"#), Classification::Wrong(_)));
        let error = said(r#"{"id":1,"error":{"code":-32602,"message":"no"}}"#);
        assert_eq!(error, Classification::Denied("error -32602: no".to_owned()));
        let tool = |text: &str| {
            let result = serde_json::json!({"isError": true, "content": [{"text": text}]});
            said(&serde_json::json!({"id": 1, "result": result}).to_string())
        };
        assert!(matches!(
            tool("Error (unavailable): busy\nHint: x"),
            Classification::NotNow { .. }
        ));
        assert_eq!(tool(&format!("Error (storage): {UNSURE}\nHint: look")), Classification::Unsure);
        let denied = tool("Error (not_found): there is no memory x\nHint: y");
        assert_eq!(
            denied,
            Classification::Denied(
                "tool error: Error (not_found): there is no memory x".to_owned()
            )
        );
    }
}
