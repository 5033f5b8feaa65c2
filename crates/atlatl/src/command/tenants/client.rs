//! A client of the administration API of `atlatl tenants serve`.
//!
//! Its key comes from the environment or from a file, never from the command line, and is sent to another
//! machine only over TLS, also with `--allow-plain`: it can create keys for every tenant.

use std::time::Duration;

use atlatl_memory::{ErasureId, TenantLimits};
use atlatl_server::auth::is_tenant;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use ureq::http::{Method, Request, StatusCode};
use url::{Url, form_urlencoded};

use super::administration::{KeyRequest, KeyWithSecret};
use super::resource::{ErasureResource, KeyResource, TenantResource, UsageResource};
use crate::access;
use crate::error::{Error, with_causes};
use crate::settings::secrets;

/// The time limit of a request with its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum length of a response in bytes.
const MAX_RESPONSE_LEN: u64 = 16 << 20;
/// The number of items that a page is asked for, which is the most that the API returns.
const PAGE_LEN: usize = 1000;
/// The hint for a key that is missing, invalid or refused.
const KEY_HINT: &str = "set ATLATL_ADMIN_KEY, or ATLATL_ADMIN_KEY_FILE to the path of a file with the \
                        key: a line of the file of `tenants serve --keys`";

/// Sends requests to the API at one URL.
pub(crate) struct AdminClient {
    /// The URL without a slash at its end.
    base: String,
    authorization: HeaderValue,
    agent: Agent,
}

/// A response.
struct Reply {
    /// The URL of the request.
    url: String,
    status: StatusCode,
    body: Vec<u8>,
}

/// The part of a problem (RFC 9457) that people read.
#[derive(Deserialize)]
struct ProblemDetail {
    detail: String,
}

/// A page of a listing.
#[derive(Deserialize)]
struct ResourcePage<T> {
    items: Vec<T>,
    /// Where the next page begins.
    next: Option<String>,
}

/// The response to the creation of a key.
#[derive(Deserialize)]
struct KeyReply {
    id: String,
    key: String,
    expires: Option<DateTime<Utc>>,
}

