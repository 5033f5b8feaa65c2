//! The error type of all commands: messages with hints, and the exit status.

use std::{io, process::ExitCode};

use atlatl_login::{LoginError, Rule};
use atlatl_memory::{ConnectError, EmbedError, StoreError};
use lro_core::records::PayloadChanged;
use lro_spool::{Foreign, RemoteKind, SpoolError};
use mif::MifError;

/// The exit status, as the help documents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Exit status 0: the command succeeded.
    Success,
    /// Exit status 1: the command failed.
    Failure,
    /// Exit status 2: the command line or the configuration is wrong.
    Usage,
    /// The exit status of a proxied server.
    ServerExit(u8),
}

impl Status {
    /// Prints the output of clap, an error or the help or version, and returns the exit status.
    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        // If this cannot be printed, the exit status still reports the error.
        let _ = error.print();
        if error.use_stderr() { Self::Usage } else { Self::Success }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Success => 0,
            Status::Failure => 1,
            Status::Usage => 2,
            Status::ServerExit(code) => code,
        })
    }
}

/// The error of a command.
#[derive(Debug)]
pub(crate) struct Error {
    status: Status,
    reports: Vec<Report>,
}

/// A message with its hint.
#[derive(Debug)]
pub(crate) struct Report {
    /// Printed after `error:`, with its causes.
    pub(crate) message: String,
    /// Printed after `hint:`: how to fix it.
    pub(crate) hint: Option<String>,
}

impl Error {
    /// The command failed.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Self::new(Status::Failure, message)
    }

    /// The command line or the configuration is invalid.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Status::Usage, message)
    }

    /// Adds a hint to the last message.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let Some(report) = self.reports.last_mut() {
            report.hint = Some(hint.into());
        }
        self
    }

    fn new(status: Status, message: impl Into<String>) -> Self {
        Self::from_reports(status, vec![Report { message: message.into(), hint: None }])
    }

    /// An error with a message for each of `reports`.
    pub(crate) fn from_reports(status: Status, reports: Vec<Report>) -> Self {
        Self { status, reports }
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// All messages in one line, for a page.
    pub(crate) fn message(&self) -> String {
        let messages: Vec<&str> =
            self.reports.iter().map(|report| report.message.as_str()).collect();
        messages.join("; ")
    }

    pub(crate) fn reports(&self) -> &[Report] {
        &self.reports
    }
}

/// Commands name the file in every other I/O error, so one without a name comes from the output.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        // A reader that closes the pipe early, such as `head`, is not a failure.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { status: Status::Success, reports: Vec::new() };
        }
        Self::new(Status::Failure, format!("cannot write the output: {error}"))
    }
}

impl From<SpoolError> for Error {
    fn from(error: SpoolError) -> Self {
        let hint = match &error {
            SpoolError::NotOurs { why: Foreign::OpenToOthers, path } => {
                Some(format!("chmod 700 {}", path.display()))
            }
            SpoolError::NotOurs { why: Foreign::OtherOwner | Foreign::WrongKind, .. } => {
                Some("use another directory: --set proxy.dir=DIR".to_owned())
            }
            SpoolError::Remote { source, .. } => Some(remote_hint(source.kind()).to_owned()),
            SpoolError::Damaged { .. } => Some("repeat the call that returned it".to_owned()),
            _ => None,
        };
        let failure = Self::failure(with_causes(&error));
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// A hint for an error of the object storage.
fn remote_hint(kind: RemoteKind) -> &'static str {
    match kind {
        RemoteKind::Refused => "check the credentials of the object storage",
        RemoteKind::Misused => "check the URL of the object storage and its settings",
        _ => "retry when the object storage is reachable",
    }
}

/// Why the database refused a connection, if it did.
pub(crate) fn connect_error(error: &StoreError) -> Option<&ConnectError> {
    match error {
        StoreError::Connect(error) => Some(error),
        StoreError::Unavailable(cause) => cause.downcast_ref(),
        _ => None,
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        if let Some(refused) = connect_error(&error) {
            return Self::failure(with_causes(&error)).with_hint(&refused.hint);
        }
        let hint = match &error {
            StoreError::Busy => Some("another process is writing to it: retry"),
            StoreError::Unavailable(_) => Some("retry when it is reachable"),
            StoreError::Unsure(_) => Some("check whether the change was stored before you retry"),
            StoreError::NotAStore { .. } => {
                Some("use another file: --set memory.store=sqlite:PATH")
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
        // The message itself names the command to run: other programs print it too.
        let hint = match &error {
            LoginError::Busy { .. } => Some("retry when that process has ended"),
            LoginError::TimedOut { .. } => Some("run it again, and open the URL that it prints"),
            LoginError::Listen { .. } => Some("use another --port, or omit it"),
            LoginError::Refused(refusal) if refusal.rule() == Rule::Metadata => Some(
                "if the server accepts API keys: atlatl proxy --url URL --header 'Authorization: \
                 Bearer KEY'",
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

/// The message of an error with all its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

/// [`with_causes`] for the log of a server: without messages that may quote memories.
pub(crate) fn log_message(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref() {
        // The message of the endpoint may quote the texts that it was sent.
        Some(EmbedError::Refused { status, .. }) => {
            return format!("the embedding endpoint returned status {status}");
        }
        Some(error @ EmbedError::Unreachable { .. }) => return error.to_string(),
        _ => {}
    }
    let mut message = error.to_string();
    let mut cause = error.source();
    // Why a stored memory is damaged quotes what was found.
    while let Some(error) = cause.filter(|cause| !cause.is::<MifError>()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g43_a_log_has_no_message_that_may_quote_a_memory() {
        let message = "cannot embed \"the code is 7731\"";
        let refused = EmbedError::Refused { status: 400, message: message.to_owned() };
        assert_eq!(log_message(&refused), "the embedding endpoint returned status 400");
        let source = Some(message.into());
        let why = "status 503".to_owned();
        let unreachable = EmbedError::Unreachable { why, source, retry_after: None };
        assert!(with_causes(&unreachable).contains("7731"));
        let logged = log_message(&unreachable);
        assert!(logged.ends_with("status 503"), "{logged}");
        let full = StoreError::Storage("no space left".into());
        assert_eq!(log_message(&full), with_causes(&full));
    }
}
