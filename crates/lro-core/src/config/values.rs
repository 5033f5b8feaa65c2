//! Conversion between the typed configuration and values by key name.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::Config;
use super::key::{ConfigKey, InvalidValue};
use super::key_table::{KEYS, key};

impl Config {
    /// The defaults, overridden by `values`; a later value of the same key wins.
    ///
    /// Checks every value and reports all errors, not only the first.
    pub fn from_values<'a>(
        values: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, InvalidValues> {
        let mut wrong = Vec::new();
        let mut tree = Self::default().tree();
        for (name, value) in values {
            let Some(key) = key(name) else {
                wrong.push(InvalidValue::new(name, value.to_string(), "a known key"));
                continue;
            };
            match key.check(&value) {
                Err(refusal) => wrong.push(refusal),
                Ok(()) => {
                    if let Some(slot) = tree.pointer_mut(&pointer(key)) {
                        *slot = value;
                    }
                }
            }
        }
        InvalidValues::none_or(wrong)?;
        // Cannot fail after the checks, as a test shows. An error is still better than a panic.
        let config: Self = serde_json::from_value(tree).map_err(|error| {
            InvalidValue::new("configuration", "not readable", error.to_string())
        })?;
        InvalidValues::none_or(config.contradictions())?;
        Ok(config)
    }

    /// Every key with its value, in the order of the table.
    pub fn values(&self) -> impl Iterator<Item = (&'static ConfigKey, Value)> {
        let mut tree = self.tree();
        KEYS.iter().map(move |key| {
            let value = tree.pointer_mut(&pointer(key)).map_or(Value::Null, Value::take);
            (key, value)
        })
    }

    /// A copy without secrets and passwords, for printing.
    pub fn redacted(&self) -> Self {
        let mut tree = self.tree();
        for key in KEYS {
            if let Some(slot) = tree.pointer_mut(&pointer(key)) {
                *slot = key.redacted(slot);
            }
        }
        Self::from_redacted(tree)
    }

    /// Checks the bounds that the types do not enforce, for a configuration that was deserialized or
    /// built in code.
    pub fn validate(&self) -> Result<(), InvalidValues> {
        let mut wrong: Vec<_> =
            self.values().filter_map(|(key, value)| key.check(&value).err()).collect();
        wrong.extend(self.contradictions());
        InvalidValues::none_or(wrong)
    }

    /// Errors that involve more than one key.
    fn contradictions(&self) -> Vec<InvalidValue> {
        let map = &self.proxy.path_map;
        let mut wrong = Vec::new();
        if map.from.is_empty() && !map.to.is_empty() {
            let expected = "text, because `proxy.path_map.to` is set";
            wrong.push(InvalidValue::new("proxy.path_map.from", "\"\"", expected));
        }
        if map.to.is_empty() && !map.from.is_empty() {
            let expected = "text, because `proxy.path_map.from` is set";
            wrong.push(InvalidValue::new("proxy.path_map.to", "\"\"", expected));
        }
        wrong.extend(self.issuer_contradictions());
        wrong
    }

    /// Issuers that contradict each other.
    fn issuer_contradictions(&self) -> Vec<InvalidValue> {
        let issuers = &self.server.issuers;
        let mut urls = BTreeMap::new();
        let mut wrong = Vec::new();
        for (name, issuer) in issuers {
            if let Some(other) = urls.insert(issuer.url.as_str(), name) {
                let both = format!("{other} and {name} with the same url");
                wrong.push(InvalidValue::new("server.issuers", both, "one issuer for each url"));
            }
            // Otherwise one issuer could give access to the tenants of another.
            if issuers.len() > 1 && issuer.tenant_claim.is_some() && issuer.tenants.is_empty() {
                let alone = format!("{name} with tenant_claim among several issuers");
                let expected = format!("`tenants` in {name}: those that the claim may name");
                wrong.push(InvalidValue::new("server.issuers", alone, expected));
            }
        }
        wrong
    }

    fn from_redacted(tree: Value) -> Self {
        serde_json::from_value(tree).expect("redaction puts a text in the place of a text")
    }

    fn tree(&self) -> Value {
        serde_json::to_value(self).expect("the configuration has text keys and finite numbers only")
    }
}

