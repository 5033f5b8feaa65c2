//! Tests of recipes, searches and reads.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "a long run says what it came to")]

mod hostile_patterns;
mod jq;
mod ranges;
mod recipe_rules;
mod recipes;
mod records;
mod searches;
