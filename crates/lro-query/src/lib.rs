//! Reading parts of a stored result back, within bounds and without a shell.
//!
//! Everything here takes its bytes from [`lro_spool::PositionedRead`], a source of byte ranges, in
//! bounded pieces: the size of a result is never the size of the memory it takes to ask about it.
//! Nothing writes.
//!
//! - [`recipe`]: the ten ready-made questions to memories, answered as `jq` would.
//! - [`search`]: regular expressions, in time linear in the text.
//! - [`read`]: a range of characters, lines or records.
//! - `jq` and `sql`, behind features of these names: filters and statements. They come from a
//!   language model, so each runs in a child process of its own with its time, memory and output
//!   bounded, an empty environment, and the data as an open descriptor. The program re-executes
//!   itself for that, which takes one line at the beginning of `main`: `worker::enter()`.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use lro_core::Detail;
//! use lro_query::recipe::{Number, Params, Question};
//!
//! let file = br#"{"type":"lro_header","count":2}
//! {"id":"1","title":"One","namespace":"_semantic/knowledge","tags":["a"]}
//! {"id":"2","title":"Two","namespace":"_public","tags":[]}
//! "#;
//! let mut params = Params::default();
//! params.set("namespace", "_pub")?;
//! let mut answers = Vec::new();
//! let question = Question::new(Number::new(2)?, Detail::Light, params)?;
//! // The records begin behind the header line.
//! let ran = question.run(&lro_query::Bytes(file), 32, &mut |answer| {
//!     answers.push(String::from_utf8_lossy(answer).into_owned());
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(answers, [r#"{"id":"2","title":"Two","namespace":"_public","tags":[]}"#]);
//! assert_eq!(ran.total.to_string(), "1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod characters;
#[cfg(any(feature = "jq", feature = "sql"))]
mod error;
#[cfg(feature = "jq")]
pub mod jq;
#[cfg(any(feature = "jq", feature = "sql"))]
mod limits;
mod lines;
mod page;
mod pattern;
#[cfg(any(feature = "jq", feature = "sql"))]
mod query;
pub mod read;
pub mod recipe;
pub mod search;
#[cfg(feature = "sql")]
pub mod sql;
#[cfg(any(feature = "jq", feature = "sql"))]
pub mod worker;

pub use lines::Bytes;
pub use page::{Cancel, Page, Rest, Total};
pub use pattern::PatternError;
#[cfg(any(feature = "jq", feature = "sql"))]
pub use {
    error::{About, Class, QueryError},
    limits::{Limits, Memory},
    query::{
        Alias, Answer, Ask, Failed, Form, NotAName, ParamName, Params, Source, UnknownField, Window,
    },
};
