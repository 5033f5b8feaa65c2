//! A configuration key: its name, the values it accepts, its meaning, and the commands that use it.

use std::borrow::Cow;

use serde_json::Value;

use super::issuer;

/// One row of the key table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigKey {
    /// The dotted name, such as `prompt.offload.threshold_tokens`.
    pub name: &'static str,
    /// Whether a project file may set it before the user trusts that file.
    pub project: ProjectUse,
    /// The values it accepts.
    pub kind: ConfigValueKind,
    /// The default, in the syntax that JSON and TOML share.
    pub default: &'static str,
    /// The effective default, where it depends on the machine and `default` is empty (or 0).
    pub derived: Option<&'static str>,
    /// The description, one sentence.
    pub meaning: &'static str,
    /// The commands that use it.
    pub read_by: &'static [&'static str],
}

/// Whether an untrusted project file may set a key.
///
/// The rule for a new key: imagine that the author of a cloned repository chooses the value. A key
/// is [`Allowed`](Self::Allowed) only if it changes nothing but how much of a result is shown, or
/// how long it is kept. A path, an address, a store, a credential, an access rule, a resource limit
/// or a list of offered tools is [`TrustRequired`](Self::TrustRequired).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectUse {
    /// Any project file may set it.
    Allowed,
    /// A project file may set it only after the user trusted the exact contents of that file.
    TrustRequired,
}

/// The values that a key accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigValueKind {
    /// `true` or `false`.
    Bool,
    /// A 32-bit integer of at least `min`.
    U32 {
        /// The minimum.
        min: u32,
    },
    /// A 64-bit integer of at least `min`.
    U64 {
        /// The minimum.
        min: u64,
    },
    /// Any string.
    Text,
    /// A string that is never printed.
    Secret,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// A string in one of these forms: a form that ends in `:` or `/` is a prefix, any other is the
    /// whole value. Passwords in it are never printed.
    Locator(&'static [&'static str]),
    /// A list of strings.
    List,
    /// A list of strings that are never printed.
    Secrets,
    /// A map from tool globs to policies.
    Policies,
    /// A map from names to issuers of tokens.
    Issuers,
}

impl ConfigKey {
    /// The name of the environment variable that sets it.
    pub fn env(&self) -> String {
        format!("ATLATL_{}", self.name.replace('.', "__").to_uppercase())
    }

    /// Checks that the key accepts `value`; for a map, checks all its entries.
    pub fn check(&self, value: &Value) -> Result<(), InvalidValue> {
        if !self.kind.is_map() {
            return self.accept(self.name, value, self.kind.accepts(value));
        }
        let Some(entries) = value.as_object() else {
            return self.accept(self.name, value, false);
        };
        entries.iter().try_for_each(|(entry, value)| self.check_entry(entry, value))
    }

    /// Checks that the entry `entry` of this map accepts `value`.
    pub fn check_entry(&self, entry: &str, value: &Value) -> Result<(), InvalidValue> {
        if self.kind == ConfigValueKind::Issuers {
            return issuer::check(entry, value).map_err(|wrong| {
                let name = format!("{}{}", self.entry_name(entry), wrong.part);
                InvalidValue::new(name, self.redact(value), wrong.expected)
            });
        }
        let accepts = matches!(self.kind, ConfigValueKind::Policies) && is_policy(value);
        if accepts {
            return Ok(());
        }
        Err(InvalidValue::new(self.entry_name(entry), self.redact(value), EXPECTED_POLICY))
    }

    /// The full name of one entry of a map: `proxy.policy."read_*"`.
    pub fn entry_name(&self, entry: &str) -> String {
        format!("{}.{}", self.name, Value::from(entry))
    }

    /// `value` as text for people, without secrets and passwords.
    pub fn redact(&self, value: &Value) -> String {
        match (self.kind, value) {
            (ConfigValueKind::Secret, Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
            (ConfigValueKind::Secret, _) => "\"***\"".to_owned(),
            (ConfigValueKind::Secrets, Value::Array(items)) if items.is_empty() => "[]".to_owned(),
            (ConfigValueKind::Secrets, _) => "[\"***\"]".to_owned(),
            (_, Value::String(text)) => Value::from(&*without_password(text)).to_string(),
            (_, Value::Object(entries)) => as_inline_table(entries),
            (_, other) => other.to_string(),
        }
    }

    /// `value` as JSON, without secrets and passwords.
    pub fn redacted(&self, value: &Value) -> Value {
        match (self.kind, value) {
            (ConfigValueKind::Secret, Value::String(text)) if !text.is_empty() => {
                Value::from("***")
            }
            (ConfigValueKind::Secrets, Value::Array(items)) => {
                items.iter().map(|_| "***").collect()
            }
            (_, Value::String(text)) => Value::from(&*without_password(text)),
            (_, other) => other.clone(),
        }
    }

    fn accept(&self, name: &str, value: &Value, accepts: bool) -> Result<(), InvalidValue> {
        if accepts {
            return Ok(());
        }
        Err(InvalidValue::new(name, self.redact(value), self.kind.expected()))
    }
}

/// The values that an entry of `proxy.policy` accepts.
const EXPECTED_POLICY: &str =
    "\"inline\", \"offload\" or { threshold_tokens = n } with n of at least 1";

impl ConfigValueKind {
    /// Whether the values are maps, whose entries are checked and merged one by one.
    pub fn is_map(&self) -> bool {
        matches!(self, Self::Policies | Self::Issuers)
    }

