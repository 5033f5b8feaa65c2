//! Verdict: what an answer says to whoever asked, whoever gave it.

use std::time::Duration;

use serde_json::Value;

use super::response::Response;

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
pub(super) enum Verdict {
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
pub(super) fn judge(form: Form, response: &Response) -> Verdict {
    let kind = response.header("content-type").unwrap_or_default();
    let problem = kind.starts_with("application/problem+json");
    let waits = response.header("retry-after").and_then(|seconds| seconds.parse().ok());
    let text = || String::from_utf8_lossy(&response.body);
    match response.status {
        200 | 201 | 202 | 204 | 206 => given(form, response),
        status @ (408 | 502 | 503 | 504) if !problem => Verdict::Balancer(status),
        413 if problem => Verdict::NotNow { kind: "413".to_owned(), wait: Duration::ZERO },
        503 if problem && waits.is_some() && text().contains(UNSURE) => Verdict::Unsure,
        status @ (429 | 503) if problem => match waits.map(Duration::from_secs) {
            Some(wait) => {
                Verdict::NotNow { kind: status.to_string(), wait: wait.min(LONGEST_WAIT) }
            }
            None => Verdict::Wrong(format!("{status} without Retry-After")),
        },
        status @ 400..500 if problem => Verdict::Denied(format!("{status} {}", detail(response))),
        // MCP has errors of its own form.
        400 | 404 if matches!(form, Form::Message(_)) => given(form, response),
        status => Verdict::Wrong(format!("{status} {}", detail(response))),
    }
}

fn given(form: Form, response: &Response) -> Verdict {
    if form == Form::Bytes {
        return Verdict::Given(Value::Null);
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&response.body) else {
        return Verdict::Wrong(format!("{} without JSON", response.status));
    };
    let Form::Message(id) = form else { return Verdict::Given(value) };
    if value["id"] != id {
        return Verdict::Wrong("the answer has another id".to_owned());
    }
    if let Some(error) = value.get("error") {
        let message = error["message"].as_str().unwrap_or_default();
        return Verdict::Denied(format!("error {}: {message}", error["code"]));
    }
    let result = value["result"].take();
    if result["isError"] != true {
        return Verdict::Given(result);
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let first = text.lines().next().unwrap_or_default().to_owned();
    if text.contains(UNSURE) {
        Verdict::Unsure
    } else if first.starts_with("Error (unavailable): ") {
        Verdict::NotNow { kind: "tool error, unavailable".to_owned(), wait: A_MOMENT }
    } else {
        Verdict::Denied(format!("tool error: {first}"))
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

    fn judged(form: Form, status: &str, headers: &str, body: &str) -> Verdict {
        let length = body.len();
        let text =
            format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        judge(form, &Response::read(&mut text.as_bytes()).unwrap())
    }

    const PROBLEM: &str = "Content-Type: application/problem+json\r\n";

    #[test]
    fn our_own_refusals_are_told_from_the_balancers_pages() {
        let busy = r#"{"detail":"the memory store is busy"}"#;
        let soon = format!("{PROBLEM}Retry-After: 1\r\n");
        let later = format!("{PROBLEM}Retry-After: 3600\r\n");
        let not_now = |kind: &str, wait| Verdict::NotNow { kind: kind.to_owned(), wait };
        let second = Duration::from_secs(1);
        for form in [Form::Json, Form::Message(1), Form::Bytes] {
            assert_eq!(judged(form, "503", &soon, busy), not_now("503", second));
            assert_eq!(judged(form, "429", &later, busy), not_now("429", second));
            assert_eq!(judged(form, "413", PROBLEM, busy), not_now("413", Duration::ZERO));
            assert!(matches!(judged(form, "503", PROBLEM, busy), Verdict::Wrong(_)));
            assert!(matches!(judged(form, "429", PROBLEM, busy), Verdict::Wrong(_)));
            for page in ["408", "502", "503", "504"] {
                let said = judged(form, page, "Content-Type: text/html\r\n", "<html>");
                assert_eq!(said, Verdict::Balancer(page.parse().unwrap()));
            }
            let missing = judged(form, "404", PROBLEM, r#"{"detail":"none"}"#);
            assert_eq!(missing, Verdict::Denied("404 none".to_owned()));
            for odd in ["500", "507", "501", "302"] {
                assert!(matches!(judged(form, odd, PROBLEM, busy), Verdict::Wrong(_)), "{odd}");
            }
        }
        let unsure = format!(r#"{{"detail":"lost while it wrote: {UNSURE}"}}"#);
        assert_eq!(judged(Form::Json, "503", &soon, &unsure), Verdict::Unsure);
        assert!(matches!(judged(Form::Json, "503", PROBLEM, &unsure), Verdict::Wrong(_)));
        assert!(matches!(judged(Form::Json, "500", &soon, &unsure), Verdict::Wrong(_)));
        assert!(matches!(judged(Form::Json, "200", "", "no JSON"), Verdict::Wrong(_)));
        assert_eq!(judged(Form::Bytes, "206", "", "no JSON"), Verdict::Given(Value::Null));
    }

    #[test]
    fn messages_have_errors_of_three_kinds() {
        let said = |body: &str| judged(Form::Message(1), "200", "", body);
        let given = said(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#);
        assert_eq!(given, Verdict::Given(serde_json::json!({"a": 1})));
        assert!(matches!(said(r#"{"id":2,"result":{}}"#), Verdict::Wrong(_)));
        assert!(matches!(said(r#"{"id":"1","result":{}}"#), Verdict::Wrong(_)));
        let error = said(r#"{"id":1,"error":{"code":-32602,"message":"no"}}"#);
        assert_eq!(error, Verdict::Denied("error -32602: no".to_owned()));
        let tool = |text: &str| {
            let result = serde_json::json!({"isError": true, "content": [{"text": text}]});
            said(&serde_json::json!({"id": 1, "result": result}).to_string())
        };
        assert!(matches!(tool("Error (unavailable): busy\nHint: x"), Verdict::NotNow { .. }));
        assert_eq!(tool(&format!("Error (storage): {UNSURE}\nHint: look")), Verdict::Unsure);
        let denied = tool("Error (not_found): there is no memory x\nHint: y");
        assert_eq!(
            denied,
            Verdict::Denied("tool error: Error (not_found): there is no memory x".to_owned())
        );
    }
}
