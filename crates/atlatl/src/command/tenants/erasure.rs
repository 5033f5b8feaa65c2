//! Works on requested erasures, for the command that requests one and for the maintenance of servers.
//!
//! Memories are erased first, then results in object storage, because a recall stores results. Every
//! step can be interrupted: the next worker goes on.

use std::sync::Arc;
use std::time::Duration;

use atlatl_memory::{Erasure, ErasureBatch, ErasureId, ErasureStep, ErasureWorker, StoreError};
use lro_spool::{Bucket, SpoolError};

/// Where the results of tenants are.
#[derive(Debug, Clone)]
pub(crate) enum ResultStorage {
    /// In this bucket.
    Bucket(Bucket),
    /// Nowhere: servers have no bucket.
    None,
    /// This process does not know: servers erase them.
    Elsewhere,
}

/// What became of a claimed erasure.
#[derive(Debug)]
pub(crate) enum ErasureProgress {
    /// It is complete.
    Completed(Erasure),
    /// Its next step begins later, or another worker has it.
    Waiting,
    /// Only results are left, and this process does not know where they are.
    ResultsElsewhere,
}

/// Why work on an erasure failed. What was erased is erased.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ErasureError {
    #[error("cannot erase memories")]
    Store(#[from] StoreError),
    #[error("cannot erase results in object storage")]
    Spool(#[from] SpoolError),
    /// The name of a tenant that no spool can have, or a panic of the client library.
    #[error("cannot erase results in object storage: {0}")]
    Failed(String),
}

/// Returns a name that no other worker has.
pub(crate) fn worker_name() -> Result<String, getrandom::Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}

/// Works on the erasure `wanted`, or on the oldest one that is due. Returns `None` if there is none, or
/// if another worker has it. After a failure, workers leave it alone for `retry_after`.
pub(crate) async fn advance(
    worker: &mut ErasureWorker,
    wanted: Option<ErasureId>,
    storage: &ResultStorage,
    retry_after: Duration,
) -> Result<Option<ErasureProgress>, ErasureError> {
    let Some(erasure) = worker.claim(wanted).await? else { return Ok(None) };
    let done = work(worker, erasure.clone(), storage).await;
    let retry_after = if done.is_ok() { Duration::ZERO } else { retry_after };
    // If this fails, the claim ends by itself.
    drop(worker.release(&erasure, retry_after).await);
    done.map(Some)
}

async fn work(
    worker: &mut ErasureWorker,
    mut erasure: Erasure,
    storage: &ResultStorage,
) -> Result<ErasureProgress, ErasureError> {
    if erasure.step == ErasureStep::Memories {
        loop {
            match worker.erase_some(&erasure).await? {
                ErasureBatch::Finished => break,
                ErasureBatch::Lost => return Ok(ErasureProgress::Waiting),
                _ => {}
            }
        }
        // Results that are being stored now are erased later.
        let Some(due) = worker.claim(Some(erasure.id)).await? else {
            return Ok(ErasureProgress::Waiting);
        };
        erasure = due;
    }
    match storage {
        ResultStorage::Bucket(bucket) => erase_results(worker, &erasure, bucket).await,
        ResultStorage::None => {
            let noted = worker.note_results(&erasure, 0, 0, true).await?;
            Ok(noted.map_or(ErasureProgress::Waiting, ErasureProgress::Completed))
        }
        ResultStorage::Elsewhere => Ok(ErasureProgress::ResultsElsewhere),
    }
}

async fn erase_results(
    worker: &ErasureWorker,
    erasure: &Erasure,
    bucket: &Bucket,
) -> Result<ErasureProgress, ErasureError> {
    let eraser = bucket.eraser(&erasure.tenant);
    let eraser = Arc::new(eraser.map_err(|error| ErasureError::Failed(error.to_string()))?);
    // The results of a tenant that goes on, up to the beginning of this step.
    let before = erasure.subject.as_ref().map(|_| erasure.starts);
    loop {
        let eraser = Arc::clone(&eraser);
        let erased = tokio::task::spawn_blocking(move || match before {
            Some(before) => eraser.erase_results(before),
            None => eraser.erase_some(),
        });
        let erased = erased.await.map_err(|error| ErasureError::Failed(error.to_string()))??;
        let noted =
            worker.note_results(erasure, erased.results, erased.bytes, erased.is_complete).await?;
        match noted {
            None => return Ok(ErasureProgress::Waiting),
            Some(erasure) if erased.is_complete => return Ok(ErasureProgress::Completed(erasure)),
            Some(_) => {}
        }
    }
}
