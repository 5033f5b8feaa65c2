//! The project's own commands: gates, generated references, packages, long runs. What `loadtest` shares with them is
//! public.

mod args;
pub mod atlatl;
mod bench;
mod check;
mod conformance;
mod docs;
mod markdown;
pub mod output;
mod package;
mod references;
pub mod repository;
pub mod run_record;
mod soak;
mod test_list;

pub use args::{BinArgs, run};
pub use bench::peers::cache;
