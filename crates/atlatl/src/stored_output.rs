//! Stores the output of shell commands that `atlatl run` runs.
//!
//! An [`OutputStore`] decides about an output by the same thresholds and policies as the proxy, stores it
//! with an [`Offloader`], and adapts the descriptor to a reader with a shell.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use atlatl_lro::hook::rewrite::program_name;
use lro::{
    Delivered, Event, EventKind, EventSink as _, IdSeed, Offloader, ScannedPayload, ToolCall,
    WhiteSpace,
};
use lro_core::config::Config;
use lro_core::payload;
use lro_core::records::{Content, Detected};
use lro_core::threshold::Delivery;
use lro_core::tokens::{Estimate, Method};
use lro_core::{
    Extraction, FixedPolicy, O200k, Operation, Policies, Policy, ResultId, Rules, Threshold,
    Tokens, assess,
};
use lro_spool::{DirSpool, LogSpool, OutputLog, OutputStream, ResultInfo, SpoolError};

use crate::error::{Error, with_causes};
use crate::hook::Host;
use crate::hook::guidance::Guidance;
use crate::hook::policy;
use crate::ledger_sink::LedgerSink;
use crate::settings::Settings;
use crate::spool_config::{Reach, Stores};

/// The tool name of shell commands, as policies and lists of results show it.
pub(crate) const SHELL_TOOL: &str = "Bash";

/// The query that `atlatl results list` shows for output whose `atlatl run` was killed.
const INTERRUPTED: &str = "interrupted command";

/// The beginning of standard output that shows whether it has a structure.
const STRUCTURE_SAMPLE_BYTES: u64 = 64 * 1024;

/// The call of a tool whose output is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputCall<'a> {
    /// The name of the tool, for its policy.
    pub(crate) tool: &'a str,
    /// The command line, if the tool runs one: for its policy, and for lists of results.
    pub(crate) command: Option<&'a str>,
    /// The agent whose hook put `atlatl run` before the command, for the ledger.
    pub(crate) agent: Option<Host>,
}

/// What the reader of an output gets.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The unchanged output: it is small.
    Unchanged,
    /// A descriptor; the output is stored.
    Offloaded(Box<StoredOutput>),
    /// The unchanged output: it could not be stored.
    Failed,
}

/// A stored output.
#[derive(Debug)]
pub(crate) struct StoredOutput {
    /// The descriptor, an object in JSON.
    pub(crate) descriptor: String,
    /// The entry of the output in the spool.
    pub(crate) listed: ResultInfo,
}

impl StoredOutput {
    /// The reference, such as `lro:01K…`.
    pub(crate) fn reference(&self) -> String {
        self.listed.id().reference().to_string()
    }
}

/// Stores outputs of the working directory's scope.
pub(crate) struct OutputStore<'a> {
    settings: &'a Settings,
    stores: Stores,
    ledger: Arc<LedgerSink>,
    spool: OnceCell<DirSpool>,
    /// Whether there was an output that may be stored. Others must not take longer.
    may_sweep: Cell<bool>,
}

impl<'a> OutputStore<'a> {
    /// A store with the configuration of `settings`. `source` is the command, for the ledger. Opens
    /// nothing.
    pub(crate) fn new(
        settings: &'a Settings,
        scope: Option<&str>,
        source: &'static str,
    ) -> Result<Self, Error> {
        let stores = Stores::from_settings(settings, scope)?;
        let ledger = Arc::new(LedgerSink::new(settings, source));
        let (spool, may_sweep) = (OnceCell::new(), Cell::new(false));
        Ok(Self { settings, stores, ledger, spool, may_sweep })
    }

    /// Whether every output of `call` with at most `bytes` bytes stays unchanged. Cheap: reads and opens
    /// nothing.
    pub(crate) fn is_always_inline(&self, call: OutputCall<'_>, bytes: u64) -> bool {
        let policies = policies(&self.settings.config.proxy.policy, call);
        let too_many = |_| Estimate { tokens: Tokens(u64::MAX), method: Method::Counted };
        let decision = self.rules(call, &policies).decide(call.tool, bytes, too_many);
        decision.delivery == Delivery::Inline
    }

    /// Whether `output`, which is in memory, stays unchanged. Examines it, and opens nothing.
    pub(crate) fn is_inline(&self, call: OutputCall<'_>, output: &[u8]) -> bool {
        let policies = policies(&self.settings.config.proxy.policy, call);
        let assessment = assess(output, call.tool, &self.rules(call, &policies), &O200k);
        assessment.decision.delivery == Delivery::Inline
    }

    /// The rules of the [`Offloader`], with the policy of `call`.
    fn rules<'p>(&self, call: OutputCall<'_>, policies: &'p Policies) -> Rules<'p> {
        let config = &self.settings.config;
        let threshold = if Operation::from_tool(call.tool).is_memory() {
            Threshold::Above(config.prompt.offload.threshold_tokens)
        } else {
            Threshold::From(config.proxy.threshold_tokens)
        };
        Rules { enabled: config.prompt.offload.enabled, threshold, policies }
    }

