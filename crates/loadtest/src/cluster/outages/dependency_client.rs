//! A client of one replica that uses all services: it stores memories and large results, searches,
//! and sends tokens of the authorization server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::issuer::IssuerKeys;
use super::probe::elapsed_ms;
use crate::cluster::api_client::ApiClient;
use crate::cluster::classification::ExpectedBody;
use crate::cluster::counters::Counters;
use crate::cluster::goodput::GoodputMeter;
use crate::cluster::http_client::{HttpClient, Request, RequestError};
use crate::cluster::tenants::Tenant;

/// The interval of a round of requests.
const INTERVAL: Duration = Duration::from_millis(250);
/// How often a memory is written, so that the next large result differs from the stored ones.
const ROUNDS_PER_WRITE: u32 = 4;
/// A listing of this many memories is a large result.
const LIST_LEN: u64 = 60;
/// How often a client repeats a request with a token of a key that the replica may not know.
const NEW_KEY_INTERVAL: Duration = Duration::from_secs(5);
const TOKEN_REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The key that replicas know from the beginning.
const FIRST_KEY: usize = 0;

/// What a client needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientContext<'a> {
    pub(super) tenant: &'a Tenant,
    pub(super) keys: &'a IssuerKeys,
    /// The audience of tokens.
    pub(super) audience: &'a str,
    pub(super) meter: &'a GoodputMeter,
    pub(super) stop: &'a AtomicBool,
}

/// The answer to a request with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenAnswer {
    /// When the request was sent.
    pub(super) at_ms: i64,
    /// Whether the key was published before the first outage.
    pub(super) is_first_key: bool,
    /// The status, or why there is none.
    pub(super) answer: String,
}

/// What a client got.
#[derive(Debug, Default)]
pub(super) struct ClientAnswers {
    pub(super) counters: Counters,
    pub(super) tokens: Vec<TokenAnswer>,
}

/// Sends requests to the replica at `port` until it is stopped.
pub(super) fn run(context: ClientContext<'_>, port: u16) -> ClientAnswers {
    let ClientContext { tenant, keys, stop, .. } = context;
    let mut api = ApiClient::new(tenant, port);
    let http = HttpClient::new(port, TOKEN_REQUEST_TIMEOUT);
    let mut tokens = Vec::new();
    let mut new_key_due = Instant::now();
    for round in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let next = Instant::now() + INTERVAL;
        if round.is_multiple_of(ROUNDS_PER_WRITE) {
            write_memory(&mut api, port, round);
        }
        let list = json!({"detail": "full", "limit": LIST_LEN});
        let reply = api.call_tool("list_memories", &list);
        api.expect_success("list_memories of 60", reply);
        // No two queries are equal, so that none has a cached vector.
        let query = json!({"query": format!("harbour crane {port} {round}"), "limit": 3});
        let reply = api.call_tool("recall_memories", &query);
        api.expect_success("recall_memories of a new query", reply);
        tokens.push(send_token(context, &http, FIRST_KEY));
        if keys.newest() > FIRST_KEY && Instant::now() >= new_key_due {
            tokens.push(send_token(context, &http, keys.newest()));
            new_key_due = Instant::now() + NEW_KEY_INTERVAL;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    ClientAnswers { counters: api.counters, tokens }
}

fn write_memory(api: &mut ApiClient<'_>, port: u16, round: u32) {
    let content = format!(
        "{} round {round} at port {port}. {}",
        api.tenant.canary,
        "The harbour crane is inspected before the spring tide. ".repeat(8)
    );
    let body = json!({"content": content, "memory_type": "semantic"}).to_string();
    let request = Request::post("/v1/memories", body);
    let reply = api.send("POST /v1/memories", request, ExpectedBody::Json);
    api.expect_success("POST /v1/memories", reply);
}

fn send_token(context: ClientContext<'_>, http: &HttpClient, key: usize) -> TokenAnswer {
    let ClientContext { tenant, keys, audience, meter, .. } = context;
    let token = keys.token(&tenant.name, audience, key);
    let at_ms = elapsed_ms(meter);
    let request = Request::get("/v1/memories?limit=1").with_key(&token);
    let answer = match http.send(&request) {
        Ok(response) => response.status.to_string(),
        Err(RequestError::Refused) => "connection refused".to_owned(),
        Err(RequestError::Reset) => "connection reset".to_owned(),
        Err(RequestError::Timeout) => "timeout".to_owned(),
        Err(RequestError::Malformed(_)) => "no HTTP".to_owned(),
    };
    TokenAnswer { at_ms, is_first_key: key == FIRST_KEY, answer }
}

/// The number of answers between two times, by key and answer.
pub(super) fn count_tokens(
    answers: &[TokenAnswer],
    from_ms: i64,
    to_ms: i64,
) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for TokenAnswer { is_first_key, answer, .. } in
        answers.iter().filter(|answer| (from_ms..to_ms).contains(&answer.at_ms))
    {
        let key = if *is_first_key { "earlier key" } else { "new key" };
        *counts.entry(format!("{key}: {answer}")).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g43_tokens_are_counted_by_key_and_answer() {
        let answer = |at_ms, is_first_key, answer: &str| TokenAnswer {
            at_ms,
            is_first_key,
            answer: answer.to_owned(),
        };
        let answers = [
            answer(1, true, "200"),
            answer(2, true, "200"),
            answer(3, false, "401"),
            answer(9, true, "503"),
        ];
        let counts = count_tokens(&answers, 1, 9);
        let counts: Vec<(&str, u64)> = counts.iter().map(|(what, n)| (&**what, *n)).collect();
        assert_eq!(counts, [("earlier key: 200", 2), ("new key: 401", 1)]);
    }
}
