//! `atlatl access explain`: what a server does with an access token, and why.
//!
//! The token is examined by the code and the settings of `atlatl serve`. Neither the token nor its
//! signature is printed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atlatl_server::auth::{
    ApiKey, AuthScope, Authenticator, Fetch, Issuer, Scopes, SignatureCheck, SignatureState,
    TokenError, TokenReport, TokenRules,
};
use clap::Subcommand;
use lro::IdSeed;
use lro_core::config::{ClaimPath, ClaimTest, IssuerRule};
use serde_json::{Value, json};

use crate::access::{AcceptedTokens, Fetched, Principals, TOKEN_FILE_PREFIX};
use crate::error::{Error, Status};
use crate::output::{Facts, Mode, Output};
use crate::settings::{Settings, Sources};

/// Examples for the long help of `atlatl access explain`.
const EXPLAIN_EXAMPLES: &str = "\
Examples:
  atlatl access explain token.jwt
  gcloud auth print-identity-token | atlatl access explain -
  atlatl access explain token.jwt --config /etc/atlatl/config.toml --json";

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";
/// The largest token that is read, in bytes: more than a server accepts.
const MAX_TOKEN_LEN: u64 = 64 << 10;
/// An argument of this length with two dots is a token, not a path.
const MIN_TOKEN_LEN: usize = 80;

/// The subcommands of `atlatl access`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Explain whether a server accepts a token, and why
    ///
    /// Examines the token as `atlatl serve` does with the same configuration, and
    /// prints the issuer, the audience, the rules that match, and the tenant, scopes
    /// and principal, or the reason for which it is refused. Fetches the keys of the
    /// issuer. Whether the tenant exists is not checked. The token is not printed. The
    /// exit status is 1 if the token is refused.
    #[command(verbatim_doc_comment, after_long_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
}

/// Arguments of `atlatl access explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// File with the token, or - for standard input
    #[arg(value_name = "TOKEN-FILE")]
    file: PathBuf,
    /// Do not verify the signature: explain what the token
    /// would give access to if its issuer had signed it
    #[arg(long, verbatim_doc_comment)]
    claims_only: bool,
}

/// Runs a subcommand.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    match command {
        Command::Explain(args) => explain(args, sources, output),
    }
}

fn explain(args: &ExplainArgs, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let auth = &settings.config.server.auth;
    let takes_no_tokens = || {
        Error::usage("server.auth: this server accepts no access tokens")
            .with_hint("server.auth=oauth with server.issuers, or server.auth=oauth:ISSUER")
    };
    if auth.is_empty() || auth.starts_with(TOKEN_FILE_PREFIX) {
        return Err(takes_no_tokens());
    }
    let principals = Principals::from_settings(&settings)?;
    if principals.tokens == AcceptedTokens::None {
        return Err(takes_no_tokens());
    }
    let resource = resource(&settings)?;
    let rules = principals.tokens.rules(&settings, &resource);
    let token = read_token(&args.file)?;
    let fetch: Arc<dyn Fetch> = Arc::new(Fetched::new());
    let authenticator = rules.iter().fold(
        Authenticator::new(resource, IdSeed::from_system),
        |authenticator, rules| {
            authenticator.with_issuer(Issuer::new(rules.clone(), Arc::clone(&fetch)))
        },
    );
    let check = if args.claims_only { SignatureCheck::Skip } else { SignatureCheck::Verify };
    let report = authenticator.examine(&token, check);
    let its_rules = rules.iter().find(|rules| Some(&rules.issuer) == report.issuer.as_ref());
    let explanation = Explanation { report: &report, rules: its_rules, settings: &settings };
    match output.mode() {
        Mode::Human => {
            output.facts(&explanation.facts())?;
            if let Some(hint) = explanation.hint() {
                output.hint(hint);
            }
        }
        Mode::Json => output.json(&explanation.json())?,
    }
    if args.claims_only {
        output.warning("the signature was not verified: anyone can have written this token");
    }
    Ok(if report.outcome.is_ok() { Status::Success } else { Status::Failure })
}

