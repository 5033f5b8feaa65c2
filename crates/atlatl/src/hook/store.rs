//! Decides about the output of a tool, stores it, and describes it to the model.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use atlatl_lro::hook::rewrite::program_name;
use chrono::{DateTime, Utc};
use lro::{CallArguments, Delivered, IdSeed, Offloaded, Offloader, ResultBody, ToolCall};
use lro_core::tool_result::ToolResult;
use lro_core::{ClientLimit, Extraction, O200k, Operation};
use lro_spool::{Address, Spool as _};
use serde_json::value::RawValue;

use super::guidance::Guidance;
use super::reread::{ReadIndex, ReadKey};
use super::spill_file::{self, SpillContent, SpillDir, SpillPath};
use super::{Host, ToolEvent, ToolText, policy, tool_result};
use crate::ledger_sink::LedgerSink;
use crate::settings::Settings;
use crate::spool_config::{Reach, Stores};

/// The bytes of a file that are read at a time.
const CHUNK_LEN: usize = 1 << 20;
/// The size in bytes up to which an output stays in memory.
const MEMORY_CAP: usize = 64 << 20;
/// The common name of the tool that reads a file.
const READ_TOOL: &str = "Read";
/// How often the host is given time to finish its file.
const MAX_WAITS: u32 = 10;

/// Stores the output of a host's tools.
pub(crate) struct HookStore<'a> {
    /// The settings.
    pub(crate) settings: &'a Settings,
    /// The host.
    pub(crate) host: Host,
    /// The scope to store in, as for `--scope`.
    pub(crate) scope: &'a str,
    /// How the agent can query a stored output.
    pub(crate) guidance: Guidance<'a>,
    /// The directories in which the host saves outputs.
    pub(crate) spill_dirs: &'a [SpillDir],
    /// Waits a moment for the host to finish writing its file.
    pub(crate) wait: &'a dyn Fn(),
    /// Called with the size of an output in bytes before it is stored.
    pub(crate) begin: &'a dyn Fn(u64),
}

/// An output to be stored.
enum Source<'a> {
    /// In memory.
    Text(ToolText<'a>),
    /// In a file of the host.
    File {
        file: File,
        /// The size in bytes.
        len: u64,
        content: SpillContent,
    },
}