impl AdminClient {
    /// A client for the API at `url`, with the key of the environment.
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        let base = base_url(url)?;
        let key = secrets::read(secrets::ADMIN_KEY, |name| std::env::var(name).ok())?;
        let Some(key) = key else {
            return Err(Error::usage("--as: the administration API needs a key, and none is set")
                .with_hint(KEY_HINT));
        };
        let authorization = bearer(&key)?;
        Ok(Self { base, authorization, agent: access::agent(REQUEST_TIMEOUT) })
    }

    /// Creates a tenant, or sets its limits. Returns whether it was created.
    pub(super) fn put_tenant(&self, name: &str, limits: TenantLimits) -> Result<bool, Error> {
        let body = json!({
            "most_memories": limits.memories,
            "per_minute": limits.per_minute,
            "most_bytes": limits.bytes,
            "retention_days": limits.retention_days,
        });
        let reply = self.send(Method::PUT, &tenant_path(name)?, Some(&body))?;
        match reply.status {
            StatusCode::CREATED => Ok(true),
            StatusCode::OK => Ok(false),
            // It is being erased, which the database reports as an error of the command line too.
            StatusCode::CONFLICT => Err(Error::usage(reply.message())),
            _ => Err(reply.into_error()),
        }
    }

    pub(super) fn tenants(&self) -> Result<Vec<TenantResource>, Error> {
        self.list("/v1/tenants", &[])
    }

    /// Returns the keys of all tenants, or of one.
    pub(super) fn keys(&self, tenant: Option<&str>) -> Result<Vec<KeyResource>, Error> {
        self.list(&scoped_path(tenant, "keys")?, &[])
    }

    /// Creates a key. Returns `None` if there is no such tenant.
    pub(super) fn create_key(
        &self,
        request: &KeyRequest<'_>,
    ) -> Result<Option<KeyWithSecret>, Error> {
        let mut body = json!({"scopes": request.scopes});
        if !request.name.is_empty() {
            body["name"] = json!(request.name);
        }
        match request.days {
            Some(days) => body["expires_days"] = json!(days),
            None => body["no_expiry"] = json!(true),
        }
        let path = scoped_path(Some(request.tenant), "keys")?;
        let reply = self.send(Method::POST, &path, Some(&body))?;
        match reply.status {
            StatusCode::CREATED => {
                let KeyReply { id, key, expires } = reply.json()?;
                Ok(Some(KeyWithSecret { id, key, expires }))
            }
            StatusCode::NOT_FOUND if reply.problem().is_some() => Ok(None),
            StatusCode::CONFLICT => {
                Err(Error::failure(reply.message()).with_hint("atlatl keys list --as URL"))
            }
            _ => Err(reply.into_error()),
        }
    }

    /// Revokes a key. Returns `false` if it does not exist or is revoked already.
    pub(super) fn revoke_key(&self, id: &str) -> Result<bool, Error> {
        let path = format!("/v1/keys/{}", path_segment(id));
        let reply = self.send(Method::GET, &path, None)?;
        if reply.status == StatusCode::NOT_FOUND && reply.problem().is_some() {
            return Ok(false);
        }
        let key: KeyResource = reply.expect_status(StatusCode::OK)?.json()?;
        if key.revoked.is_some() {
            return Ok(false);
        }
        let reply = self.send(Method::DELETE, &path, None)?;
        reply.expect_status(StatusCode::NO_CONTENT).map(|_| true)
    }

    /// Returns what all tenants or one used on the last days.
    pub(super) fn usage(
        &self,
        tenant: Option<&str>,
        days: u16,
    ) -> Result<Vec<UsageResource>, Error> {
        self.list(&scoped_path(tenant, "usage")?, &[("days", &days.to_string())])
    }

    /// Requests an erasure. Returns `None` if there is no such tenant.
    pub(super) fn begin_erasure(
        &self,
        tenant: &str,
        subject: Option<&str>,
    ) -> Result<Option<ErasureResource>, Error> {
        let reply = match subject {
            None => self.send(Method::DELETE, &tenant_path(tenant)?, None),
            Some(subject) => {
                let path = scoped_path(Some(tenant), "erasures")?;
                self.send(Method::POST, &path, Some(&json!({"subject": subject})))
            }
        }?;
        if reply.status == StatusCode::NOT_FOUND && reply.problem().is_some() {
            return Ok(None);
        }
        reply.expect_status(StatusCode::ACCEPTED)?.json().map(Some)
    }

    pub(super) fn erasure(&self, id: ErasureId) -> Result<ErasureResource, Error> {
        let reply = self.send(Method::GET, &format!("/v1/erasures/{id}"), None)?;
        reply.expect_status(StatusCode::OK)?.json()
    }

    /// Returns the erasures of all tenants, or of one.
    pub(super) fn erasures(&self, tenant: Option<&str>) -> Result<Vec<ErasureResource>, Error> {
        self.list(&scoped_path(tenant, "erasures")?, &[])
    }

    /// Returns the items of all pages.
    fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &PAGE_LEN.to_string()).extend_pairs(parameters);
            if let Some(after) = &after {
                query.append_pair("after", after);
            }
            let path = format!("{path}?{}", query.finish());
            let reply = self.send(Method::GET, &path, None)?.expect_status(StatusCode::OK)?;
            let page: ResourcePage<T> = reply.json()?;
            items.extend(page.items);
            match page.next {
                None => return Ok(items),
                // Otherwise the loop would not end.
                Some(next) if after.as_ref().is_some_and(|after| next <= *after) => {
                    return Err(reply.failure("the next page is not after this one"));
                }
                next => after = next,
            }
        }
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Reply, Error> {
        let url = format!("{}{path}", self.base);
        let failed = |why: &str| {
            Error::failure(format!("{url}: {why}"))
                .with_hint("check the URL, and whether `atlatl tenants serve` runs there")
        };
        let mut request = Request::builder()
            .method(method)
            .uri(&url)
            .header(AUTHORIZATION, &self.authorization)
            .header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(text).map_err(|error| failed(&with_causes(&error)))?;
        let sent = self.agent.run(request);
        let (head, mut body) = sent.map_err(|error| failed(&with_causes(&error)))?.into_parts();
        let body = body.with_config().limit(MAX_RESPONSE_LEN).read_to_vec();
        let body = body.map_err(|error| failed(&with_causes(&error)))?;
        Ok(Reply { url, status: head.status, body })
    }
}

impl Reply {
    fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body)
            .map_err(|error| self.failure(&format!("not a response of `tenants serve`: {error}")))
    }

    /// Returns the detail of a problem. A response without one does not come from the API.
    fn problem(&self) -> Option<String> {
        let problem = serde_json::from_slice::<ProblemDetail>(&self.body);
        problem.ok().map(|problem| problem.detail)
    }

    /// Returns the response with the expected status, or its error.
    fn expect_status(self, status: StatusCode) -> Result<Self, Error> {
        if self.status == status { Ok(self) } else { Err(self.into_error()) }
    }

    fn message(&self) -> String {
        let why = self.problem().unwrap_or_else(|| format!("status {}", self.status.as_u16()));
        format!("{}: {why}", self.url)
    }

    fn failure(&self, why: &str) -> Error {
        Error::failure(format!("{}: {why}", self.url))
    }

    fn into_error(self) -> Error {
        let message = self.message();
        match self.status {
            StatusCode::BAD_REQUEST => Error::usage(message),
            StatusCode::UNAUTHORIZED => Error::failure(message).with_hint(KEY_HINT),
            StatusCode::NOT_FOUND => {
                Error::failure(message).with_hint("--as takes the URL without /v1")
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                Error::failure(message).with_hint("retry when the database is reachable")
            }
            _ => Error::failure(message),
        }
    }
}

