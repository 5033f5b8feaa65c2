//! TLS: the modes of libpq, certificates, and the connector for tokio-postgres.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::Error;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::cleartext_guard::CleartextGuard;
use super::connection_string::TlsParameters;
use super::credentials::{CredentialError, read_private, unreadable};

/// The protocol that a server expects if TLS begins without a request (`sslnegotiation=direct`).
const ALPN_PROTOCOL: &[u8] = b"postgresql";

/// How a connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsOptions {
    pub(super) encryption: Encryption,
    pub(super) verification: Verification,
    pub(super) client: Option<ClientCertificate>,
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    Never,
    /// If the server offers it.
    IfOffered,
    Always,
}

/// What is verified about the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verification {
    /// Nothing: anyone between client and server can read and change everything.
    None,
    /// A CA of this file signed it, for any name.
    Chain(PathBuf),
    /// A CA of this file, or of the system, signed it for this host.
    ChainAndName(Option<PathBuf>),
}

/// The files of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCertificate {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// The mode of a connection string without `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultMode {
    Disable,
    Prefer,
    VerifyFull,
}

impl TlsOptions {
    /// No encryption.
    pub(super) const DISABLED: Self =
        Self { encryption: Encryption::Never, verification: Verification::None, client: None };

    /// Interprets the parameters as libpq does. An error says what is wrong with them.
    pub(super) fn new(parameters: TlsParameters, default: DefaultMode) -> Result<Self, String> {
        let TlsParameters { sslmode, sslrootcert, sslcert, sslkey, sslpassword } = parameters;
        if sslpassword.is_some() {
            return Err("sslpassword is not supported: use an sslkey without a passphrase".into());
        }
        let client = match (sslcert, sslkey) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(ClientCertificate { certificate: certificate.into(), key: key.into() })
            }
            (Some(_), None) => return Err("sslcert needs sslkey, the file of its key".into()),
            (None, Some(_)) => {
                return Err("sslkey needs sslcert, the file of its certificate".into());
            }
        };
        let mode = match (&sslmode, default) {
            (Some(mode), _) => mode.as_str(),
            // With certificates, verification is what they are for.
            (None, _) if sslrootcert.is_some() || client.is_some() => "verify-full",
            (None, DefaultMode::Disable) => "disable",
            (None, DefaultMode::Prefer) => "prefer",
            (None, DefaultMode::VerifyFull) => "verify-full",
        };
        let is_system = sslrootcert.as_deref() == Some("system");
        if is_system && mode != "verify-full" {
            return Err(format!(
                "sslmode={mode} with sslrootcert=system accepts a certificate of anyone: use \
                 sslmode=verify-full"
            ));
        }
        let roots = sslrootcert.filter(|_| !is_system).map(PathBuf::from);
        let chain = |roots: Option<PathBuf>| roots.map_or(Verification::None, Verification::Chain);
        let (encryption, verification) = match mode {
            "disable" => (Encryption::Never, Verification::None),
            "prefer" => (Encryption::IfOffered, chain(roots)),
            "verify-ca" if roots.is_none() => {
                return Err("sslmode=verify-ca needs sslrootcert, the file of the CA's \
                            certificate; or use sslmode=verify-full"
                    .into());
            }
            "require" | "verify-ca" => (Encryption::Always, chain(roots)),
            "verify-full" => (Encryption::Always, Verification::ChainAndName(roots)),
            "allow" => {
                return Err("sslmode=allow is not supported: use prefer, or verify-full".into());
            }
            _ => {
                return Err("unknown sslmode: expected disable, prefer, require, verify-ca or \
                            verify-full"
                    .into());
            }
        };
        Ok(Self { encryption, verification, client })
    }

    /// Reads the certificates. Like libpq for each connection, so that renewed ones are used.
    pub(super) fn connector(&self) -> Result<TlsConnector, CredentialError> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier: Arc<dyn ServerCertVerifier> = match &self.verification {
            Verification::None => Arc::new(ChainVerifier { roots: None, algorithms }),
            Verification::Chain(path) => {
                Arc::new(ChainVerifier { roots: Some(read_roots(path)?), algorithms })
            }
            Verification::ChainAndName(Some(path)) => {
                let roots = Arc::new(read_roots(path)?);
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .map_err(|error| invalid("sslrootcert", path, error))?
            }
            Verification::ChainAndName(None) => {
                let verifier = Verifier::new(Arc::clone(&provider)).map_err(|error| {
                    CredentialError::new(
                        format!("cannot use the CA certificates of this system: {error}"),
                        "install ca-certificates, or add sslrootcert=FILE to the URL",
                    )
                })?;
                Arc::new(verifier)
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| {
                CredentialError::new(format!("cannot use TLS: {error}"), "report this error")
            })?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let (certificates, key) = client.read()?;
                builder
                    .with_client_auth_cert(certificates, key)
                    .map_err(|error| invalid("sslcert", &client.certificate, error))?
            }
        };
        config.alpn_protocols = vec![ALPN_PROTOCOL.to_vec()];
        Ok(TlsConnector {
            rustls: MakeRustlsConnect::new(config),
            is_guarded: self.verification == Verification::None,
            progress: Arc::default(),
        })
    }
}

