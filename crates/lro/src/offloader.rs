//! Offloader: the whole way of a result, from what a tool returned to what the client gets.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::config::{Config, DescriptorForm, OffloadConfig};
use lro_core::threshold::Delivery;
use lro_core::{
    Assessment, Detail, Extraction, Look, NoTokenizer, Operation, Policies, Rules, Stored,
    Threshold, Tokenizer, Tokens, assess, assess_result, lines,
};
use lro_spool::{Listed, Spool, SpoolError, StoreError, Swept, ToStore, store};

use crate::delivered::{Delivered, Offloaded, Warning};
use crate::event::{Event, EventKind, EventSink, NoEvents};
use crate::incoming::{Body, Incoming};
use crate::moment::Moment;
use crate::truncated::Truncated;

/// How much of a payload without records is at hand for its preview.
const HEAD_BYTES: usize = 64 * 1024;

/// Decides, stores and describes.
pub struct Offloader {
    spool: Arc<dyn Spool>,
    offload: OffloadConfig,
    generic_threshold: u32,
    generic_ttl: Duration,
    policies: Policies,
    tokenizer: Box<dyn Tokenizer + Send + Sync>,
    extraction: Extraction,
    events: Arc<dyn EventSink>,
}

impl Offloader {
    /// An offloader that stores into `spool`, without a tokenizer and with nobody watching.
    pub fn new(spool: Arc<dyn Spool>, config: &Config) -> Self {
        Self {
            spool,
            offload: config.prompt.offload.clone(),
            generic_threshold: config.proxy.threshold_tokens,
            generic_ttl: Duration::from_secs(config.proxy.ttl_seconds),
            policies: config.proxy.policy.clone(),
            tokenizer: Box::new(NoTokenizer),
            extraction: Extraction::Shell,
            events: Arc::new(NoEvents),
        }
    }

    /// Counts with `tokenizer` where an estimate would mislead.
    pub fn with_tokenizer(mut self, tokenizer: impl Tokenizer + Send + Sync + 'static) -> Self {
        self.tokenizer = Box::new(tokenizer);
        self
    }

    /// Tells `events` what happens.
    pub fn with_events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// Says in descriptors how clients can get at a stored result.
    pub fn with_extraction(mut self, extraction: Extraction) -> Self {
        self.extraction = extraction;
        self
    }

    /// Where results are stored.
    pub fn spool(&self) -> &Arc<dyn Spool> {
        &self.spool
    }

    /// Delivers a result.
    ///
    /// Spec T3: the operation is over when this is called. f34: the result is safe before anyone
    /// hears of it.
    pub fn deliver(&self, incoming: &Incoming<'_>, at: Moment) -> Delivered {
        let operation = Operation::of_tool(incoming.tool);
        let rules = self.rules(&operation);
        let assessment = match incoming.body {
            Body::ToolResult(result) => {
                assess_result(result, incoming.tool, &rules, &*self.tokenizer)
            }
            Body::Payload(payload) => assess(payload, incoming.tool, &rules, &*self.tokenizer),
        };
        if assessment.decision.delivery == Delivery::Inline {
            return Delivered::Inline(assessment.decision);
        }
        match self.store(incoming, &operation, &assessment, at) {
            Ok(offloaded) => Delivered::Offloaded(Box::new(offloaded)),
            Err(error) => self.fall_back(incoming, &operation, &assessment, &error, at),
        }
    }

    /// Spec L2: removes what has expired, and tells of each.
    pub fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError> {
        let swept = self.spool.sweep(now)?;
        for gone in &swept.expired {
            let kind = EventKind::OffloadFileExpired(Box::new(gone.clone()));
            self.events.publish(Event { time: now, result: gone.id(), kind });
        }
        Ok(swept)
    }

