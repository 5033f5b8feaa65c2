//! The right query for a task, in jq and in SQL.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::reference::iteration::{PRIORITY_FIELD, sentences};
use crate::reference::no_match;
use crate::task::{Answer, Comparison, CorpusKind, Parameters, Predicate};
use crate::world::URN;

/// A query whose result determines the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// A jq filter on the array of all records. The records of a log are its lines.
    pub(super) jq: String,
    /// An SQL statement on the table `results`.
    pub(super) sql: String,
    /// How the answer follows from the values of the result.
    pub(super) form: AnswerForm,
}

/// How an answer follows from values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// It is a number.
    Count,
    /// It is a text, or there is none.
    Text,
    /// It is all texts in order.
    List,
    /// It is the sentence after this one in the text.
    SentenceAfter(String),
    /// It is the message of the line.
    Message,
}

/// The queries for the parameters of a task: one, or two for two questions.
pub(super) fn queries(kind: CorpusKind, parameters: &Parameters) -> Result<Vec<Query>> {
    match parameters {
        Parameters::Both { first, second } => {
            Ok([queries(kind, first)?, queries(kind, second)?].concat())
        }
        single => Ok(vec![query(kind, single)?]),
    }
}

/// The answer of a task from those of its queries.
pub(super) fn combined(parameters: &Parameters, answers: Vec<Answer>) -> Option<Answer> {
    match parameters {
        Parameters::Both { .. } => Some(Answer::List(answers)),
        _ => answers.into_iter().next(),
    }
}

impl AnswerForm {
    /// The answer in the values of a result. An array is its elements.
    pub(super) fn answer(&self, values: &[Value]) -> Result<Answer> {
        let values: Vec<&Value> = values
            .iter()
            .flat_map(|value| match value {
                Value::Array(elements) => elements.iter().collect::<Vec<_>>(),
                single => vec![single],
            })
            .filter(|value| !value.is_null())
            .collect();
        let texts: Vec<&str> = values.iter().filter_map(|value| value.as_str()).collect();
        Ok(match self {
            Self::Count => {
                let count = values.first().and_then(|value| value.as_u64());
                Answer::Count(count.with_context(|| format!("no number in {values:?}"))?)
            }
            Self::Text => text_or_none(texts.first().copied()),
            Self::List if texts.is_empty() => no_match(),
            Self::List => {
                Answer::List(texts.into_iter().map(|text| Answer::Text(text.to_owned())).collect())
            }
            Self::SentenceAfter(after) => {
                let text = texts.first().copied().unwrap_or_default();
                text_or_none(sentences(text).skip_while(|sentence| sentence != after).nth(1))
            }
            Self::Message => text_or_none(
                texts.first().and_then(|line| line.splitn(MESSAGE + 1, ' ').nth(MESSAGE)),
            ),
        })
    }
}

fn text_or_none(text: Option<&str>) -> Answer {
    text.map_or_else(no_match, |text| Answer::Text(text.to_owned()))
}

fn query(kind: CorpusKind, parameters: &Parameters) -> Result<Query> {
    let records = Records { kind };
    let predicate = |field: &str, comparison| Predicate { field: field.to_owned(), comparison };
    let priority = |least: u8| predicate(PRIORITY_FIELD, Comparison::AtLeast(u64::from(least)));
    let tagged = |tag: &str| predicate("tags", Comparison::Equals(tag.to_owned()));
    match parameters {
        Parameters::Ids { ids } => Ok(records.id_count(ids)),
        Parameters::Filter { namespace, min_priority, word } => records.count(&[
            predicate("namespace", Comparison::Within(namespace.clone())),
            priority(*min_priority),
            predicate("content", Comparison::Word(word.clone())),
        ]),
        Parameters::Matching { predicates } => records.count(predicates),
        Parameters::Group { by, predicates } => records.largest_group(by, predicates),
        Parameters::Top { tag, min_priority, n } => {
            records.top(&[tagged(tag), priority(*min_priority)], *n)
        }
        Parameters::Time { after, tag, last } => records.in_time(&tagged(tag), after, *last),
        Parameters::Related { namespace, min_priority, min_source_priority } => {
            let target = [
                predicate("namespace", Comparison::Within(namespace.clone())),
                priority(*min_priority),
            ];
            records.related(&target, &priority(*min_source_priority))
        }
        Parameters::Sentence { id, after } => {
            let field = kind.text_field().with_context(|| format!("{kind} has no sentences"))?;
            Ok(records.field_of(id, field, AnswerForm::SentenceAfter(after.clone())))
        }
        Parameters::Message { request } => {
            Ok(records.field_of(request, "text", AnswerForm::Message))
        }
        Parameters::Both { .. } => bail!("two questions need two queries"),
    }
}

