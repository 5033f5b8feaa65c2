//! Tenants, keys, usage and erasures as JSON: commands print it, and the administration API returns it.

use atlatl_memory::{DailyUsage, Erasure, ErasureId, ErasureStep, KeySummary, TenantSummary};
use chrono::{DateTime, NaiveDate, Utc};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::command::keys::EXPIRY_WARNING;

/// A tenant with its limits.
#[derive(Debug, Deserialize)]
pub(crate) struct TenantResource {
    #[serde(rename = "tenant")]
    pub(crate) name: String,
    pub(crate) made: DateTime<Utc>,
    pub(crate) memories: u64,
    /// The number of usable keys.
    pub(crate) keys: u64,
    /// `active` or `erasing`.
    pub(crate) state: String,
    pub(crate) most_memories: Option<u64>,
    pub(crate) per_minute: Option<u32>,
    pub(crate) most_bytes: Option<u64>,
    pub(crate) retention_days: Option<u16>,
}

impl From<TenantSummary> for TenantResource {
    fn from(tenant: TenantSummary) -> Self {
        let state = if tenant.is_erasing { "erasing" } else { "active" };
        Self {
            name: tenant.name,
            made: tenant.made,
            memories: tenant.memories,
            keys: tenant.keys,
            state: state.to_owned(),
            most_memories: tenant.bounds.memories,
            per_minute: tenant.bounds.per_minute,
            most_bytes: tenant.bounds.bytes,
            retention_days: tenant.bounds.retention_days,
        }
    }
}

impl TenantResource {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "tenant": self.name,
            "made": self.made.to_rfc3339(),
            "memories": self.memories,
            "keys": self.keys,
            "state": self.state,
            "most_memories": self.most_memories,
            "per_minute": self.per_minute,
            "most_bytes": self.most_bytes,
            "retention_days": self.retention_days,
        })
    }
}

/// A key without its secret.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyResource {
    pub(crate) id: String,
    pub(crate) tenant: String,
    pub(crate) name: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) made: DateTime<Utc>,
    pub(crate) expires: Option<DateTime<Utc>>,
    pub(crate) revoked: Option<DateTime<Utc>>,
}

impl From<KeySummary> for KeyResource {
    fn from(key: KeySummary) -> Self {
        Self {
            id: key.id,
            tenant: key.tenant,
            name: key.name,
            scopes: key.scopes,
            made: key.made,
            expires: key.expires,
            revoked: key.revoked,
        }
    }
}

impl KeyResource {
    pub(crate) fn to_json(&self, now: DateTime<Utc>) -> Value {
        json!({
            "id": self.id,
            "tenant": self.tenant,
            "name": self.name,
            "scopes": self.scopes,
            "made": self.made.to_rfc3339(),
            "expires": self.expires.map(|at| at.to_rfc3339()),
            "expires_soon": self.expires_soon(now),
            "revoked": self.revoked.map(|at| at.to_rfc3339()),
        })
    }

    /// Returns whether servers accept the key.
    pub(crate) fn is_usable(&self, now: DateTime<Utc>) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|at| at > now)
    }

    /// Returns whether the key expires soon.
    pub(crate) fn expires_soon(&self, now: DateTime<Utc>) -> bool {
        let is_soon = |at: DateTime<Utc>| at > now && at <= now + EXPIRY_WARNING;
        self.revoked.is_none() && self.expires.is_some_and(is_soon)
    }
}

/// What a tenant used on a day.
#[derive(Debug, Deserialize)]
pub(crate) struct UsageResource {
    pub(crate) tenant: String,
    /// In UTC.
    pub(crate) day: NaiveDate,
    pub(crate) requests: u64,
    pub(crate) database_ms: u64,
    pub(crate) memories: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl From<DailyUsage> for UsageResource {
    fn from(usage: DailyUsage) -> Self {
        Self {
            tenant: usage.tenant,
            day: usage.day,
            requests: usage.requests,
            database_ms: usage.database_ms,
            memories: usage.memories,
            bytes: usage.bytes,
        }
    }
}

impl UsageResource {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "tenant": self.tenant,
            "day": self.day.to_string(),
            "requests": self.requests,
            "database_ms": self.database_ms,
            "memories": self.memories,
            "bytes": self.bytes,
        })
    }
}

