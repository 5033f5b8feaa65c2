//! The main function of a worker process.
//!
//! A worker limits itself, starts its threads, seals the sandbox, and only then reads its job. The
//! threads must exist before that because the sandbox forbids new ones.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::exit;

use super::protocol::{self, Job};
use super::sandbox::WorkerLimits;
use crate::engine::{OpenSource, OutputWriter, ThreadPool};
use crate::request::Query;

/// The exit code after a panic of the engine.
pub(super) const EXIT_PANICKED: i32 = 101;
/// The exit code if the worker could not limit itself or read its job. It has read no record.
pub(super) const EXIT_SETUP_FAILED: i32 = 102;

/// Runs the worker and exits.
pub(super) fn run(arguments: &[OsString]) -> ! {
    // A panic in any thread, with or without unwinding, ends the process.
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        exit(EXIT_PANICKED);
    }));
    let code = match serve(arguments) {
        Ok(()) => 0,
        Err(error) => {
            #[expect(
                clippy::print_stderr,
                reason = "the parent reads the standard error of a worker"
            )]
            {
                eprintln!("{error}");
            }
            EXIT_SETUP_FAILED
        }
    };
    exit(code)
}

fn serve(arguments: &[OsString]) -> io::Result<()> {
    let limits = WorkerLimits::parse(arguments).ok_or(io::ErrorKind::InvalidInput)?;
    limits.apply()?;
    let pool = ThreadPool::start(limits.threads)?;
    WorkerLimits::seal()?;

    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (job, descriptors) = protocol::receive(&socket)?;
    let job: Job = serde_json::from_slice(&job)?;
    if descriptors.len() != job.sources.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let sources = job.sources.into_iter().zip(descriptors).map(|(source, descriptor)| OpenSource {
        alias: source.alias,
        file: File::from(descriptor),
        begin: source.begin,
        end: source.end,
        layout: source.layout,
    });
    let sources: Vec<OpenSource> = sources.collect();
    let mut output = OutputWriter::new(out, job.page, job.output);
    let outcome = match job.query {
        #[cfg(feature = "jq")]
        Query::Jq(query) => crate::jq::answer(query, sources, &pool, &mut output),
        #[cfg(feature = "sql")]
        Query::Sql(query) => {
            let limits = crate::sql::EngineLimits {
                memory: job.memory,
                wall: std::time::Duration::from_millis(job.wall_ms),
            };
            crate::sql::answer(&query, sources, limits, &pool, &mut output)
        }
    };
    match outcome {
        Ok((completion, counted)) => output.finish(completion, counted),
        Err(fault) => output.finish_with_fault(fault),
    }
}