    /// A description of the accepted values, which completes "expected …".
    pub fn expected(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::U32 { min } => format!("a whole number from {min} to {}", u32::MAX),
            Self::U64 { min } => format!("a whole number of at least {min}"),
            Self::Text | Self::Secret => "text".to_owned(),
            Self::Choice(values) => alternatives(values.iter().map(|value| format!("\"{value}\""))),
            Self::Locator(forms) => alternatives(forms.iter().map(|form| {
                if is_prefix(form) { format!("\"{form}…\"") } else { format!("\"{form}\"") }
            })),
            Self::List | Self::Secrets => "a list of strings".to_owned(),
            Self::Policies => {
                format!("a table from tool globs to policies, each of them {EXPECTED_POLICY}")
            }
            Self::Issuers => {
                "a table from names to issuers, each of them with url and rules".to_owned()
            }
        }
    }

    /// The short name of the kind, for tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U32 { .. } => "u32",
            Self::U64 { .. } => "u64",
            Self::Text | Self::Secret | Self::Locator(_) => "text",
            Self::Choice(_) => "choice",
            Self::List | Self::Secrets => "list",
            Self::Policies | Self::Issuers => "map",
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Bool => value.is_boolean(),
            Self::U32 { min } => value
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .is_some_and(|number| number >= *min),
            Self::U64 { min } => value.as_u64().is_some_and(|number| number >= *min),
            Self::Text | Self::Secret => value.as_str().is_some_and(has_no_nul),
            Self::Choice(values) => value.as_str().is_some_and(|text| values.contains(&text)),
            Self::Locator(forms) => value.as_str().is_some_and(|text| {
                let fits = |form: &&str| {
                    if is_prefix(form) {
                        text.len() > form.len() && text.starts_with(form)
                    } else {
                        text == *form
                    }
                };
                has_no_nul(text) && forms.iter().any(fits)
            }),
            Self::List | Self::Secrets => value.as_array().is_some_and(|items| {
                items.iter().all(|item| item.as_str().is_some_and(|text| !text.is_empty()))
            }),
            Self::Policies | Self::Issuers => value.is_object(),
        }
    }
}

/// A value that a key does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}, expected {expected}")]
#[non_exhaustive]
pub struct InvalidValue {
    /// The key as written in a file; for an entry of a map, with the name of the entry.
    pub key: String,
    /// The value, without secrets and truncated.
    pub value: String,
    /// What the key accepts.
    pub expected: String,
}

/// Characters of the value in a message: enough to recognise it.
const MAX_VALUE_CHARS: usize = 80;

impl InvalidValue {
    /// The error for `key` with `value`, which accepts `expected`.
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let mut value = value.into();
        if let Some((cut, _)) = value.char_indices().nth(MAX_VALUE_CHARS) {
            value.truncate(cut);
            value.push('…');
        }
        Self { key: key.into(), value, expected: expected.into() }
    }
}

/// Rejects NUL, which no path and no address can contain.
fn has_no_nul(text: &str) -> bool {
    !text.contains('\0')
}

fn is_prefix(form: &str) -> bool {
    form.ends_with([':', '/'])
}

/// Whether `value` is a policy. Stricter than deserializing a [`Policy`](crate::Policy), which
/// ignores unknown fields.
fn is_policy(value: &Value) -> bool {
    match value {
        Value::String(text) => text == "inline" || text == "offload",
        Value::Object(fields) => {
            fields.len() == 1
                && fields
                    .get("threshold_tokens")
                    .is_some_and(|tokens| ConfigValueKind::U32 { min: 1 }.accepts(tokens))
        }
        _ => false,
    }
}

/// Joins alternatives: `a`, `a or b`, `a, b or c`.
fn alternatives(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    let last = items.pop().unwrap_or_default();
    if items.is_empty() { last } else { format!("{} or {last}", items.join(", ")) }
}

/// Replaces the password in `scheme://user:password@host`.
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

/// A map in the syntax of TOML's inline tables.
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

    use super::super::key;
    use super::*;

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
                "`server.allowed_hosts` is [\"a\",1], expected a list of strings",
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
        assert!(embedder.check(&json!("auto")).is_ok());
        for bad in ["nonesuch", "automatic", "local:"] {
            assert!(embedder.check(&json!(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let store = key("memory.store").unwrap();
        let url = json!("postgres://ann:p@ss:w0rd@db.example:5432/m?x=a:b@c");
        assert_eq!(store.redact(&url), "\"postgres://ann:***@db.example:5432/m?x=a:b@c\"");
        assert_eq!(store.redacted(&json!("postgres://ann@db/m")), json!("postgres://ann@db/m"));
        let auth = key("server.auth").unwrap();
        assert_eq!(auth.redact(&json!("bearer abc")), "\"***\"");
        assert_eq!(auth.redacted(&json!("bearer abc")), json!("***"));
        assert_eq!(auth.redacted(&json!("")), json!(""));
        assert!(!refusal("memory.store", &json!("mysql://u:hidden@h")).contains("hidden"));
    }
}
