//! Tests of the public API of the core.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::cast_precision_loss, reason = "ratios of counts far below 2^52")]

mod base64;
mod descriptor;
mod estimator;
mod fidelity;
mod memories;
mod recipes;
mod recognition;
mod specification;
mod text_tables;
mod tokenizer;
mod tree;
mod trust;
