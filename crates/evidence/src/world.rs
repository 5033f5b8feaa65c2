//! A world: the tools of an agent in one condition, served by the real program.
//!
//! `atlatl serve` lists the memories of a corpus, and `atlatl proxy` runs before a server that returns any
//! other corpus. What a condition changes is done between the program and the agent: pages, ablations,
//! and the tools that a host adds.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::ablation::{self, RemovedWays};
use crate::condition::{Condition, Strategy};
use crate::corpora::Corpus;
use crate::task::{Answer, CorpusKind};
use crate::worlds::data_tool::{self, DataTool, MAX_LISTED};
use crate::worlds::definitions::{self, ANSWER, BASH, PYTHON, READ_FILE};
use crate::worlds::python::Python;
use crate::worlds::replies;
use crate::worlds::sandbox::{CommandOutput, Sandbox};
use crate::worlds::server::{Server, WorldDir};

/// The lines of a file in one reply, if the agent does not say how many.
const DEFAULT_FILE_LINES: usize = 100;
/// The bytes of a file in one reply. A longer line is returned whole.
const MAX_FILE_BYTES: usize = 16 * 1024;

/// The numbers of nine digits.
const MAX_NUMBERED: u64 = 1_000_000_000;

/// What precedes the id of a memory in a relationship.
pub(crate) const URN: &str = "urn:mif:";

/// A tool, as the agent sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// The reply of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolReply {
    /// The text that the agent receives.
    pub text: String,
    /// Whether the tool reported an error.
    pub is_error: bool,
    /// The records in the text, as the ledger of the program counts them.
    pub records_given: u64,
    /// The microseconds that storing a result took, if one was stored.
    pub write_micros: Option<u64>,
}

impl ToolReply {
    fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }
}

/// A running world.
#[derive(Debug)]
pub struct World {
    condition: Condition,
    strategy: Strategy,
    removed: RemovedWays,
    data_tool: DataTool,
    tools: Vec<ToolDefinition>,
    server: Server,
    shell: Option<Sandbox>,
    python: Option<Python>,
    records: RecordCounter,
    conversation: u64,
    spilled: u32,
    files: WorldDir,
    // The last field: the program must have ended when its files are deleted.
    _directory: TempDir,
}

impl World {
    /// Starts the program with a corpus.
    pub fn open(program: &Path, condition: &Condition, corpus: &Corpus) -> Result<Self> {
        let id = corpus.id;
        ensure!(
            condition.applies_to(id.kind),
            "the condition {condition} does not apply to {}",
            id.kind
        );
        let strategy = condition.effective_strategy();
        let paged = matches!(
            strategy,
            Strategy::InlinePaged { .. } | Strategy::InlineCode { .. } | Strategy::Summary
        );
        ensure!(
            paged || id.kind != CorpusKind::Memories || id.size <= MAX_LISTED,
            "a listing has at most {MAX_LISTED} memories; use s3, s4 or s6 for {}",
            id.size
        );
        let directory = numbered_directory()?;
        let files = WorldDir::create(directory.path())?;
        let shell = match strategy {
            Strategy::LroShell => Some(Sandbox::new(&files.results())?),
            Strategy::ClientSpill => Some(Sandbox::new(&files.spilled())?),
            _ => None,
        };
        let python = match strategy {
            Strategy::InlineCode { pages, .. } => {
                Some(Python::new(Sandbox::new(&files.spilled())?, pages))
            }
            _ => None,
        };
        let mut server = Server::start(program, &files, corpus, &settings(condition, strategy))?;
        let data_tool = DataTool::new(id);
        let mut tools = vec![data_tool.definition(strategy)];
        // A client lists the tools in any case.
        let listed = server.tools()?;
        let removed = RemovedWays::new(condition);
        if matches!(strategy, Strategy::LroNative(_)) {
            tools.extend(definitions::extraction_tools(removed, &listed)?);
        }
        tools.extend(definitions::host_tools(strategy));
        Ok(Self {
            condition: *condition,
            strategy,
            removed,
            data_tool,
            tools,
            server,
            shell,
            python,
            records: RecordCounter::new(corpus)?,
            conversation: 0,
            spilled: 0,
            files,
            _directory: directory,
        })
    }

    /// The tools, with `answer`.
    pub fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// The name of the tool with the data.
    pub fn data_tool_name(&self) -> &str {
        self.data_tool.name()
    }

