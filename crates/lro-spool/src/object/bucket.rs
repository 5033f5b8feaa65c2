//! Bucket: one object store for all tenants of a process, and the requests made to it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use tokio::runtime::{Builder, Handle, Runtime};

use super::failure::{Attempts, Failure};
use super::index_entry::ENTRY_CAP;
use super::local_cache::Local;
use super::options::ObjectOptions;
use crate::error::{Damage, SpoolError};

/// An object store with a prefix. Clones share it, its connections and its local directory.
#[derive(Debug, Clone)]
pub struct Bucket(pub(super) Arc<Remote>);

pub(super) struct Remote {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) prefix: Path,
    pub(super) options: ObjectOptions,
    pub(super) local: Arc<Local>,
    /// Drives the requests. Two threads: checking one block does not hold up all other requests.
    runtime: Option<Runtime>,
}

/// What became of an object that only one may create.
#[derive(Debug)]
pub(super) enum Created {
    ByUs,
    /// By someone else, with these bytes.
    ByOthers(Bytes),
}

impl Bucket {
    /// Results go below `prefix` of this store. It must take a PUT that only creates, and show what
    /// was written at once; nothing is asked of it yet.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        options: ObjectOptions,
    ) -> Result<Self, SpoolError> {
        let prefix = Path::parse(prefix)
            .map_err(|error| Failure::Store(error.into()).doing("use the prefix", prefix))?;
        let local = Local::open(&options)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("object-storage")
            .enable_all()
            .build()
            .map_err(|error| SpoolError::io("start threads for", &options.local_dir, error))?;
        let runtime = Some(runtime);
        Ok(Self(Arc::new(Remote { store, prefix, options, local, runtime })))
    }
}

impl Remote {
    pub(super) fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("there until it is dropped").handle()
    }

    /// Waits for `future` on the calling thread.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _inside = self.handle().enter();
        // `block_on` of a runtime panics on a thread of another one. There, too, a budget would be
        // counted that is never filled up again.
        pollster::block_on(tokio::task::unconstrained(future))
    }

    pub(super) fn attempts(&self) -> Attempts {
        Attempts::new(&self.options)
    }

    /// A whole object that is no larger than `cap`; `None` where there is none.
    pub(super) async fn get(&self, key: &Path, cap: u64) -> Result<Option<Bytes>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let got = attempts.attempt(async {
                let got = self.store.get_opts(key, GetOptions::default()).await?;
                let size = got.meta.size;
                if size > cap { Ok(None) } else { Ok(Some((size, got.bytes().await?))) }
            });
            let failure = match got.await {
                Ok(Some((size, bytes))) if bytes.len() as u64 == size => return Ok(Some(bytes)),
                Ok(Some(_)) => Failure::Short,
                Ok(None) => {
                    let (name, why) = (key.to_string(), Damage::Changed);
                    return Err(SpoolError::Damaged { name, why });
                }
                Err(failure) if failure.is_missing() => return Ok(None),
                Err(failure) => failure,
            };
            if !attempts.again(&failure).await {
                return Err(failure.doing("read", key));
            }
        }
    }

    /// Exactly these bytes of an object, in one attempt.
    pub(super) async fn range(
        &self,
        attempts: &Attempts,
        key: &Path,
        range: Range<u64>,
    ) -> Result<Bytes, Failure> {
        let asked = range.end - range.start;
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let bytes = attempts
            .attempt(async {
                let got = self.store.get_opts(key, options).await?;
                // Another range is not taken: it may be of any length.
                if got.range == range { got.bytes().await } else { Ok(Bytes::new()) }
            })
            .await?;
        if bytes.len() as u64 == asked { Ok(bytes) } else { Err(Failure::Short) }
    }

    /// Writes an object that nobody else writes.
    pub(super) async fn put(&self, key: &Path, payload: PutPayload) -> Result<(), SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let put = self.store.put_opts(key, payload.clone(), PutOptions::default());
            match attempts.attempt(put).await {
                Ok(_) => return Ok(()),
                Err(failure) if attempts.again(&failure).await => {}
                Err(failure) => return Err(failure.doing("write", key)),
            }
        }
    }

    /// Creates an object unless there is one. Where an answer got lost the object itself says whose
    /// it is: the bytes of no two are the same.
    ///
    /// An error says that nothing is known: the object may be there, or come yet.
    pub(super) async fn create(&self, key: &Path, bytes: &Bytes) -> Result<Created, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let options = PutOptions::from(PutMode::Create);
            let put = self.store.put_opts(key, bytes.clone().into(), options);
            let Err(failure) = attempts.attempt(put).await else { return Ok(Created::ByUs) };
            // Taken, and then not there: gone meanwhile, or two at the same moment and neither has it.
            let is_taken = failure.is_taken();
            if !is_taken && attempts.again(&failure).await {
                continue;
            }
            match self.get(key, ENTRY_CAP).await {
                Ok(Some(there)) if there == *bytes => return Ok(Created::ByUs),
                Ok(Some(there)) => return Ok(Created::ByOthers(there)),
                Err(SpoolError::Damaged { .. }) => return Ok(Created::ByOthers(Bytes::new())),
                Ok(None) if is_taken && attempts.once_more().await => {}
                Ok(None) | Err(_) => return Err(failure.doing("create", key)),
            }
        }
    }

    /// Removes an object, there or not.
    pub(super) async fn delete(&self, key: &Path) -> Result<(), SpoolError> {
        let mut attempts = self.attempts();
        loop {
            match attempts.attempt(self.store.delete(key)).await {
                Ok(()) => return Ok(()),
                Err(failure) if failure.is_missing() => return Ok(()),
                Err(failure) if attempts.again(&failure).await => {}
                Err(failure) => return Err(failure.doing("remove", key)),
            }
        }
    }

    /// The size of an object; `None` where there is none.
    pub(super) async fn size(&self, key: &Path) -> Result<Option<u64>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            match attempts.attempt(self.store.head(key)).await {
                Ok(meta) => return Ok(Some(meta.size)),
                Err(failure) if failure.is_missing() => return Ok(None),
                Err(failure) if attempts.again(&failure).await => {}
                Err(failure) => return Err(failure.doing("look at", key)),
            }
        }
    }

    /// All objects whose keys begin with this. A list that breaks off begins anew: not every store
    /// lists in an order in which it could be continued.
    pub(super) async fn list(&self, prefix: &Path) -> Result<Vec<ObjectMeta>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let (mut list, mut all) = (self.store.list(Some(prefix)), Vec::new());
            let failure = loop {
                match attempts.attempt(list.try_next()).await {
                    Ok(Some(meta)) => all.push(meta),
                    Ok(None) => return Ok(all),
                    Err(failure) => break failure,
                }
            };
            if !attempts.again(&failure).await {
                return Err(failure.doing("list", prefix));
            }
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads would panic on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
