//! The extraction commands of a tool call: recipes, jq programs, SQL statements, and others.

use serde_json::Value;

use super::jq_tree::JqNode;
use super::shell::{Words, pipelines};
use crate::transcript::CallRecord;

/// Programs that compute something from a file. Without one of them, a shell command only looks at it.
const SHELL_TOOLS: [&str; 12] = [
    "awk", "cut", "duckdb", "egrep", "gawk", "grep", "perl", "python", "python3", "rg", "sed",
    "sqlite3",
];
/// Options of jq with the number of their arguments.
const JQ_OPTIONS: [(&str, usize); 8] = [
    ("--arg", 2),
    ("--argjson", 2),
    ("--argfile", 2),
    ("--slurpfile", 2),
    ("--rawfile", 2),
    ("--indent", 1),
    ("--from-file", 1),
    ("-L", 1),
];
/// Programs that only pass lines on to jq.
const SOURCES: [&str; 4] = ["cat", "head", "tail", "sed"];

/// An extraction command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExtractionCommand {
    /// A recipe by its number.
    Recipe {
        /// Whether it has parameters.
        parameters: bool,
    },
    /// A jq program, with the shell commands after it as further stages. `None` if it is invalid.
    Jq {
        /// Whether it runs on the array of all records.
        whole: bool,
        program: Option<JqNode>,
    },
    /// An SQL statement.
    Sql(String),
    /// Another program or a search.
    Other,
}

/// The tools whose calls can determine an answer, besides `answer`: all that read a stored result.
pub(super) fn is_extraction(tool: &str) -> bool {
    let is_native = matches!(
        tool,
        "lro_extract" | "read_large_output" | "search_large_output" | "query_large_output"
    );
    is_native || is_code(tool)
}

/// Whether a tool runs the agent's code or reads a file for it, so that its reply is what was printed.
pub(super) fn is_code(tool: &str) -> bool {
    matches!(tool, "bash" | "python_exec" | "read_file")
}

/// The extraction commands of a call. Reading a range, or looking at a file, is none.
pub(super) fn extraction_commands(call: &CallRecord) -> Vec<ExtractionCommand> {
    let text = |name: &str| call.arguments.get(name).and_then(Value::as_str);
    let whole = call.arguments.get("whole").and_then(Value::as_bool).unwrap_or_default();
    let jq = |program: &str| ExtractionCommand::Jq { whole, program: JqNode::parse(program) };
    match call.tool.as_str() {
        "lro_extract" => {
            if call.arguments.get("recipe").is_some_and(|recipe| !recipe.is_null()) {
                let parameters = call.arguments.get("params").and_then(Value::as_object);
                let parameters = parameters.is_some_and(|parameters| !parameters.is_empty());
                return vec![ExtractionCommand::Recipe { parameters }];
            }
            let sql = text("sql").map(|sql| ExtractionCommand::Sql(sql.to_owned()));
            sql.or_else(|| text("query").map(jq)).into_iter().collect()
        }
        "query_large_output" => text("query").map(jq).into_iter().collect(),
        "search_large_output" | "python_exec" => vec![ExtractionCommand::Other],
        "bash" => {
            let script = text("command").or_else(|| text("cmd")).unwrap_or_default();
            pipelines(script).iter().filter_map(|pipeline| from_pipeline(pipeline)).collect()
        }
        _ => Vec::new(),
    }
}

fn from_pipeline(pipeline: &[Words]) -> Option<ExtractionCommand> {
    let name = |words: &Words| words[0].rsplit('/').next().unwrap_or_default().to_owned();
    let names: Vec<String> = pipeline.iter().map(name).collect();
    let is_jq = |name: &String| matches!(name.as_str(), "jq" | "jaq");
    let Some(first) = names.iter().position(is_jq) else {
        let sql = pipeline.iter().zip(&names).find_map(|(words, name)| statement(name, words));
        let computes = names.iter().any(|name| SHELL_TOOLS.contains(&name.as_str()));
        return sql
            .map(ExtractionCommand::Sql)
            .or_else(|| computes.then_some(ExtractionCommand::Other));
    };
    let (mut whole, mut stages) = (false, Vec::new());
    for (at, (words, name)) in pipeline.iter().zip(&names).enumerate() {
        if is_jq(name) {
            let arguments = JqArguments::parse(&words[1..]);
            whole |= arguments.slurp;
            let Some(node) = arguments.program.as_deref().and_then(JqNode::parse) else {
                return Some(ExtractionCommand::Jq { whole, program: None });
            };
            stages.extend(node.stages().iter().cloned());
        } else if at > first || !SOURCES.contains(&name.as_str()) {
            stages.push(JqNode::new(format!("$ {name}"), Vec::new()));
        }
    }
    Some(ExtractionCommand::Jq { whole, program: Some(JqNode::sequence(stages)) })
}

