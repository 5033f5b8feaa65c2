//! Definitions of the tools that an agent sees beside the one that returns the corpus: the extraction
//! tools, without what a condition leaves out, and the tools of a host.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::ablation::RemovedWays;
use crate::condition::{PythonPages, Strategy};
use crate::world::ToolDefinition;

/// The tool that ends a conversation.
pub(crate) const ANSWER: &str = "answer";
/// The shell.
pub(crate) const BASH: &str = "bash";
/// Python.
pub(crate) const PYTHON: &str = "python_exec";
/// The tool that reads lines of a file.
pub(crate) const READ_FILE: &str = "read_file";
/// The extraction tool that has every way to query.
pub(crate) const EXTRACT: &str = "lro_extract";
/// The extraction tool that runs jq.
const QUERY: &str = "query_large_output";
/// The extraction tools, in the order of the listing.
const EXTRACTION: [&str; 4] = [EXTRACT, "read_large_output", "search_large_output", QUERY];

/// A part of the definition of `lro_extract`.
struct Clause {
    /// The beginning of what the description says about it.
    begin: &'static str,
    /// The beginning of what follows in the description.
    end: &'static str,
    /// Its arguments.
    arguments: &'static [&'static str],
    /// What the description of the argument `params` says about it.
    params: &'static str,
}

const RECIPE: Clause = Clause {
    begin: "recipe (",
    end: "query (",
    arguments: &["recipe"],
    params: "namespace, keyword, memory_type, tag for recipes; ",
};
const JQ: Clause = Clause {
    begin: "query (",
    end: "sql (",
    arguments: &["query", "whole"],
    params: "$name in jq, ",
};
const SQL: Clause = Clause {
    begin: "; sql (",
    end: ". Continue",
    arguments: &["sql", "with"],
    params: ", :name in SQL",
};

/// The tools of a host for this strategy, and `answer`.
pub(crate) fn host_tools(strategy: Strategy) -> Vec<ToolDefinition> {
    let mut tools = match strategy {
        Strategy::LroShell | Strategy::ClientSpill => vec![bash()],
        Strategy::InlineCode { pages, .. } => vec![python(pages)],
        Strategy::Truncation => vec![read_file()],
        _ => Vec::new(),
    };
    tools.push(answer());
    tools
}

/// Whether a tool is an extraction tool.
pub(crate) fn is_extraction(name: &str) -> bool {
    EXTRACTION.contains(&name)
}

/// The extraction tools of a listing, without the ways to query that a condition removes.
pub(crate) fn extraction_tools(
    removed: RemovedWays,
    listed: &[Value],
) -> Result<Vec<ToolDefinition>> {
    let mut tools = Vec::new();
    for name in EXTRACTION {
        if name == QUERY && removed.jq {
            continue;
        }
        let tool = listed.iter().find(|tool| tool["name"] == name);
        let tool = tool.with_context(|| format!("the program does not list the tool {name}"))?;
        let mut tool = ToolDefinition::from_listing(tool)?;
        if name == EXTRACT {
            let clauses = [(removed.recipes, &RECIPE), (removed.jq, &JQ), (removed.sql, &SQL)];
            for (_, clause) in clauses.into_iter().filter(|(is_removed, _)| *is_removed) {
                tool.cut(clause)?;
            }
        }
        tools.push(tool);
    }
    Ok(tools)
}

impl ToolDefinition {
    /// The definition in a listing of tools.
    pub(crate) fn from_listing(tool: &Value) -> Result<Self> {
        let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
        let (name, description) = (text("name"), text("description"));
        ensure!(!name.is_empty(), "a tool without a name: {tool}");
        Ok(Self { name, description, input_schema: tool["inputSchema"].clone() })
    }

