//! An API client of one tenant. It classifies and counts every response, and searches it for data of
//! other tenants.
//!
//! Each tenant writes a *canary* into its memories, a word that no other tenant writes. A response
//! with the canary of another tenant is a leak.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xtask::output;

use super::classification::{Classification, ExpectedBody, RETRY_DELAY, classify};
use super::counters::Counters;
use super::http_client::{HttpClient, Request, RequestError};
use super::tenants::{Tenant, foreign_canaries};

/// All clients use the same id for all messages, which exposes a server that mixes up responses.
const REQUEST_ID: u64 = 1;
/// Longer than the balancer's timeout, so that the balancer is the one to report it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

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
        let start = Instant::now();
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
        let time = start.elapsed();
        let classification = classify(expected, &response);
        if matches!(classification, Classification::Success(_) | Classification::Denied(_)) {
            self.counters.record_time(what, time);
        }
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