impl HookStore<'_> {
    /// The answer of the hook if the output is stored. `None` leaves the host's own output.
    pub(crate) fn replace(&self, event: ToolEvent<'_>, seed: IdSeed) -> Option<String> {
        let text = self.text(&event, seed)?;
        Some((event.answer)(&text))
    }

    /// The text in place of the output: a descriptor, or that a file is unchanged.
    fn text(&self, event: &ToolEvent<'_>, seed: IdSeed) -> Option<String> {
        let call = self.prepare(event)?;
        let read = self.read_key(event, &call.source);
        if let Some((index, key)) = &read
            && let Some(earlier) = index.find(key)
            && call.is_stored(&earlier.reference, seed.now)
        {
            return Some(earlier.text());
        }
        let offloaded = call.store(self.begin, seed)?;
        if let Some((index, key)) = read {
            index.add(&key, offloaded.listed.id().reference().to_string(), seed.now);
        }
        self.guidance.apply(&offloaded.descriptor)
    }

    /// The key of a read of a file.
    fn read_key(&self, event: &ToolEvent<'_>, source: &Source<'_>) -> Option<(ReadIndex, ReadKey)> {
        let Source::Text(ToolText::Text { text, .. }) = source else { return None };
        if self.host.common_name(&event.tool) != READ_TOOL {
            return None;
        }
        let key = ReadKey::new(
            self.host.name(),
            event.session.as_deref()?,
            event.arguments?,
            text.as_bytes(),
        );
        let state_dir = self.settings.surroundings().state_dir.as_deref()?;
        Some((ReadIndex::in_state_dir(state_dir), key))
    }

    /// Removes expired results if that is due.
    pub(crate) fn sweep(&self, seed: IdSeed) {
        if let Ok(stores) = Stores::from_settings(self.settings, Some(self.scope)) {
            stores.sweep_if_due(seed.now, &LedgerSink::new(self.settings, "atlatl hook"));
        }
    }

    /// The call with its whole output. `None` if the output stays as it is.
    fn prepare<'a>(&self, event: &'a ToolEvent<'_>) -> Option<PreparedCall<'a>> {
        let mut config = self.settings.config.clone();
        config.proxy.policy = policy::for_call(
            &config.proxy.policy,
            self.host,
            &event.tool,
            event.subject.as_deref(),
        );
        let tool = self.host.common_name(&event.tool).to_owned();
        let stores = Stores::from_settings(self.settings, Some(self.scope)).ok()?;
        let spool = stores.spool_for(&Operation::from_tool(&tool));
        let events = Arc::new(LedgerSink::new(self.settings, "atlatl hook"));
        let offloader = Offloader::new(spool, &config)
            .with_tokenizer(O200k)
            .with_events(events)
            .with_extraction(Extraction::Native)
            .with_memory_cap(MEMORY_CAP);
        let source = self.source(event)?;
        let label = self.host.ledger_label();
        let arguments = event.arguments.map(CallArguments::new);
        let program = event.shell_command(self.host).and_then(program_name);
        let client_limit = event.shown_bytes.map(ClientLimit::first_bytes);
        let call = PreparedCall {
            tool,
            label,
            arguments,
            program,
            client_limit,
            source,
            stores,
            offloader,
        };
        (!call.offloader.is_always_inline(call.tool_call(), call.source.len())).then_some(call)
    }

    /// The whole output: the host's file, if it saved one. `None` if that cannot be read.
    fn source<'a>(&self, event: &'a ToolEvent<'_>) -> Option<Source<'a>> {
        let shown = match &event.output {
            ToolText::Text { text, .. } => text,
            ToolText::Result(json) => return Some(Source::Text(ToolText::Result(json[..].into()))),
        };
        let Some(spill) = &event.spill else {
            let ToolText::Text { text, further } = &event.output else { return None };
            let further = further.as_deref().map(Into::into);
            return Some(Source::Text(ToolText::Text { text: text[..].into(), further }));
        };
        let uid = self.settings.surroundings().uid;
        let mut file = spill_file::open(spill, self.spill_dirs, uid)?;
        self.wait_for(&mut file, spill, shown)?;
        let len = file.metadata().ok()?.len();
        Some(Source::File { file, len, content: spill.content })
    }

    /// Waits until the host has written its file. `None` if it does not get complete.
    fn wait_for(&self, file: &mut File, spill: &SpillPath, shown: &str) -> Option<()> {
        for _ in 0..MAX_WAITS {
            // opencode shows the end of an output; others show its beginning, or nothing of it.
            let end = (self.host == Host::Opencode).then_some(shown);
            if spill_file::is_complete(file, spill, end) {
                return Some(());
            }
            (self.wait)();
        }
        None
    }
}

/// A tool call whose output may be stored.
struct PreparedCall<'a> {
    /// The tool's common name.
    tool: String,
    /// The server of the result in the ledger.
    label: &'static str,
    arguments: Option<CallArguments>,
    program: Option<&'a str>,
    client_limit: Option<ClientLimit>,
    source: Source<'a>,
    stores: Stores,
    offloader: Offloader,
}

impl PreparedCall<'_> {
    fn tool_call(&self) -> ToolCall<'_> {
        ToolCall {
            server: Some(self.label),
            arguments: self.arguments.as_ref(),
            client_limit: self.client_limit,
            program: self.program,
            ..ToolCall::new(&self.tool)
        }
    }

    /// Whether a result is still stored.
    fn is_stored(&self, reference: &str, now: DateTime<Utc>) -> bool {
        let Ok(address) = reference.parse::<Address>() else { return false };
        self.stores.find(&address, Reach::Here, |store| store.open(&address, now).map(drop)).is_ok()
    }

    /// Stores the output. `None` leaves the host's own.
    fn store(self, begin: &dyn Fn(u64), seed: IdSeed) -> Option<Box<Offloaded>> {
        begin(self.source.len());
        let call = ToolCall {
            server: Some(self.label),
            arguments: self.arguments.as_ref(),
            client_limit: self.client_limit,
            program: self.program,
            ..ToolCall::new(&self.tool)
        };
        match deliver(&self.offloader, call, self.source, seed)? {
            Delivered::Offloaded(offloaded) => Some(offloaded),
            _ => None,
        }
    }
}