/// Checks the URL of an API, which may have a path, and returns it without a slash at its end. No
/// message quotes it: it may have a password.
fn base_url(url: &str) -> Result<String, Error> {
    let parsed = Url::parse(url).map_err(|error| Error::usage(format!("--as: {error}")))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(Error::usage("--as: the URL of the administration API has a user or password")
            .with_hint(KEY_HINT));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(Error::usage(
            "--as: the URL of the administration API has a query or fragment",
        )
        .with_hint("--as https://admin.example.org"));
    }
    if !access::is_secure_url(url) {
        return Err(Error::usage(
            "--as: the key of the administration API is not sent to another machine without \
             encryption: expected https://",
        )
        .with_hint("put a proxy with TLS before it, or forward its port to this machine"));
    }
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}

/// The value of `Authorization` for a key.
fn bearer(key: &str) -> Result<HeaderValue, Error> {
    let invalid = || {
        Error::usage(
            "--as: invalid key of the administration API: expected one key, without white space",
        )
        .with_hint(KEY_HINT)
    };
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The path of a collection of one tenant or of all.
fn scoped_path(tenant: Option<&str>, collection: &str) -> Result<String, Error> {
    match tenant {
        Some(tenant) => Ok(format!("{}/{collection}", tenant_path(tenant)?)),
        None => Ok(format!("/v1/{collection}")),
    }
}

fn tenant_path(name: &str) -> Result<String, Error> {
    if !is_tenant(name) {
        return Err(Error::usage(
            "invalid tenant name: expected 1 to 128 bytes without control characters",
        ));
    }
    // Proxies resolve these, and the path would be another one.
    if [".", ".."].contains(&name) {
        return Err(Error::usage("a tenant of this name has no URL in the administration API")
            .with_hint("--as postgres://USER@HOST/DATABASE"));
    }
    Ok(format!("/v1/tenants/{}", path_segment(name)))
}

/// Encodes a segment of a path.
fn path_segment(text: &str) -> String {
    // It encodes a space as `+`, and `+` itself as `%2B`.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g48_the_key_of_the_administration_is_sent_over_tls_or_to_this_machine() {
        for (url, base) in [
            ("https://admin.example.org", "https://admin.example.org"),
            ("https://example.org:8443/admin/", "https://example.org:8443/admin"),
            ("http://127.0.0.1:7180", "http://127.0.0.1:7180"),
            ("http://localhost:7180/", "http://localhost:7180"),
            ("http://[::1]:7180", "http://[::1]:7180"),
        ] {
            assert_eq!(base_url(url).unwrap(), base);
        }
        for url in [
            "http://admin.example.org",
            "http://10.0.0.7:7180",
            "http://localhost.example.org",
            "https://ann:s3cret@example.org",
            "http://s3cret@127.0.0.1",
            "https://example.org/?key=s3cret",
            "https://example.org/#s3cret",
            "https://",
        ] {
            let error = base_url(url).unwrap_err();
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn g48_names_of_tenants_are_one_segment_of_a_path() {
        for (name, path) in [
            ("acme", "/v1/tenants/acme"),
            ("a/b c+d?e#f%g", "/v1/tenants/a%2Fb%20c%2Bd%3Fe%23f%25g"),
            ("ä", "/v1/tenants/%C3%A4"),
            ("...", "/v1/tenants/..."),
        ] {
            assert_eq!(tenant_path(name).unwrap(), path);
        }
        for name in ["", ".", "..", "a\nb", &"a".repeat(129)] {
            assert!(tenant_path(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn g48_a_key_is_one_word_and_is_not_shown() {
        let key = bearer("s3cret-s3cret").unwrap();
        assert!(key.is_sensitive() && !format!("{key:?}").contains("s3cret"));
        for key in ["s3cret\nsecond", "s3cret key", "s3crét"] {
            let error = bearer(key).unwrap_err();
            assert!(!format!("{error:?}").contains("s3cr"), "{error:?}");
        }
    }
}
