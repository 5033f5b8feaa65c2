//! Spool errors, by what a caller can do about them.

use std::io;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use lro_core::escape_invisible;

use crate::address::FileName;

/// The most characters of a message of the storage service that are kept.
const MAX_REMOTE_TEXT_CHARS: usize = 300;

/// Why a spool operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// There is no such result: the reference is wrong or belongs to another scope.
    #[error("no stored result {asked}")]
    NotFound {
        /// The requested address.
        asked: String,
    },
    /// The result has expired. Permanent: repeat the tool call.
    #[error("the result of `{operation}` expired at {expires_at}; repeat the call")]
    Expired {
        /// The operation, as in file names.
        operation: String,
        /// The name of the tool, as its server spells it: untrusted text.
        tool: String,
        /// When it expired.
        expires_at: DateTime<Utc>,
    },
    /// A file or directory that this program did not write, or that is unsafe to use.
    #[error("refused to use {}: {why}", path.display())]
    NotOurs {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        why: Foreign,
    },
    /// A limit is reached. A later attempt or a smaller result may succeed.
    #[error("cannot store the result: {limit}")]
    Full {
        /// The limit.
        limit: SpoolLimit,
    },
    /// The id is in use: choose another.
    #[error("{name} exists already")]
    Taken {
        /// The file name.
        name: FileName,
    },
    /// The result has readers: try again later.
    #[error("{name} is being read")]
    InUse {
        /// The file name.
        name: FileName,
    },
    /// A system call failed.
    #[error("could not {op} {}", path.display())]
    Io {
        /// The operation.
        op: &'static str,
        /// Its target.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A request to object storage failed or timed out. A later attempt may succeed.
    #[error("could not {op} {key} in object storage")]
    Remote {
        /// The operation.
        op: &'static str,
        /// Its target.
        key: String,
        /// The cause.
        source: RemoteError,
    },
    /// The stored bytes are not those that were written. Permanent: repeat the tool call.
    #[error("{name} is damaged: {why}")]
    Damaged {
        /// The name of the result.
        name: String,
        /// What is wrong with it.
        why: Damage,
    },
}

/// How stored bytes are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// All bytes are missing.
    Missing,
    /// Some bytes are missing.
    Short,
    /// Bytes have changed.
    Changed,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "its bytes are missing",
            Self::Short => "some of its bytes are missing",
            Self::Changed => "its content has changed",
        })
    }
}

/// Why a file or directory is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// It is in another directory.
    Elsewhere,
    /// A symbolic link, a directory, a pipe, or another unexpected file type.
    WrongKind,
    /// It belongs to another user.
    OtherOwner,
    /// It has a second hard link.
    MoreLinks,
    /// Other users can read or write it.
    OpenToOthers,
    /// It has no valid header.
    NoHeader,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Elsewhere => "it is in another directory",
            Self::WrongKind => "it is a link or has an unexpected file type",
            Self::OtherOwner => "it belongs to another user",
            Self::MoreLinks => "it has another hard link",
            Self::OpenToOthers => "other users have access to it",
            Self::NoHeader => "it has no valid header",
        })
    }
}

/// The limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolLimit {
    /// `spool.max_bytes`.
    Bytes,
    /// `spool.max_files`.
    Files,
    /// `spool.min_free_bytes`.
    FreeSpace,
    /// The file system is full, or its quota is exceeded.
    Device,
    /// The maximum file size of the process or of the file system.
    FileSize,
}

impl std::fmt::Display for SpoolLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bytes => "spool.max_bytes is reached",
            Self::Files => "spool.max_files is reached",
            Self::FreeSpace => "less than spool.min_free_bytes would remain free",
            Self::Device => "the file system is full",
            Self::FileSize => "the file size limit (ulimit -f) is reached",
        })
    }
}

impl SpoolError {
    /// Converts an error of the operating system.
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { limit: SpoolLimit::Device }
            }
            io::ErrorKind::FileTooLarge => Self::Full { limit: SpoolLimit::FileSize },
            _ => Self::Io { op, path: path.into(), source },
        }
    }
}

/// An error of a storage service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}{text}", if text.is_empty() { "" } else { ": " })]
pub struct RemoteError {
    kind: RemoteKind,
    /// Untrusted, therefore short and with invisible characters escaped.
    text: String,
}

/// What a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteKind {
    /// The request timed out.
    Time,
    /// The credentials are insufficient: check them.
    Refused,
    /// The request is invalid: check the URL and the options.
    Misused,
    /// Any other failure: try again later.
    Failed,
}

impl std::fmt::Display for RemoteKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "timed out",
            Self::Refused => "permission denied",
            Self::Misused => "invalid URL or option",
            Self::Failed => "request failed",
        })
    }
}

impl RemoteError {
    /// Keeps the beginning of the message of the service.
    #[cfg_attr(not(feature = "object"), expect(dead_code, reason = "no other storage is remote"))]
    pub(crate) fn new(kind: RemoteKind, text: &str) -> Self {
        let short: String = text.chars().take(MAX_REMOTE_TEXT_CHARS).collect();
        // One line, because it follows a colon.
        let text = escape_invisible(&short).split_whitespace().collect::<Vec<_>>().join(" ");
        Self { kind, text }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> RemoteKind {
        self.kind
    }
}
