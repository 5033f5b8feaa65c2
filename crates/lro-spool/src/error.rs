//! Spool errors, by what a caller can do about them.

use std::io;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use lro_core::neutralise;

use crate::address::FileName;

/// How much of a storage's own words is kept.
const TEXT_CAP: usize = 300;

/// Why a spool did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// There is no such result: the reference is wrong, or belongs to another scope.
    #[error("no stored result {asked}")]
    NotFound {
        /// What was asked for.
        asked: String,
    },
    /// The result has had its time. Final: asking again helps only after the call is made again.
    #[error("the result of `{operation}` expired at {expires_at}; make that call again")]
    Expired {
        /// The operation, as in file names.
        operation: String,
        /// The tool as its server called it: text from outside, not to be trusted.
        tool: String,
        /// When its time was up.
        expires_at: DateTime<Utc>,
    },
    /// Something bears our name or lies where ours belongs, and is not to be touched.
    #[error("{} is not ours: {why}", path.display())]
    NotOurs {
        /// Where it lies.
        path: PathBuf,
        /// What is wrong with it.
        why: Foreign,
    },
    /// There is no room; a later attempt may succeed, a smaller result too.
    #[error("no room to store the result: {limit}")]
    Full {
        /// What there is too little of.
        limit: Limit,
    },
    /// The identity is in use; take another.
    #[error("{name} exists already")]
    Taken {
        /// The name.
        name: FileName,
    },
    /// Someone reads it right now; try again later.
    #[error("{name} is being read")]
    InUse {
        /// The name.
        name: FileName,
    },
    /// The operating system refused.
    #[error("could not {op} {}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The object storage did not do it, or did not say so in time; a later attempt may succeed.
    #[error("could not {op} {key} in object storage")]
    Remote {
        /// What was tried.
        op: &'static str,
        /// On what.
        key: String,
        /// Why not.
        source: RemoteError,
    },
    /// What is stored is not what was written. Final: only making the call again helps.
    #[error("{name} is damaged in its storage: {why}")]
    Damaged {
        /// The result.
        name: String,
        /// What is wrong with it.
        why: Damage,
    },
}

/// What became of bytes that were stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// They are not there.
    Missing,
    /// There are fewer than were written.
    Short,
    /// They are others.
    Changed,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "its bytes are missing",
            Self::Short => "some of its bytes are missing",
            Self::Changed => "its bytes are not those that were written",
        })
    }
}

/// What makes a file or directory foreign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// It lies in another folder.
    Elsewhere,
    /// A link, a directory, a pipe: not what it should be.
    WrongKind,
    /// It belongs to another user.
    OtherOwner,
    /// It has a second name.
    MoreLinks,
    /// Others can read or write it.
    OpenToOthers,
    /// It lacks our header.
    NoHeader,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Elsewhere => "it is in another directory",
            Self::WrongKind => "it is a link or of another kind",
            Self::OtherOwner => "it belongs to another user",
            Self::MoreLinks => "it has a second name",
            Self::OpenToOthers => "others have access to it",
            Self::NoHeader => "it lacks our header",
        })
    }
}

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// `spool.max_bytes`.
    Bytes,
    /// `spool.max_files`.
    Files,
    /// `spool.min_free_bytes`.
    FreeSpace,
    /// The file system itself is full, or its quota is.
    Device,
    /// The size a file of this process may have, or the file system's largest file.
    FileSize,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bytes => "spool.max_bytes is reached",
            Self::Files => "spool.max_files is reached",
            Self::FreeSpace => "less than spool.min_free_bytes would stay free",
            Self::Device => "the file system is full",
            Self::FileSize => "the file size limit (ulimit -f) is reached",
        })
    }
}

impl SpoolError {
    /// What the operating system's answer means for the caller.
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { limit: Limit::Device }
            }
            io::ErrorKind::FileTooLarge => Self::Full { limit: Limit::FileSize },
            _ => Self::Io { op, path: path.into(), source },
        }
    }
}

/// What a storage over a network said, or that it said nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}{text}", if text.is_empty() { "" } else { ": " })]
pub struct RemoteError {
    kind: RemoteKind,
    /// From outside: short, and without characters that hide.
    text: String,
}

/// What a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteKind {
    /// No answer in time: wait, or allow for more time.
    Time,
    /// The credentials do not allow it: check them.
    Refused,
    /// What it was given cannot be right: check the URL and the options.
    Misused,
    /// Anything else: try again later.
    Failed,
}

impl std::fmt::Display for RemoteKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "no answer in time",
            Self::Refused => "the credentials do not allow it",
            Self::Misused => "the URL or an option is wrong",
            Self::Failed => "it failed",
        })
    }
}

impl RemoteError {
    /// Keeps the beginning of what the storage said.
    #[cfg_attr(not(feature = "object"), expect(dead_code, reason = "no other storage is remote"))]
    pub(crate) fn new(kind: RemoteKind, text: &str) -> Self {
        let short: String = text.chars().take(TEXT_CAP).collect();
        // One line: it stands behind a colon.
        let text = neutralise(&short).split_whitespace().collect::<Vec<_>>().join(" ");
        Self { kind, text }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> RemoteKind {
        self.kind
    }
}
