//! The offloader: decides about a result, stores it and builds its descriptor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use lro_core::config::{Config, DescriptorForm, OffloadConfig, PathMap};
use lro_core::payload::{self, Payload};
use lro_core::records::{Detector, FirstPassStats};
use lro_core::threshold::Delivery;
use lro_core::tokens::{self, Estimate, Method};
use lro_core::{
    Assessment, DescriptorInput, DescriptorOptions, Detail, Extraction, Location,
    MIN_SAVINGS_FACTOR, NoTokenizer, Operation, Policies, RecipeListing, RecordStats, Rules,
    Threshold, Tokenizer, Tokens, assess_detected_result, assess_payload, outer_members,
    payload_record_lines, texts_around,
};
use lro_spool::{
    EncodeError, ResultInfo, Spool, SpoolError, SpoolLimit, StoreRequest, SweepReport,
    store_payload,
};
use serde_json::json;

use super::delivery::{
    CallArguments, Delivered, IdSeed, Offloaded, ResourceAddress, ResultBody, ToolCall,
};
use super::query::LinkProvider;
use crate::event::{Event, EventKind, EventSink, NoEvents};
use crate::extract_error::error_chain;
use crate::reuse::{Candidate, RecentResults};
use crate::truncated::{Budget, Copies, Truncated, Warning};

/// The bytes of a payload without records that are read for its preview.
const HEAD_BYTES: u64 = 64 * 1024;

/// The cost of a descriptor is counted with this id: the tokens of random ones differ, and a result would
/// get the full form in one call and the compact one in the next.
const TYPICAL_ID: &str = "01M7PZZ65068CXASQCW8VQWRZ0";

/// The default size up to which a payload stays in memory.
const DEFAULT_MEMORY_CAP: usize = 64 << 20;

/// Offloads large results into a spool.
pub struct Offloader {
    spool: Arc<dyn Spool>,
    offload: OffloadConfig,
    generic_threshold: u32,
    generic_ttl: Duration,
    policies: Policies,
    path_map: PathMap,
    tokenizer: Box<dyn Tokenizer + Send + Sync>,
    extraction: Extraction,
    events: Arc<dyn EventSink>,
    links: Option<Arc<dyn LinkProvider>>,
    pub(crate) memory_cap: usize,
    recent: RecentResults,
}

impl Offloader {
    /// An offloader that stores into `spool`, without a tokenizer and without an event sink.
    pub fn new(spool: Arc<dyn Spool>, config: &Config) -> Self {
        Self {
            spool,
            offload: config.prompt.offload.clone(),
            generic_threshold: config.proxy.threshold_tokens,
            generic_ttl: Duration::from_secs(config.proxy.ttl_seconds),
            policies: config.proxy.policy.clone(),
            path_map: config.proxy.path_map.clone(),
            tokenizer: Box::new(NoTokenizer),
            extraction: Extraction::Shell,
            events: Arc::new(NoEvents),
            links: None,
            memory_cap: DEFAULT_MEMORY_CAP,
            recent: RecentResults::default(),
        }
    }

    /// Counts tokens with `tokenizer` where an estimate would mislead.
    pub fn with_tokenizer(mut self, tokenizer: impl Tokenizer + Send + Sync + 'static) -> Self {
        self.tokenizer = Box::new(tokenizer);
        self
    }

    /// Publishes events to `events`.
    pub fn with_events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// Creates links with `links`, for results without a path.
    pub fn with_links(mut self, links: Arc<dyn LinkProvider>) -> Self {
        self.links = Some(links);
        self
    }

    /// Sets how clients can query a stored result, for the guidance in descriptors.
    pub fn with_extraction(mut self, extraction: Extraction) -> Self {
        self.extraction = extraction;
        self
    }

    /// Sets the size beyond which a streamed result spills to the spool; 64 MiB by default.
    pub fn with_memory_cap(mut self, bytes: usize) -> Self {
        self.memory_cap = bytes;
        self
    }

    /// Publishes that the tools of `server` were listed; `definitions` is the number of tokens in
    /// addition to the server's own definitions.
    pub fn tools_listed(&self, server: &str, definitions: Estimate, now: DateTime<Utc>) {
        let kind = EventKind::ToolsListed { server: server.to_owned(), definitions };
        self.events.publish(Event::without_result(now, kind));
    }

    /// Publishes that a tool of `server` is listed under another name.
    pub fn tool_renamed(&self, server: &str, tool: &str, listed_as: &str, now: DateTime<Utc>) {
        let kind = EventKind::ToolRenamed {
            server: server.to_owned(),
            tool: tool.to_owned(),
            listed_as: listed_as.to_owned(),
        };
        self.events.publish(Event::without_result(now, kind));
    }

