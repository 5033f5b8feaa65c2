//! Worker: the bounded child process that engines run in.
//!
//! Neither a stack overflow nor a failed allocation can be caught, and a deadline checked by an
//! engine does not bound one native call. So an engine never runs in the process that serves: the
//! program starts itself again, the copy bounds itself before it reads anything, and whatever then
//! happens to it is an error of a class.

mod bounds;
mod crew;
mod descriptors;
mod emit;
mod inside;
mod lines;
mod process;
mod program;
mod slots;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod system_calls;
mod wire;
mod workers;

pub use bounds::files_can_be_closed;
pub use program::{Program, enter};
pub use workers::Workers;

pub(crate) use crew::{Crew, InOrder};
pub(crate) use emit::Emit;
#[cfg(feature = "jq")]
pub(crate) use emit::Flood;
pub(crate) use inside::Outcome;
pub(crate) use lines::{Opened, lines};
pub(crate) use wire::{Done, Fault, Question};
