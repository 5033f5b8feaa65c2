//! A measured operation, and its statements.

use std::sync::Arc;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    CaptureService, Filter, ListPosition, MemoryIdSeed, MemoryStore, OnConflict, Order,
    PostgresStore, RecallRequest, RecallService, RecordedStatement, record_statements,
};
use chrono::{DateTime, Utc};
use mif::{Map, Memory, MemoryId};

use crate::bare::Frame;

/// The number of hits.
pub(crate) const PAGE: usize = 50;

/// The operation.
pub(crate) enum Ask {
    Recall(String),
    Page(ListPosition),
    Get(MemoryId),
    Capture(Map, MemoryIdSeed),
    PutOutcome(Vec<Memory>),
}

pub(crate) struct Question {
    pub(crate) ask: Ask,
    /// The tenant of the store's run.
    store: Arc<dyn MemoryStore>,
    /// The tenant of the baseline's run.
    pub(crate) tenant: String,
    /// The statements of the store.
    pub(crate) statements: Vec<RecordedStatement>,
}

impl Question {
    /// Runs once to record the statements. A write runs for `recorder`, another tenant, since each
    /// tenant can do it once.
    pub(crate) fn record(
        ask: Ask,
        store: &PostgresStore,
        recorder: Option<&PostgresStore>,
        tenant: &str,
    ) -> Self {
        let asker: Arc<dyn MemoryStore> = Arc::new(recorder.unwrap_or(store).clone());
        let mut question =
            Self { ask, store: asker.clone(), tenant: tenant.to_owned(), statements: Vec::new() };
        let (_, statements) = record_statements(question.ask(&asker)).wait();
        assert!(!statements.is_empty(), "nothing was sent");
        question.statements = statements;
        question.store = Arc::new(store.clone());
        question
    }

    /// Whether the statements form a transaction.
    pub(crate) fn frame(&self) -> Frame {
        match self.ask {
            Ask::Capture(..) | Ask::PutOutcome(_) => Frame::Transaction,
            Ask::Recall(_) | Ask::Page(_) | Ask::Get(_) => Frame::None,
        }
    }

    pub(crate) async fn ours(&self) -> usize {
        self.ask(&self.store).await
    }

    /// Runs on a store. Returns the number of memories.
    async fn ask(&self, store: &Arc<dyn MemoryStore>) -> usize {
        match &self.ask {
            Ask::Recall(query) => {
                let mut request = RecallRequest::new(query, now());
                request.limit = Some(PAGE);
                let service = RecallService::new(store.clone(), None);
                service.recall(&request).await.expect("an answer").len()
            }
            Ask::Page(after) => {
                let filter = Filter::default();
                let page = store.list(&filter, Order::Newest, Some(after), PAGE, now()).await;
                page.expect("a page").memories.len()
            }
            Ask::Get(id) => usize::from(store.get(id).await.expect("got").is_some()),
            Ask::Capture(fields, at) => {
                let service = CaptureService::new(store.clone());
                service.capture(fields.clone(), *at).await.expect("captured");
                1
            }
            Ask::PutOutcome(memories) => {
                store.put(memories, OnConflict::Keep).await.expect("put").len()
            }
        }
    }
}

pub(crate) fn now() -> DateTime<Utc> {
    "2027-01-01T00:00:00Z".parse().expect("a time")
}