/// The URL of the MCP endpoint, as `atlatl serve` announces it.
fn resource(settings: &Settings) -> Result<String, Error> {
    let server = &settings.config.server;
    match (server.public_url.as_str(), server.listen.as_str()) {
        ("", "") => {
            Err(Error::usage("server.public_url: it is the audience of tokens, and not set")
                .with_hint("--set server.public_url=https://memory.example"))
        }
        ("", listen) if listen.starts_with(lro_http::UNIX_PREFIX) => {
            Ok("http://localhost/mcp".to_owned())
        }
        ("", listen) => Ok(format!("http://{listen}/mcp")),
        (url, _) => Ok(format!("{}/mcp", url.trim_end_matches('/'))),
    }
}

/// Reads a token. No error quotes it.
fn read_token(file: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let read = if file == Path::new(STANDARD_INPUT) {
        io::stdin().lock().take(MAX_TOKEN_LEN).read_to_string(&mut text)
    } else {
        let name = file.to_string_lossy();
        if name.len() >= MIN_TOKEN_LEN && name.matches('.').count() == 2 && !name.contains('/') {
            return Err(Error::usage("the argument is a token: other users can see it")
                .with_hint("atlatl access explain - < FILE"));
        }
        File::open(file).and_then(|file| file.take(MAX_TOKEN_LEN).read_to_string(&mut text))
    };
    read.map_err(|error| {
        Error::failure(format!("{}: cannot read the token: {error}", file.display()))
    })?;
    let token = text.trim();
    let token = token.strip_prefix("Bearer ").unwrap_or(token).trim_start();
    if token.is_empty() {
        return Err(Error::usage("there is no token in the input"));
    }
    if ApiKey::parse(token).is_some() {
        return Err(Error::usage("this is an API key, not an access token")
            .with_hint("atlatl keys list --as URL"));
    }
    Ok(token.to_owned())
}

/// What is said of a token.
struct Explanation<'a> {
    report: &'a TokenReport,
    /// The rules of its issuer.
    rules: Option<&'a TokenRules>,
    settings: &'a Settings,
}

impl Explanation<'_> {
    fn facts(&self) -> Facts {
        let report = self.report;
        let mut facts = Facts::default();
        if let Some(url) = &report.issuer {
            let name = report.issuer_name.as_ref();
            facts.text(
                "issuer",
                &name.map_or_else(|| url.clone(), |name| format!("{name} ({url})")),
            );
        }
        facts.text("signature", self.signature());
        if let Some(audience) = &report.audience {
            facts.text("audience", audience);
        }
        if let Some(subject) = &report.subject {
            facts.text("principal", subject);
        }
        if !report.rules.is_empty() {
            facts.list("rules", &self.matching_rules());
        }
        if let Some(tenant) = &report.tenant {
            facts.text("tenant", tenant);
            facts.text("scopes", &scopes(report.scopes));
        }
        match report.outcome {
            Ok(_) if report.signature == SignatureState::Valid => facts.text("outcome", "accepted"),
            Ok(_) => facts.text("outcome", "accepted if its issuer signed it"),
            Err(error) => {
                facts.text("outcome", &format!("refused: {error}"));
                facts.text("reason", error.name());
            }
        }
        facts
    }

    fn json(&self) -> Value {
        let report = self.report;
        let reason = report.outcome.as_ref().err().map(|error| error.name());
        let rules: Vec<usize> = report.rules.iter().map(|index| index + 1).collect();
        json!({
            "accepted": report.outcome.is_ok() && report.signature == SignatureState::Valid,
            "reason": reason,
            "signature": self.signature(),
            "issuer": report.issuer,
            "issuer_name": report.issuer_name,
            "audience": report.audience,
            "principal": report.subject,
            "rules": rules,
            "tenant": report.tenant,
            "scopes": report.scopes.iter().map(AuthScope::word).collect::<Vec<_>>(),
        })
    }

    fn signature(&self) -> &'static str {
        match self.report.signature {
            SignatureState::Valid => "valid",
            _ => "not verified",
        }
    }

    /// The rules that match, with their numbers in the configuration.
    fn matching_rules(&self) -> Vec<String> {
        let issuers = &self.settings.config.server.issuers;
        let issuer = self.report.issuer_name.as_ref().and_then(|name| issuers.get(name));
        let describe = |index: &usize| {
            let rule = issuer.and_then(|issuer| issuer.rules.get(*index));
            format!("{} ({})", index + 1, rule.map(describe_rule).unwrap_or_default())
        };
        self.report.rules.iter().map(describe).collect()
    }

    /// What to look at next.
    fn hint(&self) -> Option<String> {
        let rules = self.rules;
        let issuer = self.report.issuer_name.as_deref().unwrap_or("the issuer");
        Some(match self.report.outcome.as_ref().err()? {
            TokenError::Issuer => {
                "server.issuers has no issuer whose url is exactly the claim iss of the token"
                    .to_owned()
            }
            TokenError::IssuerUnavailable => {
                format!("check {}/.well-known/openid-configuration", self.report.issuer.as_deref()?)
            }
            TokenError::Audience => {
                let rules = rules?;
                let claim = rules.audience_claim.name();
                format!("{issuer} accepts {claim} = {}", rules.audiences.join(" or "))
            }
            TokenError::NoRule => {
                format!("compare the claims of the token with the rules of {issuer}")
            }
            TokenError::GroupsOverage => {
                "let the issuer send only groups of this application, or use roles".to_owned()
            }
            TokenError::AmbiguousTenant => {
                format!("rules of {issuer} for several tenants match: make them exclusive")
            }
            TokenError::TenantNotAllowed => {
                format!("list the tenant in server.issuers.{issuer}.tenants")
            }
            _ => return None,
        })
    }
}

