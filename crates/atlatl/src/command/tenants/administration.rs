//! Administration of tenants and keys: in the database, or over the API of `atlatl tenants serve`.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use atlatl_memory::{
    ErasureRequest, ErasureStep, NewKey, PasswordSource, Registry, StoreError, TenantLimits,
};
use atlatl_server::auth::ApiKey;
use chrono::{DateTime, TimeDelta, Utc};

use super::TENANT_CACHE_EXPIRY;
use super::client::AdminClient;
use super::erasure::{self, ErasureError, ErasureProgress, ResultStorage};
use super::resource::{ErasureResource, KeyResource, TenantResource, UsageResource};
use crate::command::keys::random;
use crate::error::{Error, with_causes};
use crate::memory_config::{self, DatabaseUrl, database_error, postgres_options};
use crate::output::{Output, Spinner};

/// The interval at which the command looks whether an erasure goes on.
const ERASURE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long an erasure may make no progress before the user is told. It begins after
/// [`TENANT_CACHE_EXPIRY`], and servers look for erasures every ten seconds.
const ERASURE_STALL_TIME: Duration = Duration::from_mins(2);
/// The hint for a failure while the command waits for an erasure.
const ERASURE_CONTINUES: &str = "the servers go on with it; or run the command again";

/// Where a command administers, and as whom.
#[derive(Debug, clap::Args)]
pub(crate) struct AdministrationArgs {
    /// Database URL with the user who owns the schema or
    /// the role of `db migrate --admin-role`; or the URL of
    /// `tenants serve`, with its key in `ATLATL_ADMIN_KEY`
    #[arg(long = "as", value_name = "URL", verbatim_doc_comment)]
    url: String,
    /// Allow an unencrypted connection to a database on
    /// another machine
    #[arg(long, verbatim_doc_comment)]
    allow_plain: bool,
}

impl AdministrationArgs {
    /// Opens the database or the API.
    pub(crate) async fn open(&self) -> Result<Administration, Error> {
        if self.is_api() {
            return AdminClient::new(&self.url).map(Administration::Api);
        }
        open_registry(&self.url, self.allow_plain).await.map(Administration::Database)
    }

    /// Returns whether the command uses the API.
    pub(super) fn is_api(&self) -> bool {
        is_api_url(&self.url)
    }
}

/// The owner of the schema, or the role that administers tenants, for a command that needs the database.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaOwner {
    /// Database URL with the user who owns the schema, or
    /// with the role of `db migrate --admin-role`
    #[arg(long = "as", value_name = "URL", verbatim_doc_comment)]
    url: String,
    /// Allow an unencrypted connection to another machine
    #[arg(long, verbatim_doc_comment)]
    allow_plain: bool,
}

impl SchemaOwner {
    /// Opens the registry of tenants and keys.
    pub(super) async fn registry(&self) -> Result<Registry, Error> {
        require_database(&self.url)?;
        open_registry(&self.url, self.allow_plain).await
    }
}

/// Fails if the URL of `--as` is that of an API.
pub(crate) fn require_database(url: &str) -> Result<(), Error> {
    if is_api_url(url) {
        return Err(Error::usage(
            "--as: this command needs the database, not the administration API",
        )
        .with_hint("--as postgres://USER@HOST/DATABASE"));
    }
    Ok(())
}

fn is_api_url(url: &str) -> bool {
    // Schemes are case-insensitive.
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

async fn open_registry(url: &str, allow_plain: bool) -> Result<Registry, Error> {
    let plain_text = memory_config::plain_text(allow_plain);
    let url = DatabaseUrl { name: "--as", url, allow_plain: "--allow-plain" };
    let options = postgres_options(&url, plain_text, PasswordSource::None)?;
    Registry::open(&options).await.map_err(database_error)
}

/// A key to create.
pub(crate) struct KeyRequest<'a> {
    pub(crate) tenant: &'a str,
    /// Empty for a key without a name.
    pub(crate) name: &'a str,
    pub(crate) scopes: &'a [&'a str],
    /// The validity in days; `None` until it is revoked.
    pub(crate) days: Option<u16>,
}

/// A new key with its secret, which is shown once.
pub(crate) struct KeyWithSecret {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) expires: Option<DateTime<Utc>>,
}

