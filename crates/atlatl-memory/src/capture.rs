//! The capture service: creates, updates and deletes memories.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{
    Map, Memory, MemoryId, MifError, Namespace, Status, Timestamp, Value, title_or_untitled,
};

use crate::store::{MemoryStore, OnConflict, PutOutcome, StoreError};

/// The time and the randomness from which the id of a new memory (UUID version 7) is made.
#[derive(Debug, Clone, Copy)]
pub struct MemoryIdSeed {
    /// The current time.
    pub now: DateTime<Utc>,
    /// Random bits. The lower 80 are used.
    pub random: u128,
}

/// Creates, updates and deletes memories.
#[derive(Clone)]
pub struct CaptureService(Arc<dyn MemoryStore>);

/// Fields that an update cannot change.
const IMMUTABLE_FIELDS: [&str; 2] = ["id", "created"];

impl CaptureService {
    /// Creates a service over `store`.
    pub fn new(store: Arc<dyn MemoryStore>) -> Self {
        Self(store)
    }

    /// Creates a memory from `fields`. It is durable when this returns. Missing fields are
    /// inferred, so that every memory has a title, a namespace, tags and a status.
    pub async fn capture(&self, mut fields: Map, at: MemoryIdSeed) -> Result<Memory, StoreError> {
        let milliseconds = u64::try_from(at.now.timestamp_millis()).unwrap_or_default();
        let mut random = [0; 10];
        random.copy_from_slice(&at.random.to_be_bytes()[6..]);
        let id = MemoryId::v7(milliseconds, random);
        fields.insert("id".to_owned(), Value::String(id.as_str().to_owned()));
        let created = Timestamp::from(at.now);
        fields.insert("created".to_owned(), Value::String(created.as_str().to_owned()));
        let mut memory = Memory::from_value(&Value::Object(fields)).map_err(StoreError::Invalid)?;
        memory.title = Some(memory.title.unwrap_or_else(|| title_or_untitled(&memory.content)));
        memory.namespace =
            Some(memory.namespace.unwrap_or_else(|| Namespace::default_for(memory.memory_type)));
        memory.tags = Some(memory.tags.unwrap_or_default());
        memory.status = Some(memory.status.unwrap_or(Status::Active));
        if memory.wiki_links.is_none() {
            memory.wiki_links = links(&memory.content);
        }
        self.0.put(std::slice::from_ref(&memory), OnConflict::Keep).await?;
        Ok(memory)
    }

    /// Updates the memory with this id: `fields` replace the fields of the same names, and `null`
    /// removes a field. Fields that were inferred from the content are inferred again when the
    /// content changes.
    pub async fn update(
        &self,
        id: &MemoryId,
        fields: &Map,
        now: DateTime<Utc>,
    ) -> Result<Option<Memory>, StoreError> {
        let fields = fields.clone();
        self.0.update(id, Box::new(move |memory| changed(&memory, &fields, now))).await
    }

    /// Deletes the memory with this id permanently. Returns whether it existed.
    pub async fn delete(&self, id: &MemoryId) -> Result<bool, StoreError> {
        self.0.delete(id).await
    }

    /// Stores memories exactly as they are: nothing is inferred or added, and no trust level is
    /// raised.
    pub async fn import(
        &self,
        memories: &[Memory],
        on_conflict: OnConflict,
    ) -> Result<Vec<PutOutcome>, StoreError> {
        self.0.put(memories, on_conflict).await
    }
}

fn changed(memory: &Memory, fields: &Map, now: DateTime<Utc>) -> Result<Memory, MifError> {
    let mut object = memory.at(mif::DetailLevel::Full);
    for (name, value) in fields {
        if IMMUTABLE_FIELDS.contains(&name.as_str()) {
            continue;
        }
        if value.is_null() {
            object.shift_remove(name);
        } else {
            object.insert(name.clone(), value.clone());
        }
    }
    let mut new = Memory::from_value(&Value::Object(object))?;
    let says = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    if new.content != memory.content {
        if !says("title") && memory.title == Some(title_or_untitled(&memory.content)) {
            new.title = Some(title_or_untitled(&new.content));
        }
        if !says("wiki_links") && memory.wiki_links == links(&memory.content) {
            new.wiki_links = links(&new.content);
        }
    }
    // Required fields that were removed are inferred again.
    new.title = Some(new.title.unwrap_or_else(|| title_or_untitled(&new.content)));
    new.namespace = Some(new.namespace.unwrap_or_else(|| Namespace::default_for(new.memory_type)));
    new.tags = Some(new.tags.unwrap_or_default());
    new.status = Some(new.status.unwrap_or(Status::Active));
    new.modified = Some(Timestamp::from(now));
    Ok(new)
}

fn links(content: &str) -> Option<Vec<String>> {
    Some(mif::wiki_links_in(content)).filter(|links| !links.is_empty())
}
