//! Failure: what a request came to, and whether it is worth making again.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use object_store::Error;

use super::options::ObjectOptions;
use crate::error::SpoolError;
use crate::remote::{RemoteError, RemoteKind};

/// No wait between two attempts is longer.
const LONGEST_WAIT: Duration = Duration::from_millis(400);

/// One attempt that failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It took too long.
    Time,
    /// Fewer bytes came than were asked for.
    Short,
    /// The store said so.
    Store(Error),
    /// The client library panicked: with credentials that no request can carry, for example.
    Panicked,
}

impl Failure {
    fn is_final(&self) -> bool {
        match self {
            Self::Time | Self::Short => false,
            Self::Store(error) => !matches!(error, Error::Generic { .. } | Error::JoinError { .. }),
            Self::Panicked => true,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(Error::NotFound { .. }))
    }

    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Store(Error::AlreadyExists { .. } | Error::Precondition { .. }))
    }

    /// What it means for the caller.
    pub(super) fn doing(self, op: &'static str, key: impl std::fmt::Display) -> SpoolError {
        let (kind, text) = match &self {
            Self::Time => (RemoteKind::Time, String::new()),
            Self::Short => (RemoteKind::Failed, "fewer bytes came than were asked for".to_owned()),
            Self::Panicked => {
                let said = "the client library panicked; check the credentials for line breaks";
                (RemoteKind::Failed, said.to_owned())
            }
            Self::Store(error) => {
                let kind = match error {
                    Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                        RemoteKind::Refused
                    }
                    Error::NotSupported { .. }
                    | Error::NotImplemented { .. }
                    | Error::InvalidPath { .. }
                    | Error::UnknownConfigurationKey { .. } => RemoteKind::Misused,
                    _ => RemoteKind::Failed,
                };
                (kind, error.to_string())
            }
        };
        let source = RemoteError::new(kind, &text);
        SpoolError::Remote { op, key: key.to_string(), source }
    }
}

/// The attempts at one request: each bounded in time, all of them in number.
pub(super) struct Attempts {
    limit: Duration,
    left: u32,
    wait: Duration,
}

impl Attempts {
    pub(super) fn new(options: &ObjectOptions) -> Self {
        Self { limit: options.time_limit, left: options.retries, wait: options.backoff }
    }

    /// When so many were made again already.
    pub(super) fn after(options: &ObjectOptions, before: u32) -> Self {
        let new = Self::new(options);
        let wait = new.wait.saturating_mul(2u32.saturating_pow(before)).min(LONGEST_WAIT);
        Self { left: new.left.saturating_sub(before), wait, ..new }
    }

    /// Makes one.
    pub(super) async fn attempt<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        let caught = AssertUnwindSafe(request).catch_unwind();
        match tokio::time::timeout(self.limit, caught).await {
            Ok(Ok(answer)) => answer.map_err(Failure::Store),
            Ok(Err(_)) => Err(Failure::Panicked),
            Err(_) => Err(Failure::Time),
        }
    }

    /// Whether to make another one after this; waits first.
    pub(super) async fn again(&mut self, failure: &Failure) -> bool {
        !failure.is_final() && self.once_more().await
    }

    pub(super) async fn once_more(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        true
    }
}