/// What the commands of administration do, with the same results for the database and the API.
pub(crate) enum Administration {
    /// As the owner of the schema, or as the role that administers tenants.
    Database(Registry),
    /// Over HTTP. The requests block the thread: a command has nothing else to do meanwhile.
    Api(AdminClient),
}

impl Administration {
    /// Creates a tenant, or updates the limits of an existing one. Returns whether it was created.
    pub(crate) async fn put_tenant(&self, name: &str, limits: TenantLimits) -> Result<bool, Error> {
        match self {
            Self::Database(registry) => {
                registry.put_tenant(name, limits).await.map_err(tenant_error)
            }
            Self::Api(client) => client.put_tenant(name, limits),
        }
    }

    /// Returns all tenants by name.
    pub(crate) async fn tenants(&self) -> Result<Vec<TenantResource>, Error> {
        let mut tenants = match self {
            Self::Database(registry) => {
                resources(registry.tenants().await.map_err(database_error)?)
            }
            Self::Api(client) => client.tenants()?,
        };
        // Here and below: pages of the API have the order of ids.
        tenants.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tenants)
    }

    /// Returns what all tenants or one used on the last days, by tenant and day.
    pub(crate) async fn usage(
        &self,
        tenant: Option<&str>,
        days: u16,
    ) -> Result<Vec<UsageResource>, Error> {
        let mut usage = match self {
            Self::Database(registry) => {
                resources(registry.usage(tenant, days).await.map_err(database_error)?)
            }
            Self::Api(client) => client.usage(tenant, days)?,
        };
        usage.sort_by(|one, other| (&one.tenant, one.day).cmp(&(&other.tenant, other.day)));
        Ok(usage)
    }

    /// Creates a key. Returns `None` if there is no such tenant.
    pub(crate) async fn create_key(
        &self,
        request: &KeyRequest<'_>,
    ) -> Result<Option<KeyWithSecret>, Error> {
        let registry = match self {
            Self::Database(registry) => registry,
            Self::Api(client) => return client.create_key(request),
        };
        let key = ApiKey::new(random()?);
        let now = memory_config::moment().now;
        let expires = request.days.map(|days| now + TimeDelta::days(days.into()));
        let new = NewKey {
            id: key.id(),
            tenant: request.tenant,
            digest: &key.digest(),
            scopes: request.scopes,
            name: request.name,
            expires,
        };
        let is_stored = registry.put_key(&new).await.map_err(database_error)?;
        let created =
            || KeyWithSecret { id: key.id().to_owned(), key: key.expose().to_owned(), expires };
        Ok(is_stored.then(created))
    }

    /// Returns the keys of all tenants or of one, by tenant and age.
    pub(crate) async fn keys(&self, tenant: Option<&str>) -> Result<Vec<KeyResource>, Error> {
        let mut keys = match self {
            Self::Database(registry) => {
                resources(registry.keys(tenant).await.map_err(database_error)?)
            }
            Self::Api(client) => client.keys(tenant)?,
        };
        keys.sort_by(|one, other| {
            (&one.tenant, one.made, &one.id).cmp(&(&other.tenant, other.made, &other.id))
        });
        Ok(keys)
    }

    /// Revokes a key. Returns `false` if it does not exist or is revoked already.
    pub(crate) async fn revoke_key(&self, id: &str) -> Result<bool, Error> {
        match self {
            Self::Database(registry) => registry.revoke_key(id).await.map_err(database_error),
            Self::Api(client) => client.revoke_key(id),
        }
    }

    /// Requests an erasure. Returns `None` if there is no such tenant.
    pub(crate) async fn begin_erasure(
        &self,
        tenant: &str,
        subject: Option<&str>,
    ) -> Result<Option<ErasureResource>, Error> {
        match self {
            Self::Database(registry) => {
                let delay = TENANT_CACHE_EXPIRY;
                let request = ErasureRequest { tenant, subject, requested_by: None, delay };
                let begun = registry.begin_erasure(&request).await.map_err(tenant_error)?;
                Ok(begun.map(Into::into))
            }
            Self::Api(client) => client.begin_erasure(tenant, subject),
        }
    }

    /// Waits until an erasure is complete, or until only results are left that this process cannot
    /// erase. With the database, the process works on it too; over the API, only servers do.
    pub(crate) async fn finish_erasure(
        &self,
        begun: ErasureResource,
        storage: &ResultStorage,
    ) -> Result<ErasureResource, Error> {
        match self {
            Self::Database(registry) => work_on_erasure(registry, begun, storage).await,
            Self::Api(client) => wait_for_erasure(client, begun).await,
        }
    }

    /// Returns the erasures of all tenants or of one, the latest first.
    pub(crate) async fn erasures(
        &self,
        tenant: Option<&str>,
    ) -> Result<Vec<ErasureResource>, Error> {
        let mut erasures = match self {
            Self::Database(registry) => {
                resources(registry.erasures(tenant).await.map_err(database_error)?)
            }
            Self::Api(client) => client.erasures(tenant)?,
        };
        erasures.sort_by_key(|erasure| Reverse(erasure.id));
        Ok(erasures)
    }
}

