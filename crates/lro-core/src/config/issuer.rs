//! The authorization servers whose tokens a server accepts (`server.issuers`), and the rules that map
//! their claims to tenants and scopes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The scopes that a rule can grant.
pub const SCOPES: [&str; 3] = ["memory:read", "memory:write", "memory:admin"];

/// The maximum length of an issuer's name, which stands before the subjects of its tokens.
const MAX_NAME_LEN: usize = 32;
/// Names that stand before other subjects in the audit log, which no issuer can have.
pub const RESERVED_ISSUER_NAMES: [&str; 4] = ["admin", "key", "token", "uid"];
/// The maximum length of a tenant's name, as in the store.
const MAX_TENANT_LEN: usize = 128;
/// The maximum length of any other text.
const MAX_TEXT_LEN: usize = 512;
/// The maximum number of levels of a claim path.
const MAX_CLAIM_LEVELS: usize = 8;
/// The maximum number of rules of an issuer.
const MAX_RULES: usize = 1000;
/// What ends the name of a group of tenants.
const WILDCARD: char = '*';

/// One entry of `server.issuers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IssuerConfig {
    /// The issuer, exactly as in the claim `iss`.
    pub url: String,
    /// The accepted audiences; empty for the URL of the server's MCP endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// The claim that has to contain one of them; `aud` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience_claim: Option<AudienceClaim>,
    /// The claim that identifies the caller in the audit log; `sub` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_claim: Option<ClaimPath>,
    /// The tenant of tokens whose rules name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The claim that names the tenant of tokens whose rules name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_claim: Option<ClaimPath>,
    /// The tenants that `tenant_claim` may name; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// The claim with the scopes of tokens whose rules grant none; `scope`, else `scp` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_claim: Option<ClaimPath>,
    /// Whether the metadata for clients names this issuer for logins; yes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<bool>,
    /// The rules. Without any, every token of the issuer and the audience is accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<IssuerRule>,
}

/// A rule: what a token has to contain, and what it then gives access to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IssuerRule {
    /// The claim.
    pub claim: ClaimPath,
    /// A value that the claim has to contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// What a value of the claim has to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// `true` if any value will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_value: Option<bool>,
    /// Further conditions, all of which have to be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub and: Vec<ClaimCondition>,
    /// The tenant, if it is not that of the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The granted scopes; empty for those of the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// A further condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClaimCondition {
    /// The claim.
    pub claim: ClaimPath,
    /// A value that the claim has to contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// What a value of the claim has to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// `true` if any value will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_value: Option<bool>,
}

/// How the values of a claim are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimTest<'a> {
    /// One of them is this text.
    Contains(&'a str),
    /// One of them begins with this text.
    Prefix(&'a str),
    /// There is one.
    AnyValue,
}

/// The claim that names whom a token is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AudienceClaim {
    /// The audience (RFC 7519).
    #[default]
    Aud,
    /// The client that the token was issued to (`OpenID` Connect).
    Azp,
    /// The same in version 1 tokens of Entra ID.
    Appid,
    /// The same in RFC 9068.
    ClientId,
    /// The same in tokens of Okta.
    Cid,
}

impl AudienceClaim {
    /// All claims.
    pub const ALL: [Self; 5] = [Self::Aud, Self::Azp, Self::Appid, Self::ClientId, Self::Cid];

    /// The name of the claim.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aud => "aud",
            Self::Azp => "azp",
            Self::Appid => "appid",
            Self::ClientId => "client_id",
            Self::Cid => "cid",
        }
    }
}

/// A claim, which may be nested in others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the name of a claim, or a list of names")]
pub enum ClaimPath {
    /// Names separated by dots: `realm_access.roles`. A text with a slash or a colon is one name:
    /// `https://example.com/groups`, `cognito:groups`.
    Dotted(String),
    /// One name per level, taken as they are.
    Levels(Vec<String>),
}

