//! URL: a bucket by its address, with credentials and settings that the caller names.

use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::client::{ClientConfigKey, HttpClient, HttpConnector};
use object_store::{ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig};
use reqwest::redirect::Policy;
use url::Url;

use super::bucket::Bucket;
use super::options::ObjectOptions;
use crate::error::SpoolError;
use crate::remote::{RemoteError, RemoteKind};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

impl Bucket {
    /// A bucket by its URL: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`.
    ///
    /// `settings` are names and values as the environment has them, in any case: `AWS_REGION`,
    /// `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_KEY` and
    /// so on; names that mean nothing to this kind of store are passed over. The environment itself
    /// is not read, which is why Google and Azure need credentials here.
    pub fn from_url<K: AsRef<str>, V: Into<String>>(
        url: &str,
        settings: impl IntoIterator<Item = (K, V)>,
        options: ObjectOptions,
    ) -> Result<Self, SpoolError> {
        // The URL of a bucket has no secrets, unless someone put one there by mistake.
        let wrong = |text: &str| wrong_url(url, text);
        let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong("credentials do not belong in it"));
        }
        let (scheme, prefix) =
            ObjectStoreScheme::parse(&parsed).map_err(|error| wrong(&error.to_string()))?;
        let settings: Vec<(String, String)> = settings
            .into_iter()
            .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into()))
            .collect();
        let store: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::AmazonS3 => Arc::new(s3(url, &settings, &options)?),
            ObjectStoreScheme::GoogleCloudStorage => Arc::new(google(url, &settings, &options)?),
            ObjectStoreScheme::MicrosoftAzure => Arc::new(azure(url, &settings, &options)?),
            _ => return Err(wrong("it must begin with s3://, gs:// or az://")),
        };
        Self::new(store, prefix.as_ref(), options)
    }
}

/// The three builders have the same methods and no trait for them.
macro_rules! build {
    ($builder:ty, $url:expr, $settings:expr, $options:expr) => {{
        let mut builder = <$builder>::new().with_url($url);
        for (name, value) in $settings {
            if let Ok(name) = name.parse() {
                builder = builder.with_config(name, value);
            }
        }
        // Attempts are counted in one place, which is not there.
        let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        builder
            .with_retry(once)
            .with_http_connector(Connector { limit: $options.time_limit })
            .build()
            .map_err(|error| wrong_url($url, &error.to_string()))
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
    // Without them the library would look into the home directory.
    let credentials = ["service_account", "application_credentials", "bearer_token"];
    named(url, settings, &credentials, "google_service_account or google_application_credentials")?;
    build!(object_store::gcp::GoogleCloudStorageBuilder, url, settings, options)
}

fn azure(
    url: &str,
    settings: &Settings,
    options: &ObjectOptions,
) -> Result<object_store::azure::MicrosoftAzure, SpoolError> {
    // Without them the library would look into the environment.
    let credentials = ["account_key", "access_key", "master_key", "client_secret", "token", "sas"];
    named(url, settings, &credentials, "azure_storage_account_key or azure_storage_sas_token")?;
    build!(object_store::azure::MicrosoftAzureBuilder, url, settings, options)
}

/// Whether one of the settings gives credentials.
fn named(url: &str, settings: &Settings, any: &[&str], missing: &str) -> Result<(), SpoolError> {
    let given = |name: &String| any.iter().any(|part| name.contains(part));
    if settings.iter().any(|(name, _)| given(name)) {
        return Ok(());
    }
    Err(wrong_url(url, &format!("no credentials are given: set {missing}")))
}

fn wrong_url(url: &str, text: &str) -> SpoolError {
    let source = RemoteError::new(RemoteKind::Misused, text);
    // What stands before an `@` may be a secret.
    let key = url.rsplit_once('@').map_or(url, |(_, place)| place).to_owned();
    SpoolError::Remote { op: "open the bucket", key, source }
}

/// Connections without proxies of the environment and without redirects, and never in the clear
/// unless the settings say so.
#[derive(Debug)]
struct Connector {
    limit: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        static PROVIDER: Once = Once::new();
        // One that is there already stays: both are good.
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let clear = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .https_only(clear.is_none_or(|clear| clear != "true"))
            .connect_timeout(CONNECT_LIMIT.min(self.limit))
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