fn pointer(key: &ConfigKey) -> String {
    format!("/{}", key.name.replace('.', "/"))
}

/// All invalid values of a configuration; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValues(Vec<InvalidValue>);

impl InvalidValues {
    /// `Ok` if `values` is empty.
    fn none_or(values: Vec<InvalidValue>) -> Result<(), Self> {
        if values.is_empty() { Ok(()) } else { Err(Self(values)) }
    }

    /// Iterates over the invalid values.
    pub fn iter(&self) -> std::slice::Iter<'_, InvalidValue> {
        self.0.iter()
    }
}

impl From<InvalidValue> for InvalidValues {
    fn from(value: InvalidValue) -> Self {
        Self(vec![value])
    }
}

impl IntoIterator for InvalidValues {
    type Item = InvalidValue;
    type IntoIter = std::vec::IntoIter<InvalidValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a InvalidValues {
    type Item = &'a InvalidValue;
    type IntoIter = std::slice::Iter<'a, InvalidValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for InvalidValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, value) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(formatter, "{separator}{value}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidValues {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::super::{ConfigValueKind, DescriptorForm};
    use super::*;
    use crate::threshold::{FixedPolicy, Policy};

    /// Collects the names of all leaves; everything but a table of keys is a leaf.
    fn leaves(prefix: &str, value: &Value, names: &mut BTreeSet<String>) {
        match value.as_object() {
            Some(fields) if key(prefix).is_none() => {
                for (name, value) in fields {
                    let dot = if prefix.is_empty() { "" } else { "." };
                    leaves(&format!("{prefix}{dot}{name}"), value, names);
                }
            }
            _ => {
                names.insert(prefix.to_owned());
            }
        }
    }

    /// A value that the key accepts and that is not its default.
    fn other_value(key: &ConfigKey) -> Value {
        match key.kind {
            ConfigValueKind::Bool => json!(key.default != "true"),
            ConfigValueKind::U32 { .. } => json!(u32::MAX),
            ConfigValueKind::U64 { .. } => json!(u64::MAX),
            ConfigValueKind::Text | ConfigValueKind::Secret => json!("other text"),
            ConfigValueKind::Choice(values) => json!(values.last().unwrap()),
            ConfigValueKind::Locator(forms) => json!(format!("{}x", forms.last().unwrap())),
            ConfigValueKind::List | ConfigValueKind::Secrets => json!(["one", "two"]),
            ConfigValueKind::Issuers => {
                json!({"id": {"url": "https://id.example", "tenant": "acme"}})
            }
            ConfigValueKind::Policies => json!({"Foo_*": "inline", "b": {"threshold_tokens": 5}}),
        }
    }

    #[test]
    fn the_table_and_the_types_have_the_same_keys() {
        let mut typed = BTreeSet::new();
        leaves("", &Config::default().tree(), &mut typed);
        let listed: BTreeSet<String> = KEYS.iter().map(|key| key.name.to_owned()).collect();
        assert_eq!(listed.len(), KEYS.len(), "a key is listed twice");
        assert_eq!(typed, listed);
    }

    #[test]
    fn the_table_and_the_types_have_the_same_defaults() {
        for (key, value) in Config::default().values() {
            let listed: Value = serde_json::from_str(key.default).unwrap();
            assert_eq!(listed, value, "{}", key.name);
            assert!(key.check(&value).is_ok(), "{}", key.name);
            let empty = value == json!("") || value == json!(0);
            assert!(key.derived.is_none() || empty, "{}: derived, yet not empty", key.name);
        }
    }

    #[test]
    fn what_the_table_takes_the_types_take() {
        for key in KEYS.iter().filter(|key| !key.name.starts_with("proxy.path_map")) {
            let value = other_value(key);
            let config = Config::from_values([(key.name, value.clone())]).unwrap();
            for (other, now) in config.values() {
                if other.name == key.name {
                    assert_eq!(now, value, "{}", key.name);
                } else {
                    assert_eq!(now.to_string(), other.default, "{} moved {}", key.name, other.name);
                }
            }
            if let ConfigValueKind::Choice(values) = key.kind {
                for value in values {
                    Config::from_values([(key.name, json!(value))]).unwrap();
                }
            }
        }
        let both = [("proxy.path_map.from", json!("/a")), ("proxy.path_map.to", json!("/b"))];
        let config = Config::from_values(both).unwrap();
        assert_eq!(config.proxy.path_map.pair(), Some(("/a", "/b")));
    }

    #[test]
    fn what_the_table_refuses_never_becomes_a_configuration() {
        for key in KEYS {
            for wrong in [json!(null), json!(1.5), json!("\0"), json!({"unknown": 1})] {
                let refusals = Config::from_values([(key.name, wrong.clone())]).unwrap_err();
                assert_eq!(refusals.iter().count(), 1, "{} {wrong}", key.name);
                assert!(refusals.iter().next().unwrap().key.starts_with(key.name));
            }
        }
    }

    #[test]
    fn meanings_are_one_sentence_and_names_are_well_formed() {
        for key in KEYS {
            assert!(key.meaning.ends_with('.') && !key.meaning.contains(". "), "{}", key.name);
            assert!(!key.meaning.contains('|'), "{} would break a table", key.name);
            // A key that can be set and has no effect looks as if it worked.
            assert!(!key.read_by.is_empty(), "no command reads {}", key.name);
            let part = |part: &str| {
                !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            };
            assert!(key.name.split('.').all(part), "{}", key.name);
            assert!(!key.name.contains("__"), "{} would be ambiguous in a variable", key.name);
        }
    }

    #[test]
    fn unknown_fields_are_refused_on_every_level() {
        for text in [
            r#"{"colour": 1}"#,
            r#"{"prompt": {"colour": 1}}"#,
            r#"{"prompt": {"offload": {"colour": 1}}}"#,
            r#"{"proxy": {"path_map": {"colour": 1}}}"#,
            r#"{"ledger": {"colour": 1}}"#,
        ] {
            let error = serde_json::from_str::<Config>(text).unwrap_err();
            assert!(error.to_string().contains("unknown field `colour`"), "{error}");
        }
    }

    #[test]
    fn all_refusals_are_reported() {
        let refusals = Config::from_values([
            ("prompt.offload.threshold_tokens", json!(0)),
            ("proxy.tools", json!("some")),
            ("colour", json!("red")),
        ])
        .unwrap_err();
        assert_eq!(
            refusals.to_string(),
            "`prompt.offload.threshold_tokens` is 0, expected a whole number from 1 to 4294967295; \
             `proxy.tools` is \"some\", expected \"all\", \"separate\" or \"none\"; \
             `colour` is \"red\", expected a known key"
        );
    }

    #[test]
    fn half_a_path_map_is_refused() {
        let refusals = Config::from_values([("proxy.path_map.from", json!("/host"))]).unwrap_err();
        assert_eq!(refusals.iter().next().unwrap().key, "proxy.path_map.to");
        let mut config = Config::default();
        config.proxy.path_map.to = "/client".to_owned();
        config.prompt.offload.threshold_tokens = 0;
        let keys: Vec<String> =
            config.validate().unwrap_err().into_iter().map(|wrong| wrong.key).collect();
        assert_eq!(keys, ["prompt.offload.threshold_tokens", "proxy.path_map.from"]);
        assert!(Config::default().validate().is_ok());
    }

    #[test]
    fn g47_several_issuers_have_urls_of_their_own_and_only_tenants_that_they_may_name() {
        let refusals = |issuers: Value| {
            let refusals = Config::from_values([("server.issuers", issuers)]);
            refusals.err().map(|refusals| refusals.to_string())
        };
        let by_claim = json!({"url": "https://b.example", "tenant_claim": "org"});
        let fixed = json!({"url": "https://a.example", "tenant": "acme"});
        assert_eq!(refusals(json!({"b": by_claim})), None);
        assert_eq!(
            refusals(json!({"a": fixed, "b": by_claim})).unwrap(),
            "`server.issuers` is b with tenant_claim among several issuers, expected `tenants` in b: \
             those that the claim may name"
        );
        let mut bounded = by_claim;
        bounded["tenants"] = json!(["team-*"]);
        assert_eq!(refusals(json!({"a": fixed, "b": bounded})), None);
        assert_eq!(
            refusals(json!({"a": fixed, "b": fixed})).unwrap(),
            "`server.issuers` is a and b with the same url, expected one issuer for each url"
        );
        assert_eq!(
            refusals(json!({"a": {"url": "https://a.example", "rules": [{"claim": "x"}]}}))
                .unwrap(),
            "`server.issuers.\"a\".rules[0]` is { url = \"https://a.example\", rules = \
             [{\"claim\":\"x\"}] }, expected conditions with one of `contains`, `prefix` or \
             `any_value = true`"
        );
    }

    #[test]
    fn globs_keep_their_case() {
        let map = json!({"Foo_*": "inline", "foo_*": "offload"});
        let config = Config::from_values([("proxy.policy", map)]).unwrap();
        let policy = |tool| config.proxy.policy.for_tool(tool).map(|(_, policy)| policy);
        assert_eq!(policy("Foo_bar"), Some(Policy::Fixed(FixedPolicy::Inline)));
        assert_eq!(policy("foo_bar"), Some(Policy::Fixed(FixedPolicy::Offload)));
    }

    #[test]
    fn a_redacted_copy_differs_in_secrets_only() {
        let mut config = Config::default();
        assert_eq!(config.redacted(), config);
        config.memory.store = "postgres://ann:hidden@db/m".to_owned();
        config.server.auth = "hidden".to_owned();
        config.proxy.ttl_seconds = 5;
        let mut expected = config.clone();
        expected.memory.store = "postgres://ann:***@db/m".to_owned();
        expected.server.auth = "***".to_owned();
        assert_eq!(config.redacted(), expected);
    }

    #[test]
    fn t1_one_threshold_with_its_default_type_and_key() {
        let default: u32 = Config::default().prompt.offload.threshold_tokens;
        assert_eq!(default, 1600);
        assert_eq!(default as usize, crate::DEFAULT_OFFLOAD_THRESHOLD_TOKENS);
        let generic = Config::default().proxy.threshold_tokens;
        assert_eq!(generic as usize, crate::DEFAULT_GENERIC_THRESHOLD_TOKENS);
        let row = key("prompt.offload.threshold_tokens").unwrap();
        assert_eq!((row.kind, row.default), (ConfigValueKind::U32 { min: 1 }, "1600"));
        let set = Config::from_values([(row.name, json!(u32::MAX))]).unwrap();
        assert_eq!(set.prompt.offload.threshold_tokens, u32::MAX);
    }

    #[test]
    fn c1_the_offload_section_has_the_specified_keys_and_defaults() {
        let offload = Config::default().prompt.offload;
        let ttl: u64 = offload.ttl_seconds;
        assert!(offload.enabled);
        assert_eq!(offload.threshold_tokens, 1600);
        assert_eq!(ttl, 3600);
        assert_eq!(offload.output_dir, "");
        let row = key("prompt.offload.output_dir").unwrap();
        assert_eq!(row.derived, Some("the system's temporary directory"));
        let config: Config = serde_json::from_value(json!({"prompt": {"offload": {
            "enabled": false, "threshold_tokens": 1, "ttl_seconds": 2, "output_dir": "/x",
        }}}))
        .unwrap();
        let offload = config.prompt.offload;
        assert_eq!((offload.enabled, offload.threshold_tokens), (false, 1));
        assert_eq!((offload.ttl_seconds, &*offload.output_dir), (2, "/x"));
        assert_eq!(offload.descriptor, DescriptorForm::Full);
    }

    #[test]
    fn c2_the_environment_variables_have_the_specified_names() {
        let names = ["enabled", "threshold_tokens", "ttl_seconds", "output_dir"]
            .map(|name| key(&format!("prompt.offload.{name}")).unwrap().env());
        assert_eq!(
            names,
            [
                "ATLATL_PROMPT__OFFLOAD__ENABLED",
                "ATLATL_PROMPT__OFFLOAD__THRESHOLD_TOKENS",
                "ATLATL_PROMPT__OFFLOAD__TTL_SECONDS",
                "ATLATL_PROMPT__OFFLOAD__OUTPUT_DIR",
            ]
        );
    }
}