    /// Creates a log for output that arrives while a command runs.
    pub(crate) fn create_log(&self) -> Result<OutputLog, SpoolError> {
        let IdSeed { now, random } = IdSeed::from_system();
        let unix_ms = u64::try_from(now.timestamp_millis()).unwrap_or_default();
        self.spool()?.create_log(ResultId::new(unix_ms, random))
    }

    /// Stores the output in `log` if it is large. `scanned` is the first pass over it, if there was one.
    pub(crate) fn offload_log(
        &self,
        call: OutputCall<'_>,
        log: &Arc<OutputLog>,
        scanned: Option<ScannedPayload>,
    ) -> Outcome {
        self.may_sweep.set(true);
        match self.spool() {
            Ok(spool) => self.store_log(spool, call, log, scanned, &self.config_for(call)),
            Err(error) => self.failed(call, &error),
        }
    }

    /// Removes expired results if that is due (f22). For the end of a command, when everything is
    /// printed. Failures there must not fail the command.
    pub(crate) fn clean_up(&self) {
        if self.may_sweep.get() {
            self.stores.sweep_if_due(IdSeed::from_system().now, &*self.ledger);
        }
    }

    /// Stores the output of commands whose `atlatl run` was killed. Their logs stay if that fails.
    pub(crate) fn recover(&self) {
        let mut abandoned = false;
        // Errors are reported by the commands that open the directories for other reasons.
        drop(self.stores.each(Reach::Here, |store| {
            abandoned |= store.abandoned_logs().is_ok_and(|logs| {
                logs.iter().for_each(OutputLog::keep);
                !logs.is_empty()
            });
        }));
        if !abandoned {
            return;
        }
        let call = OutputCall { tool: SHELL_TOOL, command: Some(INTERRUPTED), agent: None };
        // Whatever its size: it was printed nowhere.
        let mut config = self.settings.config.clone();
        config.prompt.offload.enabled = true;
        config.proxy.policy = fixed_policy(call.tool, Policy::Fixed(FixedPolicy::Offload));
        for spool in self.spool().ok().cloned().into_iter().chain(self.stores.open_alternate()) {
            let Ok(mut logs) = spool.abandoned_logs() else { continue };
            // At once: a command that has just created its log waits for the lock.
            logs.retain(|log| !log.is_empty());
            for log in logs.into_iter().map(Arc::new) {
                let outcome = self.store_log(&spool, call, &log, None, &config);
                if !matches!(outcome, Outcome::Offloaded(_)) {
                    log.keep();
                }
            }
        }
    }

    /// Publishes that an output of `call` could not be stored.
    pub(crate) fn publish_failure(&self, call: OutputCall<'_>, error: String) {
        let kind = EventKind::OffloadWriteFailed { tool: call.tool.to_owned(), error };
        self.ledger.publish(Event::without_result(IdSeed::from_system().now, kind));
    }

    /// Why outputs could not be stored, since the last call.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.ledger.failures()
    }

    /// Stores the output in `log`, a file of `spool`.
    fn store_log(
        &self,
        spool: &DirSpool,
        call: OutputCall<'_>,
        log: &Arc<OutputLog>,
        scanned: Option<ScannedPayload>,
        config: &Config,
    ) -> Outcome {
        let is_mixed = [OutputStream::Stdout, OutputStream::Stderr]
            .into_iter()
            .all(|stream| log.stream_len(stream) > 0);
        // JSON or a table on standard output must not be mixed with messages on standard error.
        let separate = if is_mixed { structured_stdout(log) } else { None };
        let (payload, scanned, white_space) = if let Some((stdout, scanned)) = separate {
            // The log itself is stored beside the records, so they need no exact copy.
            (stdout, scanned, WhiteSpace::Insignificant)
        } else {
            let payload = log.payload();
            match scanned.map_or_else(|| ScannedPayload::read(&payload), Ok) {
                Ok(scanned) => (payload, scanned, WhiteSpace::Significant),
                Err(error) => return self.failed(call, &error),
            }
        };
        let spool = Arc::new(LogSpool::new(spool.clone(), &payload));
        let offloader = self.offloader(spool, config);
        let seed = IdSeed::from_system();
        let delivered =
            offloader.deliver_scanned(tool_call(call), &payload, scanned, white_space, seed);
        outcome(delivered)
    }

    fn failed(&self, call: OutputCall<'_>, error: &dyn std::error::Error) -> Outcome {
        self.publish_failure(call, with_causes(error));
        Outcome::Failed
    }

    fn spool(&self) -> Result<&DirSpool, SpoolError> {
        if let Some(spool) = self.spool.get() {
            return Ok(spool);
        }
        let opened = self.stores.open_dir(&Operation::from_tool(SHELL_TOOL))?;
        Ok(self.spool.get_or_init(|| opened))
    }

    fn offloader(&self, spool: Arc<dyn lro_spool::Spool>, config: &Config) -> Offloader {
        Offloader::new(spool, config)
            .with_tokenizer(O200k)
            .with_events(self.ledger.clone())
            .with_extraction(Extraction::Shell)
    }

    /// The configuration with the policy of `call` only.
    fn config_for(&self, call: OutputCall<'_>) -> Config {
        let mut config = self.settings.config.clone();
        config.proxy.policy = policies(&config.proxy.policy, call);
        config
    }
}