impl Source<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len(),
            Self::File { len, .. } => *len,
        }
    }
}

/// Delivers an output. `None` if a file cannot be read whole.
fn deliver(
    offloader: &Offloader,
    call: ToolCall<'_>,
    source: Source<'_>,
    seed: IdSeed,
) -> Option<Delivered> {
    match source {
        Source::Text(ToolText::Result(json)) => deliver_result(offloader, call, &json, seed),
        Source::Text(ToolText::Text { text, further }) => {
            let mut stream = offloader.receive(call);
            stream.feed(text.as_bytes());
            let further: Vec<&str> = further.as_deref().into_iter().collect();
            Some(stream.finish_text(&further, seed).delivered)
        }
        Source::File { file, len, content } => {
            let mut first = Vec::new();
            let mut file = file.take(len);
            file.by_ref().take(CHUNK_LEN as u64).read_to_end(&mut first).ok()?;
            if content == SpillContent::Blocks && len <= MEMORY_CAP as u64 {
                file.read_to_end(&mut first).ok()?;
                if let Some(json) = str::from_utf8(&first).ok().and_then(text_blocks) {
                    return deliver_result(offloader, call, &json, seed);
                }
            }
            let mut stream = offloader.receive(call);
            let mut read = 0;
            let mut chunk = first;
            while !chunk.is_empty() {
                stream.feed(&chunk);
                read += chunk.len() as u64;
                chunk.clear();
                file.by_ref().take(CHUNK_LEN as u64).read_to_end(&mut chunk).ok()?;
            }
            (read == len).then(|| stream.finish_text(&[], seed).delivered)
        }
    }
}

/// The tool result of an array of blocks that all are text and nothing else. Others are stored as JSON,
/// because a part of them would be lost.
fn text_blocks(json: &str) -> Option<Cow<'_, str>> {
    let blocks: Vec<BlockMembers<'_>> = serde_json::from_str(json).ok()?;
    if blocks.iter().all(is_text_block) { tool_result(json) } else { None }
}

/// The members of a content block.
type BlockMembers<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

fn is_text_block(block: &BlockMembers<'_>) -> bool {
    let has = |name: &str, begin: &str| {
        block.get(name).is_some_and(|value| value.get().starts_with(begin))
    };
    block.len() == 2 && has("type", "\"text\"") && has("text", "\"")
}

fn deliver_result(
    offloader: &Offloader,
    call: ToolCall<'_>,
    json: &str,
    seed: IdSeed,
) -> Option<Delivered> {
    let result = ToolResult::read(json)?;
    Some(offloader.deliver_result(call, ResultBody::ToolResult(&result), seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_which_nothing_is_lost_are_read_as_a_result() {
        let text = r#"{"type": "text", "text": "a"}"#;
        assert!(text_blocks(&format!("[{text}]")).is_some());
        assert!(text_blocks(&format!("[\n  {text},\n  {text}\n]")).is_some());
        for other in [
            r#"{"type": "image", "data": "x", "mimeType": "image/png"}"#,
            r#"{"type": "text", "text": "a", "annotations": {"priority": 1}}"#,
            r#"{"type": "resource", "resource": {"uri": "a:b", "text": "c"}}"#,
            r#"{"type": "text", "text": 7}"#,
            r#"{"type": "text", "data": "a"}"#,
            "1",
        ] {
            assert!(text_blocks(&format!("[{text}, {other}]")).is_none(), "{other}");
        }
        for json in ["[]", "{}", "[1, 2]", "[", "", "a"] {
            assert!(text_blocks(json).is_none(), "{json}");
        }
    }
}
