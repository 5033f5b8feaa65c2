//! A server that accepts the tokens of a real identity provider, the npm package oidc-provider.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use testkit::postgres::PostgresServer;

use super::*;

/// The provider. Ends when it is dropped.
struct Provider {
    process: Child,
    requests: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    issuer: String,
}

impl Provider {
    /// Starts a provider of tokens for `api`.
    fn start(api: &str) -> Self {
        let module = testkit::tool::require_npm_module("oidc-provider").join("lib/index.js");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/team/provider.mjs");
        let mut process = Command::new(testkit::tool::require("node"))
            .arg(script)
            .arg(module)
            .arg(api)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut provider = Self { process, requests, lines, issuer: String::new() };
        provider.issuer = provider.line("issuer ");
        provider
    }

    /// The access token of a person, after a login in a browser, or of the service account.
    fn token(&mut self, name: &str) -> String {
        writeln!(self.requests, "{name}").unwrap();
        self.line("token ")
    }

    /// The rest of the next line that begins so. The provider prints others.
    fn line(&mut self, prefix: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        let line = lines.find_map(|line| line.strip_prefix(prefix).map(str::to_owned));
        line.expect("the provider ended")
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn g47_people_and_service_accounts_of_a_real_provider_are_mapped() {
    const API: &str = "https://memory.example/mcp";
    let mut provider = Provider::start(API);
    let issuers = format!(
        "server.issuers.corp={{ url = \"{}\", audiences = [\"{API}\"], tenant = \"acme\", rules = [\
         {{ claim = \"groups\", contains = \"staff\", scopes = [\"memory:read\"] }}, \
         {{ claim = \"client_id\", contains = \"nightly-import\", scopes = [\"memory:write\"] }}] }}",
        provider.issuer
    );
    let server = PostgresServer::shared();
    let (program, database) = stranger(server);
    let owner = server.url(OWNER, &database);
    for args in [&["db", "migrate"][..], &["tenants", "create", "acme"]] {
        let run = program.run(&[args, &["--as", &owner]].concat());
        assert_eq!(run.status, 0, "{run}");
    }
    let serving = Serving::start(&program, &["--set", "server.auth=keys,oauth", "--set", &issuers]);
    let asked = |method: &str, path: &str, body: &str, token: &str| {
        let header = format!("Authorization: Bearer {token}\r\n");
        asked_with(&serving.url, method, path, body, &header).unwrap()
    };
    let memory = r#"{"content":"The import is done.","memory_type":"semantic"}"#;

    let import = provider.token("nightly-import");
    let stored = asked("POST", "/v1/memories", memory, &import);
    assert_eq!(stored.status, 201, "{stored:?}");
    assert_eq!(asked("GET", "/v1/memories", "", &import).status, 403);

    // The token of Ann could write; the rule for her group only reads.
    let ann = provider.token("ann");
    let list = asked("GET", "/v1/memories", "", &ann);
    assert!(list.status == 200 && list.body.contains("The import is done."), "{list:?}");
    assert_eq!(asked("POST", "/v1/memories", memory, &ann).status, 403);

    // Bob is in no group that has a rule.
    let bob = provider.token("bob");
    let refused = asked("GET", "/v1/memories", "", &bob);
    assert_eq!(refused.status, 403, "{refused:?}");
}
