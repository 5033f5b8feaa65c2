//! Opens a bucket by URL, with credentials and settings from the caller.

use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::client::{ClientConfigKey, HttpClient, HttpConnector};
use object_store::{ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig};
use reqwest::redirect::Policy;
use url::Url;

use super::bucket::Bucket;
use super::options::ObjectOptions;
use crate::error::{RemoteError, RemoteKind, SpoolError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Bucket {
    /// Opens a bucket by its URL: `s3://bucket/prefix`, `gs://bucket/prefix`,
    /// `az://container/prefix`.
    ///
    /// `settings` are names and values as in the environment, in upper or lower case: `AWS_REGION`,
    /// `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_KEY` and
    /// so on; names that this kind of store does not use are ignored.
    ///
    /// Without credentials, Google and Azure are accessed with the managed identity of the machine, by
    /// tokens of its metadata endpoint. At Google, the file of `gcloud auth application-default login` in
    /// the home directory comes first. For this alone the client library reads the environment: `HOME`,
    /// `GCE_METADATA_HOST`, `GCE_METADATA_ROOT`, `GCE_METADATA_IP`, `IDENTITY_HEADER`. Pass those that
    /// begin with `GCE_` in `settings` too, so that they are checked.
    pub fn from_url<K: AsRef<str>, V: Into<String>>(
        url: &str,
        settings: impl IntoIterator<Item = (K, V)>,
        options: ObjectOptions,
    ) -> Result<Self, SpoolError> {
        // The URL of a bucket contains no secrets, except by mistake.
        let wrong = |text: &str| invalid_url(url, text);
        let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong("it must not contain credentials"));
        }
        let (scheme, prefix) =
            ObjectStoreScheme::parse(&parsed).map_err(|error| wrong(&error.to_string()))?;
        let settings: Vec<(String, String)> = settings
            .into_iter()
            .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into()))
            .collect();
        check_header_values(&settings).map_err(|text| wrong(&text))?;
        check_credentials_url(&settings).map_err(|text| wrong(&text))?;
        let store: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::AmazonS3 => Arc::new(s3(url, &settings, &options)?),
            ObjectStoreScheme::GoogleCloudStorage => Arc::new(google(url, &settings, &options)?),
            ObjectStoreScheme::MicrosoftAzure => Arc::new(azure(url, &settings, &options)?),
            _ => return Err(wrong("it must begin with s3://, gs:// or az://")),
        };
        Self::new(store, prefix.as_ref(), options)
    }
}

/// The three builders have the same methods, but no common trait.
macro_rules! build {
    ($builder:ty, $url:expr, $settings:expr, $options:expr) => {{
        // Google's builder would allow it by default.
        let unencrypted = "allow_http".parse().expect("a key of every builder");
        let mut builder = <$builder>::new().with_url($url).with_config(unencrypted, "false");
        for (name, value) in $settings {
            if let Ok(name) = name.parse() {
                builder = builder.with_config(name, value);
            }
        }
        // `RetryBudget` counts the attempts.
        let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        builder
            .with_retry(once)
            .with_http_connector(Connector { limit: $options.time_limit })
            .build()
            .map_err(|error| invalid_url($url, &error.to_string()))
    }};
}

type Settings = [(String, String)];

fn s3(
    url: &str,
    settings: &Settings,
    options: &ObjectOptions,
) -> Result<object_store::aws::AmazonS3, SpoolError> {
    build!(object_store::aws::AmazonS3Builder, url, settings, options)
}

fn google(
    url: &str,
    settings: &Settings,
    options: &ObjectOptions,
) -> Result<object_store::gcp::GoogleCloudStorage, SpoolError> {
    build!(object_store::gcp::GoogleCloudStorageBuilder, url, settings, options)
}

fn azure(
    url: &str,
    settings: &Settings,
    options: &ObjectOptions,
) -> Result<object_store::azure::MicrosoftAzure, SpoolError> {
    build!(object_store::azure::MicrosoftAzureBuilder, url, settings, options)
}

/// Settings whose values are sent in headers.
const HEADER_SETTINGS: [&str; 3] = ["session_token", "access_key_id", "bearer_token"];
/// The setting with the path of a token that is sent in a header.
const TOKEN_FILE_SETTING: &str = "container_authorization_token_file";

/// Fails if a credential cannot be part of a header, such as a token followed by a line break: the
/// client library would panic at the first request.
fn check_header_values(settings: &Settings) -> Result<(), String> {
    let fits = |value: &str| value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    for (name, value) in settings {
        let named = |suffix: &&str| name.ends_with(*suffix);
        if HEADER_SETTINGS.iter().any(&named) && !fits(value) {
            let name = name.to_uppercase();
            return Err(format!(
                "{name} contains a line break or another character that is invalid in an HTTP \
                 header"
            ));
        }
        if named(&TOKEN_FILE_SETTING) {
            // A file that cannot be read now may exist later.
            let token = std::fs::read_to_string(value).unwrap_or_default();
            if !fits(&token) {
                return Err(format!(
                    "the token in {value} contains a line break or another character that is \
                     invalid in an HTTP header"
                ));
            }
        }
    }
    Ok(())
}

/// Settings with the URL of an endpoint that returns credentials: of containers (Amazon) and of managed
/// identities (Azure).
const CREDENTIALS_URL_SETTINGS: [&str; 4] =
    ["container_credentials_full_uri", "metadata_endpoint", "msi_endpoint", "identity_endpoint"];
/// The setting with the path of credentials at a fixed address of Amazon's, to which it is appended.
const CREDENTIALS_PATH_SETTING: &str = "container_credentials_relative_uri";
/// Settings with the host of Google's metadata endpoint, which has no encryption.
const METADATA_HOST_SETTINGS: [&str; 3] =
    ["gce_metadata_host", "gce_metadata_root", "gce_metadata_ip"];
