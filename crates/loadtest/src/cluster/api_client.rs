//! Asker: one client's line to the balancer. Every answer is judged, counted and searched for what is
//! another tenant's.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::canary;
use super::classify::{Classification, Form, classify};
use super::counters::Counters;
use super::http_client::RequestError;
use super::http_client::{HttpClient, Request};
use super::tenants::Tenant;
use xtask::output;

/// All clients give all their messages the same id: who mixes up answers by their ids is seen.
const ID: u64 = 1;
/// Longer than the balancer waits for a server, so that it is the one to say so.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// A pause where nobody answers.
const A_MOMENT: Duration = Duration::from_millis(100);

/// A client of one tenant.
#[derive(Debug)]
pub(super) struct ApiClient<'a> {
    pub(super) tenant: &'a Tenant,
    http: HttpClient,
    pub(super) tally: Counters,
}

/// What came of a request.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) said: Said,
    /// The answer as it came.
    pub(super) shown: String,
}

/// What a request came to.
#[derive(Debug)]
pub(super) enum Said {
    Given(Value),
    Denied(String),
    /// Not done, and said so.
    NotNow,
    /// Nobody knows whether it was done.
    Unsure,
    Wrong(String),
}

impl<'a> ApiClient<'a> {
    pub(super) fn new(tenant: &'a Tenant, port: u16) -> Self {
        Self { tenant, http: HttpClient::new(port, ANSWER_TIMEOUT), tally: Counters::default() }
    }

    /// Calls a tool.
    pub(super) fn tool(&mut self, name: &str, arguments: &Value) -> Outcome {
        self.message("tools/call", name, &json!({"name": name, "arguments": arguments}))
    }

    /// Sends a message; `what` names it.
    pub(super) fn message(&mut self, method: &str, what: &str, params: &Value) -> Outcome {
        let body = json!({"jsonrpc": "2.0", "id": ID, "method": method, "params": params});
        self.ask(what, Request::post("/mcp", body.to_string()), Form::Message(ID))
    }

    /// Asks in the name of the tenant.
    pub(super) fn ask(&mut self, what: &str, request: Request, form: Form) -> Outcome {
        let request = request.with_key(&self.tenant.key);
        self.tally.calls += 1;
        let response = match self.http.send(&request) {
            Ok(response) => response,
            Err(broken) => {
                let said = match broken {
                    RequestError::Refused => Said::NotNow,
                    _ => Said::Unsure,
                };
                self.tally.broke(what, broken);
                thread::sleep(A_MOMENT);
                return Outcome { said, shown: String::new() };
            }
        };
        for found in canary::foreign(&response.to_bytes(), &self.tenant.canary) {
            self.tally.foreign_seen += 1;
            output::line(format_args!(
                "FOREIGN: {} ({}) got {found} from {what} ({} {}): {}",
                self.tenant.name,
                self.tenant.canary,
                request.method,
                request.path,
                response.excerpt()
            ));
        }
        let verdict = classify(form, &response);
        self.tally.answered(response.status, &verdict);
        let said = match verdict {
            Classification::Given(value) => Said::Given(value),
            Classification::Denied(why) => Said::Denied(why),
            Classification::Wrong(why) => Said::Wrong(why),
            Classification::Unsure => Said::Unsure,
            Classification::NotNow { wait, .. } => {
                thread::sleep(wait);
                Said::NotNow
            }
            // It had nobody to ask.
            Classification::Balancer(503) => {
                thread::sleep(A_MOMENT);
                Said::NotNow
            }
            // It asked, and got no answer.
            Classification::Balancer(_) => {
                thread::sleep(A_MOMENT);
                Said::Unsure
            }
        };
        Outcome { said, shown: response.excerpt() }
    }

    /// What was given for something of the tenant's own; that it was denied is an error.
    pub(super) fn own(&mut self, what: &str, outcome: Outcome) -> Option<Value> {
        match outcome.said {
            Said::Given(value) => Some(value),
            Said::Denied(why) | Said::Wrong(why) => {
                self.tally.error(what, &why, outcome.shown);
                None
            }
            Said::NotNow | Said::Unsure => None,
        }
    }

    /// The same for something of another tenant's; that it was given is an error.
    pub(super) fn foreign(&mut self, what: &str, outcome: Outcome) {
        self.tally.foreign_asked += 1;
        self.missing(what, outcome);
    }

    /// The same for what is not there any more.
    pub(super) fn missing(&mut self, what: &str, outcome: Outcome) {
        match outcome.said {
            Said::Given(_) => self.tally.error(what, "was given", outcome.shown),
            Said::Wrong(why) => self.tally.error(what, &why, outcome.shown),
            Said::Denied(_) | Said::NotNow | Said::Unsure => {}
        }
    }
}