/// An erasure with its progress.
#[derive(Debug, Deserialize)]
pub(crate) struct ErasureResource {
    #[serde(rename = "erasure", deserialize_with = "erasure_id")]
    pub(crate) id: ErasureId,
    pub(crate) tenant: String,
    /// The principal, or its digest if the erasure is complete; `None` for all of the tenant.
    pub(crate) subject: Option<String>,
    #[serde(rename = "state", deserialize_with = "erasure_step")]
    pub(crate) step: ErasureStep,
    pub(crate) memories: u64,
    pub(crate) results: u64,
    pub(crate) result_bytes: u64,
    pub(crate) requested: DateTime<Utc>,
    pub(crate) requested_by: String,
    /// When it begins, or goes on with its next step.
    pub(crate) starts: DateTime<Utc>,
    pub(crate) completed: Option<DateTime<Utc>>,
}

impl From<Erasure> for ErasureResource {
    fn from(erasure: Erasure) -> Self {
        Self {
            id: erasure.id,
            tenant: erasure.tenant,
            subject: erasure.subject,
            step: erasure.step,
            memories: erasure.memories,
            results: erasure.results,
            result_bytes: erasure.result_bytes,
            requested: erasure.requested,
            requested_by: erasure.requested_by,
            starts: erasure.starts,
            completed: erasure.completed,
        }
    }
}

impl ErasureResource {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "erasure": self.id.to_string(),
            "tenant": self.tenant,
            "subject": self.subject,
            "state": self.step.word(),
            "memories": self.memories,
            "results": self.results,
            "result_bytes": self.result_bytes,
            "requested": self.requested.to_rfc3339(),
            "requested_by": self.requested_by,
            "starts": self.starts.to_rfc3339(),
            "completed": self.completed.map(|at| at.to_rfc3339()),
        })
    }
}

fn erasure_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ErasureId, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn erasure_step<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ErasureStep, D::Error> {
    String::deserialize(deserializer).map(|word| ErasureStep::from_word(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads JSON, and writes it again.
    fn round_trip<T: serde::de::DeserializeOwned>(json: &Value, write: fn(&T) -> Value) {
        let read: T = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(write(&read), *json);
    }

    #[test]
    fn g48_what_the_api_returns_is_read_without_loss() {
        round_trip(
            &json!({"tenant": "a/b", "made": "2026-11-19T10:00:00.123456+00:00", "memories": 2,
                   "keys": 1, "state": "erasing", "most_memories": 5, "per_minute": null,
                   "most_bytes": null, "retention_days": 30}),
            TenantResource::to_json,
        );
        round_trip(
            &json!({"tenant": "ann", "day": "2026-11-19", "requests": 1, "database_ms": 2,
                   "memories": null, "bytes": 3}),
            UsageResource::to_json,
        );
        for state in ["memories", "results", "complete"] {
            round_trip(
                &json!({"erasure": "7", "tenant": "ann", "subject": null, "state": state,
                       "memories": 1, "results": 2, "result_bytes": 3,
                       "requested": "2026-11-19T10:00:00+00:00", "requested_by": "admin:1",
                       "starts": "2026-11-19T10:00:45+00:00", "completed": null}),
                ErasureResource::to_json,
            );
        }
        let key = json!({"id": "6Yc0", "tenant": "ann", "name": "", "scopes": ["memory:read"],
                         "made": "2026-11-19T10:00:00+00:00",
                         "expires": "2026-11-20T10:00:00+00:00", "expires_soon": true,
                         "revoked": null});
        let read: KeyResource = serde_json::from_value(key.clone()).unwrap();
        assert_eq!(read.to_json("2026-11-19T11:00:00Z".parse().unwrap()), key);
    }
}
