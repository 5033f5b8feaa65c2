//! Computes missing vectors in the foreground: after an import, and before a search.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atlatl_memory::embed::EmbedderChoice;
use atlatl_memory::{Embedder, MemoryStore, embed_missing};

use crate::error::{Error, with_causes};
use crate::memory_config;
use crate::output::{Output, Progress, grouped, pluralize};
use crate::settings::Settings;

/// The time between two notes about the progress where there is no terminal.
const NOTE_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum number of memories that a search embeds; an import or a server embeds more.
const MAX_EMBEDDED_BY_SEARCH: usize = 64;
/// The time after which a search embeds no further memories.
const MAX_SEARCH_DELAY: Duration = Duration::from_secs(1);

/// Computes the vectors of all memories that have none, with a progress bar.
///
/// The memories are stored, so a failure is a note and not an error: a server continues.
pub(super) async fn embed_imported(
    store: &dyn MemoryStore,
    settings: &Settings,
    output: &mut Output,
) {
    let mut embedded = 0;
    let outcome = embed_all(store, settings, output, &mut embedded).await;
    if embedded > 0 {
        output.note(format_args!("computed {}", pluralize(embedded, "vector", "vectors")));
    }
    if let Err(why) = outcome {
        output.note(format_args!(
            "memories without a vector are found only by words: {why}; `atlatl serve` retries"
        ));
    }
}

/// Computes vectors until none is missing, and counts them in `embedded`.
async fn embed_all(
    store: &dyn MemoryStore,
    settings: &Settings,
    output: &mut Output,
    embedded: &mut u64,
) -> Result<(), String> {
    let message = |error: &Error| {
        let report = error.reports().first();
        report.map(|report| report.message.clone()).unwrap_or_default()
    };
    let opened = memory_config::embedder(settings).map_err(|error| message(&error))?;
    let Some(embedder) = opened else { return Ok(()) };
    let total = count_unembedded(store, &*embedder).await?;
    let mut progress = Progress::new("embedding", || total);
    let mut noted_at = Instant::now();
    while *embedded < total {
        let step = embed_missing(store, &embedder)
            .await
            .map_err(|error| format!("memory.embedder: {}", with_causes(&*error)))?;
        if step == 0 {
            return match count_unembedded(store, &*embedder).await? {
                0 => Ok(()),
                left => Err(format!(
                    "{} for an open transaction or another process",
                    pluralize(left, "memory waits", "memories wait")
                )),
            };
        }
        *embedded += step as u64;
        if progress.is_visible() {
            progress.at(*embedded, *embedded);
        } else if *embedded < total && noted_at.elapsed() >= NOTE_INTERVAL {
            noted_at = Instant::now();
            let (done, total) = (grouped(*embedded), grouped(total));
            output.note(format_args!("computed {done} of {total} vectors"));
        }
    }
    Ok(())
}

/// Returns the number of memories without a vector.
async fn count_unembedded(store: &dyn MemoryStore, embedder: &dyn Embedder) -> Result<u64, String> {
    let counted = store.count_unembedded(embedder.model()).await;
    counted.map_err(|error| format!("memory.store: {}", with_causes(&error)))
}

/// Computes the vectors of a few memories that have none, so that someone who never runs a server
/// finds memories by meaning too. Only with a local model and a store on this machine, where it takes
/// about a second; the search itself reports a model that does not work.
pub(super) async fn embed_some(
    store: &dyn MemoryStore,
    embedder: &Arc<dyn Embedder>,
    settings: &Settings,
) {
    let is_local_model = memory_config::embedder_choice(settings)
        .is_ok_and(|choice| matches!(choice, EmbedderChoice::Local { .. }));
    if !is_local_model || settings.config.memory.store.starts_with("postgres://") {
        return;
    }
    let began = Instant::now();
    let mut embedded = 0;
    while embedded < MAX_EMBEDDED_BY_SEARCH && began.elapsed() < MAX_SEARCH_DELAY {
        match embed_missing(store, embedder).await {
            Ok(step) if step > 0 => embedded += step,
            _ => return,
        }
    }
}
