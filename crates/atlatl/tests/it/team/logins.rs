//! A login at an authorization server, and what its tokens open.

use std::fs;

use testkit::authority::{AccessTokenSigner, Authority};
use testkit::postgres::PostgresServer;

use super::*;
use crate::login::log_in;
use crate::proxied::Proxied;

/// A server of many tenants that takes the tokens of `authority`, and its tenant "acme".
fn served(authority: &Authority, more: &[&str]) -> (Program, Serving) {
    served_by(authority, &format!("keys,oauth:{}", authority.url("")), more)
}

/// The same with this `server.auth`.
fn served_by(authority: &Authority, auth: &str, more: &[&str]) -> (Program, Serving) {
    let server = PostgresServer::shared();
    let (_, database) = stranger(server);
    let program =
        crate::login::program().variable("ATLATL_MEMORY__STORE", &server.url(APP, &database));
    let owner = server.url(OWNER, &database);
    for args in [&["db", "migrate"][..], &["tenants", "create", "acme"]] {
        let run = program.run(&[args, &["--as", &owner]].concat());
        assert_eq!(run.status, 0, "{run}");
    }
    let auth = format!("server.auth={auth}");
    let serving = Serving::start(&program, &[&["--set", &auth], more].concat());
    let resource = format!("{}/mcp", serving.url);
    authority.ledger().signer = Some(AccessTokenSigner::new("acme", &resource));
    (program, serving)
}

fn bearer(serving: &Serving, token: &str) -> Answer {
    let header = format!("Authorization: Bearer {token}\r\n");
    asked_with(&serving.url, "GET", "/v1/memories?limit=1", "", &header).unwrap()
}

#[test]
fn from_a_login_to_a_local_file_to_an_answer_by_sql() {
    let authority = Authority::start();
    let (program, serving) = served(&authority, &[]);
    let mcp = format!("{}/mcp", serving.url);
    // A request without a token gets the URL of the resource metadata.
    let anonymous = asked(&serving.url, "POST", "/mcp", "{}").unwrap();
    assert_eq!(anonymous.status, 401, "{anonymous:?}");
    let place = format!("{}/.well-known/oauth-protected-resource/mcp", serving.url);
    assert!(anonymous.headers.contains(&format!("resource_metadata=\"{place}\"")), "{anonymous:?}");
    let metadata = get(&serving, "/.well-known/oauth-protected-resource/mcp").json();
    assert_eq!(metadata["resource"], mcp.as_str(), "{metadata}");
    assert_eq!(metadata["authorization_servers"], json!([authority.url("")]), "{metadata}");

    let run = log_in(&program, &["login", &mcp]);
    assert_eq!(run.status, 0, "{run}");
    let mut client = Proxied::of(program.command(&["proxy", "--url", &mcp]));
    for n in 0..150 {
        let content = format!("Ship {n} lies in the harbour. {}", "It is loaded. ".repeat(20));
        let answer =
            client.call("capture_memory", &json!({"content": content, "memory_type": "semantic"}));
        assert!(answer["result"]["structuredContent"]["memory"]["id"].is_string(), "{answer}");
    }
    let answer = client
        .call("recall_memories", &json!({"query": "harbour", "detail": "full", "limit": 150}));
    let descriptor = &answer["result"]["structuredContent"];
    assert_eq!(descriptor["offloaded"], true, "{answer}");
    let path = descriptor["file_path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap().lines().count(), 151, "{path}");
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    let sql = json!({"ref": reference, "sql": "SELECT count(*) AS n FROM results \
                     WHERE content LIKE 'Ship %'"});
    let answer = client.call("lro_extract", &sql);
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.ends_with("{\"n\":150}\n"), "{said}");
    assert_eq!(authority.counts().violations, 0, "{:?}", authority.ledger().refusals);
}

#[test]
fn keys_that_an_authority_changes_are_fetched_and_old_ones_forgotten() {
    let authority = Authority::start();
    let (_, serving) = served(&authority, &[]);
    let signer = authority.ledger().signer.clone().unwrap();
    let issuer = authority.url("");
    let token =
        |signer: &AccessTokenSigner| signer.sign(&signer.claims(&issuer, "memory:read", 600));
    assert_eq!(bearer(&serving, &token(&signer)).status, 200);
    // A new key is fetched when a token names it, and the old one is no longer accepted.
    let new = AccessTokenSigner { key: 1, ..signer.clone() };
    authority.ledger().signer = Some(new.clone());
    assert_eq!(bearer(&serving, &token(&new)).status, 200);
    let later = signer.sign(&signer.claims(&issuer, "memory:read", 601));
    assert_eq!(bearer(&serving, &later).status, 401);
    // Made-up key ids must not cause fetches.
    let asked = || authority.asked().iter().filter(|asked| asked.path() == "/keys").count();
    let before = asked();
    for n in 0..20 {
        let odd = AccessTokenSigner { key: 2 + n, ..new.clone() };
        assert_eq!(bearer(&serving, &token(&odd)).status, 401);
    }
    assert_eq!(asked(), before);
}

