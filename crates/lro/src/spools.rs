//! Spools: all places in which a result may lie.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro_spool::{Address, Foreign, Spool, SpoolError, StoredResult};

/// The places in which a result may lie, asked in turn.
#[derive(Clone)]
pub struct Spools(Vec<Arc<dyn Spool>>);

impl Spools {
    /// These places.
    pub fn new(spools: Vec<Arc<dyn Spool>>) -> Self {
        Self(spools)
    }

    /// Opens a result, wherever it lies.
    pub fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        let mut missing = SpoolError::NotFound { asked: address.to_string() };
        for spool in &self.0 {
            match spool.open(address, now) {
                // The path of one directory is foreign to the other.
                Err(
                    SpoolError::NotFound { .. }
                    | SpoolError::NotOurs { why: Foreign::Elsewhere, .. },
                ) => {}
                Err(
                    error @ (SpoolError::NotOurs { .. }
                    | SpoolError::Io { .. }
                    | SpoolError::Remote { .. }),
                ) => {
                    missing = error;
                }
                other => return other,
            }
        }
        Err(missing)
    }
}