    fn rules(&self, operation: &Operation) -> Rules<'_> {
        let threshold = if operation.is_memory() {
            Threshold::Above(self.offload.threshold_tokens)
        } else {
            Threshold::From(self.generic_threshold)
        };
        Rules { enabled: self.offload.enabled, threshold, policies: &self.policies }
    }

    fn store(
        &self,
        incoming: &Incoming<'_>,
        operation: &Operation,
        assessment: &Assessment,
        at: Moment,
    ) -> Result<Offloaded, StoreError> {
        let memory = operation.is_memory();
        let ttl =
            if memory { Duration::from_secs(self.offload.ttl_seconds) } else { self.generic_ttl };
        let payload = incoming.main();
        let detail = Self::detail(incoming, operation, assessment)?;
        let what = ToStore {
            id: at.result_id(),
            tool: incoming.tool,
            query: incoming.query.map(str::to_owned),
            detail,
            found: &assessment.found,
            estimated: assessment.estimate.tokens,
            created_at: at.now,
            ttl,
        };
        let further = incoming.further();
        let (listed, survey) = store(&*self.spool, what, payload, &further)?;
        let path = listed.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let set = SetFacts::of(&listed);
        let stored = Stored {
            id: listed.id(),
            path: &path,
            readable_path: listed.path.is_some(),
            expires_at: listed.sidecar.expires_at,
            operation,
            found: &assessment.found,
            survey: &survey,
            text_head: &String::from_utf8_lossy(&payload[..payload.len().min(HEAD_BYTES)]),
            estimated: assessment.estimate.tokens,
            score_range: set.score_range,
            total_matches: set.total_matches,
        };
        let look = Look {
            extraction: self.extraction,
            preview: Tokens(u64::from(self.offload.preview_tokens)),
        };
        let memories = memory && survey.is_of_memories();
        let descriptor = match memories.then_some(detail) {
            Some(detail) if self.offload.descriptor == DescriptorForm::Full => {
                serde_json::to_string(&stored.full_descriptor(detail, look))
            }
            detail => serde_json::to_string(&stored.compact_descriptor(detail, look)),
        };
        let descriptor = descriptor.expect("text, numbers and raw JSON have a JSON form");
        let kind = EventKind::ResultOffloaded {
            tool: incoming.tool.to_owned(),
            records: survey.count,
            inline: assessment.estimate,
            descriptor_bytes: descriptor.len() as u64,
        };
        self.events.publish(Event { time: at.now, result: listed.id(), kind });
        Ok(Offloaded { descriptor, listed })
    }

    /// The detail level that header and descriptor name alike. The header is the first line, so the
    /// records of a memory operation that nobody spoke for are looked through beforehand.
    fn detail(
        incoming: &Incoming<'_>,
        operation: &Operation,
        assessment: &Assessment,
    ) -> Result<Detail, StoreError> {
        if let Some(asked) = incoming.detail {
            return Ok(asked);
        }
        if !operation.is_memory() {
            return Ok(operation.default_detail());
        }
        let (_, survey) = lines(incoming.main(), &assessment.found, 0)?;
        Ok(if survey.is_of_memories() { survey.detail() } else { operation.default_detail() })
    }

    /// Spec L3 and conformance decision 9: a failed write never fails the operation.
    fn fall_back(
        &self,
        incoming: &Incoming<'_>,
        operation: &Operation,
        assessment: &Assessment,
        error: &StoreError,
        at: Moment,
    ) -> Delivered {
        let kind = EventKind::OffloadWriteFailed {
            tool: incoming.tool.to_owned(),
            error: with_causes(error),
        };
        self.events.publish(Event { time: at.now, result: at.result_id(), kind });
        let threshold = self.rules(operation).threshold;
        let truncated = operation
            .is_memory()
            .then(|| Truncated::of(incoming.main(), &assessment.found, threshold))
            .flatten();
        truncated.map_or_else(
            || {
                Delivered::PassedOn(Warning(
                    "The result could not be stored, so it is passed on whole. \
                     Free disk space or check prompt.offload.output_dir."
                        .to_owned(),
                ))
            },
            Delivered::Truncated,
        )
    }
}

/// What a memory server says of its set beside the memories (conformance decision 2).
#[derive(Debug, Default)]
struct SetFacts {
    score_range: Option<(f64, f64)>,
    total_matches: Option<u64>,
}

impl SetFacts {
    fn of(listed: &Listed) -> Self {
        #[derive(serde::Deserialize)]
        struct Set {
            #[serde(default)]
            scores: Vec<f64>,
            #[serde(default)]
            total_matches: Option<u64>,
        }
        let envelope = listed.sidecar.envelope.as_ref();
        let Some(set) = envelope.and_then(|e| serde_json::from_str::<Set>(&e.json).ok()) else {
            return Self::default();
        };
        let score_range =
            set.scores.iter().fold(None, |range: Option<(f64, f64)>, score| match range {
                None => Some((*score, *score)),
                Some((low, high)) => Some((low.min(*score), high.max(*score))),
            });
        let count = listed.sidecar.header.count as u64;
        Self { score_range, total_matches: set.total_matches.filter(|all| *all > count) }
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