/// The scopes as text.
fn scopes(scopes: Scopes) -> String {
    if scopes.is_empty() { "none".to_owned() } else { scopes.to_string() }
}

/// A rule as text: `groups contains "a" and environment contains "b"`.
fn describe_rule(rule: &IssuerRule) -> String {
    let describe = |(claim, test): (&ClaimPath, Option<ClaimTest<'_>>)| {
        let claim = claim.levels().join(".");
        match test {
            Some(ClaimTest::Contains(value)) => format!("{claim} contains {}", Value::from(value)),
            Some(ClaimTest::Prefix(prefix)) => {
                format!("{claim} begins with {}", Value::from(prefix))
            }
            Some(ClaimTest::AnyValue) => format!("{claim} has a value"),
            None => claim,
        }
    };
    rule.conditions().map(describe).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn g47_a_token_is_read_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        for text in ["a.b.c", " a.b.c\n", "Bearer a.b.c\n"] {
            fs::write(&file, text).unwrap();
            assert_eq!(read_token(&file).unwrap(), "a.b.c");
        }
        fs::write(&file, " \n").unwrap();
        assert!(read_token(&file).unwrap_err().message().contains("no token"));
        let key = ApiKey::new([7; 48]);
        fs::write(&file, key.expose()).unwrap();
        let error = read_token(&file).unwrap_err().message();
        assert!(error.contains("API key") && !error.contains(key.expose()), "{error}");
        let token = format!("{0}.{0}.{0}", "eyJhbGciOiJSUzI1NiJ9".repeat(3));
        let error = read_token(Path::new(&token)).unwrap_err().message();
        assert!(!error.contains("eyJ"), "{error}");
    }

    #[test]
    fn g47_a_rule_is_described() {
        let rule: IssuerRule = serde_json::from_value(json!({
            "claim": "realm_access.roles", "contains": "a",
            "and": [{"claim": "hd", "prefix": "ex"}, {"claim": "sub", "any_value": true}],
        }))
        .unwrap();
        assert_eq!(
            describe_rule(&rule),
            "realm_access.roles contains \"a\" and hd begins with \"ex\" and sub has a value"
        );
    }
}
