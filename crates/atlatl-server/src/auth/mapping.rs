//! Maps the claims of a verified token to a subject, a tenant and scopes.
//!
//! All rules that match count: their scopes are joined, and they must agree on the tenant. The order
//! of rules means nothing, so that it cannot decide whose memories a caller reads.

use std::collections::BTreeSet;

use lro_core::config::{ClaimTest, IssuerConfig, IssuerRule, RESERVED_ISSUER_NAMES};
use serde_json::{Map, Value};

use super::claims::ClaimNames;
use super::principal::{Scopes, is_tenant};
use super::refusal::TokenError;

type Claims = Map<String, Value>;

/// What a tenant name in `tenants` ends in if it stands for all names with this beginning.
const WILDCARD: char = '*';
/// The members of a token from which claims were left out because they have too many values.
const OVERAGE_SOURCES: &str = "_claim_names";
const OVERAGE_FLAG: (&str, &str) = ("hasgroups", "groups");

/// The mapping of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimMapping {
    subject: ClaimNames,
    /// Stands before the subjects, so that those of several issuers stay apart. Empty for an issuer
    /// without a name.
    subject_prefix: String,
    tenant: TenantSource,
    /// The tenants that a claim may name; empty for any.
    allowed_tenants: Vec<String>,
    /// The claim with the scopes; `None` for the standard ones.
    scopes: Option<ClaimNames>,
    rules: Vec<Rule>,
}

/// Where the tenant of a token comes from, unless a rule names it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TenantSource {
    Fixed(String),
    Claim(ClaimNames),
    /// Every rule names one.
    Rules,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    conditions: Vec<Condition>,
    tenant: Option<String>,
    /// The granted scopes; `None` for those of the token.
    scopes: Option<Scopes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    claim: ClaimNames,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Contains(String),
    Prefix(String),
    AnyValue,
    /// No value meets it: the condition says nothing, which the check of the configuration refuses.
    Never,
}

impl ClaimMapping {
    /// The mapping that takes the tenant from a claim and the scopes from the standard ones.
    pub(super) fn with_tenant_claim(name: String) -> Self {
        Self {
            subject: ClaimNames::one("sub"),
            subject_prefix: String::new(),
            tenant: TenantSource::Claim(ClaimNames::one(name)),
            allowed_tenants: Vec::new(),
            scopes: None,
            rules: Vec::new(),
        }
    }

    /// The mapping of the issuer that is called `name` in the configuration.
    pub(super) fn from_config(name: &str, config: &IssuerConfig) -> Self {
        let tenant = match (&config.tenant, &config.tenant_claim) {
            (Some(tenant), _) => TenantSource::Fixed(tenant.clone()),
            (None, Some(claim)) => TenantSource::Claim(claim.into()),
            (None, None) => TenantSource::Rules,
        };
        Self {
            subject: config
                .subject_claim
                .as_ref()
                .map_or_else(|| ClaimNames::one("sub"), ClaimNames::from),
            subject_prefix: format!("{name}:"),
            tenant,
            allowed_tenants: config.tenants.clone(),
            scopes: config.scope_claim.as_ref().map(ClaimNames::from),
            rules: config.rules.iter().map(Rule::from).collect(),
        }
    }

    /// The subject, with the name of the issuer.
    pub(super) fn subject(&self, claims: &Claims) -> Result<String, TokenError> {
        let value = self.subject.value(claims).ok_or(TokenError::MissingClaim)?;
        let subject = value.as_str().filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(TokenError::Subject)?;
        let subject = format!("{}{subject}", self.subject_prefix);
        // Otherwise an issuer could write lines of the audit log as somebody else.
        if let Some((prefix, _)) = subject.split_once(':')
            && RESERVED_ISSUER_NAMES.contains(&prefix)
        {
            return Err(TokenError::Subject);
        }
        Ok(subject)
    }