    /// The condition.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Begins a conversation without what the last one left: stored results, Python's variables and
    /// the files of a host.
    pub fn begin_conversation(&mut self) -> Result<()> {
        self.conversation += 1;
        if let Some(python) = &mut self.python {
            python.reset();
        }
        for number in 0..std::mem::take(&mut self.spilled) {
            fs::remove_file(self.spill_path(number))?;
        }
        self.files.clear_results()
    }

    /// Calls a tool. A call that is not valid is a reply with `is_error`; an error is a failure of the
    /// world.
    pub fn call(&mut self, name: &str, arguments: &Value) -> Result<ToolReply> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == name) else {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
            return Ok(ToolReply::error(format!(
                "there is no tool {name}; tools: {}",
                names.join(", ")
            )));
        };
        if let Some(problem) = self.problem(tool, arguments) {
            return Ok(ToolReply::error(problem));
        }
        if name == self.data_tool.name() {
            return self.data(arguments);
        }
        let text = |key: &str| arguments[key].as_str().unwrap_or_default();
        match name {
            ANSWER => Ok(match parse_answer(arguments) {
                Ok(_) => ToolReply { text: "ok".to_owned(), ..ToolReply::default() },
                Err(problem) => ToolReply::error(problem),
            }),
            BASH => {
                let shell = self.shell.as_ref().context("a world with bash has a sandbox")?;
                let output = shell.bash(text("command"))?;
                Ok(self.code_reply(output))
            }
            PYTHON => {
                let python = self.python.as_mut().context("a world with Python has a sandbox")?;
                let output = python.execute(text("code"))?;
                Ok(self.code_reply(output))
            }
            READ_FILE => Ok(self.read_file(arguments)),
            _ => self.extract(name, arguments),
        }
    }

    /// Why a call is not valid. The program checks the arguments of its own tools, unless some of them
    /// are cut; the tools of a host ignore arguments that they do not have.
    fn problem(&self, tool: &ToolDefinition, arguments: &Value) -> Option<String> {
        if !arguments.is_object() && !arguments.is_null() {
            return Some("the arguments must be an object".to_owned());
        }
        let is_cut = !self.removed.is_empty() && definitions::is_extraction(&tool.name);
        if !is_cut && tool.name != self.data_tool.name() {
            return None;
        }
        let mut names = arguments.as_object().into_iter().flat_map(Map::keys);
        match names.find(|name| !tool.has_argument(name)) {
            Some(unknown) => Some(format!("{} has no argument {unknown}", tool.name)),
            None if is_cut => replies::refusal(self.removed, &tool.name, arguments),
            None => None,
        }
    }

    /// Calls the tool that returns the corpus.
    fn data(&mut self, arguments: &Value) -> Result<ToolReply> {
        let request = self.data_tool.request(self.strategy, self.conversation, arguments);
        let (mut result, figures) = self.server.call(self.data_tool.name(), &request)?;
        let is_error = result["isError"] == true;
        ablation::apply(&self.condition, &mut result);
        let mut text = text_of(&result);
        let mut records_given = 0;
        if !is_error && !is_descriptor(&text) {
            records_given = data_tool::records_in(&text);
            if self.strategy == Strategy::Summary {
                text = data_tool::summary(&text).context("a page of memories")?;
            }
            if self.strategy == Strategy::ClientSpill {
                text = self.spill(&text)?;
                records_given = 0;
            }
            if let Some(python) = &mut self.python {
                python.add_page(&text);
            }
        }
        Ok(ToolReply { text, is_error, records_given, write_micros: figures.write_micros })
    }

    /// Writes a result to a file, as a host does.
    fn spill(&mut self, text: &str) -> Result<String> {
        let path = self.spill_path(self.spilled);
        self.spilled += 1;
        fs::write(&path, text)?;
        Ok(data_tool::spill_note(text, &path.display().to_string()))
    }

    fn spill_path(&self, number: u32) -> PathBuf {
        self.files.spilled().join(format!("{}-{number}.txt", self.data_tool.name()))
    }

    /// Calls an extraction tool.
    fn extract(&mut self, name: &str, arguments: &Value) -> Result<ToolReply> {
        let (result, figures) = self.server.call(name, arguments)?;
        let (mut text, is_error) = (text_of(&result), result["isError"] == true);
        if is_error {
            text = replies::without_removed(self.removed, &text);
        }
        Ok(ToolReply {
            text,
            is_error,
            records_given: figures.records_given,
            write_micros: figures.write_micros,
        })
    }

    fn code_reply(&self, output: CommandOutput) -> ToolReply {
        let CommandOutput { text, failed } = output;
        let records_given = self.records.count(&text);
        ToolReply { text, is_error: failed, records_given, write_micros: None }
    }

    /// Reads lines of a stored file.
    fn read_file(&self, arguments: &Value) -> ToolReply {
        let path = arguments["path"].as_str().unwrap_or_default();
        let number = |key: &str| arguments[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let results = self.files.results();
        let stored = Path::new(path).canonicalize().ok();
        let stored = stored.filter(|file| file.starts_with(&results) && file.is_file());
        // A file that is not text is no file of this tool, either.
        let Some(content) = stored.and_then(|file| fs::read_to_string(file).ok()) else {
            return ToolReply::error(format!("cannot read {path}: not a stored file"));
        };
        let first = number("offset").unwrap_or(1).max(1);
        let text = file_range(&content, first, number("limit").unwrap_or(DEFAULT_FILE_LINES));
        let records_given = self.records.count(&text);
        ToolReply { text, records_given, ..ToolReply::default() }
    }
}

