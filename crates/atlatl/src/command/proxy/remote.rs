//! The server at a URL: its headers, and the credentials of a login.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atlatl_login::{Bearer, LoginError, ServerLogin};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use lro_proxy::upstream::http::{
    CredentialFuture, Credentials, Remote, RemoteOptions, UpstreamEndpoint,
};
use lro_spool::Scope;

use crate::error::{Error, with_causes};
use crate::login_store;
use crate::output::Output;
use crate::settings::secrets;
use crate::settings::{Settings, Sources};

/// Headers that the transport sets, and that cannot be configured.
const RESERVED_HEADERS: [HeaderName; 3] =
    [header::HOST, header::CONTENT_LENGTH, header::CONTENT_TYPE];
/// How long a token is used before it is read again. Other processes may refresh it at any time, but the
/// file is not read for every request.
const TOKEN_CACHE_TTL: Duration = Duration::from_secs(5);

/// Connects to the server at `url`, with the headers of the command line. Returns its label, too.
pub(super) fn remote(
    url: &str,
    header_args: &[String],
    settings: &Settings,
    sources: &Sources,
) -> Result<(Remote, String), Error> {
    let endpoint =
        UpstreamEndpoint::parse(url).map_err(|error| Error::usage(format!("--url: {error}")))?;
    let config = &settings.config.proxy;
    let mut options = RemoteOptions::default();
    options.headers =
        headers(&endpoint, &config.headers, header_args, |name| sources.variable(name))?;
    // A configured Authorization header has precedence over a login.
    if !options.headers.contains_key(header::AUTHORIZATION)
        && endpoint.socket().is_none()
        && let Ok(logins) = login_store::open(settings)
    {
        options.credentials =
            Some(Arc::new(LoginCredentials::new(logins.for_server(endpoint.url()))));
    }
    options.silence = Duration::from_secs(config.silence_seconds);
    let label = label(&endpoint);
    let remote =
        Remote::new(endpoint, options).map_err(|error| Error::failure(error.to_string()))?;
    Ok((remote, label))
}

/// The label of a server: its host, and a hash of its URL that distinguishes servers of the same host.
fn label(endpoint: &UpstreamEndpoint) -> String {
    if let Some(socket) = endpoint.socket() {
        let hash = Scope::from_fields([socket.as_os_str().as_encoded_bytes()]);
        return format!("localhost:{hash}");
    }
    let url = endpoint.url();
    let hash = Scope::from_fields([url.as_str().as_bytes()]);
    format!("{}:{hash}", url.host_str().unwrap_or_default())
}

/// The headers for `endpoint`: those of the configuration with its origin, then those of the command line.
/// `variable` looks up environment variables.
fn headers(
    endpoint: &UpstreamEndpoint,
    configured: &[String],
    header_args: &[String],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (n, line) in (1..).zip(configured) {
        let (origin, line) = line.split_once(' ').unwrap_or((line, ""));
        // The message does not quote the entry: it may be the secret itself.
        let origin = UpstreamEndpoint::parse(origin).map_err(|error| {
            Error::usage(format!("proxy.headers, entry {n}: its origin: {error}"))
                .with_hint("\"https://example.com Authorization: Bearer ${TOKEN}\"")
        })?;
        if origin.origin() == endpoint.origin() {
            insert("proxy.headers", line, &variable, &mut headers)?;
        }
    }
    for line in header_args {
        insert("--header", line, &variable, &mut headers)?;
    }
    Ok(headers)
}

/// Parses a header of the option or key `source` into `headers`. Errors do not quote the value, which is
/// often a secret.
fn insert(
    source: &str,
    line: &str,
    variable: impl Fn(&str) -> Option<String>,
    headers: &mut HeaderMap,
) -> Result<(), Error> {
    let Some((name, value)) = line.split_once(':') else {
        return Err(Error::usage(format!("{source}: expected NAME: VALUE")));
    };
    let name = name.trim();
    let invalid = |what: &str| Error::usage(format!("{source}: {name}: {what}"));
    let parsed: HeaderName = name.parse().map_err(|_| invalid("invalid header name"))?;
    if RESERVED_HEADERS.contains(&parsed) || parsed.as_str().starts_with("mcp-") {
        return Err(invalid("this header is reserved for the protocol"));
    }
    let value = expand_variables(value.trim(), |wanted| {
        let file_name = format!("{wanted}_FILE");
        let secret = secrets::read([wanted, file_name.as_str()], &variable)?;
        // An empty variable is a value here.
        secret.or_else(|| variable(wanted)).ok_or_else(|| {
            invalid(&format!("environment variable {wanted} is not set")).with_hint(
                "A client passes on only the variables under \"env\" in its configuration.",
            )
        })
    })?;
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| invalid("the value contains characters that are invalid in a header"))?;
    value.set_sensitive(true);
    headers.insert(parsed, value);
    Ok(())
}

