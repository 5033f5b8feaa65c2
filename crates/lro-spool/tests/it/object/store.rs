//! A store in memory that counts requests and fails on demand.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, UploadPart,
};

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Get,
    Put,
    Begin,
    Part,
    Complete,
    Delete,
    List,
}

/// What is done to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedFault {
    /// It fails and nothing was done.
    Error,
    /// It is done, and its answer gets lost.
    Lost,
    /// It takes for ever.
    Hang,
    /// Half of the bytes come.
    Short,
    /// One byte is another.
    Changed,
}

/// Which requests fail: those of a kind on keys with this in them, so many of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) op: Op,
    pub(super) key: &'static str,
    pub(super) fault: InjectedFault,
    pub(super) times: usize,
}

#[derive(Debug, Default)]
pub(super) struct Faulty {
    pub(super) inner: Arc<InMemory>,
    rules: Mutex<Vec<Rule>>,
    log: Mutex<Vec<(Op, String, u64)>>,
    unfinished: Arc<AtomicUsize>,
}

impl Faulty {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn fail(&self, op: Op, key: &'static str, fault: InjectedFault, times: usize) {
        self.rules.lock().unwrap().push(Rule { op, key, fault, times });
    }

    pub(super) fn heal(&self) {
        self.rules.lock().unwrap().clear();
    }

    /// What was asked of it since the last time: kind, key and bytes.
    pub(super) fn log(&self) -> Vec<(Op, String, u64)> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// The number of uploads that were begun and neither completed nor ended.
    pub(super) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::SeqCst)
    }

    /// The keys of all objects.
    pub(super) fn keys(&self) -> Vec<String> {
        let all = self.inner.list(None).collect::<Vec<_>>().now_or_never().unwrap();
        all.into_iter().map(|meta| meta.unwrap().location.to_string()).collect()
    }

    /// Changes an object behind everyone's back.
    pub(super) fn replace(&self, key: &str, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
        let path = Path::parse(key).unwrap();
        let got = self.inner.get(&path).now_or_never().unwrap().unwrap();
        let bytes = got.bytes().now_or_never().unwrap().unwrap();
        let done = match change(bytes.to_vec()) {
            Some(new) => self.inner.put(&path, new.into()).now_or_never().unwrap().map(drop),
            None => self.inner.delete(&path).now_or_never().unwrap(),
        };
        done.unwrap();
    }

    fn fault(&self, op: Op, key: &Path) -> Option<InjectedFault> {
        let mut rules = self.rules.lock().unwrap();
        let rule = rules
            .iter_mut()
            .find(|rule| rule.op == op && rule.times > 0 && key.as_ref().contains(rule.key))?;
        rule.times -= 1;
        Some(rule.fault)
    }

    /// Before a request: fails or hangs; what it returns is done to the answer.
    async fn before(&self, op: Op, key: &Path, bytes: u64) -> Result<Option<InjectedFault>> {
        self.log.lock().unwrap().push((op, key.to_string(), bytes));
        match self.fault(op, key) {
            Some(InjectedFault::Error) => Err(broken()),
            Some(InjectedFault::Hang) => {
                tokio::time::sleep(Duration::from_hours(1)).await;
                Err(broken())
            }
            other => Ok(other),
        }
    }
}

fn broken() -> Error {
    Error::Generic { store: "faulty", source: "as it was told\u{202e}\u{1b}[31m".into() }
}

fn lost<T>(fault: Option<InjectedFault>, answer: Result<T>) -> Result<T> {
    if fault == Some(InjectedFault::Lost) { Err(broken()) } else { answer }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let size = payload.content_length() as u64;
        let fault = self.before(Op::Put, location, size).await?;
        lost(fault, self.inner.put_opts(location, payload, options).await)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.before(Op::Begin, location, 0).await?;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        self.unfinished.fetch_add(1, Ordering::SeqCst);
        let part = self.fault(Op::Part, location);
        let complete = self.fault(Op::Complete, location);
        let unfinished = Arc::clone(&self.unfinished);
        Ok(Box::new(Upload { inner, part, complete, unfinished }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let size = match &options.range {
            Some(GetRange::Bounded(Range { start, end })) => end - start,
            _ => 0,
        };
        let fault = self.before(Op::Get, location, size).await?;
        let got = self.inner.get_opts(location, options).await?;
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let (attributes, extensions) = (got.attributes.clone(), got.extensions.clone());
        let mut bytes = got.bytes().await?.to_vec();
        match fault {
            Some(InjectedFault::Short) => bytes.truncate(bytes.len() / 2),
            Some(InjectedFault::Changed) => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            _ => {}
        }
        let stream = futures_util::stream::once(async move { Ok(bytes.into()) });
        let payload = GetResultPayload::Stream(stream.boxed());
        lost(fault, Ok(GetResult { payload, meta, range, attributes, extensions }))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        // A stream that is ready, with an answer for each of its objects.
        let all = locations.collect::<Vec<_>>().now_or_never().unwrap();
        let inner = Arc::clone(&self.inner);
        let answers: Vec<Result<Path>> = all
            .into_iter()
            .map(|location| {
                let location = location?;
                let fault = self.before(Op::Delete, &location, 0).now_or_never().unwrap()?;
                let done = inner.delete(&location).now_or_never().unwrap();
                lost(fault, done.map(|()| location))
            })
            .collect();
        futures_util::stream::iter(answers).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let key = prefix.cloned().unwrap_or_default();
        match self.before(Op::List, &key, 0).now_or_never() {
            Some(Ok(_)) => self.inner.list(prefix),
            _ => futures_util::stream::iter([Err(broken())]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    part: Option<InjectedFault>,
    complete: Option<InjectedFault>,
    unfinished: Arc<AtomicUsize>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (sent, fault) = (self.inner.put_part(data), self.part);
        async move {
            match fault {
                None => sent.await,
                Some(InjectedFault::Hang) => std::future::pending().await,
                Some(_) => Err(broken()),
            }
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        match self.complete.take() {
            None => {}
            Some(InjectedFault::Lost) => {
                self.unfinished.fetch_sub(1, Ordering::SeqCst);
                self.inner.complete().await?;
                return Err(broken());
            }
            Some(_) => return Err(broken()),
        }
        self.unfinished.fetch_sub(1, Ordering::SeqCst);
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.unfinished.fetch_sub(1, Ordering::SeqCst);
        self.inner.abort().await
    }
}