/// The fields of a line of a log, by position.
const LINE_FIELDS: [&str; 6] = ["time", "level", "service", "host", "request", "message"];
/// The position of the message.
const MESSAGE: usize = 5;
/// The position of the request id.
const REQUEST: usize = 4;

/// Queries over the records of one kind.
#[derive(Debug, Clone, Copy)]
struct Records {
    kind: CorpusKind,
}

impl Records {
    fn id_field(self) -> &'static str {
        match self.kind {
            CorpusKind::Memories => "id",
            CorpusKind::Issues => "key",
            CorpusKind::Map => "_key",
            CorpusKind::Log => "request",
        }
    }

    /// The values of a field of one record, as a jq filter.
    fn jq_values(self, field: &str) -> Result<String> {
        if self.kind == CorpusKind::Log {
            let pattern = jq_text(&format!("{}(?<value>\\S+)", line_prefix(field)?));
            return Ok(format!("(capture({pattern}).value)"));
        }
        let steps = field.split('.').map(|name| {
            format!(".[{}]? | if type == \"array\" then .[] else . end", jq_text(name))
        });
        Ok(format!("({})", steps.collect::<Vec<_>>().join(" | ")))
    }

    /// A predicate on one record, as a jq filter.
    fn jq_predicate(self, predicate: &Predicate) -> Result<String> {
        if self.kind == CorpusKind::Log {
            let (pattern, flags) = line_pattern(predicate)?;
            return Ok(format!("test({}; {})", jq_text(&pattern), jq_text(flags)));
        }
        let condition = match &predicate.comparison {
            Comparison::Equals(text) => format!(". == {}", jq_text(text)),
            Comparison::AtLeast(least) => format!("type == \"number\" and . >= {least}"),
            Comparison::Word(word) => {
                let pattern = jq_text(&word_pattern(word));
                format!("type == \"string\" and test({pattern}; \"i\")")
            }
            Comparison::Within(namespace) => format!(
                "type == \"string\" and (. == {} or startswith({}))",
                jq_text(namespace),
                jq_text(&format!("{namespace}/"))
            ),
        };
        Ok(format!("any({}; {condition})", self.jq_values(&predicate.field)?))
    }

    /// The records that meet all predicates, as a jq filter on the array of all.
    fn jq_matching(self, predicates: &[Predicate]) -> Result<String> {
        let conditions = predicates.iter().map(|predicate| self.jq_predicate(predicate));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        Ok(match conditions.as_slice() {
            [] => ".".to_owned(),
            conditions => format!("map(select({}))", conditions.join(" and ")),
        })
    }

    /// A predicate on a row of the table `row`, in SQL.
    fn sql_predicate(self, row: &str, predicate: &Predicate) -> Result<String> {
        if self.kind == CorpusKind::Log {
            let (pattern, flags) = line_pattern(predicate)?;
            let flags = if flags.is_empty() { String::new() } else { format!("(?{flags})") };
            return Ok(format!("regexp({}, {row}.text)", sql_text(&(flags + &pattern))));
        }
        let field = SqlField::new(row, &predicate.field);
        let value = &field.value;
        let condition = match &predicate.comparison {
            Comparison::Equals(text) => format!("{value} = {}", sql_text(text)),
            Comparison::AtLeast(least) => format!("{value} >= {least}"),
            Comparison::Word(word) => {
                format!("regexp({}, {value})", sql_text(&format!("(?i){}", word_pattern(word))))
            }
            Comparison::Within(namespace) => format!(
                "({value} = {} OR substr({value}, 1, {}) = {})",
                sql_text(namespace),
                namespace.chars().count() + 1,
                sql_text(&format!("{namespace}/"))
            ),
        };
        Ok(match field.array {
            None => condition,
            Some(array) => {
                format!("EXISTS (SELECT 1 FROM json_each({array}) AS item WHERE {condition})")
            }
        })
    }

    /// `WHERE` with all predicates on `results`, or nothing.
    fn sql_where(self, predicates: &[Predicate]) -> Result<String> {
        let conditions =
            predicates.iter().map(|predicate| self.sql_predicate("results", predicate));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        Ok(match conditions.as_slice() {
            [] => String::new(),
            conditions => format!(" WHERE {}", conditions.join(" AND ")),
        })
    }

    fn id_count(self, ids: &[String]) -> Query {
        let jq_ids: Vec<String> = ids.iter().map(|id| jq_text(id)).collect();
        let sql_ids: Vec<String> = ids.iter().map(|id| sql_text(id)).collect();
        let (jq_id, sql_id) = self.id();
        Query {
            jq: format!(
                "map({jq_id} as $id | select(any({}; . == $id))) | length",
                jq_ids.join(", ")
            ),
            sql: format!(
                "SELECT count(*) AS n FROM results WHERE {sql_id} IN ({})",
                sql_ids.join(", ")
            ),
            form: AnswerForm::Count,
        }
    }

    /// The id of a record in jq and in SQL.
    fn id(self) -> (String, String) {
        if self.kind == CorpusKind::Log {
            let jq = r#"capture(" req=(?<id>\\S+)").id"#.to_owned();
            return (jq, r"regexp_capture(results.text, ' req=(\S+)', 1)".to_owned());
        }
        (format!(".{}", self.id_field()), format!("results.\"{}\"", self.id_field()))
    }

    fn count(self, predicates: &[Predicate]) -> Result<Query> {
        Ok(Query {
            jq: format!("{} | length", self.jq_matching(predicates)?),
            sql: format!("SELECT count(*) AS n FROM results{}", self.sql_where(predicates)?),
            form: AnswerForm::Count,
        })
    }

    fn largest_group(self, by: &str, predicates: &[Predicate]) -> Result<Query> {
        let jq = format!(
            "{} | map({} | values) | group_by(.) | (max_by(length) // [])[0]",
            self.jq_matching(predicates)?,
            self.jq_values(by)?
        );
        let (value, tables) = if self.kind == CorpusKind::Log {
            let pattern = sql_text(&format!("{}(\\S+)", line_prefix(by)?));
            (format!("regexp_capture(results.text, {pattern}, 1)"), "results".to_owned())
        } else {
            let SqlField { value, array } = SqlField::new("results", by);
            let tables = match array {
                None => "results".to_owned(),
                Some(array) => format!("results, json_each({array}) AS item"),
            };
            (value, tables)
        };
        let conditions = match self.sql_where(predicates)? {
            none if none.is_empty() => format!(" WHERE {value} IS NOT NULL"),
            some => format!("{some} AND {value} IS NOT NULL"),
        };
        let sql = format!(
            "SELECT {value} AS name FROM {tables}{conditions} GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
        );
        Ok(Query { jq, sql, form: AnswerForm::Text })
    }

    fn top(self, predicates: &[Predicate], n: usize) -> Result<Query> {
        Ok(Query {
            jq: format!(
                "{} | sort_by([-(.provenance.confidence // 0), .id]) | .[:{n}] | map(.title)",
                self.jq_matching(predicates)?
            ),
            sql: format!(
                "SELECT title FROM results{} ORDER BY coalesce(\"provenance.confidence\", 0) DESC, id \
                 LIMIT {n}",
                self.sql_where(predicates)?
            ),
            form: AnswerForm::List,
        })
    }

    fn in_time(self, tagged: &Predicate, after: &str, last: bool) -> Result<Query> {
        let (extreme, order) = if last { ("max", "DESC") } else { ("min", "ASC") };
        let jq = format!(
            "{} | map(select(.created > {})) | (map(.created) | {extreme}) as $time | \
             map(select(.created == $time).id) | min",
            self.jq_matching(std::slice::from_ref(tagged))?,
            jq_text(after)
        );
        let sql = format!(
            "SELECT id FROM results WHERE {} AND created > {} ORDER BY created {order}, id LIMIT 1",
            self.sql_predicate("results", tagged)?,
            sql_text(after)
        );
        Ok(Query { jq, sql, form: AnswerForm::Text })
    }

    /// The records that meet `source` and have a relationship to one that meets all of `target`.
    fn related(self, target: &[Predicate], source: &Predicate) -> Result<Query> {
        let jq = format!(
            "({} | map({{key: ({} + .id), value: true}}) | from_entries) as $targets | {} | \
             map(select(any(.relationships // [] | .[] | .target; $targets[.] == true))) | length",
            self.jq_matching(target)?,
            jq_text(URN),
            self.jq_matching(std::slice::from_ref(source))?
        );
        let targets = target.iter().map(|predicate| self.sql_predicate("target", predicate));
        let targets = targets.collect::<Result<Vec<_>>>()?.join(" AND ");
        let sql = format!(
            "SELECT count(*) AS n FROM results WHERE {} AND EXISTS (SELECT 1 FROM \
             json_each(results.relationships) AS link JOIN results AS target ON {} || target.id = \
             link.value ->> '$.target' WHERE {targets})",
            self.sql_predicate("results", source)?,
            sql_text(URN),
        );
        Ok(Query { jq, sql, form: AnswerForm::Count })
    }

    /// A field of the record `id`.
    fn field_of(self, id: &str, field: &str, form: AnswerForm) -> Query {
        let (jq_id, sql_id) = self.id();
        let jq_value =
            if self.kind == CorpusKind::Log { ".".to_owned() } else { format!(".{field}") };
        Query {
            jq: format!("map(select({jq_id} == {}) | {jq_value}) | .[0]", jq_text(id)),
            sql: format!("SELECT {field} FROM results WHERE {sql_id} = {}", sql_text(id)),
            form,
        }
    }
}

