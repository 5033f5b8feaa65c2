//! One key: its name, what it takes, what it means, and who reads it.

use std::borrow::Cow;

use serde_json::Value;

use super::invalid::InvalidValue;

/// One row of the key table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// The dotted name, such as `prompt.offload.threshold_tokens`.
    pub name: &'static str,
    /// Whether a project's file may set it without the user's trust.
    pub project: ProjectUse,
    /// What it takes.
    pub kind: Kind,
    /// The default, in the notation that JSON and TOML share.
    pub default: &'static str,
    /// What stands in for the default where that is empty (or 0) and depends on the machine.
    pub derived: Option<&'static str>,
    /// One sentence.
    pub meaning: &'static str,
    /// The commands which act on it.
    pub read_by: &'static [&'static str],
}

/// Whether the file of a project, which anyone may have written, may set a key.
///
/// The rule for a new key: imagine that the author of a cloned repository chooses the value. Only
/// a key that does no more than change how much of a result is shown, or how long it is kept, is
/// [`Allowed`](Self::Allowed). A path, an address, a store, a credential, who may read or connect,
/// a limit on resources, or a list of offered tools is [`TrustRequired`](Self::TrustRequired).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectUse {
    /// Any project file may set it.
    Allowed,
    /// A project file sets it only after the user has trusted the exact contents of that file.
    TrustRequired,
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 bits, from `min` on.
    U32 {
        /// The smallest allowed.
        min: u32,
    },
    /// A whole number of 64 bits, from `min` on.
    U64 {
        /// The smallest allowed.
        min: u64,
    },
    /// Any text.
    Text,
    /// A text that is never shown again.
    Secret,
    /// A text out of a closed list.
    Choice(&'static [&'static str]),
    /// A text in one of these forms: one that ends in `:` or `/` is a beginning, any other stands
    /// for itself. Passwords in it are never shown.
    Locator(&'static [&'static str]),
    /// A list of texts.
    List,
    /// A list of texts that are never shown again.
    Secrets,
    /// A map from tool globs to policies.
    Policies,
}

impl Key {
    /// The environment variable that sets it.
    pub fn env(&self) -> String {
        format!("ATLATL_{}", self.name.replace('.', "__").to_uppercase())
    }

    /// Whether `value` is one the key takes; for a map, the whole map.
    pub fn check(&self, value: &Value) -> Result<(), InvalidValue> {
        let Kind::Policies = self.kind else {
            return self.verdict(self.name, value, self.kind.takes(value));
        };
        let Some(entries) = value.as_object() else {
            return self.verdict(self.name, value, false);
        };
        entries.iter().try_for_each(|(entry, value)| self.check_entry(entry, value))
    }

    /// Whether `value` is one that the entry `entry` of this map takes.
    pub fn check_entry(&self, entry: &str, value: &Value) -> Result<(), InvalidValue> {
        let takes = matches!(self.kind, Kind::Policies) && is_policy(value);
        if takes {
            return Ok(());
        }
        Err(InvalidValue::new(self.entry_name(entry), self.shown(value), POLICY))
    }

    /// The full name of one entry of a map: `proxy.policy."read_*"`.
    pub fn entry_name(&self, entry: &str) -> String {
        format!("{}.{}", self.name, Value::from(entry))
    }