    /// The indexes of the rules that match. Fails if there are rules and none matches.
    pub(super) fn matching_rules(&self, claims: &Claims) -> Result<Vec<usize>, TokenError> {
        let matches = |(_, rule): &(usize, &Rule)| rule.matches(claims);
        let matching = self.rules.iter().enumerate().filter(matches).map(|(index, _)| index);
        let matching: Vec<usize> = matching.collect();
        if !matching.is_empty() || self.rules.is_empty() {
            return Ok(matching);
        }
        Err(if self.is_overage(claims) { TokenError::GroupsOverage } else { TokenError::NoRule })
    }

    /// Whether the issuer left out a claim that the rules look at.
    fn is_overage(&self, claims: &Claims) -> bool {
        let left_out = claims.get(OVERAGE_SOURCES).and_then(Value::as_object);
        let (flag, flagged) = OVERAGE_FLAG;
        let is_flagged = claims.get(flag).is_some_and(|value| *value == Value::Bool(true));
        self.rules.iter().flat_map(|rule| &rule.conditions).any(|condition| {
            let name = condition.claim.first();
            left_out.is_some_and(|names| names.contains_key(name))
                || (is_flagged && name == flagged)
        })
    }

    /// The tenant on which the matching rules agree.
    pub(super) fn tenant(&self, claims: &Claims, matching: &[usize]) -> Result<String, TokenError> {
        let mut tenants = BTreeSet::new();
        for rule in self.rules_at(matching) {
            tenants.insert(match &rule.tenant {
                Some(tenant) => tenant.clone(),
                None => self.default_tenant(claims)?,
            });
        }
        if self.rules.is_empty() {
            tenants.insert(self.default_tenant(claims)?);
        }
        let tenant = tenants.pop_first().ok_or(TokenError::NoRule)?;
        if tenants.is_empty() { Ok(tenant) } else { Err(TokenError::AmbiguousTenant) }
    }

    fn default_tenant(&self, claims: &Claims) -> Result<String, TokenError> {
        match &self.tenant {
            TenantSource::Fixed(tenant) => Ok(tenant.clone()),
            TenantSource::Claim(claim) => {
                let value = claim.value(claims).ok_or(TokenError::MissingClaim)?;
                let tenant = value.as_str().filter(|tenant| is_tenant(tenant));
                let tenant = tenant.ok_or(TokenError::Tenant)?;
                if self.allows(tenant) {
                    Ok(tenant.to_owned())
                } else {
                    Err(TokenError::TenantNotAllowed)
                }
            }
            TenantSource::Rules => Err(TokenError::NoRule),
        }
    }

    /// Whether a claim may name this tenant.
    fn allows(&self, tenant: &str) -> bool {
        let is_it = |allowed: &String| match allowed.strip_suffix(WILDCARD) {
            Some(prefix) => tenant.starts_with(prefix),
            None => tenant == allowed,
        };
        self.allowed_tenants.is_empty() || self.allowed_tenants.iter().any(is_it)
    }

    /// The scopes that the matching rules grant together. If the token itself has scopes of Atlatl,
    /// they are all that its holder delegated to the client, so rules do not go beyond them.
    pub(super) fn scopes(&self, claims: &Claims, matching: &[usize]) -> Scopes {
        let delegated = self.delegated_scopes(claims);
        let own = delegated.unwrap_or_default();
        if self.rules.is_empty() {
            return own;
        }
        let granted: Scopes =
            self.rules_at(matching).flat_map(|rule| rule.scopes.unwrap_or(own).iter()).collect();
        delegated.map_or(granted, |delegated| granted.intersection(delegated))
    }

    /// The scopes in the token; `None` if it has none of Atlatl. Issuers that do not follow RFC 9068 put
    /// them into `scp`, or into a list. What cannot be read delegates nothing.
    fn delegated_scopes(&self, claims: &Claims) -> Option<Scopes> {
        let value = match &self.scopes {
            Some(claim) => claim.value(claims),
            None => claims.get("scope").or_else(|| claims.get("scp")),
        };
        let scopes = match value? {
            Value::String(text) => Scopes::parse(text),
            Value::Array(words) => Scopes::from_words(words.iter().filter_map(Value::as_str)),
            _ => return Some(Scopes::default()),
        };
        (!scopes.is_empty()).then_some(scopes)
    }

