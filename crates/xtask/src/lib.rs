//! The project's own commands: checks, generated references, packages. What `loadtest` and `evidence`
//! share with them is public.

mod args;
pub mod atlatl;
mod check;
mod conformance;
mod docs;
pub mod markdown;
pub mod output;
mod package;
mod references;
pub mod repository;
pub mod run_record;
mod test_list;

pub use args::run;
pub use atlatl::BinArgs;
