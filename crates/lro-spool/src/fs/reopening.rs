//! A directory that is opened on demand, and again after it was removed.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};

use super::{DirOptions, DirSpool};
use crate::address::Address;
use crate::error::SpoolError;
use crate::spool::{Draft, Listed, NewResult, Scratch, Spool, StoredResult, Swept};

/// A spool in a directory that may be missing now and there later.
///
/// A program that runs for weeks must neither refuse to start because its directory cannot be used,
/// nor fail for ever because something that cleans temporary directories removed it.
#[derive(Debug)]
pub struct DirOnDemand {
    path: PathBuf,
    options: DirOptions,
    opened: Mutex<Option<DirSpool>>,
}

impl DirOnDemand {
    /// A spool at `path`, which is absolute; nothing is opened yet.
    pub fn new(path: PathBuf, options: DirOptions) -> Self {
        Self { path, options, opened: Mutex::new(None) }
    }

    /// The directory that was named, whether it is there or not.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The spool as it is now.
    pub fn get(&self) -> Result<DirSpool, SpoolError> {
        // What is in there is whole or not there at all, whoever panicked.
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spool) = opened.as_ref().filter(|spool| !spool.is_gone()) {
            return Ok(spool.clone());
        }
        let spool = DirSpool::open(&self.path, self.options.clone())?;
        *opened = Some(spool.clone());
        Ok(spool)
    }
}

impl Spool for DirOnDemand {
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError> {
        self.get()?.create(new)
    }

    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        self.get()?.open(address, now)
    }

    fn list(&self) -> Result<Vec<Listed>, SpoolError> {
        self.get()?.list()
    }

    fn remove(&self, address: &Address) -> Result<Listed, SpoolError> {
        self.get()?.remove(address)
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError> {
        self.get()?.sweep(now)
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        self.get()?.scratch()
    }
}