    /// Removes a part, from the description and from the arguments.
    fn cut(&mut self, clause: &Clause) -> Result<()> {
        let begin = self.description.find(clause.begin);
        let end = begin.and_then(|at| Some(at + self.description[at..].find(clause.end)?));
        let (begin, end) = begin.zip(end).with_context(|| {
            format!("the description of {} does not explain {:?}", self.name, clause.begin)
        })?;
        self.description.replace_range(begin..end, "");
        let properties = self.input_schema["properties"].as_object_mut();
        let properties = properties.with_context(|| format!("{} has no arguments", self.name))?;
        for argument in clause.arguments {
            let removed = properties.shift_remove(*argument);
            ensure!(removed.is_some(), "{} has no argument {argument}", self.name);
        }
        let params = properties.get_mut("params").and_then(|params| params.get_mut("description"));
        let params = params.with_context(|| format!("{} does not describe params", self.name))?;
        let words = params.as_str().unwrap_or_default();
        ensure!(words.contains(clause.params), "{} describes params as {words:?}", self.name);
        *params = words.replace(clause.params, "").into();
        Ok(())
    }

    /// Whether the tool has this argument.
    pub(crate) fn has_argument(&self, name: &str) -> bool {
        self.input_schema["properties"].get(name).is_some()
    }
}

fn definition(
    name: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({"type": "object", "properties": properties, "required": required}),
    }
}

fn bash() -> ToolDefinition {
    let description = "Run a command in bash, without a network. Stored files can be read; /tmp can be \
         written and is empty at each call. jq is installed.";
    definition(BASH, description, &json!({"command": {"type": "string"}}), &["command"])
}

fn python(pages: PythonPages) -> ToolDefinition {
    let description = match pages {
        PythonPages::Absent => "Run Python code. Variables are kept between calls.",
        PythonPages::Reachable => {
            "Run Python code. Variables are kept between calls. The list `pages` contains the pages \
             that you have requested, parsed from JSON."
        }
    };
    definition(PYTHON, description, &json!({"code": {"type": "string"}}), &["code"])
}

fn read_file() -> ToolDefinition {
    let properties = json!({
        "path": {"type": "string"},
        "offset": {"type": "integer", "description": "First line, from 1"},
        "limit": {"type": "integer", "description": "Number of lines"},
    });
    definition(READ_FILE, "Read lines of a stored file.", &properties, &["path"])
}