/// A new directory. Descriptors contain its path, and the tokens of random names differ; all numbers of
/// nine digits have the same.
fn numbered_directory() -> Result<TempDir> {
    static CREATED: AtomicU64 = AtomicU64::new(0);
    loop {
        let created = CREATED.fetch_add(1, Ordering::Relaxed);
        // Processes that run at the same time begin at different numbers.
        let number = (u64::from(std::process::id()) * 1000 + created) % MAX_NUMBERED;
        let name = format!("{number:09}");
        match tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            directory => return Ok(directory?),
        }
    }
}

/// The settings of the program for a condition.
fn settings(condition: &Condition, strategy: Strategy) -> Vec<&'static str> {
    match strategy {
        Strategy::LroNative(_) => ablation::settings(condition.ablation).to_vec(),
        Strategy::LroShell | Strategy::Truncation => ablation::settings(condition.ablation)
            .iter()
            .copied()
            .chain(["proxy.tools=none"])
            .collect(),
        _ => vec!["prompt.offload.enabled=false"],
    }
}

/// Lines of a file from `first` on, and how to go on.
fn file_range(content: &str, first: usize, limit: usize) -> String {
    let total = content.lines().count();
    let mut text = String::new();
    let mut last = first - 1;
    for line in content.lines().skip(first - 1).take(limit.max(1)) {
        if !text.is_empty() && text.len() + line.len() > MAX_FILE_BYTES {
            break;
        }
        text.push_str(line);
        text.push('\n');
        last += 1;
    }
    let _ = write!(text, "[lines {first} to {last} of {total}");
    if last < total && last >= first {
        let _ = write!(text, "; continue with offset={}", last + 1);
    }
    text + "]"
}

/// The lines of a file in the reply of `read_file`, and the offset of the next lines.
pub(crate) fn next_file_offset(reply: &str) -> (&str, Option<usize>) {
    let (lines, note) = match reply.rsplit_once('\n') {
        Some((lines, note)) => (lines, note),
        None => ("", reply),
    };
    let offset = note.split_once("; continue with offset=").map(|(_, offset)| offset);
    (lines, offset.and_then(|offset| offset.trim_end_matches(']').parse().ok()))
}

/// The texts of a result.
fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

fn is_descriptor(text: &str) -> bool {
    // Cheaper than to parse every page.
    let mentions = text.get(..MAX_FILE_BYTES).unwrap_or(text).contains("\"offloaded\":true");
    mentions
        && serde_json::from_str::<Value>(text)
            .is_ok_and(|value| ablation::descriptor_in(&value).is_some())
}

/// Counts records in the output of code, which the ledger of the program does not know.
#[derive(Debug)]
enum RecordCounter {
    /// By the ids that occur.
    Ids(Vec<String>),
    /// By lines, of at most so many records.
    Lines(usize),
}

impl RecordCounter {
    fn new(corpus: &Corpus) -> Result<Self> {
        if corpus.id.kind != CorpusKind::Memories {
            return Ok(Self::Lines(corpus.id.size));
        }
        let records = corpus.records()?;
        let ids = records.iter().filter_map(|record| Some(record["id"].as_str()?.to_owned()));
        Ok(Self::Ids(ids.collect()))
    }

    fn count(&self, text: &str) -> u64 {
        let count = match self {
            Self::Ids(ids) => ids.iter().filter(|id| has_record(text, id)).count(),
            Self::Lines(most) => text.lines().filter(|line| !line.is_empty()).count().min(*most),
        };
        count as u64
    }
}

/// Whether an id occurs other than as the target of a relationship.
fn has_record(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(at, _)| !text[..at].ends_with(URN))
}

