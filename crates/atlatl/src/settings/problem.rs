//! What is wrong with the configuration, and where.

use std::fmt;

use lro_core::config::{InvalidValue, KEYS, Key, key};

use super::{Origin, Refusal};

/// One thing that is wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    origin: Origin,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
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
        Self { origin, fault: Fault::Refused(refusal) }
    }

    pub(super) fn not_utf8(origin: Origin) -> Self {
        Self { origin, fault: Fault::NotUtf8 }
    }

    pub(super) fn syntax(origin: Origin, message: impl Into<String>) -> Self {
        Self { origin, fault: Fault::Syntax(message.into()) }
    }

    /// A section's name with a plain value behind it.
    pub(super) fn no_section(origin: Origin, name: impl Into<String>) -> Self {
        Self { origin, fault: Fault::NoSection { name: name.into() } }
    }

    pub(super) fn unknown_key(origin: Origin, name: impl Into<String>) -> Self {
        let name = name.into();
        let nearest = lro_core::config::nearest(&name);
        Self { origin, fault: Fault::UnknownKey { name, nearest } }
    }

    pub(super) fn unknown_section(origin: Origin, name: impl Into<String>) -> Self {
        let name = name.into();
        let nearest = lro_core::config::nearest_section(&name);
        Self { origin, fault: Fault::UnknownSection { name, nearest } }
    }

    /// A variable of ours that sets nothing; `name` is the key it would have set.
    pub(super) fn unknown_variable(origin: Origin, name: &str) -> Self {
        let nearest = lro_core::config::nearest(name);
        Self { origin, fault: Fault::UnknownVariable { nearest } }
    }

    pub(super) fn no_assignment(text: impl Into<String>) -> Self {
        Self { origin: Origin::Flag, fault: Fault::NoAssignment { text: text.into() } }
    }

    pub(super) fn invalid(origin: Origin, refusal: InvalidValue) -> Self {
        Self { origin, fault: Fault::Invalid(refusal) }
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether `key` may have been set where this problem is, to a value that is lost.
    pub(super) fn may_hide(&self, key: &str) -> bool {
        match &self.fault {
            Fault::Invalid(refusal) => refusal.key == key,
            // A key, a section or a variable whose name is misspelt can be any of them.
            Fault::Refused(_)
            | Fault::NotUtf8
            | Fault::Syntax(_)
            | Fault::NoSection { .. }
            | Fault::UnknownKey { .. }
            | Fault::UnknownSection { .. }
            | Fault::UnknownVariable { .. }
            | Fault::NoAssignment { .. } => true,
        }
    }

    /// What to do about it, where that is not said already.
    pub(crate) fn hint(&self) -> Option<String> {
        const ALL: &str = "`atlatl config schema` has every key";
        match &self.fault {
            Fault::UnknownKey { nearest: Some(name), .. } => {
                Some(format!("did you mean `{name}`?"))
            }
            Fault::UnknownSection { nearest: Some(name), .. } => {
                Some(format!("did you mean `[{name}]`?"))
            }
            Fault::UnknownVariable { nearest: Some(name) } => {
                key(name).map(|key| format!("did you mean {}?", key.env()))
            }
            Fault::UnknownKey { .. }
            | Fault::UnknownSection { .. }
            | Fault::UnknownVariable { .. } => Some(ALL.to_owned()),
            Fault::NoAssignment { .. } => {
                Some("write --set KEY=VALUE, as in --set prompt.offload.enabled=false".to_owned())
            }
            Fault::NoSection { name } => {
                let inside = |key: &&Key| key.name.starts_with(&format!("{name}."));
                let example = KEYS.iter().find(inside)?;
                Some(format!("name a key in it, such as `{}`", example.name))
            }
            Fault::Invalid(refusal) => {
                let default = key(&refusal.key)?.default;
                let is_default = refusal.value == default;
                (!is_default).then(|| format!("leave it out for the default, {default}"))
            }
            Fault::Refused(refusal) => match &self.origin {
                Origin::File { path, .. } => refusal.hint(path),
                _ => None,
            },
            Fault::NotUtf8 | Fault::Syntax(_) => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.origin, self.fault)
    }
}

impl fmt::Display for Fault {
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
            Self::Invalid(refusal) => write!(formatter, "{refusal}"),
        }
    }
}

/// All that is wrong: at least one thing.
#[derive(Debug)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn none_or(problems: Vec<Problem>) -> Result<(), Self> {
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
