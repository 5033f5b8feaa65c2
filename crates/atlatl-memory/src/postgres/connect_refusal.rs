//! Why a connection was refused, and what to do about it.

use std::error::Error as _;
use std::io;

use chrono::DateTime;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::connection::to_store_error;
use super::options::Target;
use super::tls::{TlsOptions, Verification};
use crate::store::{ConnectError, StoreError};

/// What helps if the server rejects the password, or there is none.
const PASSWORD_HINT: &str = "check the user in the URL and the password: PGPASSWORD, memory.password_file or \
     memory.password_command";

/// The failure of a connection attempt.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The server does not offer TLS.
    NoTls,
    /// An error of the library or the server on an encrypted connection.
    Encrypted(Error),
    /// An error of the library or the server on an unencrypted connection.
    Plain(Error),
    Other(StoreError),
}

impl Refusal {
    /// Returns whether the server rejected the password.
    pub(super) fn is_wrong_password(&self) -> bool {
        let (Self::Encrypted(error) | Self::Plain(error)) = self else { return false };
        error.code() == Some(&SqlState::INVALID_PASSWORD)
    }

    /// Maps it to the error of the store.
    pub(super) fn into_store_error(self, target: &Target) -> StoreError {
        let is_encrypted = matches!(self, Self::Encrypted(_));
        let connect = |why: String, hint: &str| ConnectError {
            place: target.place.clone(),
            why,
            hint: hint.to_owned(),
        };
        let error = match self {
            Self::NoTls => {
                let hint = if target.is_remote {
                    "set ssl = on in its postgresql.conf; on a network that you trust, use \
                     sslmode=disable with memory.allow_plain"
                } else {
                    "set ssl = on in its postgresql.conf, or omit sslmode: it is on this machine"
                };
                return StoreError::Connect(connect(
                    "the server does not support TLS".into(),
                    hint,
                ));
            }
            Self::Other(error) => return error,
            Self::Encrypted(error) | Self::Plain(error) => error,
        };
        if let Some((why, hint)) = tls_error(&error).map(|tls| explain(tls, &target.tls)) {
            return StoreError::Connect(connect(why, &hint));
        }
        let message = error.as_db_error().map(|error| error.message().to_owned());
        match (error.code(), message) {
            (Some(&SqlState::INVALID_PASSWORD), Some(message)) => {
                StoreError::Unavailable(connect(message, PASSWORD_HINT).into())
            }
            (Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION), Some(message)) => {
                let hint = match (is_encrypted, &target.tls.client) {
                    (false, _) => {
                        "if its pg_hba.conf accepts only encrypted connections (hostssl), add \
                         sslmode=verify-full to the URL; otherwise add a line for this client"
                    }
                    (true, None) => {
                        "if its pg_hba.conf requires a client certificate, add sslcert=FILE and \
                         sslkey=FILE to the URL; otherwise add a line for this client"
                    }
                    (true, Some(_)) => {
                        "check its pg_hba.conf; for the method cert, the common name in sslcert \
                         must be the user in the URL"
                    }
                };
                StoreError::Connect(connect(message, hint))
            }
            _ => match to_store_error(error) {
                StoreError::Engine(cause) if target.has_no_password() => {
                    let why = match cause.source() {
                        Some(source) => format!("{cause}: {source}"),
                        None => cause.to_string(),
                    };
                    StoreError::Unavailable(connect(why, PASSWORD_HINT).into())
                }
                StoreError::Engine(cause) => StoreError::Unavailable(cause),
                other => other,
            },
        }
    }
}