impl ClaimPath {
    /// The names of the levels, outermost first.
    pub fn levels(&self) -> Vec<&str> {
        match self {
            Self::Dotted(name) if name.contains(['/', ':']) => vec![name.as_str()],
            Self::Dotted(path) => path.split('.').collect(),
            Self::Levels(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

impl IssuerRule {
    /// The conditions, all of which a token has to meet. `None` stands for one that says nothing.
    pub fn conditions(&self) -> impl Iterator<Item = (&ClaimPath, Option<ClaimTest<'_>>)> {
        let first = claim_test(self.contains.as_deref(), self.prefix.as_deref(), self.any_value);
        let further = self.and.iter().map(|condition| {
            let ClaimCondition { claim, contains, prefix, any_value } = condition;
            (claim, claim_test(contains.as_deref(), prefix.as_deref(), *any_value))
        });
        std::iter::once((&self.claim, first)).chain(further)
    }
}

/// The only test of a condition; `None` if there is none or more than one.
fn claim_test<'a>(
    contains: Option<&'a str>,
    prefix: Option<&'a str>,
    any_value: Option<bool>,
) -> Option<ClaimTest<'a>> {
    match (contains, prefix, any_value) {
        (Some(value), None, None) => Some(ClaimTest::Contains(value)),
        (None, Some(prefix), None) => Some(ClaimTest::Prefix(prefix)),
        (None, None, Some(true)) => Some(ClaimTest::AnyValue),
        _ => None,
    }
}

/// What is wrong with an entry of `server.issuers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidIssuer {
    /// The part that is wrong, to be appended to the name of the entry; empty for the whole entry.
    pub(super) part: String,
    /// What the part accepts.
    pub(super) expected: String,
}

impl InvalidIssuer {
    fn new(part: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { part: part.into(), expected: expected.into() }
    }
}

/// Checks an entry of `server.issuers`.
pub(super) fn check(name: &str, value: &Value) -> Result<(), InvalidIssuer> {
    if !is_issuer_name(name) {
        return Err(InvalidIssuer::new(
            "",
            format!(
                "an issuer with a name of 1 to {MAX_NAME_LEN} small letters, digits and hyphens, \
                 beginning with a letter, other than key, token and uid"
            ),
        ));
    }
    let issuer: IssuerConfig = serde_json::from_value(value.clone()).map_err(|error| {
        InvalidIssuer::new("", format!("an issuer with url and rules ({error})"))
    })?;
    issuer.check()
}

impl IssuerConfig {
    fn check(&self) -> Result<(), InvalidIssuer> {
        let is_url = self.url.starts_with("https://") || self.url.starts_with("http://");
        if !is_url || !is_text(&self.url) || self.url.contains(char::is_whitespace) {
            return Err(InvalidIssuer::new(".url", "the issuer's URL, as in the claim iss"));
        }
        if !self.audiences.iter().all(|audience| is_text(audience)) {
            return Err(InvalidIssuer::new(".audiences", "a list of audiences"));
        }
        let is_for_clients = self.audience_claim.is_some_and(|claim| claim != AudienceClaim::Aud);
        if self.audiences.is_empty() && is_for_clients {
            let expected = "the ids of clients, because `audience_claim` is set";
            return Err(InvalidIssuer::new(".audiences", expected));
        }
        check_claim(".subject_claim", self.subject_claim.as_ref())?;
        check_claim(".tenant_claim", self.tenant_claim.as_ref())?;
        check_claim(".scope_claim", self.scope_claim.as_ref())?;
        check_tenant(".tenant", self.tenant.as_deref())?;
        if self.tenant.is_some() && self.tenant_claim.is_some() {
            return Err(InvalidIssuer::new(".tenant", "nothing, because `tenant_claim` is set"));
        }
        if !self.tenants.is_empty() && self.tenant_claim.is_none() {
            return Err(InvalidIssuer::new(".tenants", "nothing without `tenant_claim`"));
        }
        if !self.tenants.iter().all(|tenant| is_tenant_pattern(tenant)) {
            let expected = "names of tenants, each of which may end in *";
            return Err(InvalidIssuer::new(".tenants", expected));
        }
        if self.rules.len() > MAX_RULES {
            return Err(InvalidIssuer::new(".rules", format!("at most {MAX_RULES} rules")));
        }
        let has_tenant = self.tenant.is_some() || self.tenant_claim.is_some();
        if self.rules.is_empty() && !has_tenant {
            let expected = "rules, or `tenant` or `tenant_claim` for all tokens";
            return Err(InvalidIssuer::new(".rules", expected));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let at = format!(".rules[{index}]");
            rule.check(&at)?;
            if rule.tenant.is_none() && !has_tenant {
                let expected = "a tenant, because the issuer has none";
                return Err(InvalidIssuer::new(format!("{at}.tenant"), expected));
            }
        }
        Ok(())
    }
}

impl IssuerRule {
    fn check(&self, at: &str) -> Result<(), InvalidIssuer> {
        for (claim, test) in self.conditions() {
            check_claim(&format!("{at}.claim"), Some(claim))?;
            let is_valid = match test {
                Some(ClaimTest::Contains(text) | ClaimTest::Prefix(text)) => is_text(text),
                Some(ClaimTest::AnyValue) => true,
                None => false,
            };
            if !is_valid {
                let expected = "conditions with one of `contains`, `prefix` or `any_value = true`";
                return Err(InvalidIssuer::new(at, expected));
            }
        }
        check_tenant(&format!("{at}.tenant"), self.tenant.as_deref())?;
        if !self.scopes.iter().all(|scope| SCOPES.contains(&scope.as_str())) {
            let expected = format!("scopes among {}", SCOPES.join(", "));
            return Err(InvalidIssuer::new(format!("{at}.scopes"), expected));
        }
        Ok(())
    }
}

fn check_claim(at: &str, claim: Option<&ClaimPath>) -> Result<(), InvalidIssuer> {
    let Some(claim) = claim else { return Ok(()) };
    let levels = claim.levels();
    let is_valid =
        (1..=MAX_CLAIM_LEVELS).contains(&levels.len()) && levels.iter().all(|name| is_text(name));
    if is_valid {
        return Ok(());
    }
    let expected = format!(
        "the name of a claim, or 1 to {MAX_CLAIM_LEVELS} names separated by dots or in a list"
    );
    Err(InvalidIssuer::new(at, expected))
}

fn check_tenant(at: &str, tenant: Option<&str>) -> Result<(), InvalidIssuer> {
    match tenant {
        Some(tenant) if !is_tenant(tenant) => Err(InvalidIssuer::new(
            at,
            format!("a tenant: 1 to {MAX_TENANT_LEN} bytes without control characters"),
        )),
        _ => Ok(()),
    }
}

fn is_issuer_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= MAX_NAME_LEN
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_sign)
        && !RESERVED_ISSUER_NAMES.contains(&name)
}

