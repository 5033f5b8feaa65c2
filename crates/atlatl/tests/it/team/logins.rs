//! A login at an authorization server, and what its tokens open.

use std::fs;

use testkit::authority::{AccessTokenSigner, Authority};
use testkit::postgres::PostgresServer;

use super::*;
use crate::login::log_in;
use crate::proxied::Proxied;

/// A server of many tenants that takes the tokens of `authority`, and its tenant "acme".
fn served(authority: &Authority, more: &[&str]) -> (Program, Serving) {
    let server = PostgresServer::shared();
    let (_, database) = stranger(server);
    let program =
        crate::login::program().variable("ATLATL_MEMORY__STORE", &server.url(APP, &database));
    let owner = server.url(OWNER, &database);
    for args in [&["db", "migrate"][..], &["tenants", "create", "acme"]] {
        let run = program.run(&[args, &["--as", &owner]].concat());
        assert_eq!(run.status, 0, "{run}");
    }
    let auth = format!("server.auth=keys,oauth:{}", authority.url(""));
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
    let audit = std::env::temp_dir().join(format!("atlatl-audit-{}", std::process::id()));
    let set = format!("server.audit={}", audit.display());
    let (program, serving) = served(&authority, &["--set", &set]);
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
    let wrong: Vec<(&str, String)> = vec![
        ("audience", changed(&|claims| claims["aud"] = json!("https://other.example/mcp"))),
        ("audience above", changed(&|claims| claims["aud"] = json!(serving.url))),
        ("no audience", changed(&|claims| claims["aud"] = Value::Null)),
        ("issuer", changed(&|claims| claims["iss"] = json!("https://other.example"))),
        ("issuer with a slash", changed(&|claims| claims["iss"] = json!(format!("{issuer}/")))),
        ("expired", changed(&|claims| claims["exp"] = json!(1_600_000_000))),
        ("never expires", changed(&|claims| claims["exp"] = Value::Null)),
        ("not yet", changed(&|claims| claims["nbf"] = json!(4_000_000_000_u64))),
        ("no tenant", changed(&|claims| claims["tenant"] = Value::Null)),
        ("tenant list", changed(&|claims| claims["tenant"] = json!(["acme"]))),
        ("no subject", changed(&|claims| claims["sub"] = Value::Null)),
        ("of another key", other.sign(&good)),
        ("cut", token[..token.len() - 4].to_owned()),
        ("unsigned", format!("{head}.{payload}.")),
        ("two parts", format!("{head}.{payload}")),
        ("four parts", format!("{token}.{signature}")),
        ("alg none", format!("eyJhbGciOiJub25lIn0.{payload}.")),
        ("alg none, signed", format!("eyJhbGciOiJub25lIn0.{payload}.{signature}")),
        ("HS256", format!("eyJhbGciOiJIUzI1NiIsImtpZCI6ImtleS0wIn0.{payload}.{signature}")),
    ];
    for (name, token) in &wrong {
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
    let written = fs::read_to_string(&audit).unwrap();
    fs::remove_file(&audit).unwrap();
    assert!(written.matches("\"reason\":\"token\"").count() >= wrong.len(), "{written}");
    assert!(written.contains("\"subject\":\"person@example\""), "{written}");
    drop(program);
    for (name, token) in &wrong {
        let secret = token.rsplit('.').find(|part| part.len() > 20).unwrap_or(token);
        assert!(!written.contains(secret), "{name} is written down");
    }
    assert!(!written.contains(signature) && !written.contains(payload));
}
