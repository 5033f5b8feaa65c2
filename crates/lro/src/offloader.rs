//! Offloader: the whole way of a result, from what a tool returned to what the client gets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use lro_core::config::{Config, DescriptorForm, OffloadConfig, PathMap};
use lro_core::payload::{self, Payload};
use lro_core::records::{Finder, Surveyed};
use lro_core::threshold::Delivery;
use lro_core::tokens::{self, Estimate, Method};
use lro_core::{
    Assessment, Detail, Extraction, Look, NoTokenizer, Operation, Place, Policies, Rules, Stored,
    Survey, Threshold, Tokenizer, Tokens, assess_arrived, assess_result_found, lines_arrived,
};
use lro_spool::{Limit, Listed, Spool, SpoolError, StoreError, StoreRequest, Swept, store_arrived};

use crate::call::Call;
use crate::clock::Moment;
use crate::delivered::{Delivered, Offloaded, Warning};
use crate::event::{Event, EventKind, EventSink, NoEvents};
use crate::extract_error::with_causes;
use crate::incoming::{Body, Incoming};
use crate::links::Links;
use crate::streaming::{MEMORY_CAP, StreamingOffload};
use crate::truncated::{Budget, Copies, Truncated};

/// How much of a payload without records is at hand for its preview.
const HEAD_BYTES: u64 = 64 * 1024;