    /// The value as it may be printed: secrets and passwords left out.
    pub fn shown(&self, value: &Value) -> String {
        match (self.kind, value) {
            (Kind::Secret, Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
            (Kind::Secret, _) => "\"***\"".to_owned(),
            (Kind::Secrets, Value::Array(items)) if items.is_empty() => "[]".to_owned(),
            (Kind::Secrets, _) => "[\"***\"]".to_owned(),
            (_, Value::String(text)) => Value::from(&*without_password(text)).to_string(),
            (_, Value::Object(entries)) => as_inline_table(entries),
            (_, other) => other.to_string(),
        }
    }

    /// The value as it may be handed to a machine: secrets and passwords left out.
    pub fn redacted(&self, value: &Value) -> Value {
        match (self.kind, value) {
            (Kind::Secret, Value::String(text)) if !text.is_empty() => Value::from("***"),
            (Kind::Secrets, Value::Array(items)) => items.iter().map(|_| "***").collect(),
            (_, Value::String(text)) => Value::from(&*without_password(text)),
            (_, other) => other.clone(),
        }
    }

    fn verdict(&self, name: &str, value: &Value, takes: bool) -> Result<(), InvalidValue> {
        if takes {
            return Ok(());
        }
        Err(InvalidValue::new(name, self.shown(value), self.kind.expected()))
    }
}

/// What an entry of `proxy.policy` takes.
const POLICY: &str = "\"inline\", \"offload\" or { threshold_tokens = n } with n of at least 1";

impl Kind {
    /// What the key takes, in words that end an "expected …".
    pub fn expected(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::U32 { min } => format!("a whole number from {min} to {}", u32::MAX),
            Self::U64 { min } => format!("a whole number of at least {min}"),
            Self::Text | Self::Secret => "text".to_owned(),
            Self::Choice(values) => alternatives(values.iter().map(|value| format!("\"{value}\""))),
            Self::Locator(forms) => alternatives(forms.iter().map(|form| {
                if is_beginning(form) { format!("\"{form}…\"") } else { format!("\"{form}\"") }
            })),
            Self::List | Self::Secrets => "a list of texts".to_owned(),
            Self::Policies => {
                format!("a table from tool globs to policies, each of them {POLICY}")
            }
        }
    }

    /// The kind's short name, for a table.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U32 { .. } => "u32",
            Self::U64 { .. } => "u64",
            Self::Text | Self::Secret | Self::Locator(_) => "text",
            Self::Choice(_) => "choice",
            Self::List | Self::Secrets => "list",
            Self::Policies => "map",
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self {
            Self::Bool => value.is_boolean(),
            Self::U32 { min } => value
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .is_some_and(|number| number >= *min),
            Self::U64 { min } => value.as_u64().is_some_and(|number| number >= *min),
            Self::Text | Self::Secret => value.as_str().is_some_and(is_plain),
            Self::Choice(values) => value.as_str().is_some_and(|text| values.contains(&text)),
            Self::Locator(forms) => value.as_str().is_some_and(|text| {
                let fits = |form: &&str| {
                    if is_beginning(form) {
                        text.len() > form.len() && text.starts_with(form)
                    } else {
                        text == *form
                    }
                };
                is_plain(text) && forms.iter().any(fits)
            }),
            Self::List | Self::Secrets => value.as_array().is_some_and(|items| {
                items.iter().all(|item| item.as_str().is_some_and(|text| !text.is_empty()))
            }),
            Self::Policies => value.is_object(),
        }
    }
}

/// No path and no address can hold a NUL; everything else is the owner's business.
fn is_plain(text: &str) -> bool {
    !text.contains('\0')
}

fn is_beginning(form: &str) -> bool {
    form.ends_with([':', '/'])
}

/// Stricter than reading a [`Policy`](crate::Policy) with serde, which skips unknown fields.
fn is_policy(value: &Value) -> bool {
    match value {
        Value::String(text) => text == "inline" || text == "offload",
        Value::Object(fields) => {
            fields.len() == 1
                && fields
                    .get("threshold_tokens")
                    .is_some_and(|tokens| Kind::U32 { min: 1 }.takes(tokens))
        }
        _ => false,
    }
}

/// `a`, `a or b`, `a, b or c`.
fn alternatives(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    let last = items.pop().unwrap_or_default();
    if items.is_empty() { last } else { format!("{} or {last}", items.join(", ")) }
}

/// `scheme://user:password@host` with the password replaced.
fn without_password(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Cow::Borrowed(text);
    };
    // The last `@` before the path, query or fragment: a password may contain one, a host may not.
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Cow::Borrowed(text);
    };
    let Some((user, _)) = user.split_once(':') else {
        return Cow::Borrowed(text);
    };
    let path = &rest[authority.len()..];
    Cow::Owned(format!("{scheme}://{user}:***@{host}{path}"))
}