/// The answer in the arguments of the tool `answer`.
pub fn parse_answer(arguments: &Value) -> Result<Answer, String> {
    answer_value(&arguments["value"]).ok_or_else(|| {
        "value must be a number, a text (none if nothing matches), or a list of these".to_owned()
    })
}

fn answer_value(value: &Value) -> Option<Answer> {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(count) => Some(Answer::Count(count)),
            // Some models send 8.0 for 8.
            None => number
                .as_f64()
                .filter(|number| number.fract() == 0.0)
                .and_then(|number| format!("{number:.0}").parse().ok().map(Answer::Count)),
        },
        // Some models send every argument as a text.
        Value::String(text) => match text.trim().parse() {
            Ok(count) => Some(Answer::Count(count)),
            Err(_) => Some(Answer::Text(text.clone())),
        },
        Value::Array(values) => {
            values.iter().map(answer_value).collect::<Option<Vec<_>>>().map(Answer::List)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::condition::{Ablation, QueryLanguage};

    #[test]
    fn answers_are_numbers_texts_and_lists() {
        let parse = |value: Value| parse_answer(&json!({"value": value}));
        assert_eq!(parse(json!(8)), Ok(Answer::Count(8)));
        assert_eq!(parse(json!(8.0)), Ok(Answer::Count(8)));
        assert_eq!(parse(json!(" 8 ")), Ok(Answer::Count(8)));
        assert_eq!(parse(json!("none")), Ok(Answer::Text("none".to_owned())));
        assert_eq!(
            parse(json!([3, "b"])),
            Ok(Answer::List(vec![Answer::Count(3), Answer::Text("b".to_owned())]))
        );
        for value in [json!(null), json!(-1), json!(1.5), json!({"n": 8}), json!([null])] {
            assert!(parse(value.clone()).is_err(), "{value}");
        }
        assert!(parse_answer(&json!({})).is_err());
        assert!(parse_answer(&Value::Null).is_err());
    }

    #[test]
    fn a_range_of_a_file_says_how_to_go_on() {
        let content = "a\nb\nc\n";
        assert_eq!(file_range(content, 1, 2), "a\nb\n[lines 1 to 2 of 3; continue with offset=3]");
        assert_eq!(file_range(content, 3, 100), "c\n[lines 3 to 3 of 3]");
        assert_eq!(next_file_offset(&file_range(content, 1, 2)), ("a\nb", Some(3)));
        assert_eq!(next_file_offset(&file_range(content, 3, 100)), ("c", None));
        assert_eq!(next_file_offset(&file_range(content, 9, 100)), ("", None));
        assert_eq!(file_range(content, 9, 100), "[lines 9 to 8 of 3]");
        let long = "x".repeat(MAX_FILE_BYTES + 1);
        let text = file_range(&format!("{long}\nb\n"), 1, 100);
        assert!(text.ends_with("x\n[lines 1 to 1 of 2; continue with offset=2]"));
    }

    #[test]
    fn a_record_is_counted_by_its_id_and_not_where_others_refer_to_it() {
        let counter = RecordCounter::Ids(vec!["a1".to_owned(), "b2".to_owned()]);
        assert_eq!(
            counter.count(r#"{"id": "a1", "relationships": [{"target": "urn:mif:b2"}]}"#),
            1
        );
        assert_eq!(counter.count("urn:mif:b2\nb2\na1"), 2);
        assert_eq!(RecordCounter::Lines(2).count("x\n\ny\nz\n"), 2);
    }

    #[test]
    fn baselines_run_without_offloading() {
        let settings = |strategy, ablation| {
            let condition = Condition::with_ablation(strategy, ablation);
            settings(&condition, condition.effective_strategy())
        };
        let off = ["prompt.offload.enabled=false"];
        assert_eq!(settings(Strategy::InlineWhole, Ablation::Full), off);
        assert_eq!(settings(Strategy::ClientSpill, Ablation::Full), off);
        assert_eq!(settings(Strategy::LroShell, Ablation::Inline), off);
        assert_eq!(settings(Strategy::LroShell, Ablation::Full), ["proxy.tools=none"]);
        let native = Strategy::LroNative(QueryLanguage::All);
        assert_eq!(settings(native, Ablation::Compact), ["prompt.offload.descriptor=compact"]);
        assert_eq!(settings(native, Ablation::NoRecipesSetting), ["prompt.offload.recipes=false"]);
        assert!(settings(native, Ablation::NoRecipes).is_empty());
    }
}
