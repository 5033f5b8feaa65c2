//! The main function of a worker process.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::exit;

use super::descriptors;
use super::lines::Opened;
use super::output::Emit;
use super::protocol::{Done, Fault, Order, Question};
use super::sandbox::Bounds;
use super::thread_pool::Crew;

/// The engine panicked.
pub(super) const PANICKED: i32 = 101;
/// The worker could not bound itself or was told nonsense: it has read no record.
pub(super) const BROKEN: i32 = 102;

/// An answer but for its lines, and whether all values were counted.
pub(crate) type Outcome = Result<(Done, bool), Fault>;

pub(super) fn run(arguments: &[OsString]) -> ! {
    // With or without unwinding, in whichever thread: one end for all.
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        exit(PANICKED);
    }));
    let code = match serve(arguments) {
        Ok(()) => 0,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the parent reads a worker's last words")]
            {
                eprintln!("{error}");
            }
            BROKEN
        }
    };
    exit(code)
}

fn serve(arguments: &[OsString]) -> io::Result<()> {
    let bounds = Bounds::parse(arguments).ok_or(io::ErrorKind::InvalidInput)?;
    bounds.impose()?;
    let crew = Crew::start(bounds.threads)?;
    Bounds::seal()?;

    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (order, descriptors) = descriptors::receive(&socket)?;
    let order: Order = serde_json::from_slice(&order)?;
    if descriptors.len() != order.sources.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let sources = order.sources.into_iter().zip(descriptors).map(|(handed, descriptor)| Opened {
        alias: handed.alias,
        file: File::from(descriptor),
        begin: handed.begin,
        end: handed.end,
        form: handed.form,
    });
    let sources: Vec<Opened> = sources.collect();
    let mut emit = Emit::new(out, order.window, order.output);
    let outcome = match order.question {
        #[cfg(feature = "jq")]
        Question::Jq(query) => crate::jq::answer(query, sources, &crew, &mut emit),
        #[cfg(feature = "sql")]
        Question::Sql(query) => {
            let bounds = crate::sql::Bounds {
                memory: order.memory,
                wall: std::time::Duration::from_millis(order.wall_ms),
            };
            crate::sql::answer(&query, sources, bounds, &crew, &mut emit)
        }
    };
    match outcome {
        Ok((done, counted)) => emit.finish(done, counted),
        Err(fault) => emit.fault(fault),
    }
}
