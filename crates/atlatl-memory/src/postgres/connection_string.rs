//! Splits the TLS parameters off a connection string.
//!
//! tokio-postgres knows three of libpq's six `sslmode`s and no certificate files.

use percent_encoding::percent_decode_str;

/// The TLS parameters of a connection string, with the meaning they have in libpq.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TlsParameters {
    pub(super) sslmode: Option<String>,
    pub(super) sslrootcert: Option<String>,
    pub(super) sslcert: Option<String>,
    pub(super) sslkey: Option<String>,
    pub(super) sslpassword: Option<String>,
}

impl TlsParameters {
    /// Returns the parameter with this name.
    fn get_mut(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "sslmode" => &mut self.sslmode,
            "sslrootcert" => &mut self.sslrootcert,
            "sslcert" => &mut self.sslcert,
            "sslkey" => &mut self.sslkey,
            "sslpassword" => &mut self.sslpassword,
            _ => return None,
        })
    }
}

/// Returns the connection string without its TLS parameters, and these. It may be a URL or have the
/// form `key=value`. What cannot be parsed stays, so that tokio-postgres reports it.
pub(super) fn split_tls(text: &str) -> (String, TlsParameters) {
    let mut parameters = TlsParameters::default();
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    let rest =
        if is_url { split_url(text, &mut parameters) } else { split_pairs(text, &mut parameters) };
    (rest, parameters)
}

fn split_url(url: &str, parameters: &mut TlsParameters) -> String {
    // Like tokio-postgres: a password may contain an unescaped question mark.
    let host = url.find('@').unwrap_or_default();
    let Some(query) = url[host..].find('?').map(|at| host + at) else { return url.to_owned() };
    let mut take = |pair: &&str| {
        let Some((name, value)) = pair.split_once('=') else { return false };
        let (Ok(name), Ok(value)) =
            (percent_decode_str(name).decode_utf8(), percent_decode_str(value).decode_utf8())
        else {
            return false;
        };
        parameters.get_mut(&name).map(|slot| *slot = Some(value.into_owned())).is_some()
    };
    let others: Vec<&str> = url[query + 1..].split('&').filter(|pair| !take(pair)).collect();
    let separator = if others.is_empty() { "" } else { "?" };
    format!("{}{separator}{}", &url[..query], others.join("&"))
}

fn split_pairs(text: &str, parameters: &mut TlsParameters) -> String {
    let mut others = Vec::new();
    let mut rest = text.trim_start();
    while let Some((name, value)) = rest.split_once('=') {
        let value = value.trim_start();
        let (len, unescaped) = read_value(value);
        match parameters.get_mut(name.trim_end()) {
            Some(slot) => *slot = Some(unescaped),
            None => others.push(format!("{name}={}", &value[..len])),
        }
        rest = value[len..].trim_start();
    }
    others.push(rest.to_owned());
    others.join(" ")
}

/// Returns the length of the value at the beginning of `text`, and the value without its quotes and
/// backslashes.
fn read_value(text: &str) -> (usize, String) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' if quoted => return (at + 1, value),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            space if space.is_whitespace() && !quoted => return (at, value),
            other => value.push(other),
        }
    }
    (text.len(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_parameters_are_split_off_both_forms() {
        let expected = TlsParameters {
            sslmode: Some("verify-full".to_owned()),
            sslrootcert: Some("/a b/it's.pem".to_owned()),
            sslcert: Some("c".to_owned()),
            sslkey: Some("k".to_owned()),
            sslpassword: None,
        };
        let url = "postgres://me:p?w@h,i/d?sslmode=verify-full&connect_timeout=3&\
                   sslrootcert=%2Fa%20b/it's.pem&sslcert=c&application_name=x&sslkey=k";
        let rest = "postgres://me:p?w@h,i/d?connect_timeout=3&application_name=x";
        assert_eq!(split_tls(url), (rest.to_owned(), expected.clone()));
        let pairs = r"host=h  sslmode = verify-full password='p w\'x' sslrootcert='/a b/it\'s.pem' sslcert=c sslkey=k user=me";
        let rest = r"host=h password='p w\'x' user=me ";
        assert_eq!(split_tls(pairs), (rest.to_owned(), expected));
    }

    #[test]
    fn everything_else_stays() {
        let none = TlsParameters::default();
        for text in [
            "postgres://h/d",
            "postgresql://me@h/d?application_name=sslmode=disable",
            "postgres://h/d?%ff=1&odd",
            "postgres://me:sslmode=disable@h/d",
        ] {
            assert_eq!(split_tls(text), (text.to_owned(), none.clone()), "{text}");
        }
        assert_eq!(split_tls("postgres://h/d?sslmode=disable").0, "postgres://h/d");
    }
}
