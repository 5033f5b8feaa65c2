//! Queries over stored results, with bounded resources and without a shell.
//!
//! All queries read from [`lro_spool::PositionedRead`], a source of byte ranges, in bounded pieces:
//! memory use does not grow with the size of a result. Nothing writes.
//!
//! - [`recipe`]: ten predefined queries over memories, with the same answers as `jq`.
//! - [`search`]: regular expressions, in time linear in the text.
//! - [`read`]: a range of characters, lines or records.
//! - `jq` and `sql`, behind features of these names: filters and statements. A language model writes
//!   them, so each runs in a sandboxed child process with limits on time, memory and output, an
//!   empty environment, and the data as an open file descriptor. The program re-executes itself for
//!   this; call `worker::enter()` in the first line of `main`.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use lro_core::Detail;
//! use lro_query::recipe::{RecipeNumber, RecipeParams, RecipeQuery};
//!
//! let file = br#"{"type":"lro_header","count":2}
//! {"id":"1","title":"One","namespace":"_semantic/knowledge","tags":["a"]}
//! {"id":"2","title":"Two","namespace":"_public","tags":[]}
//! "#;
//! let mut params = RecipeParams::default();
//! params.set("namespace", "_pub")?;
//! let mut answers = Vec::new();
//! let query = RecipeQuery::new(RecipeNumber::new(2)?, Detail::Light, params)?;
//! // The records begin after the header line.
//! let outcome = query.run(&lro_query::Bytes(file), 32, &mut |answer| {
//!     answers.push(String::from_utf8_lossy(answer).into_owned());
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(answers, [r#"{"id":"2","title":"Two","namespace":"_public","tags":[]}"#]);
//! assert_eq!(outcome.total.to_string(), "1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod characters;
#[cfg(any(feature = "jq", feature = "sql"))]
mod engine;
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
#[cfg(any(feature = "jq", feature = "sql"))]
mod request;
pub mod search;
#[cfg(feature = "sql")]
pub mod sql;
#[cfg(any(feature = "jq", feature = "sql"))]
pub mod worker;

pub use lines::Bytes;
pub use page::{Cancel, Offset, Page, Rest, Total};
pub use pattern::PatternError;
#[cfg(any(feature = "jq", feature = "sql"))]
#[cfg(any(feature = "jq", feature = "sql"))]
pub use {
    error::{ErrorClass, QueryError, SyntaxProblem},
    limits::{Limits, MemoryLimit},
    query::{
        Alias, Answer, FailedRecords, InvalidParamName, ParamName, QueryParams, RecordLayout,
        Source, UnknownField,
    },
    request::QueryRequest,
};
