//! Worker: the bounded child process that engines run in.
//!
//! Neither a stack overflow nor a failed allocation can be caught, and a deadline checked by an
//! engine does not bound one native call. So an engine never runs in the process that serves: the
//! program starts itself again, the copy bounds itself before it reads anything, and whatever then
//! happens to it is an error of a class.

mod child_main;
mod descriptors;
mod lines;
mod output;
mod process;
mod program;
mod protocol;
mod sandbox;
mod semaphore;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod system_calls;
mod thread_pool;
mod workers;

pub use program::{Program, enter};
pub use sandbox::files_can_be_closed;
pub use workers::Workers;

pub(crate) use child_main::Outcome;
pub(crate) use lines::{Opened, lines};
pub(crate) use output::Emit;
#[cfg(feature = "jq")]
pub(crate) use output::Flood;
pub(crate) use protocol::{Done, Fault, Question};
pub(crate) use thread_pool::{Crew, InOrder};