    /// The spool.
    pub fn spool(&self) -> &Arc<dyn Spool> {
        &self.spool
    }

    /// Delivers the result of `call`.
    ///
    /// Spec T3: the operation is complete at this point. f34: the result is stored before the client
    /// gets a descriptor.
    pub fn deliver_result(
        &self,
        call: ToolCall<'_>,
        body: ResultBody<'_>,
        seed: IdSeed,
    ) -> Delivered {
        let rules = self.rules_for(call);
        let payload = body.payload();
        // A payload that cannot exceed the threshold is not stored: no statistics needed.
        let small = rules.threshold.out_of_reach(payload.len() as u64);
        let mut detector = if small { Detector::new() } else { Detector::with_stats() };
        detector.feed(payload);
        let (detected, stats) = detector.finish_with_stats();
        let assessment = match body {
            ResultBody::ToolResult(result) => {
                assess_detected_result(result, detected, call.tool, &rules, self.tokenizer())
            }
            ResultBody::Payload(_) => {
                assess_payload(&payload, detected, call.tool, &rules, self.tokenizer())
            }
        };
        let context = PayloadContext {
            further_texts: &body.further_texts(),
            addresses: &body.addresses(),
            exact: body.is_text(),
            copies: match body {
                ResultBody::ToolResult(_) => Copies::Both,
                ResultBody::Payload(_) => Copies::One,
            },
        };
        self.deliver_assessed(call, &payload, context, assessment, stats, seed)
    }

    /// Whether any result of `tool` can be offloaded.
    pub fn may_offload(&self, tool: &str) -> bool {
        let call = ToolCall::new(tool);
        !self.is_always_inline(call, u64::MAX)
    }

    /// Whether every result of `call` with at most `bytes` bytes stays inline. Cheap: does not read
    /// the result.
    pub fn is_always_inline(&self, call: ToolCall<'_>, bytes: u64) -> bool {
        let too_many = |_| Estimate { tokens: Tokens(u64::MAX), method: Method::Counted };
        let decision = self.rules_for(call).decide(call.tool, bytes, too_many);
        decision.delivery == Delivery::Inline
    }

    /// The number of leading record lines that a result of `call` may have to stay inline.
    pub fn inline_prefix(
        &self,
        call: ToolCall<'_>,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> usize {
        let rules = self.rules_for(call);
        let (mut bytes, mut tokens) = (0, 0);
        let mut fits = |line: &str| {
            bytes += line.len() as u64;
            tokens += tokens::estimate_text(line, self.tokenizer()).tokens.0;
            let estimate = Estimate { tokens: Tokens(tokens), method: Method::Counted };
            rules.decide(call.tool, bytes, |_| estimate).delivery == Delivery::Inline
        };
        lines.into_iter().take_while(|line| fits(line.as_ref())).count()
    }

    pub(crate) fn deliver_assessed(
        &self,
        call: ToolCall<'_>,
        payload: &dyn Payload,
        context: PayloadContext<'_>,
        assessment: Assessment,
        stats: Option<FirstPassStats>,
        seed: IdSeed,
    ) -> Delivered {
        if assessment.decision.delivery == Delivery::Inline {
            return Delivered::Inline(assessment.decision);
        }
        let began = Instant::now();
        match self.reuse_or_store(call, payload, context, &assessment, stats, seed) {
            Ok(StoreOutcome { offloaded, records, reused }) => {
                let kind = EventKind::ResultOffloaded {
                    tool: call.tool.to_owned(),
                    server: call.server.map(str::to_owned),
                    records,
                    program: call.program.map(str::to_owned),
                    bytes: payload.bytes(),
                    inline: assessment.estimate,
                    client_limit: call.client_limit,
                    all_texts: context.exact,
                    descriptor: tokens::count_all(&offloaded.descriptor, self.tokenizer()),
                    reused,
                    took_us: micros(began.elapsed()),
                };
                let event = Event::new(seed.now, offloaded.listed.id(), kind);
                self.events.publish(event.in_request(call.correlation));
                Delivered::Offloaded(Box::new(offloaded))
            }
            Err(error) => self.fall_back(call, payload, context.copies, &assessment, &error, seed),
        }
    }