/// A field of a row in SQL.
struct SqlField {
    /// The value: of the row, or of an element of `array`.
    value: String,
    /// The array, if the field is in one.
    array: Option<String>,
}

impl SqlField {
    fn new(row: &str, field: &str) -> Self {
        let column = |path: &str| match path.split_once('.') {
            None => format!("{row}.\"{path}\""),
            Some((column, rest)) => format!("{row}.\"{column}\" ->> '$.{rest}'"),
        };
        match field {
            "tags" | "depends_on" | "links.blocks" => {
                Self { value: "item.value".to_owned(), array: Some(column(field)) }
            }
            "labels.name" | "assignees.login" | "entities.name" | "relationships.target" => {
                let (array, name) = field.split_once('.').unwrap_or((field, ""));
                Self { value: format!("(item.value ->> '$.{name}')"), array: Some(column(array)) }
            }
            _ => Self { value: format!("({})", column(field)), array: None },
        }
    }
}

/// The pattern of everything before a field of a line.
fn line_prefix(field: &str) -> Result<String> {
    let position = LINE_FIELDS.iter().position(|name| *name == field);
    let position = position.with_context(|| format!("a line of a log has no field {field}"))?;
    let label = if position == REQUEST { "req=" } else { "" };
    Ok(format!("^(?:\\S+ ){{{position}}}{label}"))
}