    fn rules_at<'a>(&'a self, indexes: &'a [usize]) -> impl Iterator<Item = &'a Rule> {
        indexes.iter().filter_map(move |index| self.rules.get(*index))
    }
}

impl Rule {
    fn matches(&self, claims: &Claims) -> bool {
        self.conditions.iter().all(|condition| condition.is_met(claims))
    }
}

impl Condition {
    fn is_met(&self, claims: &Claims) -> bool {
        let texts = self.claim.texts(claims);
        match &self.test {
            Test::Contains(value) => texts.iter().any(|text| text == value),
            Test::Prefix(prefix) => texts.iter().any(|text| text.starts_with(prefix.as_str())),
            Test::AnyValue => !texts.is_empty(),
            Test::Never => false,
        }
    }
}

impl From<&IssuerRule> for Rule {
    fn from(rule: &IssuerRule) -> Self {
        let conditions = rule.conditions().map(|(claim, test)| Condition {
            claim: claim.into(),
            test: match test {
                Some(ClaimTest::Contains(value)) => Test::Contains(value.to_owned()),
                Some(ClaimTest::Prefix(prefix)) => Test::Prefix(prefix.to_owned()),
                Some(ClaimTest::AnyValue) => Test::AnyValue,
                None => Test::Never,
            },
        });
        let scopes = (!rule.scopes.is_empty())
            .then(|| Scopes::from_words(rule.scopes.iter().map(String::as_str)));
        Self { conditions: conditions.collect(), tenant: rule.tenant.clone(), scopes }
    }
}

#[cfg(test)]
mod tests {
    use lro_core::config::SCOPES;
    use serde_json::json;

    use super::super::principal::AuthScope;
    use super::*;

    /// The mapping of an issuer called `id`, which the check of the configuration accepts.
    fn mapping(mut issuer: Value) -> ClaimMapping {
        issuer["url"] = json!("https://id.example");
        let all = json!({"id": issuer});
        let config = lro_core::config::Config::from_values([("server.issuers", all)]).unwrap();
        ClaimMapping::from_config("id", &config.server.issuers["id"])
    }

    /// The tenant and the scopes of these claims, or the reason of the refusal.
    fn mapped(mapping: &ClaimMapping, claims: &Value) -> Result<String, TokenError> {
        let claims = claims.as_object().unwrap();
        let matching = mapping.matching_rules(claims)?;
        let tenant = mapping.tenant(claims, &matching)?;
        Ok(format!("{tenant} {}", mapping.scopes(claims, &matching)))
    }

    #[test]
    fn g47_the_configuration_has_the_scopes_of_the_server() {
        assert_eq!(SCOPES, AuthScope::ALL.map(AuthScope::word));
    }

    #[test]
    fn g47_scopes_of_all_matching_rules_are_joined() {
        let mapping = mapping(json!({"rules": [
            {"claim": "groups", "contains": "w", "tenant": "acme", "scopes": ["memory:write"]},
            {"claim": "groups", "contains": "r", "tenant": "acme", "scopes": ["memory:read"]},
        ]}));
        let of = |groups: Value| mapped(&mapping, &json!({"groups": groups}));
        assert_eq!(of(json!(["r"])), Ok("acme memory:read".into()));
        assert_eq!(of(json!(["w", "r"])), Ok("acme memory:read memory:write".into()));
        assert_eq!(of(json!("w")), Ok("acme memory:write".into()));
        for none in [json!([]), json!(["R"]), json!(["r "]), json!({"r": true}), json!(null)] {
            assert_eq!(of(none.clone()), Err(TokenError::NoRule), "{none}");
        }
    }

