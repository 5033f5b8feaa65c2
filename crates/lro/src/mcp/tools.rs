//! Tools: `lro_extract`, `read_large_output`, `search_large_output`, `query_large_output`.
//!
//! What a tool's definition says is generated from what the extractor really offers (f33). Replies
//! are text alone: a second copy as `structuredContent` would be paid twice (f12). They are cut to
//! the size of a reply, and never offloaded (f31).

mod arguments;
mod definition;

use std::sync::Arc;

use crate::{ExtractError, Extractor, Question};
use chrono::{DateTime, Utc};
use lro_query::Cancel;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::arguments::ArgumentError;

/// The extraction tools.
#[derive(Clone)]
pub struct Tools(Arc<Extractor>);

/// The names of the tools that can be there.
const EXTRACT: &str = "lro_extract";
const READ: &str = "read_large_output";
const SEARCH: &str = "search_large_output";
const QUERY: &str = "query_large_output";

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Called {
    /// The text of the result.
    pub text: String,
    /// Whether it is an error.
    pub is_error: bool,
}

impl Called {
    /// f24: an error says what class it is of, what happened, and what to do.
    pub fn error(class: &str, message: &str, hint: &str) -> Self {
        let message = one_line(message);
        Self { text: format!("Error ({class}): {message}\nHint: {hint}"), is_error: true }
    }

    /// As the `result` of `tools/call`.
    pub fn result(&self) -> Value {
        let mut result = json!({"content": [{"type": "text", "text": self.text}]});
        if self.is_error {
            result["isError"] = true.into();
        }
        result
    }
}

impl Tools {
    /// Tools that answer through `extractor`.
    pub fn new(extractor: Arc<Extractor>) -> Self {
        Self(extractor)
    }

    /// Their definitions, as in `tools/list`.
    pub fn definitions(&self) -> Vec<Value> {
        definition::all(self.0.offers())
    }

    /// Whether an extraction tool may be called so, here or in another server.
    pub fn is_name(name: &str) -> bool {
        Self::named(name).is_some()
    }

    /// The name of the extraction tool that may be called so, as a word of ours.
    pub fn named(name: &str) -> Option<&'static str> {
        [EXTRACT, READ, SEARCH, QUERY].into_iter().find(|known| *known == name)
    }

    /// Whether a tool of this name is among them.
    pub fn has(&self, name: &str) -> bool {
        match name {
            EXTRACT | READ | SEARCH => true,
            QUERY => self.0.offers().jq,
            _ => false,
        }
    }

    /// Answers a call; `None` where there is no such tool. Blocking, as the extractor is.
    pub fn call(
        &self,
        name: &str,
        arguments: Option<&RawValue>,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Option<Called> {
        if !self.has(name) {
            return None;
        }
        let arguments = arguments.map_or("{}", RawValue::get);
        let asked = match name {
            EXTRACT => arguments::extract(arguments, self.0.offers().links),
            READ => arguments::read(arguments),
            SEARCH => arguments::search(arguments),
            _ => arguments::query(arguments),
        };
        Some(match asked {
            Ok(arguments::Asked { question, form }) => self.answer(&question, form, now, cancel),
            Err(error) => self.told("arguments", wrong(&error), now),
        })
    }

    fn answer(
        &self,
        question: &Question,
        form: arguments::Form,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Called {
        match self.0.extract_as(question, now, cancel, |reply| form.apply(reply)) {
            Ok(reply) => Called { text: reply.text(), is_error: false },
            Err(error) => self.told(error.class(), failed(&error), now),
        }
    }

    /// f37: what a model reads costs it, an error as well.
    fn told(&self, class: &str, called: Called, now: DateTime<Utc>) -> Called {
        self.0.failed(class, &called.text, now);
        called
    }
}

fn failed(error: &ExtractError) -> Called {
    Called::error(error.class(), &error.to_string(), &error.hint())
}

fn wrong(error: &ArgumentError) -> Called {
    Called::error("arguments", &error.message, error.hint)
}

fn one_line(text: &str) -> String {
    lro_core::neutralise(text).replace('\n', " ")
}