fn is_tenant(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_TENANT_LEN && !name.contains(char::is_control)
}

/// Whether `pattern` is a tenant's name, or the beginning of one and [`WILDCARD`]. The wildcard alone
/// would allow any tenant.
fn is_tenant_pattern(pattern: &str) -> bool {
    let name = pattern.strip_suffix(WILDCARD).unwrap_or(pattern);
    is_tenant(name) && !name.contains(WILDCARD)
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TEXT_LEN && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(value: &Value) -> String {
        check("id", value).unwrap_err().part
    }

    #[test]
    fn g47_a_path_is_split_at_dots_unless_it_is_a_url_or_a_list() {
        let levels = |value: Value| {
            let path: ClaimPath = serde_json::from_value(value).unwrap();
            path.levels().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(levels(json!("groups")), ["groups"]);
        assert_eq!(levels(json!("realm_access.roles")), ["realm_access", "roles"]);
        let url = "https://example.com/groups";
        assert_eq!(levels(json!(url)), [url]);
        assert_eq!(levels(json!("cognito:groups")), ["cognito:groups"]);
        assert_eq!(levels(json!("example.com/roles")), ["example.com/roles"]);
        let list = ["resource_access", "my.client", "roles"];
        assert_eq!(levels(json!(list)), list);
    }

    #[test]
    fn g47_an_issuer_is_read_back_as_it_was_written() {
        let all = json!({
            "url": "https://id.example",
            "audiences": ["a"],
            "audience_claim": "azp",
            "subject_claim": "email",
            "tenant_claim": ["org", "name"],
            "tenants": ["acme", "team-*"],
            "scope_claim": "permissions",
            "login": false,
            "rules": [{
                "claim": "repository",
                "prefix": "octo-org/",
                "and": [{"claim": "environment", "contains": "production"}],
                "tenant": "acme",
                "scopes": ["memory:read"],
            }],
        });
        assert_eq!(check("id", &all), Ok(()));
        let issuer: IssuerConfig = serde_json::from_value(all.clone()).unwrap();
        assert_eq!(serde_json::to_value(&issuer).unwrap(), all);
        let least = json!({"url": "https://id.example", "tenant": "acme"});
        assert_eq!(check("id", &least), Ok(()));
        let issuer: IssuerConfig = serde_json::from_value(least.clone()).unwrap();
        assert_eq!(serde_json::to_value(&issuer).unwrap(), least);
        for claim in AudienceClaim::ALL {
            assert_eq!(serde_json::to_value(claim).unwrap(), claim.name());
        }
    }

    #[test]
    fn g47_an_issuer_that_says_too_little_or_contradicts_itself_is_refused_with_its_part() {
        let with = |name: &str, value: Value| {
            let mut issuer = json!({
                "url": "https://id.example",
                "rules": [{"claim": "groups", "contains": "a", "tenant": "acme"}],
            });
            issuer[name] = value;
            issuer
        };
        let rule = |rule: Value| with("rules", json!([rule]));
        assert_eq!(check("id", &with("login", json!(true))), Ok(()));
        let cases = [
            (json!({"url": "https://id.example"}), ".rules"),
            (json!({"tenant": "acme"}), ""),
            (with("uri", json!("x")), ""),
            (with("url", json!("id.example")), ".url"),
            (with("url", json!("https://id.example/ x")), ".url"),
            (with("audiences", json!([""])), ".audiences"),
            (with("audience_claim", json!("sub")), ""),
            (with("audience_claim", json!("azp")), ".audiences"),
            (with("subject_claim", json!("a..b")), ".subject_claim"),
            (with("tenant_claim", json!([])), ".tenant_claim"),
            (with("scope_claim", json!("a.b.c.d.e.f.g.h.i")), ".scope_claim"),
            (with("tenant", json!("")), ".tenant"),
            (with("tenant", json!("a\n")), ".tenant"),
            (with("tenants", json!(["acme"])), ".tenants"),
            (with("rules", json!(vec![json!({"claim": "a", "contains": "b"}); 1001])), ".rules"),
            (rule(json!({"claim": "groups", "contains": "a"})), ".rules[0].tenant"),
            (rule(json!({"contains": "a", "tenant": "acme"})), ""),
            (rule(json!({"claim": "groups", "tenant": "acme"})), ".rules[0]"),
            (
                rule(json!({"claim": "groups", "contains": "a", "prefix": "a", "tenant": "t"})),
                ".rules[0]",
            ),
            (rule(json!({"claim": "groups", "prefix": "", "tenant": "t"})), ".rules[0]"),
            (rule(json!({"claim": "groups", "any_value": false, "tenant": "t"})), ".rules[0]"),
            (
                rule(json!({
                    "claim": "a", "contains": "b", "and": [{"claim": "c"}], "tenant": "t",
                })),
                ".rules[0]",
            ),
            (
                rule(json!({
                    "claim": "a", "contains": "b", "tenant": "t", "scopes": ["memory:all"],
                })),
                ".rules[0].scopes",
            ),
        ];
        for (issuer, part) in cases {
            assert_eq!(wrong(&issuer), part, "{issuer}");
        }
        let both = json!({"url": "https://id.example", "tenant": "a", "tenant_claim": "b"});
        assert_eq!(wrong(&both), ".tenant");
        let any = json!({"url": "https://id.example", "tenant_claim": "b", "tenants": ["*"]});
        assert_eq!(wrong(&any), ".tenants");
    }

    #[test]
    fn g47_the_name_of_an_issuer_cannot_be_taken_for_another_subject() {
        let issuer = json!({"url": "https://id.example", "tenant": "acme"});
        for good in ["a", "keycloak", "entra-2", &"a".repeat(32)] {
            assert_eq!(check(good, &issuer), Ok(()), "{good}");
        }
        for bad in
            ["", "admin", "key", "token", "uid", "A", "2a", "-a", "a:b", "a b", &"a".repeat(33)]
        {
            assert!(check(bad, &issuer).is_err(), "{bad}");
        }
    }
}
