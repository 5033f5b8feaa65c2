//! The one error type of the program: what is printed, and the exit status.

use std::{io, process::ExitCode};

use atlatl_login::{LoginError, Rule};
use atlatl_memory::StoreError;
use lro_core::records::PayloadChanged;
use lro_spool::{Foreign, RemoteKind, SpoolError};

use crate::settings::Problems;

/// The exit status, as the help documents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It worked.
    Success,
    /// It failed.
    JsonRpcError,
    /// The command line or the configuration is wrong.
    Usage,
    /// What a proxied server ended with.
    OfServer(u8),
}

impl Status {
    /// Prints what clap has to say: an error, or the help or version that was asked for.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        // Nobody is left to tell when even this cannot be printed.
        let _ = error.print();
        if error.use_stderr() { Self::Usage } else { Self::Success }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Success => 0,
            Status::JsonRpcError => 1,
            Status::Usage => 2,
            Status::OfServer(code) => code,
        })
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Error {
    status: Status,
    reports: Vec<Report>,
}

/// One thing that went wrong.
#[derive(Debug)]
pub(crate) struct Report {
    /// Printed after `error:`, with its causes.
    pub(crate) message: String,
    /// Printed after `hint:`: what to do about it.
    pub(crate) hint: Option<String>,
}

impl Error {
    /// What was asked for could not be done.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Self::new(Status::JsonRpcError, message)
    }

    /// What was asked for makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Status::Usage, message)
    }

    /// Adds what to do about it.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let Some(report) = self.reports.last_mut() {
            report.hint = Some(hint.into());
        }
        self
    }
}

impl Error {
    fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, reports: vec![Report { message: message.into(), hint: None }] }
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn reports(&self) -> &[Report] {
        &self.reports
    }
}

/// Only the output is written by commands without naming a file, so an unnamed I/O error is its.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        // A reader which has seen enough, such as `head`, is no failure.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { status: Status::Success, reports: Vec::new() };
        }
        Self::new(Status::JsonRpcError, format!("cannot write the output: {error}"))
    }
}

impl From<SpoolError> for Error {
    fn from(error: SpoolError) -> Self {
        let hint = match &error {
            SpoolError::NotOurs { why: Foreign::OpenToOthers, path } => {
                Some(format!("chmod 700 {}", path.display()))
            }
            SpoolError::NotOurs { why: Foreign::OtherOwner | Foreign::WrongKind, .. } => {
                Some("name another directory: --set proxy.dir=DIR".to_owned())
            }
            SpoolError::Remote { source, .. } => Some(remote_hint(source.kind()).to_owned()),
            SpoolError::Damaged { .. } => Some("make the call that returned it again".to_owned()),
            _ => None,
        };
        let failure = Self::failure(with_causes(&error));
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// What helps with an object storage.
fn remote_hint(kind: RemoteKind) -> &'static str {
    match kind {
        RemoteKind::Refused => "check the credentials of the object storage",
        RemoteKind::Misused => "check the URL of the object storage and its settings",
        _ => "try again when the object storage can be reached",
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Busy => Some("another process writes to it: try again"),
            StoreError::Unavailable(_) => Some("try again when it is back"),
            StoreError::Unsure(_) => Some("look whether it is there before trying again"),
            StoreError::NotAStore { .. } => {
                Some("name another file: --set memory.store=sqlite:PATH")
            }
            _ => None,
        };
        let failure = Self::failure(with_causes(&error));
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

impl From<LoginError> for Error {
    fn from(error: LoginError) -> Self {
        // What to run stands in the message: others than this program show it too.
        let hint = match &error {
            LoginError::Busy { .. } => Some("try again when it has ended"),
            LoginError::TimedOut { .. } => Some("run it again, and open the page that it prints"),
            LoginError::Listen { .. } => Some("another --port, or none"),
            LoginError::Refused(refusal) if refusal.rule() == Rule::Metadata => Some(
                "a server that takes keys needs no login: \
                 atlatl proxy --url URL --header 'Authorization: Bearer KEY'",
            ),
            _ => None,
        };
        let failure = Self::failure(with_causes(&error));
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// An error with everything that led to it.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

impl From<PayloadChanged> for Error {
    fn from(error: PayloadChanged) -> Self {
        Self::failure(error.to_string())
    }
}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        let reports = problems
            .into_iter()
            .map(|problem| Report { message: problem.to_string(), hint: problem.hint() })
            .collect();
        Self { status: Status::Usage, reports }
    }
}
