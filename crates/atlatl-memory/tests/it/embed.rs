//! Tests of the embedders through their public interface.

mod backfill;
#[cfg(feature = "local")]
mod bert;
mod choices;
#[cfg(any(feature = "local", feature = "openai"))]
mod contract;
#[cfg(feature = "local")]
mod eight_bits;
#[cfg(feature = "openai")]
mod endpoint;
#[cfg(feature = "local")]
mod meaning;
#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "openai")]
mod openai_faults;
#[cfg(feature = "local")]
mod table;