/// Converts rows of the database.
pub(super) fn resources<T, R: From<T>>(rows: Vec<T>) -> Vec<R> {
    rows.into_iter().map(R::from).collect()
}

/// An error of the database. An invalid tenant name is an error of the command line.
fn tenant_error(error: StoreError) -> Error {
    match error {
        StoreError::NotAStore { why, .. } => Error::usage(why),
        other => database_error(other),
    }
}

/// Works on an erasure. Servers may work on it meanwhile.
async fn work_on_erasure(
    registry: &Registry,
    begun: ErasureResource,
    storage: &ResultStorage,
) -> Result<ErasureResource, Error> {
    let _spinner = Spinner::start("erasing; if interrupted, the servers or the same command go on");
    let name = erasure::worker_name()
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    let mut worker = registry.erasure_worker(&name);
    let mut erasure = begun;
    loop {
        let progress = erasure::advance(&mut worker, Some(erasure.id), storage, Duration::ZERO);
        match progress.await.map_err(erasure_error)? {
            Some(ErasureProgress::Completed(done)) => return Ok(done.into()),
            Some(ErasureProgress::ResultsElsewhere) => {
                let now = registry.erasure(erasure.id).await.map_err(database_error)?;
                return Ok(now.map_or(erasure, Into::into));
            }
            Some(ErasureProgress::Waiting) | None => {}
        }
        tokio::time::sleep(ERASURE_POLL_INTERVAL).await;
        let now = registry.erasure(erasure.id).await.map_err(database_error)?;
        erasure = now.map_or(erasure, Into::into);
        let is_elsewhere = matches!(storage, ResultStorage::Elsewhere);
        match erasure.step {
            ErasureStep::Complete => return Ok(erasure),
            ErasureStep::Results if is_elsewhere => return Ok(erasure),
            _ => {}
        }
    }
}

/// An error of an erasure. What was erased is erased.
fn erasure_error(error: ErasureError) -> Error {
    match error {
        ErasureError::Store(error) => database_error(error),
        error => Error::failure(with_causes(&error)).with_hint(ERASURE_CONTINUES),
    }
}

/// Waits until the servers have completed an erasure.
async fn wait_for_erasure(
    client: &AdminClient,
    begun: ErasureResource,
) -> Result<ErasureResource, Error> {
    const WAITING: &str = "erasing; if interrupted, the servers go on";
    let mut spinner = Some(Spinner::start(WAITING));
    let mut erasure = begun;
    let mut changed = Instant::now();
    while erasure.step != ErasureStep::Complete {
        tokio::time::sleep(ERASURE_POLL_INTERVAL).await;
        let now = client.erasure(erasure.id).map_err(|error| error.with_hint(ERASURE_CONTINUES))?;
        let progress = |erasure: &ErasureResource| {
            (erasure.step, erasure.memories, erasure.results, erasure.starts)
        };
        if progress(&now) != progress(&erasure) {
            changed = Instant::now();
        } else if changed.elapsed() > ERASURE_STALL_TIME {
            changed = Instant::now();
            // The note needs the line of the spinner.
            spinner = None;
            Output::remark("the erasure makes no progress: does a server of this database run?");
        }
        if spinner.is_none() {
            spinner = Some(Spinner::start(WAITING));
        }
        erasure = now;
    }
    Ok(erasure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g48_the_scheme_selects_the_api_or_the_database() {
        for url in ["https://admin.example.org", "HTTP://127.0.0.1:7180", "http://"] {
            assert!(is_api_url(url) && require_database(url).is_err(), "{url}");
        }
        for url in ["postgres://ann@127.0.0.1/memories", "httpd://x", "http", ""] {
            assert!(!is_api_url(url) && require_database(url).is_ok(), "{url}");
        }
    }
}