#[test]
fn no_token_that_is_not_for_this_server_is_taken_and_none_is_written_down() {
    let authority = Authority::start();
    let (program, serving) = served(&authority, &["--set", "server.audit=audit.jsonl"]);
    let signer = authority.ledger().signer.clone().unwrap();
    let issuer = authority.url("");
    let good = signer.claims(&issuer, "memory:read memory:write", 600);
    let token = signer.sign(&good);
    assert_eq!(bearer(&serving, &token).status, 200);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut claims = good.clone();
        change(&mut claims);
        signer.sign(&claims)
    };
    let other = AccessTokenSigner { key: 1, ..signer.clone() };
    let (head, rest) = token.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let wrong: Vec<(&str, &str, String)> = vec![
        (
            "audience",
            "wrong_audience",
            changed(&|claims| claims["aud"] = json!("https://other.example/mcp")),
        ),
        ("audience above", "wrong_audience", changed(&|claims| claims["aud"] = json!(serving.url))),
        ("no audience", "wrong_audience", changed(&|claims| claims["aud"] = Value::Null)),
        (
            "issuer",
            "unknown_issuer",
            changed(&|claims| claims["iss"] = json!("https://other.example")),
        ),
        (
            "issuer with a slash",
            "unknown_issuer",
            changed(&|claims| claims["iss"] = json!(format!("{issuer}/"))),
        ),
        ("expired", "expired", changed(&|claims| claims["exp"] = json!(1_600_000_000))),
        ("never expires", "invalid_time", changed(&|claims| claims["exp"] = Value::Null)),
        ("not yet", "not_yet_valid", changed(&|claims| claims["nbf"] = json!(4_000_000_000_u64))),
        ("no tenant", "invalid_tenant", changed(&|claims| claims["tenant"] = Value::Null)),
        ("tenant list", "invalid_tenant", changed(&|claims| claims["tenant"] = json!(["acme"]))),
        ("no subject", "invalid_subject", changed(&|claims| claims["sub"] = Value::Null)),
        ("of another key", "unknown_key", other.sign(&good)),
        // What is left may be base64 or not.
        ("cut", "malformed bad_signature", token[..token.len() - 4].to_owned()),
        ("unsigned", "bad_signature", format!("{head}.{payload}.")),
        ("two parts", "malformed", format!("{head}.{payload}")),
        ("four parts", "malformed", format!("{token}.{signature}")),
        ("alg none", "algorithm_not_allowed", format!("eyJhbGciOiJub25lIn0.{payload}.")),
        (
            "alg none, signed",
            "algorithm_not_allowed",
            format!("eyJhbGciOiJub25lIn0.{payload}.{signature}"),
        ),
        (
            "HS256",
            "algorithm_not_allowed",
            format!("eyJhbGciOiJIUzI1NiIsImtpZCI6ImtleS0wIn0.{payload}.{signature}"),
        ),
    ];
    for (name, _, token) in &wrong {
        let answer = bearer(&serving, token);
        assert_eq!(answer.status, 401, "{name}: {answer:?}");
        assert!(answer.headers.contains("error=\"invalid_token\""), "{name}: {answer:?}");
    }
    // A tenant that does not exist; a missing scope; a token in the wrong place.
    let stranger = changed(&|claims| claims["tenant"] = json!("stranger"));
    assert_eq!(bearer(&serving, &stranger).status, 403);
    let little = changed(&|claims| claims["scope"] = json!("memory:write"));
    let answer = bearer(&serving, &little);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.headers.contains("error=\"insufficient_scope\", scope=\"memory:read\""));
    let query = format!("/v1/memories?access_token={token}");
    assert_eq!(get(&serving, &query).status, 400);
    let twice = format!("Authorization: Bearer {token}\r\n").repeat(2);
    let answer = asked_with(&serving.url, "GET", "/v1/memories", "", &twice).unwrap();
    assert_eq!(answer.status, 400, "{answer:?}");
    let basic =
        asked_with(&serving.url, "GET", "/v1/memories", "", "Authorization: Basic YTpi\r\n");
    assert_eq!(basic.unwrap().status, 401);

    // Denied requests are in the audit log, without any credential.
    let written = fs::read_to_string(program.path("work/audit.jsonl")).unwrap();
    let lines: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let denied: Vec<&Value> = lines.iter().filter(|line| line["event"] == "AccessDenied").collect();
    assert!(denied.len() > wrong.len(), "{written}");
    for ((name, reason, _), line) in wrong.iter().zip(&denied) {
        let audited = line["reason"].as_str().unwrap();
        assert!(reason.split(' ').any(|reason| reason == audited), "{name}: {line}");
    }
    assert!(written.contains("\"subject\":\"person@example\""), "{written}");
    for (name, _, token) in &wrong {
        let secret = token.rsplit('.').find(|part| part.len() > 20).unwrap_or(token);
        assert!(!written.contains(secret), "{name} is written down");
    }
    assert!(!written.contains(signature) && !written.contains(payload));
}