/// Decides, stores and describes.
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
    links: Option<Arc<dyn Links>>,
    pub(crate) memory_cap: usize,
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
            path_map: config.proxy.path_map.clone(),
            tokenizer: Box::new(NoTokenizer),
            extraction: Extraction::Shell,
            events: Arc::new(NoEvents),
            links: None,
            memory_cap: MEMORY_CAP,
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

    /// Gives clients links to results that have no path.
    pub fn with_links(mut self, links: Arc<dyn Links>) -> Self {
        self.links = Some(links);
        self
    }

    /// Says in descriptors how clients can get at a stored result.
    pub fn with_extraction(mut self, extraction: Extraction) -> Self {
        self.extraction = extraction;
        self
    }

    /// Sets a result that arrives in chunks aside beyond so many bytes; 64 MiB by default.
    pub fn with_memory_cap(mut self, bytes: usize) -> Self {
        self.memory_cap = bytes;
        self
    }

    /// Tells whoever watches that the tools of `server` were listed, whose definitions take this
    /// many tokens more than the server's own.
    pub fn tools_listed(&self, server: &str, definitions: Estimate, now: DateTime<Utc>) {
        let kind = EventKind::ToolsListed { server: server.to_owned(), definitions };
        self.events.publish(Event::apart(now, kind));
    }

    /// Publishes that a tool of `server` is listed under another name than its own.
    pub fn tool_renamed(&self, server: &str, tool: &str, listed_as: &str, now: DateTime<Utc>) {
        let kind = EventKind::ToolRenamed {
            server: server.to_owned(),
            tool: tool.to_owned(),
            listed_as: listed_as.to_owned(),
        };
        self.events.publish(Event::apart(now, kind));
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
        let call = incoming.call();
        let rules = self.rules_of(call);
        let payload = incoming.main();
        // What cannot be too large is not stored, whatever it holds.
        let small = rules.threshold.out_of_reach(payload.len() as u64);
        let mut finder = if small { Finder::new() } else { Finder::surveying() };
        finder.feed(payload);
        let (found, surveyed) = finder.finish_surveyed();
        let assessment = match incoming.body {
            Body::ToolResult(result) => {
                assess_result_found(result, found, call.tool, &rules, self.tokenizer())
            }
            Body::Payload(_) => {
                assess_arrived(&payload, found, call.tool, &rules, self.tokenizer())
            }
        };
        let beside = Beside {
            further: &incoming.further(),
            exact: incoming.is_text(),
            copies: match incoming.body {
                Body::ToolResult(_) => Copies::Both,
                Body::Payload(_) => Copies::One,
            },
        };
        self.deliver_assessed(call, &payload, beside, assessment, surveyed, at)
    }

    /// Whether a result of `tool` may ever be offloaded.
    pub fn may_offload(&self, tool: &str) -> bool {
        let call = Call::new(tool);
        !self.surely_inline(call, u64::MAX)
    }

    /// Whether a result of `call` stays as it is if it has no more than so many bytes. Cheap: nothing
    /// is read.
    pub fn surely_inline(&self, call: Call<'_>, bytes: u64) -> bool {
        let too_many = |_| Estimate { tokens: Tokens(u64::MAX), method: Method::Counted };
        let decision = self.rules_of(call).decide(call.tool, bytes, too_many);
        decision.delivery == Delivery::Inline
    }

    /// The number of record lines, from the first on, that a result of `call` may have to stay
    /// inline.
    pub fn inline_prefix(
        &self,
        call: Call<'_>,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> usize {
        let rules = self.rules_of(call);
        let (mut bytes, mut tokens) = (0, 0);
        let mut fits = |line: &str| {
            bytes += line.len() as u64;
            tokens += tokens::estimate_text(line, self.tokenizer()).tokens.0;
            let estimate = Estimate { tokens: Tokens(tokens), method: Method::Counted };
            rules.decide(call.tool, bytes, |_| estimate).delivery == Delivery::Inline
        };
        lines.into_iter().take_while(|line| fits(line.as_ref())).count()
    }

    /// Begins to receive the result of `call`, which arrives in chunks.
    ///
    /// ```
    /// use lro::{Call, Delivered, Moment};
    ///
    /// # let spool = std::sync::Arc::new(lro_spool::MemorySpool::default());
    /// # let offloader = lro::Offloader::new(spool, &lro_core::config::Config::default());
    /// let mut arriving = offloader.receive(Call::new("read_log"));
    /// for line in 0..9 {
    ///     arriving.feed(format!("line {line}\n").as_bytes());
    /// }
    /// let arrived = arriving.finish(Moment::of_system());
    /// assert!(matches!(arrived.delivered, Delivered::Inline(_)));
    /// assert!(arrived.payload.whole().unwrap().starts_with(b"line 0\n"));
    /// ```
    pub fn receive<'a>(&'a self, call: Call<'a>) -> StreamingOffload<'a> {
        StreamingOffload::new(self, call)
    }

    pub(crate) fn deliver_assessed(
        &self,
        call: Call<'_>,
        payload: &dyn Payload,
        beside: Beside<'_>,
        assessment: Assessment,
        surveyed: Option<Surveyed>,
        at: Moment,
    ) -> Delivered {
        if assessment.decision.delivery == Delivery::Inline {
            return Delivered::Inline(assessment.decision);
        }
        let began = Instant::now();
        match self.store(call, payload, beside, &assessment, surveyed, at) {
            Ok((offloaded, records)) => {
                let kind = EventKind::ResultOffloaded {
                    tool: call.tool.to_owned(),
                    server: call.server.map(str::to_owned),
                    records,
                    bytes: payload.bytes(),
                    inline: assessment.estimate,
                    all_texts: beside.exact,
                    descriptor: tokens::count_all(&offloaded.descriptor, self.tokenizer()),
                    took_us: micros(began.elapsed()),
                };
                self.events.publish(Event::new(at.now, offloaded.listed.id(), kind));
                Delivered::Offloaded(Box::new(offloaded))
            }
            Err(error) => self.fall_back(call, payload, beside.copies, &assessment, &error, at),
        }
    }

    /// Spec L2: removes what has expired, and tells of each.
    pub fn sweep(&self, now: DateTime<Utc>) -> Result<Swept, SpoolError> {
        let swept = self.spool.sweep(now)?;
        for gone in &swept.expired {
            let kind = EventKind::OffloadFileExpired { tool: gone.sidecar.tool.clone() };
            self.events.publish(Event::new(now, gone.id(), kind));
        }
        Ok(swept)
    }

    /// What counts tokens.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        &*self.tokenizer
    }

    pub(crate) fn rules_of(&self, call: Call<'_>) -> Rules<'_> {
        let threshold = if Operation::of_tool(call.tool).is_memory() {
            Threshold::Above(self.offload.threshold_tokens)
        } else {
            Threshold::From(self.generic_threshold)
        };
        Rules { enabled: self.offload.enabled, threshold, policies: &self.policies }
    }

    fn store(
        &self,
        call: Call<'_>,
        payload: &dyn Payload,
        Beside { further, exact, .. }: Beside<'_>,
        assessment: &Assessment,
        surveyed: Option<Surveyed>,
        at: Moment,
    ) -> Result<(Offloaded, u64), StoreError> {
        let operation = &Operation::of_tool(call.tool);
        let memory = operation.is_memory();
        let ttl =
            if memory { Duration::from_secs(self.offload.ttl_seconds) } else { self.generic_ttl };
        let mut what = StoreRequest {
            id: at.result_id(),
            tool: call.tool,
            server: call.server,
            exact,
            query: call.query.map(str::to_owned),
            detail: call.detail.unwrap_or_else(|| operation.default_detail()),
            found: &assessment.found,
            estimated: assessment.estimate.tokens,
            created_at: at.now,
            ttl,
        };
        // Of records the first lines are shown instead.
        let head_bytes = if assessment.found.records().is_some() { 0 } else { HEAD_BYTES };
        let head = payload::part(payload, 0..head_bytes)?;
        let detail = |survey: &Survey| detail(call, operation, survey);
        if let Some(surveyed) = &surveyed {
            what.detail = detail(&surveyed.survey());
        } else if memory && call.detail.is_none() {
            // The header with the level stands before the lines that show it.
            what.detail = detail(&lines_arrived(payload, &assessment.found, 0)?.1);
        }
        let (listed, survey) = store_arrived(&*self.spool, what, payload, further, surveyed)?;
        let detail = detail(&survey);
        let path = listed.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        // f06: a client that sees the directory elsewhere is told of it there.
        let path = self.path_map.shown(path);
        let links = self.links.as_ref().filter(|_| listed.path.is_none());
        let link = links.and_then(|links| links.link(listed.id(), at.now));
        let set = SetFacts::from_listed(&listed);
        let stored = Stored {
            id: listed.id(),
            place: link.as_deref().map_or(Place::File(&path), Place::Link),
            // A name that is no text cannot be written into a descriptor as it is.
            readable_path: listed.path.as_ref().is_some_and(|path| path.to_str().is_some()),
            expires_at: listed.sidecar.expires_at,
            operation,
            found: &assessment.found,
            survey: &survey,
            text_head: &String::from_utf8_lossy(&head),
            estimated: assessment.estimate.tokens,
            score_range: set.score_range,
            total_matches: set.total_matches,
            further_texts: u32::try_from(further.len()).unwrap_or(u32::MAX),
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
        Ok((Offloaded { descriptor, listed }, survey.count))
    }

    /// Spec L3 and conformance decision 9: a failed write never fails the operation.
    fn fall_back(
        &self,
        call: Call<'_>,
        payload: &dyn Payload,
        copies: Copies,
        assessment: &Assessment,
        error: &StoreError,
        at: Moment,
    ) -> Delivered {
        let kind =
            EventKind::OffloadWriteFailed { tool: call.tool.to_owned(), error: with_causes(error) };
        self.events.publish(Event::new(at.now, at.result_id(), kind));
        let budget = Budget {
            threshold: self.rules_of(call).threshold,
            copies,
            tokenizer: self.tokenizer(),
        };
        let truncated = Operation::of_tool(call.tool)
            .is_memory()
            .then(|| Truncated::new(payload, &assessment.found, &budget))
            .flatten();
        truncated.map_or_else(
            || {
                Delivered::PassedOn(Warning(format!(
                    "The result could not be stored, so it is passed on whole. {}",
                    advice(error)
                )))
            },
            Delivered::Truncated,
        )
    }
}

/// As events say it.
pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// What is known of a payload besides its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    /// Texts that say something else.
    pub(crate) further: &'a [&'a str],
    /// Whether it is a text, of which every byte counts.
    pub(crate) exact: bool,
    /// How often the payload stands in the response.
    pub(crate) copies: Copies,
}

