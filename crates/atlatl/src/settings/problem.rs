//! Problems in the configuration, with their origin and a hint.

use std::fmt;

use lro_core::config::{ConfigKey, InvalidValue, KEYS, key};

use super::{Origin, Refusal};
use crate::error::{Error, Report, Status};

/// A problem in the configuration.
#[derive(Debug)]
pub(crate) struct Problem {
    origin: Origin,
    kind: ProblemKind,
}

#[derive(Debug)]
enum ProblemKind {
    Refused(Refusal),
    NotUtf8,
    Syntax(String),
    NoSection { name: String },
    UnknownKey { name: String, nearest: Option<&'static str> },
    UnknownSection { name: String, nearest: Option<&'static str> },
    UnknownVariable { nearest: Option<&'static str> },
    NoAssignment { text: String },
    Invalid(InvalidValue),
}

impl Problem {
    /// A file that exists and is not used.
    pub(super) fn refused(origin: Origin, refusal: Refusal) -> Self {
        Self { origin, kind: ProblemKind::Refused(refusal) }
    }

    pub(super) fn not_utf8(origin: Origin) -> Self {
        Self { origin, kind: ProblemKind::NotUtf8 }
    }

    pub(super) fn syntax(origin: Origin, message: impl Into<String>) -> Self {
        Self { origin, kind: ProblemKind::Syntax(message.into()) }
    }

    /// A plain value for a name that is a section.
    pub(super) fn no_section(origin: Origin, name: impl Into<String>) -> Self {
        Self { origin, kind: ProblemKind::NoSection { name: name.into() } }
    }

    pub(super) fn unknown_key(origin: Origin, name: impl Into<String>) -> Self {
        let name = name.into();
        let nearest = lro_core::config::nearest(&name);
        Self { origin, kind: ProblemKind::UnknownKey { name, nearest } }
    }

    pub(super) fn unknown_section(origin: Origin, name: impl Into<String>) -> Self {
        let name = name.into();
        let nearest = lro_core::config::nearest_section(&name);
        Self { origin, kind: ProblemKind::UnknownSection { name, nearest } }
    }

    /// An `ATLATL_` variable that sets no key; `name` is the key that it would set.
    pub(super) fn unknown_variable(origin: Origin, name: &str) -> Self {
        let nearest = lro_core::config::nearest(name);
        Self { origin, kind: ProblemKind::UnknownVariable { nearest } }
    }

    pub(super) fn no_assignment(text: impl Into<String>) -> Self {
        Self { origin: Origin::Flag, kind: ProblemKind::NoAssignment { text: text.into() } }
    }

    pub(super) fn invalid(origin: Origin, invalid: InvalidValue) -> Self {
        Self { origin, kind: ProblemKind::Invalid(invalid) }
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether the source with this problem may set `key` to a value that is ignored.
    pub(super) fn may_hide(&self, key: &str) -> bool {
        match &self.kind {
            ProblemKind::Invalid(invalid) => invalid.key == key,
            // A misspelt key, section or variable can stand for any key.
            ProblemKind::Refused(_)
            | ProblemKind::NotUtf8
            | ProblemKind::Syntax(_)
            | ProblemKind::NoSection { .. }
            | ProblemKind::UnknownKey { .. }
            | ProblemKind::UnknownSection { .. }
            | ProblemKind::UnknownVariable { .. }
            | ProblemKind::NoAssignment { .. } => true,
        }
    }

    /// How to fix the problem, if the message does not say it.
    pub(crate) fn hint(&self) -> Option<String> {
        const KEY_LIST_HINT: &str = "`atlatl config schema` lists every key";
        match &self.kind {
            ProblemKind::UnknownKey { nearest: Some(name), .. } => {
                Some(format!("did you mean `{name}`?"))
            }
            ProblemKind::UnknownSection { nearest: Some(name), .. } => {
                Some(format!("did you mean `[{name}]`?"))
            }
            ProblemKind::UnknownVariable { nearest: Some(name) } => {
                key(name).map(|key| format!("did you mean {}?", key.env()))
            }
            ProblemKind::UnknownKey { .. }
            | ProblemKind::UnknownSection { .. }
            | ProblemKind::UnknownVariable { .. } => Some(KEY_LIST_HINT.to_owned()),
            ProblemKind::NoAssignment { .. } => {
                Some("write --set KEY=VALUE, as in --set prompt.offload.enabled=false".to_owned())
            }
            ProblemKind::NoSection { name } => {
                let inside = |key: &&ConfigKey| key.name.starts_with(&format!("{name}."));
                let example = KEYS.iter().find(inside)?;
                Some(format!("name a key in it, such as `{}`", example.name))
            }
            ProblemKind::Invalid(invalid) => {
                let default = key(&invalid.key)?.default;
                let is_default = invalid.value == default;
                (!is_default).then(|| format!("leave it out for the default, {default}"))
            }
            ProblemKind::Refused(refusal) => match &self.origin {
                Origin::File { path, .. } => refusal.hint(path),
                _ => None,
            },
            ProblemKind::NotUtf8 | ProblemKind::Syntax(_) => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.origin, self.kind)
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal @ Refusal::Unreadable(_)) => write!(formatter, "{refusal}"),
            Self::Refused(refusal) => write!(formatter, "cannot be read: {refusal}"),
            Self::NotUtf8 => formatter.write_str("is not UTF-8"),
            Self::Syntax(message) => write!(formatter, "not TOML: {message}"),
            Self::NoSection { name } => write!(formatter, "`{name}` is a section, not a key"),
            Self::UnknownKey { name, .. } => write!(formatter, "unknown key `{name}`"),
            Self::UnknownSection { name, .. } => write!(formatter, "unknown section `[{name}]`"),
            Self::UnknownVariable { .. } => formatter.write_str("unknown environment variable"),
            Self::NoAssignment { text } => write!(formatter, "no value in `{text}`"),
            Self::Invalid(invalid) => write!(formatter, "{invalid}"),
        }
    }
}

/// A non-empty list of problems.
#[derive(Debug)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    /// An error if there are any problems.
    pub(super) fn into_result(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        let reports = problems
            .into_iter()
            .map(|problem| Report { message: problem.to_string(), hint: problem.hint() })
            .collect();
        Self::from_reports(Status::Usage, reports)
    }
}