/// Replaces each `${NAME}` with what `value` returns for the name.
fn expand_variables(
    text: &str,
    value: impl Fn(&str) -> Result<String, Error>,
) -> Result<String, Error> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&value(name)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The credentials of a login, which may not exist yet.
struct LoginCredentials {
    login: ServerLogin,
    cached: Mutex<Option<(Instant, Option<HeaderValue>)>>,
    /// The last error that was printed, so that it is not printed for every request.
    last_error: Mutex<String>,
}

impl LoginCredentials {
    fn new(login: ServerLogin) -> Self {
        Self { login, cached: Mutex::default(), last_error: Mutex::default() }
    }

    /// Caches the header of a token.
    fn cache(&self, bearer: Option<&Bearer>) -> Option<HeaderValue> {
        let header = bearer.and_then(|bearer| HeaderValue::from_str(&bearer.header()).ok());
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some((Instant::now(), header.clone()));
        header
    }

    /// The message of an error for the client. It is also printed, once, for the user of the proxy.
    fn report(&self, error: &LoginError) -> String {
        let message = with_causes(error);
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != message {
            Output::remark(&message);
            last.clone_from(&message);
        }
        message
    }
}

impl Credentials for LoginCredentials {
    fn present(&self) -> CredentialFuture<'_, Option<HeaderValue>> {
        Box::pin(async {
            let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((at, header)) = cached
                && at.elapsed() < TOKEN_CACHE_TTL
            {
                return Ok(header);
            }
            let bearer = self.login.bearer().await.map_err(|error| self.report(&error))?;
            Ok(self.cache(bearer.as_ref()))
        })
    }

    fn refused<'a>(
        &'a self,
        sent: Option<&'a HeaderValue>,
        challenge: Option<&'a str>,
    ) -> CredentialFuture<'a, HeaderValue> {
        Box::pin(async move {
            let sent = sent.and_then(|sent| Bearer::from_header(sent.to_str().ok()?));
            let bearer = self.login.refused(sent.as_ref(), challenge).await;
            let bearer = bearer.map_err(|error| self.report(&error))?;
            self.cache(Some(&bearer)).ok_or_else(|| {
                "the token contains characters that are invalid in a header".to_owned()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(configured: &[&str], header_args: &[&str]) -> Result<HeaderMap, Error> {
        let endpoint = UpstreamEndpoint::parse("https://example.com/mcp").unwrap();
        let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        let variable = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
        headers(&endpoint, &owned(configured), &owned(header_args), variable)
    }

    #[test]
    fn a_header_goes_to_its_origin_alone() {
        let configured = [
            "https://example.com Authorization: Bearer ${TOKEN}",
            "https://example.com:8443 X-Other: 1",
            "https://evil.example X-Evil: 1",
            "http://localhost X-Local: 1",
        ];
        let headers = parse(&configured, &["X-Typed: a: b ${"]).unwrap();
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["authorization"], "Bearer s3cret");
        assert_eq!(headers["x-typed"], "a: b ${");
        assert!(!format!("{headers:?}").contains("s3cret"));
    }

    #[test]
    fn header_errors_do_not_contain_the_value() {
        let error = format!("{:?}", parse(&["X-Api-Key:hidden"], &[]).unwrap_err());
        assert!(error.contains("entry 1") && !error.contains("hidden"), "{error}");
        for (line, message) in [
            ("X-A", "--header: expected NAME: VALUE"),
            ("X A: hidden", "--header: X A: invalid header name"),
            (
                "Mcp-Session-Id: hidden",
                "--header: Mcp-Session-Id: this header is reserved for the protocol",
            ),
            ("X: ${NONE}", "--header: X: environment variable NONE is not set"),
            (
                "X: hidden\u{7}",
                "--header: X: the value contains characters that are invalid in a header",
            ),
        ] {
            let error = format!("{:?}", parse(&[], &[line]).unwrap_err());
            assert!(error.contains(message), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn g51_a_variable_in_a_header_may_be_in_a_file() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "s3cret\n").unwrap();
        let set_mode =
            |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let variable = |name: &str| match name {
            "TOKEN_FILE" => Some(path.to_str().unwrap().to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let endpoint = UpstreamEndpoint::parse("https://example.com/mcp").unwrap();
        let parsed = |line: &str| headers(&endpoint, &[], &[line.to_owned()], variable);
        set_mode(0o600);
        let sent = parsed("Authorization: Bearer ${TOKEN}${EMPTY}").unwrap();
        assert_eq!(sent["authorization"], "Bearer s3cret");
        set_mode(0o644);
        let refused = parsed("Authorization: Bearer ${TOKEN}").unwrap_err().message();
        assert!(refused.contains("accessible to other users"), "{refused}");
    }
}
