//! Fill: vectors made beside everything else, so that no write waits for a model.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::embed::Embedder;
use crate::store::{MemoryStore, StoreError};

/// Memories that go to the model at once.
const BATCH: usize = 32;
/// What every model has a vector for.
const PROBE: &str = "one short sentence";
/// As many characters of a text as the smallest models take.
const BEGINNING: usize = 1000;
/// How often is looked without being called: another process may have written.
const IDLE: Duration = Duration::from_secs(5);
/// How long is waited after a failure, at first and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Makes the vectors that are missing, until it is dropped. Nobody waits for its end then: a model may
/// take minutes for what it was given last.
#[derive(Debug)]
pub struct Filler {
    calls: SyncSender<()>,
}

impl Filler {
    /// Starts to fill. `failed` hears of what did not work; it is tried again.
    pub fn start(
        store: Arc<dyn MemoryStore>,
        embedder: Arc<dyn Embedder>,
        failed: impl Fn(&dyn std::error::Error) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (calls, called) = sync_channel(1);
        std::thread::Builder::new()
            .name("vectors".to_owned())
            .spawn(move || run(&*store, &*embedder, &called, &failed))?;
        Ok(Self { calls })
    }

    /// Says that there is something to do.
    pub fn call(&self) {
        // One call that was not heard yet is as good as two.
        let _ = self.calls.try_send(());
    }
}

fn run(
    store: &dyn MemoryStore,
    embedder: &dyn Embedder,
    called: &Receiver<()>,
    failed: &dyn Fn(&dyn std::error::Error),
) {
    let mut wait = BACK_OFF.0;
    loop {
        let pause = match fill(store, embedder) {
            Ok(made) => {
                wait = BACK_OFF.0;
                if made == 0 { IDLE } else { Duration::ZERO }
            }
            Err(error) => {
                failed(&*error);
                let pause = wait;
                wait = (wait * 2).min(BACK_OFF.1);
                pause
            }
        };
        match called.recv_timeout(pause) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Makes vectors for the next memories that have none; how many.
pub fn fill(
    store: &dyn MemoryStore,
    embedder: &dyn Embedder,
) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let waiting = store.unembedded(embedder.model(), BATCH).map_err(Box::<StoreError>::new)?;
    if waiting.is_empty() {
        return Ok(0);
    }
    let texts: Vec<&str> = waiting.iter().map(|one| one.text.as_str()).collect();
    let vectors = match embedder.embed(&texts) {
        Ok(vectors) => vectors,
        // One text may spoil the others, in more ways than an endpoint has words for. If it answers
        // to something short, each is tried by itself.
        Err(error) => match embedder.embed(&[PROBE]) {
            Ok(_) => texts.iter().map(|text| vector_or_none(embedder, text)).collect(),
            Err(_) => return Err(error.into()),
        },
    };
    let vectors: Vec<_> = waiting.iter().map(|one| one.version).zip(vectors).collect();
    store.put_vectors(embedder.model(), &vectors)?;
    Ok(vectors.len())
}

/// The vector of one text, of its beginning where the whole is too much; an empty one where none
/// can be made, so that nobody waits for it.
fn vector_or_none(embedder: &dyn Embedder, text: &str) -> Vec<f32> {
    let end = text.char_indices().nth(BEGINNING).map_or(text.len(), |(at, _)| at);
    let one = |text: &str| embedder.embed(&[text]).ok()?.pop();
    one(text).or_else(|| one(&text[..end])).unwrap_or_default()
}