    /// Stores the result, unless an identical one is stored.
    fn reuse_or_store(
        &self,
        call: ToolCall<'_>,
        payload: &dyn Payload,
        context: PayloadContext<'_>,
        assessment: &Assessment,
        stats: Option<FirstPassStats>,
        seed: IdSeed,
    ) -> Result<StoreOutcome, EncodeError> {
        let around_main = texts_around(payload, &assessment.found)?;
        let addresses = address_lines(context.addresses, around_main.len());
        let texts: Vec<&str> = around_main
            .iter()
            .map(String::as_str)
            .chain(context.further_texts.iter().copied())
            .chain(addresses.as_deref())
            .collect();
        let candidate = Candidate { call, payload, exact: context.exact, texts: &texts };
        // A link in a descriptor expires soon, and object storage is slow to read.
        let may_reuse = self.links.is_none();
        if may_reuse
            && let Some((offloaded, records)) = self.recent.find(candidate, &*self.spool, seed.now)
        {
            return Ok(StoreOutcome { offloaded, records, reused: true });
        }
        let (offloaded, records) = self.store(candidate, assessment, stats, seed)?;
        if may_reuse {
            self.recent.insert(candidate, &offloaded, records);
        }
        Ok(StoreOutcome { offloaded, records, reused: false })
    }

    /// Spec L2: removes expired results, and publishes an event for each.
    pub fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError> {
        let swept = self.spool.sweep(now)?;
        for expired in &swept.expired {
            let kind = EventKind::OffloadFileExpired { tool: expired.sidecar.tool.clone() };
            self.events.publish(Event::new(now, expired.id(), kind));
        }
        Ok(swept)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        &*self.tokenizer
    }

    pub(crate) fn rules_for(&self, call: ToolCall<'_>) -> Rules<'_> {
        let threshold = if Operation::from_tool(call.tool).is_memory() {
            Threshold::Above(self.offload.threshold_tokens)
        } else {
            Threshold::From(self.generic_threshold)
        };
        Rules { enabled: self.offload.enabled, threshold, policies: &self.policies }
    }

    fn store(
        &self,
        Candidate { call, payload, exact, texts }: Candidate<'_>,
        assessment: &Assessment,
        stats: Option<FirstPassStats>,
        seed: IdSeed,
    ) -> Result<(Offloaded, u64), EncodeError> {
        let operation = &Operation::from_tool(call.tool);
        let memory = operation.is_memory();
        let ttl =
            if memory { Duration::from_secs(self.offload.ttl_seconds) } else { self.generic_ttl };
        let mut request = StoreRequest {
            id: seed.result_id(),
            tool: call.tool,
            server: call.server,
            arguments: call.arguments.map(CallArguments::digest),
            exact,
            query: call.query.map(str::to_owned),
            detail: call.detail.unwrap_or_else(|| operation.default_detail()),
            found: &assessment.found,
            estimated: assessment.estimate.tokens,
            created_at: seed.now,
            ttl,
        };
        // The preview of records uses their first lines instead.
        let head_bytes = if assessment.found.records().is_some() { 0 } else { HEAD_BYTES };
        let start = assessment.found.main_range.as_ref().map_or(0, |json| json.start);
        let head = payload::part(payload, start..start + head_bytes)?;
        let detail = |stats: &RecordStats| detail(call, operation, stats);
        if let Some(stats) = &stats {
            request.detail = detail(&stats.record_stats());
        } else if memory && call.detail.is_none() {
            // The header contains the level and is written before the lines that show it.
            request.detail = detail(&payload_record_lines(payload, &assessment.found, 0)?.1);
        }
        let (listed, stats) = store_payload(&*self.spool, request, payload, texts, stats)?;
        let detail = detail(&stats);
        let path = listed.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        // f06: the client may see the directory under another path.
        let path = self.path_map.client_path(path);
        let links = self.links.as_ref().filter(|_| listed.path.is_none());
        let link = links.and_then(|links| links.link(listed.id(), seed.now));
        let set = SetFacts::from_listed(&listed);
        let around = match &listed.sidecar.envelope {
            Some(envelope) => envelope.members(),
            None => outer_members(payload, &assessment.found)?,
        };
        let memories = memory && stats.is_of_memories();
        let stored = DescriptorInput {
            id: listed.id(),
            place: link.as_deref().map_or(Location::File(&path), Location::Link),
            // A path that is not UTF-8 cannot be written into a descriptor unchanged.
            readable_path: listed.path.as_ref().is_some_and(|path| path.to_str().is_some()),
            expires_at: listed.sidecar.expires_at,
            operation,
            found: &assessment.found,
            stats: &stats,
            text_head: &String::from_utf8_lossy(&head),
            estimated: assessment.estimate.tokens,
            score_range: set.score_range,
            total_matches: set.total_matches,
            around: &around,
            further_texts: texts,
        };
        let options = DescriptorOptions {
            extraction: self.extraction,
            preview: Tokens(u64::from(self.offload.preview_tokens)),
            recipes: RecipeListing::from_config(&self.offload),
        };
        let detail = memories.then_some(detail);
        let full = detail.filter(|_| self.offload.descriptor == DescriptorForm::Full);
        let full = full.map(|detail| to_json(&stored.full_descriptor(detail, options)));
        // g22: a descriptor that is nearly as long as the result saves nothing.
        let full = full.filter(|descriptor| {
            let typical = descriptor.replace(&listed.id().to_string(), TYPICAL_ID);
            let cost = tokens::count_all(&typical, self.tokenizer()).tokens.0;
            assessment.estimate.tokens.0 >= cost.saturating_mul(MIN_SAVINGS_FACTOR)
        });
        let descriptor =
            full.unwrap_or_else(|| to_json(&stored.compact_descriptor(detail, options)));
        Ok((Offloaded { descriptor, listed }, stats.count))
    }

    /// Spec L3 and conformance decision 9: a failed write never fails the operation.
    fn fall_back(
        &self,
        call: ToolCall<'_>,
        payload: &dyn Payload,
        copies: Copies,
        assessment: &Assessment,
        error: &EncodeError,
        seed: IdSeed,
    ) -> Delivered {
        let kind =
            EventKind::OffloadWriteFailed { tool: call.tool.to_owned(), error: error_chain(error) };
        let event = Event::new(seed.now, seed.result_id(), kind);
        self.events.publish(event.in_request(call.correlation));
        let budget = Budget {
            threshold: self.rules_for(call).threshold,
            copies,
            tokenizer: self.tokenizer(),
        };
        let truncated = Operation::from_tool(call.tool)
            .is_memory()
            .then(|| Truncated::new(payload, &assessment.found, &budget))
            .flatten();
        truncated.map_or_else(
            || {
                Delivered::PassedOn(Warning(format!(
                    "The result could not be stored, so it is returned in full. {}",
                    advice(error)
                )))
            },
            Delivered::Truncated,
        )
    }
}

fn to_json(descriptor: &impl serde::Serialize) -> String {
    serde_json::to_string(descriptor).expect("text, numbers and raw JSON have a JSON form")
}

/// A duration in microseconds, as in events.
pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// A stored result, new or reused.
struct StoreOutcome {
    offloaded: Offloaded,
    records: u64,
    reused: bool,
}

/// The addresses of embedded resources as JSON lines, if there are any. `shift` is the number of texts
/// that are stored before the further texts.
fn address_lines(addresses: &[ResourceAddress<'_>], shift: usize) -> Option<String> {
    let line = |address: &ResourceAddress<'_>| match address.part {
        0 => format!("{}\n", json!({"uri": address.uri})),
        part => format!("{}\n", json!({"uri": address.uri, "part": part + shift})),
    };
    (!addresses.is_empty()).then(|| addresses.iter().map(line).collect())
}

/// The context of a payload in its tool result.
#[derive(Clone, Copy)]
pub(crate) struct PayloadContext<'a> {
    /// Texts with other content.
    pub(crate) further_texts: &'a [&'a str],
    /// The addresses of embedded resources that are stored as a further text.
    pub(crate) addresses: &'a [ResourceAddress<'a>],
    /// Whether the payload is a text, of which every byte must be preserved.
    pub(crate) exact: bool,
    /// How often the response contains the payload.
    pub(crate) copies: Copies,
}

