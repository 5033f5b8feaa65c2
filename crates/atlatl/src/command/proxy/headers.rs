//! Headers: what is sent to a server along with every request, and to no other.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use lro_proxy::upstream::http::Endpoint;

use crate::error::Error;

/// What the protocol itself says in headers.
const OURS: [HeaderName; 3] = [header::HOST, header::CONTENT_LENGTH, header::CONTENT_TYPE];

/// The headers for `endpoint`: those of the configuration that name its origin, then those that were
/// typed. `variable` looks into the environment.
pub(super) fn headers(
    endpoint: &Endpoint,
    configured: &[String],
    typed: &[String],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (n, line) in (1..).zip(configured) {
        let (origin, line) = line.split_once(' ').unwrap_or((line, ""));
        // Not what stands there: it may be the secret itself.
        let origin = Endpoint::named(origin).map_err(|error| {
            Error::usage(format!("proxy.headers, entry {n}: its origin: {error}"))
                .with_hint("\"https://example.com Authorization: Bearer ${TOKEN}\"")
        })?;
        if origin.origin() == endpoint.origin() {
            insert("proxy.headers", line, &variable, &mut headers)?;
        }
    }
    for line in typed {
        insert("--header", line, &variable, &mut headers)?;
    }
    Ok(headers)
}

/// The value is never shown: it is a secret as often as not.
fn insert(
    place: &str,
    line: &str,
    variable: impl Fn(&str) -> Option<String>,
    headers: &mut HeaderMap,
) -> Result<(), Error> {
    let Some((name, value)) = line.split_once(':') else {
        return Err(Error::usage(format!("{place}: expected NAME: VALUE")));
    };
    let name = name.trim();
    let wrong = |what: &str| Error::usage(format!("{place}: {name}: {what}"));
    let parsed: HeaderName = name.parse().map_err(|_| wrong("this is no name of a header"))?;
    if OURS.contains(&parsed) || parsed.as_str().starts_with("mcp-") {
        return Err(wrong("this header is the protocol's own"));
    }
    let value = filled(value.trim(), variable).map_err(|missing| {
        wrong(&format!("there is no variable {missing} in the environment"))
            .with_hint("A client passes on only the variables under \"env\" in its configuration.")
    })?;
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| wrong("the value has characters that no header can have"))?;
    value.set_sensitive(true);
    headers.insert(parsed, value);
    Ok(())
}

/// `text` with the variables it names in their place; the name of one that is not there.
fn filled(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((name, after)) = behind.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&variable(name).ok_or(name)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(configured: &[&str], typed: &[&str]) -> Result<HeaderMap, Error> {
        let endpoint = Endpoint::named("https://example.com/mcp").unwrap();
        let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        let variable = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
        headers(&endpoint, &owned(configured), &owned(typed), variable)
    }

    #[test]
    fn a_header_goes_to_its_origin_alone() {
        let configured = [
            "https://example.com Authorization: Bearer ${TOKEN}",
            "https://example.com:8443 X-Other: 1",
            "https://evil.example X-Evil: 1",
            "http://localhost X-Local: 1",
        ];
        let headers = of(&configured, &["X-Typed: a: b ${"]).unwrap();
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["authorization"], "Bearer s3cret");
        assert_eq!(headers["x-typed"], "a: b ${");
        assert!(!format!("{headers:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_value() {
        let error = format!("{:?}", of(&["X-Api-Key:hidden"], &[]).unwrap_err());
        assert!(error.contains("entry 1") && !error.contains("hidden"), "{error}");
        for (line, told) in [
            ("X-A", "--header: expected NAME: VALUE"),
            ("X A: hidden", "--header: X A: this is no name of a header"),
            (
                "Mcp-Session-Id: hidden",
                "--header: Mcp-Session-Id: this header is the protocol's own",
            ),
            ("X: ${NONE}", "--header: X: there is no variable NONE in the environment"),
            ("X: hidden\u{7}", "--header: X: the value has characters that no header can have"),
        ] {
            let error = format!("{:?}", of(&[], &[line]).unwrap_err());
            assert!(error.contains(told), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