/// A map as TOML writes it on one line.
fn as_inline_table(entries: &serde_json::Map<String, Value>) -> String {
    if entries.is_empty() {
        return "{}".to_owned();
    }
    let field = |(name, value): (&String, &Value)| {
        let bare = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let name = if bare { name.clone() } else { Value::from(&**name).to_string() };
        match value {
            Value::Object(entries) => format!("{name} = {}", as_inline_table(entries)),
            other => format!("{name} = {other}"),
        }
    };
    format!("{{ {} }}", entries.iter().map(field).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::key, *};

    fn refusal(name: &str, value: &Value) -> String {
        key(name).unwrap().check(value).unwrap_err().to_string()
    }

    #[test]
    fn a_refusal_names_key_value_and_expectation() {
        let cases = [
            (
                "prompt.offload.threshold_tokens",
                json!(0),
                "`prompt.offload.threshold_tokens` is 0, expected a whole number from 1 to 4294967295",
            ),
            (
                "prompt.offload.threshold_tokens",
                json!("many"),
                "`prompt.offload.threshold_tokens` is \"many\", expected a whole number from 1 to 4294967295",
            ),
            (
                "prompt.offload.ttl_seconds",
                json!(-1),
                "`prompt.offload.ttl_seconds` is -1, expected a whole number of at least 1",
            ),
            (
                "prompt.offload.enabled",
                json!("yes"),
                "`prompt.offload.enabled` is \"yes\", expected true or false",
            ),
            (
                "prompt.offload.output_dir",
                json!(123),
                "`prompt.offload.output_dir` is 123, expected text",
            ),
            (
                "proxy.references",
                json!("all"),
                "`proxy.references` is \"all\", expected \"off\", \"same-server\" or \"any\"",
            ),
            (
                "spool.url",
                json!("ftp://host"),
                "`spool.url` is \"ftp://host\", expected \"\", \"s3://…\", \"gs://…\" or \"az://…\"",
            ),
            (
                "server.allowed_hosts",
                json!(["a", 1]),
                "`server.allowed_hosts` is [\"a\",1], expected a list of texts",
            ),
            (
                "proxy.policy",
                json!({"Foo_*": {"threshold_tokens": 0}}),
                "`proxy.policy.\"Foo_*\"` is { threshold_tokens = 0 }, expected \"inline\", \"offload\" or { threshold_tokens = n } with n of at least 1",
            ),
        ];
        for (name, value, expected) in cases {
            assert_eq!(refusal(name, &value), expected);
        }
    }

    #[test]
    fn numbers_stop_at_their_width() {
        let threshold = key("prompt.offload.threshold_tokens").unwrap();
        assert!(threshold.check(&json!(u32::MAX)).is_ok());
        assert!(threshold.check(&json!(u64::from(u32::MAX) + 1)).is_err());
        assert!(threshold.check(&json!(1.0)).is_err());
        let ttl = key("prompt.offload.ttl_seconds").unwrap();
        assert!(ttl.check(&json!(u64::MAX)).is_ok());
    }

    #[test]
    fn a_policy_with_a_misspelt_field_is_refused() {
        let policy = key("proxy.policy").unwrap();
        for wrong in [json!({"threshold": 5}), json!({}), json!("Inline"), json!(5), json!(null)] {
            assert!(policy.check_entry("x", &wrong).is_err(), "{wrong}");
        }
        let surplus = json!({"threshold_tokens": 5, "inline": true});
        assert!(policy.check_entry("x", &surplus).is_err());
        assert!(policy.check_entry("x", &json!({"threshold_tokens": 5})).is_ok());
    }

    #[test]
    fn locators_need_more_than_their_beginning() {
        let store = key("memory.store").unwrap();
        for good in ["", "sqlite:/a/b.db", "postgres://host/db"] {
            assert!(store.check(&json!(good)).is_ok(), "{good}");
        }
        for bad in ["sqlite:", "mysql://host", "postgres:/host"] {
            assert!(store.check(&json!(bad)).is_err(), "{bad}");
        }
        let embedder = key("memory.embedder").unwrap();
        assert!(embedder.check(&json!("nonesuch")).is_err());
    }

    #[test]
    fn secrets_are_never_shown() {
        let store = key("memory.store").unwrap();
        let url = json!("postgres://ann:p@ss:w0rd@db.example:5432/m?x=a:b@c");
        assert_eq!(store.shown(&url), "\"postgres://ann:***@db.example:5432/m?x=a:b@c\"");
        assert_eq!(store.redacted(&json!("postgres://ann@db/m")), json!("postgres://ann@db/m"));
        let auth = key("server.auth").unwrap();
        assert_eq!(auth.shown(&json!("bearer abc")), "\"***\"");
        assert_eq!(auth.redacted(&json!("bearer abc")), json!("***"));
        assert_eq!(auth.redacted(&json!("")), json!(""));
        assert!(!refusal("memory.store", &json!("mysql://u:hidden@h")).contains("hidden"));
    }
}
