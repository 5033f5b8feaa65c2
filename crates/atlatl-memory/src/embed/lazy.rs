//! A local model that is loaded by its first use, in the background.
//!
//! A server answers its first request before a model of tens of megabytes is read, and one without
//! memories never reads it. A model that cannot be loaded is no reason to fail: queries report it,
//! and are answered by words.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::manifest::ModelManifest;
use super::{EmbedError, Embedder, FusionWeights, local_model};

/// How long a model that could not be loaded is not loaded again.
const RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// A local model that is loaded by its first use.
pub(super) struct LazyModel {
    /// What is known without loading the model.
    manifest: Option<ModelManifest>,
    name: OnceLock<String>,
    /// The name of a model that has no manifest and cannot be loaded.
    directory: String,
    /// How long a query waits for the model.
    query_timeout: Duration,
    loader: Arc<Loader>,
}

type Load = dyn Fn() -> Result<Arc<dyn Embedder>, EmbedError> + Send + Sync;

/// Loads the model on a thread of its own.
struct Loader {
    directory: PathBuf,
    load: Box<Load>,
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Unloaded,
    Loading,
    Loaded(Arc<dyn Embedder>),
    Failed { path: PathBuf, why: String, at: Instant },
}

impl LazyModel {
    /// Reads the manifest only. A directory that cannot be used fails when it is used.
    pub(super) fn new(directory: &Path, query_timeout: Duration) -> Self {
        let from = directory.to_owned();
        let load = move || local_model::open(&from);
        match ModelManifest::read(directory) {
            Ok(manifest) => {
                Self::with_loader(directory, manifest, query_timeout, State::Unloaded, load)
            }
            Err(error) => {
                let failed = State::failed(directory, &error);
                Self::with_loader(directory, None, query_timeout, failed, load)
            }
        }
    }

    fn with_loader(
        directory: &Path,
        manifest: Option<ModelManifest>,
        query_timeout: Duration,
        state: State,
        load: impl Fn() -> Result<Arc<dyn Embedder>, EmbedError> + Send + Sync + 'static,
    ) -> Self {
        let name = manifest.as_ref().map(ModelManifest::model_name);
        let expected = name.clone();
        let path = directory.to_owned();
        let load = move || {
            let model = load()?;
            match &expected {
                // Its vectors would be stored under the name of the former model.
                Some(name) if model.model() != name => Err(EmbedError::Model {
                    path: path.clone(),
                    why: "another model was installed there; restart the program".to_owned(),
                    source: None,
                }),
                _ => Ok(model),
            }
        };
        let loader = Loader {
            directory: directory.to_owned(),
            load: Box::new(load),
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Self {
            manifest,
            name: name.map(OnceLock::from).unwrap_or_default(),
            directory: directory.display().to_string(),
            query_timeout,
            loader: Arc::new(loader),
        }
    }

    /// Returns the model. Waits for it as long as it takes.
    fn wait(&self) -> Result<Arc<dyn Embedder>, EmbedError> {
        self.loader.get(None)
    }
}

impl Embedder for LazyModel {
    fn model(&self) -> &str {
        if self.name.get().is_none()
            && let Ok(model) = self.wait()
        {
            return self.name.get_or_init(|| model.model().to_owned());
        }
        self.name.get().unwrap_or(&self.directory)
    }

    fn dimensions(&self) -> usize {
        match &self.manifest {
            Some(manifest) => manifest.dimensions,
            None => self.wait().map_or(0, |model| model.dimensions()),
        }
    }

    fn fusion(&self) -> FusionWeights {
        if let Some(manifest) = &self.manifest {
            return manifest.fusion;
        }
        // Without waiting: a query must not.
        let loaded = self.loader.get(Some(Duration::ZERO));
        loaded.map_or_else(|_| FusionWeights::default(), |model| model.fusion())
    }

    fn knows_word(&self, word: &str) -> bool {
        self.loader.get(Some(Duration::ZERO)).is_ok_and(|model| model.knows_word(word))
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.wait()?.embed(texts)
    }

    fn check(&self) -> Result<(), EmbedError> {
        self.wait()?.check()
    }

    fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        self.loader.get(Some(self.query_timeout))?.embed_query(query)
    }
}

