//! An HTTP client that enforces the SSRF policy. All requests of rmcp and of this crate go through
//! it.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderValue, Method, Response, header};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::Deserialize;
use url::Url;

use crate::error::LoginError;
use crate::http_transport::{Carrier, Exchange};
use crate::metadata_rules::{Refusal, Rule};
use crate::policy::Policy;
use crate::sanitize::shown;

/// Asks for one server.
pub(crate) struct Guarded {
    policy: Policy,
    carrier: Arc<dyn Carrier>,
    /// Why the first request that failed did so. rmcp turns every error into a text, which may
    /// quote an answer and its secrets; this keeps kinds.
    failed: Mutex<Option<LoginError>>,
}

impl Guarded {
    pub(crate) fn new(policy: Policy, carrier: Arc<dyn Carrier>) -> Self {
        Self { policy, carrier, failed: Mutex::default() }
    }

    /// What failed first since the last time this was asked.
    pub(crate) fn failure(&self) -> Option<LoginError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, failure: LoginError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    async fn exchange(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Vec<u8>>, LoginError> {
        let url = self.policy.parse(url)?;
        let reach = self.policy.check(&url)?;
        let asked = place(&url);
        let answer = self.carrier.carry(Exchange { method, url, headers, body, reach }).await;
        let answer = answer.map_err(|error| match refusal_in(error.as_ref()) {
            Some(refusal) => refusal.into(),
            None => LoginError::Unreachable { asked, why: last_cause(error.as_ref()) },
        })?;
        self.check_resource(answer.body())?;
        Ok(answer)
    }

    /// Protected resource metadata must be about our server. rmcp passes over a document that it
    /// only guessed at; whoever publishes a wrong one there is told nothing by that.
    fn check_resource(&self, body: &[u8]) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct Document {
            resource: String,
            #[serde(rename = "authorization_servers")]
            _authorities: Vec<String>,
        }
        match serde_json::from_slice(body) {
            Ok(Document { resource, .. }) if !self.policy.is_resource(&resource) => {
                Err(Refusal::new(Rule::Resource, &resource))
            }
            _ => Ok(()),
        }
    }

    /// Sends a form, as to a token endpoint. A redirect is an answer like any other: it is not
    /// followed.
    pub(crate) async fn post_form(
        &self,
        url: &Url,
        authorization: Option<HeaderValue>,
        form: String,
    ) -> Result<Response<Vec<u8>>, LoginError> {
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(mut authorization) = authorization {
            authorization.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, authorization);
        }
        self.exchange(Method::POST, url.as_str(), headers, form.into_bytes()).await
    }
}

impl OAuthHttpClient for Guarded {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        // The redirect policy asked for is passed over on purpose: rmcp follows redirects within an
        // origin itself, request by request, and a registration is not sent twice.
        let (head, body) = request.request.into_parts();
        Box::pin(async move {
            let is_post = head.method == Method::POST;
            let answer =
                self.exchange(head.method, &head.uri.to_string(), head.headers, body).await;
            match answer {
                Ok(answer) => {
                    if is_post && !answer.status().is_success() {
                        self.note(LoginError::Denied { said: said(&answer) });
                    }
                    Ok(answer)
                }
                Err(failure) => {
                    let text = failure.to_string();
                    self.note(failure);
                    Err(text.into())
                }
            }
        })
    }
}

/// Host and path: a query may hold something that is nobody's business.
fn place(url: &Url) -> String {
    shown(&format!("{}{}", url.host_str().unwrap_or_default(), url.path()))
}

fn refusal_in(error: &(dyn std::error::Error + 'static)) -> Option<Refusal> {
    let mut error = Some(error);
    while let Some(cause) = error {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return Some(refusal.clone());
        }
        error = cause.source();
    }
    None
}

/// What an authority says when it says no (RFC 6749, 5.2; RFC 7591, 3.2.2). Nothing else of the
/// answer: only these two are meant to be read by a person.
fn said(answer: &Response<Vec<u8>>) -> String {
    let json: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let text = |name| json.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (error, description) = (text("error"), text("error_description"));
    shown(format!("status {} {error} {description}", answer.status().as_u16()).trim_end())
}

/// What an error comes down to. Not what lies between: errors of reqwest hold whole URLs.
fn last_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    shown(&last.to_string())
}