#[test]
fn g47_rules_map_groups_to_a_tenant_and_a_refused_token_is_explained() {
    let authority = Authority::start();
    let issuer = authority.url("");
    let rule = "{ claim = \"groups\", contains = \"staff\", tenant = \"acme\", \
                scopes = [\"memory:read\"] }";
    let issuers = format!("server.issuers.corp={{ url = \"{issuer}\", rules = [{rule}] }}");
    let more = ["--set", &issuers, "--set", "server.audit=audit.jsonl"];
    let (program, serving) = served_by(&authority, "keys,oauth", &more);
    let signer = authority.ledger().signer.clone().unwrap();
    let token = |change: &dyn Fn(&mut Value)| {
        let mut claims = signer.claims(&issuer, "openid", 600);
        claims["groups"] = json!(["everyone", "staff"]);
        change(&mut claims);
        signer.sign(&claims)
    };
    let good = token(&|_| {});
    let guest = token(&|claims| claims["groups"] = json!(["everyone"]));
    let expired = token(&|claims| claims["exp"] = json!(1_600_000_000));
    assert_eq!(bearer(&serving, &good).status, 200);
    let answer = bearer(&serving, &guest);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(!answer.body.contains("rule") && !answer.body.contains("group"), "{answer:?}");
    assert_eq!(bearer(&serving, &expired).status, 401);

    let written = fs::read_to_string(program.path("work/audit.jsonl")).unwrap();
    let lines: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [no_rule, expired_line] = &lines[..] else { panic!("{written}") };
    assert_eq!(no_rule["reason"], "no_rule", "{written}");
    assert_eq!(no_rule["issuer"], "corp", "{written}");
    assert_eq!(no_rule["subject"], "corp:person@example", "{written}");
    assert_eq!(expired_line["reason"], "expired", "{written}");
    assert_eq!(expired_line["subject"], Value::Null, "{written}");
    let begun = std::time::Instant::now();
    while !["no_rule", "expired"].iter().all(|reason| serving.lines().concat().contains(reason)) {
        assert!(begun.elapsed().as_secs() < 10, "{:?}", serving.lines());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    let public = format!("server.public_url={}", serving.url);
    let settings = ["--set", "server.auth=oauth", "--set", &issuers, "--set", &public];
    let explain = |token: &str, more: &[&str]| {
        let args = [&["access", "explain", "-"][..], more, &settings].concat();
        let run = program.run_with_input(&args, token.as_bytes());
        let said = run.to_string();
        let signature = token.rsplit('.').next().unwrap();
        assert!(signature.is_empty() || !said.contains(signature), "{run}");
        run
    };
    let run = explain(&good, &["--json"]);
    assert_eq!(run.status, 0, "{run}");
    let said = run.json();
    assert_eq!(said["accepted"], true, "{said}");
    assert_eq!(said["issuer_name"], "corp", "{said}");
    assert_eq!(said["audience"], format!("{}/mcp", serving.url), "{said}");
    assert_eq!(said["rules"], json!([1]), "{said}");
    assert_eq!(said["tenant"], "acme", "{said}");
    assert_eq!(said["scopes"], json!(["memory:read"]), "{said}");
    assert_eq!(said["principal"], "corp:person@example", "{said}");
    let run = explain(&guest, &[]);
    assert_eq!(run.status, 1, "{run}");
    assert!(run.stdout.contains("no_rule") && run.stderr.contains("hint: "), "{run}");
    let run = explain(&expired, &["--json"]);
    assert_eq!((run.status, &run.json()["reason"]), (1, &json!("expired")), "{run}");
    let unsigned = format!("{}.", good.rsplit_once('.').unwrap().0);
    assert_eq!(explain(&unsigned, &["--json"]).json()["reason"], "bad_signature");
    let run = explain(&unsigned, &["--json", "--claims-only"]);
    assert_eq!(run.status, 0, "{run}");
    assert_eq!(run.json()["accepted"], false, "{run}");
    assert_eq!(run.json()["tenant"], "acme", "{run}");
    assert!(run.stderr.contains("the signature was not verified"), "{run}");
    // A token is not an argument, and a server without issuers takes none.
    let run = program.run(&[&["access", "explain", &good][..], &settings].concat());
    assert_eq!(run.status, 2, "{run}");
    assert!(!run.to_string().contains(&good[..40]), "{run}");
    let run = program.run_with_input(&["access", "explain", "-"], good.as_bytes());
    assert_eq!(run.status, 2, "{run}");
    assert!(run.stderr.contains("accepts no access tokens"), "{run}");
}
