//! The callback: what a browser brings back from the authority.

use crate::sanitize::shown;
use crate::secret::Secret;

/// The path that the authority sends the browser to.
pub(crate) const PATH: &str = "/callback";

/// What a request to the loopback listener was.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Callback {
    /// The authority gave a code.
    Granted {
        /// To be exchanged for tokens.
        code: Secret,
        /// Who the authority says it is (RFC 9207).
        issuer: Option<String>,
    },
    /// The authority, or the person, said no.
    Denied {
        /// Its words, neutralised.
        said: String,
        /// Who the authority says it is.
        issuer: Option<String>,
    },
    /// Anything else. It changes nothing: every page in the browser can send it.
    NotOurs {
        /// The status it is answered with.
        status: u16,
    },
}

/// Reads the first line of an HTTP request. Only one that brings our `state` is ours.
pub fn read_callback(head: &[u8], state: &str) -> Callback {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let Ok(line) = str::from_utf8(line) else { return Callback::NotOurs { status: 400 } };
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Callback::NotOurs { status: 400 } };
    if !version.starts_with("HTTP/1.") {
        return Callback::NotOurs { status: 400 };
    }
    if method != "GET" {
        return Callback::NotOurs { status: 405 };
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != PATH {
        return Callback::NotOurs { status: 404 };
    }
    of_query(query, state).unwrap_or(Callback::NotOurs { status: 400 })
}

fn of_query(query: &str, state: &str) -> Option<Callback> {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    // A parameter that stands twice is two stories: neither is believed (RFC 6749, 3.1).
    let one = |name: &str| -> Option<Option<String>> {
        let mut values = pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
        let first = values.next().map(|value| value.clone().into_owned());
        values.next().is_none().then_some(first)
    };
    if state.is_empty() || one("state")?.as_deref() != Some(state) {
        return None;
    }
    let issuer = one("iss")?;
    match (one("error")?, one("code")?) {
        (Some(error), None) => {
            let description = one("error_description")?.unwrap_or_default();
            let said = shown(format!("{error} {description}").trim_end());
            Some(Callback::Denied { said, issuer })
        }
        (None, Some(code)) if !code.is_empty() => {
            Some(Callback::Granted { code: Secret::new(code), issuer })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(target: &str) -> Callback {
        read_callback(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(), "s1")
    }

    #[test]
    fn a_code_with_our_state_is_taken() {
        let issuer = Some("https://as.example".to_owned());
        let code = Secret::new("c");
        assert_eq!(
            read("/callback?code=c&state=s1&iss=https%3A%2F%2Fas.example"),
            Callback::Granted { code, issuer }
        );
        assert_eq!(
            read("/callback?error=access_denied&error_description=no%1b[2J&state=s1"),
            Callback::Denied { said: "access_denied no<U+001B>[2J".to_owned(), issuer: None }
        );
    }

    #[test]
    fn everything_else_changes_nothing() {
        for (target, status) in [
            ("/callback?code=c", 400),
            ("/callback?code=c&state=s2", 400),
            ("/callback", 400),
            ("/callback?code=c&state=s1&state=s1", 400),
            ("/callback?code=a&code=b&state=s1", 400),
            ("/callback?code=a&state=s1&iss=a&iss=b", 400),
            ("/callback?state=s1", 400),
            ("/callback?code=&state=s1", 400),
            ("/callback?code=c&error=e&state=s1", 400),
            ("/callback?error=access_denied", 400),
            ("/?code=c&state=s1", 404),
            ("/callback/?code=c&state=s1", 404),
            ("/favicon.ico", 404),
            ("http://x/callback?code=c&state=s1", 404),
        ] {
            assert_eq!(read(target), Callback::NotOurs { status }, "{target}");
        }
        let post = b"POST /callback?code=c&state=s1 HTTP/1.1\r\n\r\n";
        assert_eq!(read_callback(post, "s1"), Callback::NotOurs { status: 405 });
        assert_eq!(read_callback(b"", ""), Callback::NotOurs { status: 400 });
        let stateless = b"GET /callback?code=c&state= HTTP/1.1\r\n\r\n";
        assert_eq!(read_callback(stateless, ""), Callback::NotOurs { status: 400 });
    }
}
