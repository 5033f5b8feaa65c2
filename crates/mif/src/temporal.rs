//! When a memory holds, and how it is used.

use crate::{
    decay::Decay,
    duration::IsoDuration,
    error::{Form, MifError},
    fields::{Key, Located, Part},
    object::ObjectWriter,
    timestamp::Timestamp,
    value::{Map, Value},
};

const VALID_FROM: Key = Key::new("valid_from", "validFrom");
const VALID_UNTIL: Key = Key::new("valid_until", "validUntil");
const RECORDED_AT: Key = Key::new("recorded_at", "recordedAt");
const TTL: Key = Key::same("ttl");
const DECAY: Key = Key::same("decay");
const ACCESS_COUNT: Key = Key::new("access_count", "accessCount");
const LAST_ACCESSED: Key = Key::new("last_accessed", "lastAccessed");

/// When a memory holds, and how it is used.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Temporal {
    /// From when what it says is true.
    pub valid_from: Option<Timestamp>,
    /// Until when.
    pub valid_until: Option<Timestamp>,
    /// When it was written down.
    pub recorded_at: Option<Timestamp>,
    /// How long it is kept.
    pub ttl: Option<IsoDuration>,
    /// How its weight falls with time.
    pub decay: Option<Decay>,
    /// How often it was read.
    pub access_count: Option<u64>,
    /// When it was last read.
    pub last_accessed: Option<Timestamp>,
    /// Keys this version does not know.
    pub other: Map,
}

impl Part for Temporal {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            valid_from: fields.optional(&VALID_FROM)?,
            valid_until: fields.optional(&VALID_UNTIL)?,
            recorded_at: fields.optional(&RECORDED_AT)?,
            ttl: fields.optional(&TTL)?,
            decay: fields.optional(&DECAY)?,
            access_count: fields.optional(&ACCESS_COUNT)?,
            last_accessed: fields.optional(&LAST_ACCESSED)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&VALID_FROM, self.valid_from.as_ref());
        object.optional(&VALID_UNTIL, self.valid_until.as_ref());
        object.optional(&RECORDED_AT, self.recorded_at.as_ref());
        object.optional(&TTL, self.ttl.as_ref());
        object.optional(&DECAY, self.decay.as_ref());
        object.optional(&ACCESS_COUNT, self.access_count.as_ref());
        object.optional(&LAST_ACCESSED, self.last_accessed.as_ref());
        Value::Object(object.rest(&self.other))
    }
}