/// Standard output, if it is most of the output and has a structure of its own.
fn structured_stdout(log: &Arc<OutputLog>) -> Option<(lro_spool::LogPayload, ScannedPayload)> {
    if log.stream_len(OutputStream::Stdout) < log.stream_len(OutputStream::Stderr) {
        return None;
    }
    let stdout = log.stdout().ok().flatten()?;
    let head = payload::part(&stdout, 0..STRUCTURE_SAMPLE_BYTES).ok()?;
    if !may_be_structured(&head) {
        return None;
    }
    let scanned = ScannedPayload::read(&stdout).ok()?;
    let is_structured =
        matches!(scanned.detected().content, Content::Records(_) | Content::Document);
    is_structured.then_some((stdout, scanned))
}

/// Whether an output that begins with `head` may be JSON or a table: if so, all of it is worth a scan.
fn may_be_structured(head: &[u8]) -> bool {
    // JSON that is cut off does not parse.
    if matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return true;
    }
    let end = head.iter().rposition(|byte| *byte == b'\n').map_or(head.len(), |end| end + 1);
    matches!(Detected::detect(&head[..end]).content, Content::Records(_) | Content::Document)
}

/// The policy that applies to `call`, for its tool alone.
fn policies(policies: &Policies, call: OutputCall<'_>) -> Policies {
    let policy = policy::find(policies, call.tool, call.command);
    policy.map(|policy| fixed_policy(call.tool, policy)).unwrap_or_default()
}

fn fixed_policy(tool: &str, policy: Policy) -> Policies {
    [(tool, policy)].into_iter().collect()
}

fn tool_call(call: OutputCall<'_>) -> ToolCall<'_> {
    ToolCall {
        server: call.agent.map(Host::ledger_label),
        query: call.command,
        client_limit: call.agent.and_then(Host::shell_limit),
        program: call.command.and_then(program_name),
        ..ToolCall::new(call.tool)
    }
}

fn outcome(delivered: Delivered) -> Outcome {
    match delivered {
        Delivered::Inline(_) => Outcome::Unchanged,
        Delivered::Offloaded(offloaded) => {
            let adapted = Guidance::Shell { all: false }.apply(&offloaded.descriptor);
            let descriptor = adapted.unwrap_or(offloaded.descriptor);
            Outcome::Offloaded(Box::new(StoredOutput { descriptor, listed: offloaded.listed }))
        }
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Sources;

    fn call(command: Option<&str>) -> OutputCall<'_> {
        OutputCall { tool: SHELL_TOOL, command, agent: None }
    }

    #[test]
    fn a_beginning_shows_what_may_be_structured() {
        let rows: Vec<String> = (0..50).map(|n| format!("{n},name {n},{}", n * 2)).collect();
        let csv = rows.join("\n") + "\n";
        for text in ["[1,", " {\"a\":", &format!("id,name,size\n{csv}0,cut")] {
            assert!(may_be_structured(text.as_bytes()), "{text}");
        }
        for text in ["", "Compiling a v1\nCompiling b v2\n", "error: [\n"] {
            assert!(!may_be_structured(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn an_output_in_memory_is_inline_below_the_threshold() {
        let sources = Sources::from_process(None, &[]).without_values();
        let settings = Settings::read(&sources).unwrap();
        let store = OutputStore::new(&settings, None, "test").unwrap();
        let numbers = |last: u32| {
            let numbers: Vec<String> = (1..=last).map(|n| n.to_string()).collect();
            numbers.join("\n")
        };
        let (small, large) = (numbers(3000), numbers(12_000));
        assert!(!store.is_always_inline(call(None), small.len() as u64));
        assert!(store.is_inline(call(None), small.as_bytes()));
        assert!(!store.is_inline(call(None), large.as_bytes()));
    }

    #[test]
    fn a_policy_for_a_command_goes_before_one_for_the_tool() {
        let offload = Policy::Fixed(FixedPolicy::Offload);
        let inline = Policy::Fixed(FixedPolicy::Inline);
        let all: Policies =
            [("Bash", offload), ("Bash(git *)", inline), ("*", inline)].into_iter().collect();
        let applied = |command| {
            let policies = policies(&all, call(command));
            policies.for_tool(SHELL_TOOL).map(|(_, policy)| policy)
        };
        assert_eq!(applied(Some("git log")), Some(inline));
        assert_eq!(applied(Some("gitk")), Some(offload));
        assert_eq!(applied(None), Some(offload));
        let none: Policies = [("Read", offload)].into_iter().collect();
        assert!(policies(&none, call(Some("ls"))).is_empty());
    }
}