impl Loader {
    /// Returns the model, and loads it first if that is due. Fails with [`EmbedError::Loading`] if it
    /// takes longer than `timeout`.
    fn get(self: &Arc<Self>, timeout: Option<Duration>) -> Result<Arc<dyn Embedder>, EmbedError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        if state.is_load_due() {
            *state = self.start();
        }
        loop {
            match &*state {
                State::Loaded(model) => return Ok(Arc::clone(model)),
                State::Failed { path, why, .. } => {
                    let (path, why) = (path.clone(), why.clone());
                    return Err(EmbedError::Model { path, why, source: None });
                }
                State::Unloaded | State::Loading => {}
            }
            state = match deadline {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(EmbedError::Loading);
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Starts to load the model. Returns the new state.
    fn start(self: &Arc<Self>) -> State {
        let loader = Arc::clone(self);
        let load = move || {
            let loaded = catch_unwind(AssertUnwindSafe(|| (loader.load)()));
            let state = match loaded {
                Ok(Ok(model)) => State::Loaded(model),
                Ok(Err(error)) => State::failed(&loader.directory, &error),
                Err(_) => State::failed_because(&loader.directory, "loading it panicked"),
            };
            *loader.lock() = state;
            loader.changed.notify_all();
        };
        match thread::Builder::new().name("load-model".to_owned()).spawn(load) {
            Ok(_) => State::Loading,
            Err(_) => State::failed_because(&self.directory, "cannot start a thread to load it"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_load_due(&self) -> bool {
        match self {
            Self::Unloaded => true,
            Self::Failed { at, .. } => at.elapsed() >= RETRY_INTERVAL,
            Self::Loading | Self::Loaded(_) => false,
        }
    }

    /// The state after `error`, with its causes in one text, because every query repeats it.
    fn failed(directory: &Path, error: &EmbedError) -> Self {
        let EmbedError::Model { path, why, source } = error else {
            return Self::failed_because(directory, &error.to_string());
        };
        let mut why = why.clone();
        let mut cause = source.as_deref().map(|cause| cause as &dyn std::error::Error);
        while let Some(error) = cause {
            why = format!("{why}: {error}");
            cause = error.source();
        }
        Self::failed_because(path, &why)
    }

    fn failed_because(path: &Path, why: &str) -> Self {
        Self::Failed { path: path.to_owned(), why: why.to_owned(), at: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct One;

    impl Embedder for One {
        fn model(&self) -> &'static str {
            "one"
        }

        fn dimensions(&self) -> usize {
            1
        }

        fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            Ok(vec![vec![1.0]; texts.len()])
        }
    }

    fn lazy(
        load: impl Fn() -> Result<Arc<dyn Embedder>, EmbedError> + Send + Sync + 'static,
    ) -> LazyModel {
        let timeout = Duration::from_millis(50);
        LazyModel::with_loader(Path::new("/models/x"), None, timeout, State::Unloaded, load)
    }

    #[test]
    fn a_query_waits_no_longer_than_its_timeout_and_the_model_is_loaded_once() {
        let loads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&loads);
        let model = lazy(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_secs(1));
            Ok(Arc::new(One))
        });
        let began = Instant::now();
        assert!(matches!(model.embed_query("x"), Err(EmbedError::Loading)));
        assert!(matches!(model.embed_query("x"), Err(EmbedError::Loading)));
        assert!(began.elapsed() < Duration::from_millis(700), "{:?}", began.elapsed());
        // A batch waits.
        assert_eq!(model.embed(&["a", "b"]).expect("vectors").len(), 2);
        assert_eq!(model.embed_query("x").expect("a vector"), [1.0]);
        assert_eq!((model.model(), model.dimensions()), ("one", 1));
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_while_loading_is_an_error() {
        let model = lazy(|| panic!("an assertion of a parser"));
        let error = model.embed(&["a"]).expect_err("it cannot be loaded");
        let expected = "cannot use the embedding model in /models/x: loading it panicked";
        assert_eq!(error.to_string(), expected);
        assert_eq!(model.model(), "/models/x");
    }

    #[test]
    fn a_failed_model_is_not_loaded_again_at_once() {
        let loads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&loads);
        let model = lazy(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(EmbedError::Empty { index: 0 })
        });
        for _ in 0..10 {
            assert!(matches!(model.check(), Err(EmbedError::Model { .. })));
        }
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_directory_that_is_no_model_fails_when_it_is_used() {
        let model = LazyModel::new(Path::new("/nowhere"), Duration::from_secs(9));
        let error = model.embed_query("x").expect_err("there is no model");
        assert!(error.to_string().contains("in /nowhere: cannot open it: No such file"), "{error}");
    }
}