/// Returns the TLS error that caused `error`. After the handshake it is wrapped in an I/O error too.
fn tls_error(error: &Error) -> Option<&rustls::Error> {
    error.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

/// Returns what failed, and what helps.
fn explain(error: &rustls::Error, tls: &TlsOptions) -> (String, String) {
    match error {
        rustls::Error::InvalidCertificate(error) => explain_certificate(error, tls),
        rustls::Error::AlertReceived(alert) if tls.client.is_some() => {
            let hint = match alert {
                AlertDescription::CertificateExpired => "renew sslcert",
                _ => "check that a CA in the server's ssl_ca_file signed sslcert",
            };
            (format!("the server rejects the client certificate: {alert:?}"), hint.into())
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => (
            "the server requires a client certificate".into(),
            "add sslcert=FILE and sslkey=FILE to the URL".into(),
        ),
        other => (
            format!("the TLS handshake failed: {other}"),
            "check that the address is that of a PostgreSQL server with TLS 1.2 or later".into(),
        ),
    }
}

fn explain_certificate(error: &CertificateError, tls: &TlsOptions) -> (String, String) {
    let renew = "renew the server's certificate, then reload it: SELECT pg_reload_conf()";
    match error {
        // A CA of the same name with another key is a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => match &tls.verification
        {
            Verification::Chain(path) | Verification::ChainAndName(Some(path)) => (
                format!("no CA in {} signed the server's certificate", path.display()),
                "set sslrootcert to the certificate of the CA that signed it".into(),
            ),
            Verification::None | Verification::ChainAndName(None) => (
                "no CA that this system trusts signed the server's certificate".into(),
                "add sslrootcert=FILE with the certificate of its CA to the URL".into(),
            ),
        },
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented.iter().map(|name| readable_name(name)).collect::<Vec<_>>();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            (
                format!("the server's certificate is for {names}, not for {}", expected.to_str()),
                "use a name of the certificate as the host, or issue one with this host in its \
                 subjectAltName; sslmode=verify-ca accepts any name"
                    .into(),
            )
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            (format!("the server's certificate expired on {}", date(*not_after)), renew.into())
        }
        CertificateError::NotValidYetContext { not_before, .. } => (
            format!("the server's certificate is not valid before {}", date(*not_before)),
            "check the clocks of both machines".into(),
        ),
        CertificateError::Expired => ("the server's certificate has expired".into(), renew.into()),
        other => (
            format!("the server's certificate cannot be used: {other}"),
            "issue a certificate for servers, signed by a CA and with a subjectAltName".into(),
        ),
    }
}

/// Returns the name in `DnsName("db.example")`.
fn readable_name(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner);
    inner.trim_end_matches(')').trim_matches('"')
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, 0)
        .map_or_else(|| seconds.to_string(), |time| time.format("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::ServerName;

    use super::super::options::PostgresOptions;
    use super::*;

    #[test]
    fn g40_each_refusal_has_a_hint_that_fits() {
        let url = "postgres://me@db.example/d";
        let client = "postgres://me@db.example/d?sslrootcert=/ca.pem&sslcert=c&sslkey=k";
        let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_hours(24 * days));
        let certificate = rustls::Error::InvalidCertificate;
        let name = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("db.example").unwrap(),
            presented: vec!["DnsName(\"a.example\")".into(), "IpAddress(192.0.2.1)".into()],
        };
        let expired = CertificateError::ExpiredContext { time: at(20_001), not_after: at(20_000) };
        let expired_client = rustls::Error::AlertReceived(AlertDescription::CertificateExpired);
        for (url, error, why, hint) in [
            (url, certificate(CertificateError::UnknownIssuer), "this system", "sslrootcert=FILE"),
            (client, certificate(CertificateError::UnknownIssuer), "/ca.pem", "set sslrootcert"),
            (url, certificate(name), "for a.example, 192.0.2.1, not for db.example", "verify-ca"),
            (url, certificate(expired), "expired on 2024-10-04", "renew the server's"),
            (client, expired_client, "client certificate: CertificateExpired", "renew sslcert"),
            (
                url,
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                "requires a client certificate",
                "sslcert=FILE",
            ),
        ] {
            let tls = PostgresOptions::new(url).target().unwrap().tls;
            let explained = explain(&error, &tls);
            assert!(explained.0.contains(why) && explained.1.contains(hint), "{explained:?}");
        }
    }
}