/// Hosts that return credentials without encryption, at addresses that no router forwards, or by a name
/// that the platform resolves to one.
const CREDENTIALS_HOSTS: [&str; 4] =
    ["[fd00:ec2::23]", "[fd20:ce::254]", "metadata", "metadata.google.internal"];

/// Fails if credentials would come from another machine unencrypted. The client library allows `http://`
/// for these endpoints whatever the settings say.
fn check_credentials_url(settings: &Settings) -> Result<(), String> {
    for (name, value) in settings {
        if name.ends_with(CREDENTIALS_PATH_SETTING) && !value.starts_with('/') {
            return Err(format!("{} must begin with a slash", name.to_uppercase()));
        }
        let url = if METADATA_HOST_SETTINGS.contains(&name.as_str()) {
            Url::parse(&format!("http://{value}"))
        } else if CREDENTIALS_URL_SETTINGS.iter().any(|suffix| name.ends_with(suffix)) {
            Url::parse(value)
        } else {
            continue;
        };
        let Ok(url) = url else { continue };
        let known = url.host_str().is_some_and(|host| CREDENTIALS_HOSTS.contains(&host));
        if url.scheme() != "https" && !known && !is_near(&url) {
            let name = name.to_uppercase();
            return Err(format!(
                "{name} is another machine, without encryption; use https:// or this machine"
            ));
        }
    }
    Ok(())
}

/// Whether `url` is on this machine, or at a link-local address, which no router forwards.
fn is_near(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(host)) => host == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback() || address.is_link_local(),
        Some(url::Host::Ipv6(address)) => {
            address.to_canonical().is_loopback() || address.is_unicast_link_local()
        }
        None => false,
    }
}

fn invalid_url(url: &str, text: &str) -> SpoolError {
    let source = RemoteError::new(RemoteKind::Misused, text);
    // The part before an `@` may be a secret.
    let key = url.rsplit_once('@').map_or(url, |(_, place)| place).to_owned();
    SpoolError::Remote { op: "open the bucket", key, source }
}

/// An HTTP connector without proxies of the environment and without redirects; unencrypted only if
/// the settings allow it.
#[derive(Debug)]
struct Connector {
    limit: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        static PROVIDER: Once = Once::new();
        // A provider that is already installed stays.
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let clear = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .https_only(clear.is_none_or(|clear| clear != "true"))
            .connect_timeout(CONNECT_TIMEOUT.min(self.limit))
            .timeout(self.limit)
            .http1_only()
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP client",
                source: error.into(),
            })?;
        Ok(HttpClient::new(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server process ended with all its tenants on the first request with such a token.
    #[test]
    fn g38_a_line_break_in_a_token_is_refused_before_the_first_request() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let bucket = |name: &str, value: &str| {
            let settings = [
                ("AWS_REGION", "eu-west-1"),
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/v1/credentials"),
                (name, value),
            ];
            Bucket::from_url("s3://bucket", settings, ObjectOptions::new(dir.path()))
        };
        let path = file.to_str().unwrap();
        for (token, fits) in [("secret\n", false), ("sec\r\nret", false), ("secret", true)] {
            std::fs::write(&file, token).unwrap();
            let opened = bucket("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path);
            assert_eq!(opened.is_ok(), fits, "{token:?}: {opened:?}");
            if let Err(refused) = opened {
                let said = format!("{refused} {:?}", std::error::Error::source(&refused));
                assert!(said.contains("line break") && !said.contains("secret"), "{said}");
            }
        }
        assert!(bucket("AWS_SESSION_TOKEN", "one\ntwo").is_err());
    }

    /// A token file that is replaced while the server runs.
    #[test]
    fn g38_a_line_break_that_comes_later_fails_the_request_and_not_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "secret").unwrap();
        let settings = [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/v1/credentials"),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.to_str().unwrap()),
        ];
        let options = ObjectOptions::new(dir.path()).retries(0, Duration::ZERO);
        let bucket = Bucket::from_url("s3://bucket", settings, options).unwrap();
        std::fs::write(&file, "secret\n").unwrap();
        let key = object_store::path::Path::from("x");
        let failed = bucket.0.wait(bucket.0.size(&key)).unwrap_err();
        let said = format!("{failed} {:?}", std::error::Error::source(&failed));
        assert!(said.contains("panicked"), "{said}");
    }

    #[test]
    fn g03_no_token_goes_to_another_machine_in_clear_text() {
        let dir = tempfile::tempdir().unwrap();
        let opened = |uri: &str| {
            let settings = [
                ("AWS_REGION", "eu-west-1"),
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/nowhere"),
            ];
            Bucket::from_url("s3://bucket", settings, ObjectOptions::new(dir.path())).is_ok()
        };
        for uri in ["http://192.0.2.1/v1", "http://credentials.example/v1", "http://[2001:db8::1]"]
        {
            assert!(!opened(uri), "{uri}");
        }
        for uri in [
            "https://credentials.example/v1",
            "http://127.0.0.1/v1",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1",
        ] {
            assert!(opened(uri), "{uri}");
        }
    }

    /// Nothing is sent: no machine has this address.
    #[test]
    fn g03_an_endpoint_in_clear_text_is_refused_unless_the_settings_allow_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_ENDPOINT", "http://192.0.2.1:9000"),
        ];
        let options = ObjectOptions::new(dir.path())
            .retries(0, Duration::ZERO)
            .time_limit(Duration::from_secs(20));
        let bucket = Bucket::from_url("s3://bucket", settings, options).unwrap();
        let began = std::time::Instant::now();
        let key = object_store::path::Path::from("x");
        bucket.0.wait(bucket.0.size(&key)).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(4), "it was contacted");
    }
}