    #[test]
    fn g47_rules_of_two_tenants_are_ambiguous_in_any_order() {
        let rule = |value: &str, tenant: &str| json!({"claim": "groups", "contains": value, "tenant": tenant});
        for rules in [
            json!([rule("a", "acme"), rule("b", "globex")]),
            json!([rule("b", "globex"), rule("a", "acme")]),
        ] {
            let mapping = mapping(json!({"rules": rules}));
            let of = |groups: Value| {
                let claims = json!({"groups": groups, "scope": "memory:read"});
                mapped(&mapping, &claims)
            };
            assert_eq!(of(json!(["a"])), Ok("acme memory:read".into()));
            assert_eq!(of(json!(["b"])), Ok("globex memory:read".into()));
            assert_eq!(of(json!(["a", "b"])), Err(TokenError::AmbiguousTenant));
        }
    }

    #[test]
    fn g47_all_conditions_of_a_rule_have_to_be_met() {
        let mapping = mapping(json!({"rules": [{
            "claim": "repository", "prefix": "octo-org/",
            "and": [
                {"claim": "environment", "contains": "production"},
                {"claim": "run_id", "any_value": true},
            ],
            "tenant": "acme", "scopes": ["memory:read"],
        }]}));
        let good = json!({
            "repository": "octo-org/app", "environment": "production", "run_id": 17,
        });
        assert_eq!(mapped(&mapping, &good), Ok("acme memory:read".into()));
        for (name, value) in [
            ("repository", json!("octo-organization/app")),
            ("environment", json!("productions")),
            ("run_id", json!("")),
            ("run_id", json!(null)),
        ] {
            let mut claims = good.clone();
            claims[name] = value;
            assert_eq!(mapped(&mapping, &claims), Err(TokenError::NoRule), "{claims}");
        }
    }

    #[test]
    fn g47_a_claim_names_a_tenant_only_where_it_may() {
        let mapping = mapping(json!({"tenant_claim": "org.name", "tenants": ["acme", "team-*"]}));
        let of = |tenant: Value| {
            mapped(&mapping, &json!({"org": {"name": tenant}, "scope": "memory:read"}))
        };
        assert_eq!(of(json!("acme")), Ok("acme memory:read".into()));
        assert_eq!(of(json!("team-7")), Ok("team-7 memory:read".into()));
        for other in ["acme2", "Acme", "team", "globex", "*"] {
            assert_eq!(of(json!(other)), Err(TokenError::TenantNotAllowed), "{other}");
        }
        for invalid in [json!(""), json!(7), json!(["acme"]), json!("a\n"), json!(null)] {
            assert_eq!(of(invalid.clone()), Err(TokenError::Tenant), "{invalid}");
        }
        let none = json!({"org": {}, "scope": "memory:read"});
        assert_eq!(mapped(&mapping, &none), Err(TokenError::MissingClaim));
    }

    #[test]
    fn g47_a_rule_without_a_tenant_has_that_of_the_issuer() {
        let mapping = mapping(json!({"tenant": "acme", "rules": [
            {"claim": "groups", "contains": "a", "scopes": ["memory:read"]},
            {"claim": "groups", "contains": "b", "tenant": "globex", "scopes": ["memory:read"]},
        ]}));
        let of = |groups: Value| mapped(&mapping, &json!({"groups": groups}));
        assert_eq!(of(json!(["a"])), Ok("acme memory:read".into()));
        assert_eq!(of(json!(["b"])), Ok("globex memory:read".into()));
        assert_eq!(of(json!(["a", "b"])), Err(TokenError::AmbiguousTenant));
    }