/// The pattern of a line that meets a predicate, and its flags.
fn line_pattern(predicate: &Predicate) -> Result<(String, &'static str)> {
    let prefix = line_prefix(&predicate.field)?;
    Ok(match &predicate.comparison {
        Comparison::Equals(text) => (format!("{prefix}{}(?: |$)", escaped(text)), ""),
        Comparison::Word(word) => (format!("{prefix}(?:.*\\W)?{}(?:\\W|$)", escaped(word)), "i"),
        other => bail!("a line of a log cannot meet {other:?}"),
    })
}

fn word_pattern(word: &str) -> String {
    format!("\\b{}\\b", escaped(word))
}

/// A text as a regular expression.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && c != '_' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// A text as a literal of jq.
fn jq_text(text: &str) -> String {
    Value::from(text).to_string()
}

/// A text as a literal of SQL.
fn sql_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_are_quoted() {
        assert_eq!(jq_text("a\"b"), r#""a\"b""#);
        assert_eq!(sql_text("it's"), "'it''s'");
        assert_eq!(escaped("a.b_c"), "a\\.b_c");
    }

    #[test]
    fn answers_follow_from_values() {
        let text = |text: &str| Answer::Text(text.to_owned());
        assert_eq!(AnswerForm::Count.answer(&[json!(7)]).unwrap(), Answer::Count(7));
        assert!(AnswerForm::Count.answer(&[]).is_err());
        assert_eq!(AnswerForm::Text.answer(&[json!(null)]).unwrap(), text("none"));
        assert_eq!(AnswerForm::Text.answer(&[json!("x")]).unwrap(), text("x"));
        let list = Answer::List(vec![text("a"), text("b")]);
        assert_eq!(AnswerForm::List.answer(&[json!(["a", "b"])]).unwrap(), list);
        assert_eq!(AnswerForm::List.answer(&[json!("a"), json!("b")]).unwrap(), list);
        assert_eq!(AnswerForm::List.answer(&[json!([])]).unwrap(), text("none"));
        let after = AnswerForm::SentenceAfter("B.".to_owned());
        assert_eq!(after.answer(&[json!("A. B.\nC. D.")]).unwrap(), text("C."));
        assert_eq!(after.answer(&[json!("A. B.")]).unwrap(), text("none"));
        let line = json!("2026-01-05T00:00:00Z INFO search node-01 req=0a queue depth 4");
        assert_eq!(AnswerForm::Message.answer(&[line]).unwrap(), text("queue depth 4"));
    }

    #[test]
    fn two_questions_are_two_queries() {
        let one = || Box::new(Parameters::Ids { ids: vec!["a".to_owned()] });
        let both = Parameters::Both { first: one(), second: one() };
        assert_eq!(queries(CorpusKind::Memories, &both).unwrap().len(), 2);
        let answers = vec![Answer::Count(1), Answer::Count(2)];
        assert_eq!(combined(&both, answers.clone()), Some(Answer::List(answers.clone())));
        assert_eq!(combined(&one(), answers), Some(Answer::Count(1)));
    }
}
