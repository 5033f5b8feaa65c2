//! Integration tests of the spool.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "a long run says what it came to, a skipped test why")]

mod account;
mod addresses;
mod contract;
mod crash;
mod crash_steps;
mod crowd;
mod expiry;
mod faults;
mod fixture;
mod headers;
mod interleaved;
mod keep;
mod log_crash_steps;
#[cfg(feature = "object")]
mod object;
mod output_log;
mod planted;
mod private;
mod processes;
mod race;
mod state_machine;
mod step_os;
mod stored;
