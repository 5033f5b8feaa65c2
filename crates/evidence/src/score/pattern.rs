//! How an extraction command relates to the recipes of a descriptor.
//!
//! Commands are compared as normalized syntax trees (jq) or tokens (SQL). A recipe with other values is
//! the same recipe; a command that contains the criterion of a recipe is composed of it.

use lro_core::{Detail, OptionalFields, RecipeInput, recipes};
use serde::Serialize;

use super::command::ExtractionCommand;
use super::jq_tree::JqNode;
use super::sql_tokens;
use crate::statistics::real_len;

/// The least alignment of an adapted command.
const MIN_ADAPTED_ALIGNMENT: f64 = 0.6;

/// The recipes as SQL, and the statements that the guidance shows. Without them, an agent that prefers
/// SQL could not follow a recipe.
const SQL_LIBRARY: [&str; 14] = [
    "SELECT namespace, count(*) FROM results GROUP BY 1",
    "SELECT id, title FROM results WHERE title LIKE '%your term%'",
    "SELECT title, namespace FROM results",
    "SELECT * FROM results WHERE namespace LIKE '_semantic%'",
    "SELECT * FROM results WHERE title LIKE '%keyword%'",
    "SELECT id, title, namespace FROM results",
    "SELECT * FROM results WHERE memory_type = 'semantic'",
    "SELECT namespace, count(*) FROM results GROUP BY namespace",
    "SELECT * FROM results WHERE EXISTS (SELECT 1 FROM json_each(tags) WHERE value = 'TAG')",
    "SELECT * FROM results ORDER BY created",
    "SELECT DISTINCT namespace FROM results",
    "SELECT memory_type, count(*) FROM results GROUP BY memory_type",
    "SELECT * FROM results ORDER BY \"provenance.confidence\" DESC",
    "SELECT * FROM results WHERE content LIKE '%keyword%'",
];

/// The relation of a command to the recipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandClass {
    /// A recipe as it is.
    Verbatim,
    /// A recipe with other values.
    Parameterised,
    /// A recipe with other fields or operators.
    Adapted,
    /// Several recipes, or a recipe within a larger command.
    Composed,
    /// Anything else.
    Novel,
}

impl CommandClass {
    /// All classes, from the closest to a recipe.
    pub const ALL: [Self; 5] =
        [Self::Verbatim, Self::Parameterised, Self::Adapted, Self::Composed, Self::Novel];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verbatim => "verbatim",
            Self::Parameterised => "parameterised",
            Self::Adapted => "adapted",
            Self::Composed => "composed",
            Self::Novel => "novel",
        }
    }
}

/// The class of a command, and its similarity to the closest recipe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CommandScore {
    /// The class.
    pub class: CommandClass,
    /// From 0 to 1: the common labels of the two trees, in order, values left out.
    pub alignment: f64,
}

/// The recipes, normalized.
#[derive(Debug)]
pub(super) struct RecipeLibrary {
    jq: Vec<JqRecipeTree>,
    sql: Vec<SqlRecipe>,
}

#[derive(Debug)]
struct JqRecipeTree {
    whole: bool,
    program: JqNode,
    blank: JqNode,
    /// What makes the recipe: the condition of a `select`, else all of it.
    criterion: JqNode,
    labels: Vec<String>,
}

#[derive(Debug)]
struct SqlRecipe {
    tokens: Vec<sql_tokens::SqlToken>,
    blank: Vec<String>,
}

impl RecipeLibrary {
    /// The recipes of all detail levels.
    pub(super) fn new() -> Self {
        let mut jq: Vec<JqRecipeTree> = Vec::new();
        for detail in [Detail::Light, Detail::Medium, Detail::Full] {
            for recipe in recipes(detail, OptionalFields::ALWAYS) {
                let Some(program) = JqNode::parse(&recipe.filter) else { continue };
                if !jq.iter().any(|other| other.program == program) {
                    jq.push(JqRecipeTree::new(recipe.input == RecipeInput::WholeSet, program));
                }
            }
        }
        let sql = SQL_LIBRARY.iter().map(|statement| {
            let tokens = sql_tokens::tokens(statement);
            SqlRecipe { blank: sql_tokens::without_literals(&tokens), tokens }
        });
        Self { jq, sql: sql.collect() }
    }

    /// The class and alignment of a command.
    pub(super) fn score(&self, command: &ExtractionCommand) -> CommandScore {
        match command {
            ExtractionCommand::Recipe { parameters: false } => CommandClass::Verbatim.exact(),
            ExtractionCommand::Recipe { parameters: true } => CommandClass::Parameterised.exact(),
            ExtractionCommand::Jq { whole, program: Some(program) } => {
                self.score_jq(*whole, program)
            }
            ExtractionCommand::Sql(statement) => self.score_sql(statement),
            ExtractionCommand::Jq { program: None, .. } | ExtractionCommand::Other => {
                CommandScore { class: CommandClass::Novel, alignment: 0.0 }
            }
        }
    }

    fn score_jq(&self, whole: bool, program: &JqNode) -> CommandScore {
        let same = |recipe: &JqRecipeTree| recipe.whole == whole && recipe.program == *program;
        if self.jq.iter().any(same) {
            return CommandClass::Verbatim.exact();
        }
        let blank = program.without_literals();
        if self.jq.iter().any(|recipe| recipe.whole == whole && recipe.blank == blank) {
            return CommandClass::Parameterised.exact();
        }
        let labels = blank.labels();
        let alignments = self.jq.iter().map(|recipe| similarity(&recipe.labels, &labels));
        let composed = self.jq.iter().any(|recipe| blank.contains(recipe.criterion.stages()));
        CommandScore::inexact(composed, alignments)
    }