/// What can be done about a result that could not be stored.
fn advice(error: &StoreError) -> &'static str {
    match error {
        StoreError::Spool(SpoolError::Full { limit: Limit::Device }) => "Free disk space.",
        StoreError::Spool(SpoolError::Full { limit: Limit::FileSize }) => {
            "Raise the file size limit (ulimit -f)."
        }
        StoreError::Spool(SpoolError::Full { .. }) => {
            "Remove stored results or raise the limits in [spool]."
        }
        StoreError::Spool(SpoolError::NotOurs { .. } | SpoolError::Io { .. }) => {
            "Check prompt.offload.output_dir and proxy.dir."
        }
        StoreError::Spool(SpoolError::Remote { .. }) => {
            "Check the URL of the object storage, its credentials and the network."
        }
        _ => "Try again.",
    }
}

/// The detail level that header and descriptor name alike: what was asked for, or what the records
/// of a memory operation show that nobody spoke for.
fn detail(call: Call<'_>, operation: &Operation, survey: &Survey) -> Detail {
    match call.detail {
        Some(asked) => asked,
        None if operation.is_memory() && survey.is_of_memories() => survey.detail(),
        None => operation.default_detail(),
    }
}

/// What a memory server says of its set beside the memories (conformance decision 2).
#[derive(Debug, Default)]
struct SetFacts {
    score_range: Option<(f64, f64)>,
    total_matches: Option<u64>,
}

impl SetFacts {
    fn from_listed(listed: &Listed) -> Self {
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