    #[test]
    fn g47_rules_do_not_go_beyond_the_scopes_that_the_token_delegates() {
        let mapping = mapping(json!({"rules": [{
            "claim": "groups", "contains": "a", "tenant": "acme",
            "scopes": ["memory:read", "memory:write"],
        }]}));
        let of = |scope: Value| mapped(&mapping, &json!({"groups": ["a"], "scope": scope}));
        assert_eq!(of(json!("openid")), Ok("acme memory:read memory:write".into()));
        assert_eq!(of(json!("openid memory:read")), Ok("acme memory:read".into()));
        assert_eq!(of(json!("memory:admin memory:read")), Ok("acme memory:read".into()));
        assert_eq!(of(json!("memory:admin")), Ok("acme ".into()));
        // Some issuers send a list. What cannot be read delegates nothing.
        assert_eq!(of(json!(["openid", "memory:read"])), Ok("acme memory:read".into()));
        assert_eq!(of(json!(["openid"])), Ok("acme memory:read memory:write".into()));
        for odd in [json!({"memory:read": true}), json!(7), json!(null)] {
            assert_eq!(of(odd.clone()), Ok("acme ".into()), "{odd}");
        }
    }

    #[test]
    fn g47_rules_without_scopes_grant_what_the_token_delegates_and_no_more() {
        let mapping = mapping(json!({"rules": [
            {"claim": "groups", "contains": "a", "tenant": "acme"},
        ]}));
        let of = |scope: &str| mapped(&mapping, &json!({"groups": ["a"], "scope": scope}));
        assert_eq!(of("openid memory:read"), Ok("acme memory:read".into()));
        // A client that refreshes with fewer scopes has fewer.
        assert_eq!(of("openid"), Ok("acme ".into()));
    }

    #[test]
    fn g47_scopes_come_from_the_configured_claim() {
        let mapping = mapping(json!({"tenant": "acme", "scope_claim": "permissions"}));
        let of = |claims: Value| mapped(&mapping, &claims);
        let list = json!({"permissions": ["memory:read", "x"], "scope": "memory:admin"});
        assert_eq!(of(list), Ok("acme memory:read".into()));
        assert_eq!(of(json!({"permissions": "memory:write x"})), Ok("acme memory:write".into()));
        assert_eq!(of(json!({"scope": "memory:read"})), Ok("acme ".into()));
    }

    #[test]
    fn g47_groups_that_were_left_out_are_told_from_groups_that_do_not_match() {
        let mapping = mapping(json!({"rules": [
            {"claim": "groups", "contains": "a", "tenant": "acme", "scopes": ["memory:read"]},
            {"claim": "roles", "contains": "r", "tenant": "acme", "scopes": ["memory:read"]},
        ]}));
        let sources = json!({"groups": "src1"});
        let overage = json!({"_claim_names": sources, "_claim_sources": {"src1": {}}});
        assert_eq!(mapped(&mapping, &overage), Err(TokenError::GroupsOverage));
        assert_eq!(mapped(&mapping, &json!({"hasgroups": true})), Err(TokenError::GroupsOverage));
        let other = json!({"_claim_names": {"other": "src1"}, "hasgroups": "true"});
        assert_eq!(mapped(&mapping, &other), Err(TokenError::NoRule));
        // Another rule may still match.
        let role = json!({"_claim_names": sources, "roles": ["r"]});
        assert_eq!(mapped(&mapping, &role), Ok("acme memory:read".into()));
    }

    #[test]
    fn g47_subjects_have_the_name_of_their_issuer() {
        let by_email = mapping(json!({"tenant": "acme", "subject_claim": "email"}));
        let subject = |claims: Value| by_email.subject(claims.as_object().unwrap());
        assert_eq!(subject(json!({"email": "ann@example.com"})), Ok("id:ann@example.com".into()));
        assert_eq!(subject(json!({"email": "key:1"})), Ok("id:key:1".into()));
        assert_eq!(subject(json!({"sub": "ann"})), Err(TokenError::MissingClaim));
        assert_eq!(subject(json!({"email": ""})), Err(TokenError::Subject));
        let unnamed = ClaimMapping::with_tenant_claim("tenant".to_owned());
        let subject = |sub: &str| unnamed.subject(json!({"sub": sub}).as_object().unwrap());
        assert_eq!(subject("ann"), Ok("ann".into()));
        for own in ["key:1", "admin:2", "token:3", "uid:0"] {
            assert_eq!(subject(own), Err(TokenError::Subject), "{own}");
        }
    }
}