/// The statement of a command of an SQL engine.
fn statement(name: &str, words: &[String]) -> Option<String> {
    if !matches!(name, "sqlite3" | "duckdb") {
        return None;
    }
    let begins = |word: &&String| {
        let first = word.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        matches!(first.as_str(), "select" | "with")
    };
    words.iter().find(begins).cloned()
}

#[derive(Debug, Default, PartialEq)]
struct JqArguments {
    slurp: bool,
    program: Option<String>,
}

impl JqArguments {
    fn parse(words: &[String]) -> Self {
        let mut parsed = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let arguments = JQ_OPTIONS.iter().find(|(option, _)| option == word);
            if let Some((_, arguments)) = arguments {
                words.nth(*arguments - 1);
            } else if let Some(option) = word.strip_prefix("--") {
                parsed.slurp |= option == "slurp";
            } else if let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty()) {
                parsed.slurp |= flags.contains('s');
            } else if parsed.program.is_none() {
                parsed.program = Some(word.clone());
            }
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn commands(tool: &str, arguments: Value) -> Vec<ExtractionCommand> {
        extraction_commands(&CallRecord {
            turn: 0,
            tool: tool.to_owned(),
            arguments,
            reply: String::new(),
            reply_tokens: 0,
            is_error: false,
            records_given: 0,
            write_micros: None,
        })
    }

    fn jq(whole: bool, program: &str) -> ExtractionCommand {
        ExtractionCommand::Jq { whole, program: Some(JqNode::parse(program).unwrap()) }
    }

    #[test]
    fn native_calls() {
        let recipe = |parameters| vec![ExtractionCommand::Recipe { parameters }];
        assert_eq!(commands("lro_extract", json!({"recipe": 1})), recipe(false));
        assert_eq!(
            commands("lro_extract", json!({"recipe": 2, "params": {"a": "b"}})),
            recipe(true)
        );
        let whole = json!({"query": "length", "whole": true});
        assert_eq!(commands("lro_extract", whole.clone()), [jq(true, "length")]);
        assert_eq!(commands("query_large_output", whole), [jq(true, "length")]);
        let sql = ExtractionCommand::Sql("SELECT 1".to_owned());
        assert_eq!(commands("lro_extract", json!({"sql": "SELECT 1"})), [sql]);
        assert!(commands("lro_extract", json!({"ref": "x"})).is_empty());
        assert!(commands("read_large_output", json!({"start": 1})).is_empty());
    }

    #[test]
    fn shell_commands() {
        let bash = |script: &str| commands("bash", json!({"command": script}));
        assert_eq!(bash("tail -n +2 f | jq -r '.a'"), [jq(false, ".a")]);
        assert_eq!(bash("jq -sc --arg x y 'map(.a)' f"), [jq(true, "map(.a)")]);
        assert_eq!(bash("jq --slurp . f | jq length"), [jq(true, ". | length")]);
        assert!(bash("ls; head -3 f").is_empty());
        assert_eq!(bash("grep -c x f"), [ExtractionCommand::Other]);
        assert_eq!(bash("jq 'select(' f"), [ExtractionCommand::Jq { whole: false, program: None }]);
        let sql = ExtractionCommand::Sql("select 1".to_owned());
        assert_eq!(bash("sqlite3 :memory: 'select 1'"), [sql]);
    }

    #[test]
    fn shell_commands_after_jq_are_stages() {
        let [ExtractionCommand::Jq { program: Some(program), .. }] =
            &commands("bash", json!({"command": "jq .a f | sort | uniq -c"}))[..]
        else {
            panic!("not one jq command");
        };
        assert_eq!(program.labels(), ["|", ".a", "$ sort", "$ uniq"]);
    }
}