    fn score_sql(&self, statement: &str) -> CommandScore {
        let tokens = sql_tokens::tokens(statement);
        if self.sql.iter().any(|recipe| recipe.tokens == tokens) {
            return CommandClass::Verbatim.exact();
        }
        let blank = sql_tokens::without_literals(&tokens);
        if self.sql.iter().any(|recipe| recipe.blank == blank) {
            return CommandClass::Parameterised.exact();
        }
        let alignments = self.sql.iter().map(|recipe| similarity(&recipe.blank, &blank));
        let composed = self.sql.iter().any(|recipe| {
            let criterion = sql_tokens::criterion(&recipe.blank);
            blank.windows(criterion.len()).any(|window| window == criterion)
        });
        CommandScore::inexact(composed, alignments)
    }
}

impl JqRecipeTree {
    fn new(whole: bool, program: JqNode) -> Self {
        let blank = program.without_literals();
        let criterion = match blank.children.as_slice() {
            [condition] if blank.label == "select" => condition.clone(),
            _ => blank.clone(),
        };
        Self { whole, program, criterion, labels: blank.labels(), blank }
    }
}

impl CommandClass {
    fn exact(self) -> CommandScore {
        CommandScore { class: self, alignment: 1.0 }
    }
}

impl CommandScore {
    fn inexact(composed: bool, alignments: impl Iterator<Item = f64>) -> Self {
        let alignment = alignments.fold(0.0, f64::max);
        let class = if composed {
            CommandClass::Composed
        } else if alignment >= MIN_ADAPTED_ALIGNMENT {
            CommandClass::Adapted
        } else {
            CommandClass::Novel
        };
        Self { class, alignment }
    }
}

/// Twice the length of the longest common subsequence by the sum of the lengths.
fn similarity(left: &[String], right: &[String]) -> f64 {
    let mut row = vec![0_usize; right.len() + 1];
    for one in left {
        let mut diagonal = 0;
        for (at, other) in right.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if one == other { diagonal + 1 } else { above.max(row[at]) };
            diagonal = above;
        }
    }
    let common = row.last().copied().unwrap_or_default();
    2.0 * real_len(common) / real_len((left.len() + right.len()).max(1))
}

#[cfg(test)]
mod tests {
    use lro_core::guidance::without_recipes;
    use lro_core::{Extraction, Location, ResultId, Tokens};

    use super::*;

    fn jq(whole: bool, program: &str) -> CommandClass {
        let command = ExtractionCommand::Jq { whole, program: JqNode::parse(program) };
        RecipeLibrary::new().score(&command).class
    }

    fn sql(statement: &str) -> CommandClass {
        RecipeLibrary::new().score(&ExtractionCommand::Sql(statement.to_owned())).class
    }

    #[test]
    fn every_recipe_is_verbatim() {
        for detail in [Detail::Light, Detail::Medium, Detail::Full] {
            for recipe in recipes(detail, OptionalFields::ALWAYS) {
                let whole = recipe.input == RecipeInput::WholeSet;
                assert_eq!(jq(whole, &recipe.filter), CommandClass::Verbatim, "{}", recipe.filter);
            }
        }
        for statement in SQL_LIBRARY {
            assert_eq!(sql(statement), CommandClass::Verbatim, "{statement}");
        }
    }

    #[test]
    fn the_library_has_the_statements_of_the_guidance() {
        let reference = ResultId::new(0, 0).reference();
        let guidance = without_recipes(
            Extraction::Native,
            50,
            Tokens(7750),
            Detail::Full,
            Location::File("/tmp/x.jsonl"),
            reference,
        );
        let examples: Vec<&str> = guidance
            .split("sql=\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(statement, _)| statement)
            .collect();
        assert_eq!(examples, SQL_LIBRARY[..2]);
    }

    #[test]
    fn jq_programs_have_classes() {
        for (whole, program, class) in [
            (false, "select(.title|test(\"keyword\"; \"i\"))", CommandClass::Verbatim),
            (false, "select(.title | test(\"postgres\"; \"i\"))", CommandClass::Parameterised),
            (false, "select(.namespace | startswith($ns))", CommandClass::Parameterised),
            (false, "select(.entity_type == \"person\")", CommandClass::Adapted),
            (
                true,
                "group_by(.status) | map({status: .[0].status, count: length})",
                CommandClass::Adapted,
            ),
            (
                false,
                "select((.namespace | startswith(\"_x\")) and .extensions.bench.priority >= 3)",
                CommandClass::Composed,
            ),
            (true, "map(select(.memory_type == \"episodic\")) | length", CommandClass::Composed),
            (true, "length", CommandClass::Novel),
            (false, ".id as $id | [\"a\", \"b\"] | index($id)", CommandClass::Novel),
        ] {
            assert_eq!(jq(whole, program), class, "{program}");
        }
    }

    #[test]
    fn statements_have_classes() {
        for (statement, class) in [
            ("select * from results where memory_type='episodic';", CommandClass::Parameterised),
            ("SELECT status, count(*) FROM results GROUP BY status", CommandClass::Adapted),
            (
                "SELECT count(*) FROM results WHERE namespace LIKE '_x%' AND content REGEXP 'y'",
                CommandClass::Composed,
            ),
            ("WITH t AS (VALUES (1)) SELECT max(x) FROM t, u", CommandClass::Novel),
        ] {
            assert_eq!(sql(statement), class, "{statement}");
        }
    }

    #[test]
    fn similarity_is_between_0_and_1() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let close = |left: f64, right: f64| assert!((left - right).abs() < 1e-12, "{left}");
        close(similarity(&list("a b c"), &list("a b c")), 1.0);
        close(similarity(&list("a b c d"), &list("a x c d")), 0.75);
        close(similarity(&list("a"), &list("b")), 0.0);
        close(similarity(&[], &[]), 0.0);
    }
}
