//! Capture: memories made, changed and removed.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use mif::{
    Map, Memory, MemoryId, MifError, Namespace, Status, Timestamp, Value, title_or_untitled,
};

use crate::store::{Clash, MemoryStore, Put, StoreError};

/// When something is captured, and what makes its name unique.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The time.
    pub now: DateTime<Utc>,
    /// At least 80 random bits, the lower ones.
    pub random: u128,
}

/// Makes, changes and removes memories.
#[derive(Clone)]
pub struct CaptureService(Arc<dyn MemoryStore>);

/// The fields that say which memory it is and when it was made.
const FIXED: [&str; 2] = ["id", "created"];

impl CaptureService {
    /// Writes to `store`.
    pub fn new(store: Arc<dyn MemoryStore>) -> Self {
        Self(store)
    }

    /// Makes a memory of `fields`; it is durable when this returns. What can be worked out and was
    /// not said is added, so that every memory has a title, a namespace, tags and a status.
    pub fn capture(&self, mut fields: Map, at: Moment) -> Result<Memory, StoreError> {
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
        self.0.put(std::slice::from_ref(&memory), Clash::Keep)?;
        Ok(memory)
    }

    /// Changes the memory called `id`: `fields` take the place of those it has, and `null` removes
    /// one. What was worked out from the content is worked out again when that changes.
    pub fn update(
        &self,
        id: &MemoryId,
        fields: &Map,
        now: DateTime<Utc>,
    ) -> Result<Option<Memory>, StoreError> {
        self.0.update(id, &mut |memory| changed(&memory, fields, now))
    }

    /// Removes the memory called `id` for good; whether it was there.
    pub fn delete(&self, id: &MemoryId) -> Result<bool, StoreError> {
        self.0.delete(id)
    }

    /// Takes in memories as they are: nothing is worked out, nothing added, no trust raised.
    pub fn import(&self, memories: &[Memory], clash: Clash) -> Result<Vec<Put>, StoreError> {
        self.0.put(memories, clash)
    }
}

fn changed(memory: &Memory, fields: &Map, now: DateTime<Utc>) -> Result<Memory, MifError> {
    let mut object = memory.at(mif::Detail::Full);
    for (name, value) in fields {
        if FIXED.contains(&name.as_str()) {
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
    // What was removed and every memory has is worked out anew.
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