impl ClientCertificate {
    fn read(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CredentialError> {
        let certificates = read_certificates("sslcert", &self.certificate)?;
        let pem = read_private("sslkey", &self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
            CredentialError::new(
                format!("sslkey {} has no private key in PEM format", self.key.display()),
                "an encrypted key is not supported; decrypt it: openssl pkey -in KEY -out FILE",
            )
        })?;
        Ok((certificates, key))
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, CredentialError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates("sslrootcert", path)? {
        roots.add(certificate).map_err(|error| invalid("sslrootcert", path, error))?;
    }
    Ok(roots)
}

fn read_certificates(
    parameter: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let pem = fs::read(path).map_err(|error| unreadable(parameter, path, &error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(CredentialError::new(
            format!("{parameter} {} has no certificate in PEM format", path.display()),
            "a PEM certificate begins with -----BEGIN CERTIFICATE-----",
        )),
    }
}

/// The error of a file that was read and cannot be used.
fn invalid(parameter: &str, path: &Path, error: impl std::fmt::Display) -> CredentialError {
    CredentialError::new(
        format!("cannot use {parameter} {}: {error}", path.display()),
        format!("openssl x509 -noout -text -in {}", path.display()),
    )
}

/// Verifies that a trusted CA signed the server's certificate, for any name; without `roots` only
/// that the server has the key of the certificate.
#[derive(Debug)]
struct ChainVerifier {
    roots: Option<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                self.algorithms.all,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Makes connections encrypted. A server that is not verified does not get a password in clear text.
#[derive(Clone)]
pub(super) struct TlsConnector {
    rustls: MakeRustlsConnect,
    is_guarded: bool,
    progress: Arc<Progress>,
}

/// How far the last connection came.
#[derive(Debug, Default)]
struct Progress {
    is_open: AtomicBool,
    is_accepted: AtomicBool,
    cleartext_requested: Arc<AtomicBool>,
}

impl TlsConnector {
    /// Returns whether the server requested the password in clear text, and did not get it.
    pub(super) fn cleartext_requested(&self) -> bool {
        self.progress.cleartext_requested.load(Ordering::Acquire)
    }

    /// Returns whether `error` means that the server does not offer TLS.
    pub(super) fn is_declined(&self, error: &Error) -> bool {
        let failed = std::error::Error::source(error);
        self.progress.is_open.load(Ordering::Acquire)
            && !self.progress.is_accepted.load(Ordering::Acquire)
            && error.code().is_none()
            && !failed.is_some_and(<dyn std::error::Error>::is::<io::Error>)
    }
}

impl<S> MakeTlsConnect<S> for TlsConnector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = CleartextGuard<<MakeRustlsConnect as MakeTlsConnect<S>>::Stream>;
    type TlsConnect = Handshake<<MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect>;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, Self::Error> {
        self.progress.is_open.store(true, Ordering::Release);
        self.progress.is_accepted.store(false, Ordering::Release);
        let rustls = MakeTlsConnect::<S>::make_tls_connect(&mut self.rustls, domain)?;
        let progress = Arc::clone(&self.progress);
        Ok(Handshake { rustls, is_guarded: self.is_guarded, progress })
    }
}

/// The handshake of one connection.
pub(super) struct Handshake<T> {
    rustls: T,
    is_guarded: bool,
    progress: Arc<Progress>,
}

impl<S, T> TlsConnect<S> for Handshake<T>
where
    T: TlsConnect<S>,
    T::Future: Send + 'static,
{
    type Stream = CleartextGuard<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, T::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        self.progress.is_accepted.store(true, Ordering::Release);
        let handshake = self.rustls.connect(stream);
        let requested = self.is_guarded.then(|| Arc::clone(&self.progress.cleartext_requested));
        Box::pin(async move {
            let stream = handshake.await?;
            Ok(match requested {
                Some(requested) => CleartextGuard::new(stream, requested),
                None => CleartextGuard::inactive(stream),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection_string::split_tls;
    use super::*;

    fn parse(query: &str, default: DefaultMode) -> Result<(Encryption, Verification), String> {
        let (_, parameters) = split_tls(&format!("postgres://me@h/d?{query}"));
        TlsOptions::new(parameters, default).map(|tls| (tls.encryption, tls.verification))
    }

    #[test]
    fn g40_modes_mean_what_they_mean_in_libpq() {
        use DefaultMode::{Disable, Prefer, VerifyFull};
        use Encryption::{Always, IfOffered, Never};
        let chain = || Verification::Chain("ca".into());
        let name = |roots: Option<&str>| Verification::ChainAndName(roots.map(PathBuf::from));
        for (query, default, expected) in [
            ("", Disable, (Never, Verification::None)),
            ("", Prefer, (IfOffered, Verification::None)),
            ("", VerifyFull, (Always, name(None))),
            ("sslrootcert=ca", Disable, (Always, name(Some("ca")))),
            ("sslrootcert=system", Prefer, (Always, name(None))),
            ("sslmode=disable&sslrootcert=ca", VerifyFull, (Never, Verification::None)),
            ("sslmode=prefer", VerifyFull, (IfOffered, Verification::None)),
            ("sslmode=prefer&sslrootcert=ca", VerifyFull, (IfOffered, chain())),
            ("sslmode=require", VerifyFull, (Always, Verification::None)),
            ("sslmode=require&sslrootcert=ca", VerifyFull, (Always, chain())),
            ("sslmode=verify-ca&sslrootcert=ca", Disable, (Always, chain())),
            ("sslmode=verify-full", Disable, (Always, name(None))),
            ("sslmode=verify-full&sslrootcert=system", Disable, (Always, name(None))),
            ("sslmode=verify-full&sslrootcert=ca", Disable, (Always, name(Some("ca")))),
        ] {
            assert_eq!(parse(query, default).unwrap(), expected, "{query} {default:?}");
        }
        for (query, why) in [
            ("sslmode=allow", "use prefer"),
            ("sslmode=VERIFY", "unknown sslmode"),
            ("sslmode=verify-ca", "needs sslrootcert"),
            ("sslmode=require&sslrootcert=system", "use sslmode=verify-full"),
            ("sslcert=c", "needs sslkey"),
            ("sslkey=k", "needs sslcert"),
            ("sslpassword=p", "without a passphrase"),
        ] {
            let refused = parse(query, VerifyFull).unwrap_err();
            assert!(refused.contains(why), "{query}: {refused}");
        }
    }
}