fn answer() -> ToolDefinition {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let list = |item: Value| json!({"type": "array", "items": item});
    // The answer to one of several questions can be a list.
    let item = json!({"anyOf": [number, text, list(json!({"anyOf": [number, text]}))]});
    let value = json!({
        "description": "A number, a text, or a list in the requested order",
        "anyOf": [number, text, list(item)],
    });
    definition(ANSWER, "Give the answer and end.", &json!({"value": value}), &["value"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Ablation, Condition, QueryLanguage};
    use crate::corpora;
    use crate::task::Family;
    use crate::tasks;

    fn listing() -> Vec<Value> {
        let description = "Query a stored large result. Set one of: recipe (memories only); query (jq, \
             runs once); sql (SQLite SELECT; with adds tables). Continue a long answer with offset.";
        let params = "namespace, keyword, memory_type, tag for recipes; $name in jq, :name in SQL";
        let properties = json!({
            "ref": {}, "recipe": {}, "query": {}, "whole": {}, "sql": {}, "with": {},
            "params": {"description": params},
        });
        let tool = |name: &str| json!({"name": name, "description": description, "inputSchema": {"properties": properties}});
        EXTRACTION.iter().map(|name| tool(name)).collect()
    }

    fn tools(language: QueryLanguage, ablation: Ablation) -> Vec<ToolDefinition> {
        let condition = Condition::with_ablation(Strategy::LroNative(language), ablation);
        extraction_tools(RemovedWays::new(&condition), &listing()).unwrap()
    }

    fn arguments(tool: &ToolDefinition) -> Vec<&str> {
        tool.input_schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn a_language_is_cut_from_arguments_and_description() {
        let all = tools(QueryLanguage::All, Ablation::Full);
        assert_eq!(all.len(), 4);
        assert_eq!(arguments(&all[0]).len(), 7);
        let sql = tools(QueryLanguage::Sql, Ablation::Full);
        assert_eq!(sql.len(), 3, "query_large_output runs jq");
        assert_eq!(arguments(&sql[0]), ["ref", "recipe", "sql", "with", "params"]);
        assert_eq!(
            sql[0].description,
            "Query a stored large result. Set one of: recipe (memories only); sql (SQLite SELECT; with \
             adds tables). Continue a long answer with offset."
        );
        let jq = tools(QueryLanguage::Jq, Ablation::Full);
        assert_eq!(arguments(&jq[0]), ["ref", "recipe", "query", "whole", "params"]);
        assert_eq!(
            jq[0].description,
            "Query a stored large result. Set one of: recipe (memories only); query (jq, runs once). \
             Continue a long answer with offset."
        );
    }

    #[test]
    fn recipes_are_cut_where_the_descriptor_has_none() {
        for ablation in [Ablation::NoRecipes, Ablation::Bare, Ablation::PreviewOnly] {
            let tool = tools(QueryLanguage::All, ablation).remove(0);
            assert!(!tool.description.contains("recipe"), "{}", tool.description);
            assert!(!tool.has_argument("recipe"));
            assert!(tool.has_argument("query"));
            let params = &tool.input_schema["properties"]["params"]["description"];
            assert_eq!(params, "$name in jq, :name in SQL");
        }
    }

    #[test]
    fn a_changed_description_is_an_error() {
        let mut listing = listing();
        listing[0]["description"] = json!("Query a stored large result.");
        let removed = RemovedWays { recipes: true, ..RemovedWays::default() };
        let error = extraction_tools(removed, &listing).unwrap_err();
        assert!(error.to_string().contains("lro_extract"), "{error}");
    }

    #[test]
    fn the_setting_of_the_program_leaves_its_tools_as_they_are() {
        let setting = tools(QueryLanguage::All, Ablation::NoRecipesSetting);
        assert_eq!(setting, tools(QueryLanguage::All, Ablation::Full));
    }

    /// Whether a value is valid, for the keywords that the schema of `answer` has.
    fn is_valid(schema: &Value, value: &Value) -> bool {
        if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
            return options.iter().any(|option| is_valid(option, value));
        }
        match schema["type"].as_str() {
            Some("integer") => value.is_u64(),
            Some("string") => value.is_string(),
            Some("array") => value
                .as_array()
                .is_some_and(|items| items.iter().all(|item| is_valid(&schema["items"], item))),
            other => panic!("the schema has the type {other:?}"),
        }
    }

    #[test]
    fn every_expected_answer_is_valid() {
        let schema = answer().input_schema["properties"]["value"].take();
        let corpus = corpora::generate("memories-50".parse().unwrap());
        for family in Family::ALL {
            for task in tasks::generate(&corpus, family) {
                let value = json!(task.answer);
                assert!(is_valid(&schema, &value), "{}: {value}", task.id);
            }
        }
        for invalid in [json!(null), json!({"n": 8}), json!([[[8]]]), json!([null])] {
            assert!(!is_valid(&schema, &invalid), "{invalid}");
        }
    }

    #[test]
    fn every_world_has_answer_and_only_some_have_code() {
        let names = |strategy| {
            let tools = host_tools(strategy);
            tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(names(Strategy::LroShell), [BASH, ANSWER]);
        let python = Strategy::InlineCode { pages: PythonPages::Absent, page: 5 };
        assert_eq!(names(python), [PYTHON, ANSWER]);
        assert_eq!(names(Strategy::Truncation), [READ_FILE, ANSWER]);
        assert_eq!(names(Strategy::LroNative(QueryLanguage::All)), [ANSWER]);
        assert_eq!(names(Strategy::InlineWhole), [ANSWER]);
    }
}