/// What the user can do about a failed write.
fn advice(error: &EncodeError) -> &'static str {
    match error {
        EncodeError::Spool(SpoolError::Full { limit: SpoolLimit::Device }) => "Free disk space.",
        EncodeError::Spool(SpoolError::Full { limit: SpoolLimit::FileSize }) => {
            "Raise the file size limit (ulimit -f)."
        }
        EncodeError::Spool(SpoolError::Full { .. }) => {
            "Remove stored results or raise the limits in [spool]."
        }
        EncodeError::Spool(SpoolError::NotOurs { .. } | SpoolError::Io { .. }) => {
            "Check prompt.offload.output_dir and proxy.dir."
        }
        EncodeError::Spool(SpoolError::Remote { .. }) => {
            "Check the URL of the object storage, its credentials and the network."
        }
        _ => "Try again.",
    }
}

/// The detail level for header and descriptor: the requested one, or the one inferred from the
/// records of a memory operation.
fn detail(call: ToolCall<'_>, operation: &Operation, stats: &RecordStats) -> Detail {
    match call.detail {
        Some(requested) => requested,
        None if operation.is_memory() && stats.is_of_memories() => stats.detail(),
        None => operation.default_detail(),
    }
}

/// Facts about a set of memories from the members around them (conformance decision 2).
#[derive(Debug, Default)]
struct SetFacts {
    score_range: Option<(f64, f64)>,
    total_matches: Option<u64>,
}

impl SetFacts {
    fn from_listed(listed: &ResultInfo) -> Self {
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

impl std::fmt::Debug for Offloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offloader")
            .field("offload", &self.offload)
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}
