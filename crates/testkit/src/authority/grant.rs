//! Grants: registration, codes, tokens, refreshes, revocation.

use std::{
    collections::BTreeMap,
    io,
    net::TcpStream,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::ledger::{Client, Code, Token};
use super::{Fault, Ledger, fields};
use crate::http::{Asked, reply, reply_json};

type Fields = BTreeMap<String, String>;

pub(super) fn register(
    asked: &Asked,
    stream: &mut TcpStream,
    ledger: &mut Ledger,
) -> io::Result<()> {
    ledger.counts.registrations += 1;
    let request = asked.json();
    let redirect = request["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
    if !redirect.starts_with("http://127.0.0.1:") {
        return refuse(stream, ledger, "invalid_redirect_uri", &redirect);
    }
    let id = ledger.next("client");
    let secret = ledger.has(&Fault::ClientSecrets).then(|| ledger.next("secret"));
    let mut answer = json!({"client_id": id, "redirect_uris": [redirect]});
    if let Some(secret) = &secret {
        answer["client_secret"] = json!(secret);
    }
    ledger.clients.insert(id, Client { redirect_uri: redirect, secret });
    reply_json(stream, "201 Created", &answer)
}

pub(super) fn authorize(
    asked: &Asked,
    stream: &mut TcpStream,
    ledger: &mut Ledger,
) -> io::Result<()> {
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    let fields = fields(query.as_bytes());
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let id = field("client_id");
    if ledger.has(&Fault::ClientDocuments) && id.starts_with("https://") {
        let redirect_uri = field("redirect_uri").to_owned();
        ledger.clients.insert(id.to_owned(), Client { redirect_uri, secret: None });
    }
    let client = ledger.clients.get(id);
    // Nobody is redirected before client and redirect are known to be right.
    if client.is_none_or(|client| client.redirect_uri != field("redirect_uri")) {
        return refuse(stream, ledger, "invalid_request", "client or redirect");
    }
    let wrong = [
        ("response_type", field("response_type") == "code"),
        ("code_challenge_method", field("code_challenge_method") == "S256"),
        ("code_challenge", field("code_challenge").len() == 43),
        ("state", field("state").len() >= 16),
        ("resource", field("resource") == ledger.resource()),
    ];
    if let Some((name, _)) = wrong.into_iter().find(|(_, right)| !right) {
        return refuse(stream, ledger, "invalid_request", name);
    }
    let issuer = ledger.fault(|fault| match fault {
        Fault::IssuerInCallback(other) => Some(other.clone()),
        _ => None,
    });
    let issuer = issuer.unwrap_or_else(|| ledger.base.clone());
    let mut back = form_urlencoded::Serializer::new(String::new());
    if ledger.has(&Fault::PersonSaysNo) {
        back.append_pair("error", "access_denied");
        back.append_pair("error_description", "<script>no</script>");
    } else {
        let code = ledger.next("code");
        back.append_pair("code", &code);
        ledger.counts.codes += 1;
        let known = Code {
            client: field("client_id").to_owned(),
            redirect_uri: field("redirect_uri").to_owned(),
            challenge: field("code_challenge").to_owned(),
            resource: field("resource").to_owned(),
            scope: field("scope").to_owned(),
        };
        ledger.codes.insert(code, known);
    }
    back.append_pair("state", field("state"));
    if !ledger.has(&Fault::NoIssuerInCallback) {
        back.append_pair("iss", &issuer);
    }
    let place = format!("{}?{}", field("redirect_uri"), back.finish());
    reply(stream, "302 Found", &[("Location", &place)], b"")
}

pub(super) fn token(
    asked: &Asked,
    stream: &mut TcpStream,
    ledger: &Mutex<Ledger>,
) -> io::Result<()> {
    let lock = || ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = lock();
    known.counts.token_requests += 1;
    let place = known.fault(|fault| match fault {
        Fault::RedirectToken(place) => Some(place.clone()),
        _ => None,
    });
    if let Some(place) = place {
        return reply(stream, "307 Temporary Redirect", &[("Location", &place)], b"");
    }
    if known.has(&Fault::TokenEndpointDown) {
        return reply(stream, "503 Service Unavailable", &[], b"");
    }
    let mut fields = fields(&asked.body);
    if !identified(asked, &mut fields, &known) {
        return refuse(stream, &mut known, "invalid_client", "who are you?");
    }
    match fields.get("grant_type").map(String::as_str) {
        Some("authorization_code") => exchange(stream, &mut known, &fields),
        Some("refresh_token") => {
            known.counts.refreshes += 1;
            let slow = known.fault(|fault| match fault {
                Fault::SlowRefresh(time) => Some(*time),
                _ => None,
            });
            drop(known);
            if let Some(time) = slow {
                thread::sleep(time);
            }
            refresh(stream, &mut lock(), &fields)
        }
        _ => refuse(stream, &mut known, "unsupported_grant_type", ""),
    }
}

/// Whether the client is one that registered, and brings its secret if it has one.
fn identified(asked: &Asked, fields: &mut Fields, ledger: &Ledger) -> bool {
    let mut secret = fields.get("client_secret").cloned();
    if let Some(basic) = asked.header("authorization").and_then(|text| text.strip_prefix("Basic "))
    {
        let pair = BASE64_STANDARD.decode(basic).ok().and_then(|pair| String::from_utf8(pair).ok());
        let Some((id, given)) = pair.as_deref().and_then(|pair| pair.split_once(':')) else {
            return false;
        };
        fields.insert("client_id".to_owned(), id.to_owned());
        secret = Some(given.to_owned());
    }
    let client = fields.get("client_id").and_then(|id| ledger.clients.get(id));
    client.is_some_and(|client| client.secret.is_none() || client.secret == secret)
}

fn exchange(stream: &mut TcpStream, ledger: &mut Ledger, fields: &Fields) -> io::Result<()> {
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    // Taken, not looked at: a code is good once.
    let Some(code) = ledger.codes.remove(field("code")) else {
        return refuse(stream, ledger, "invalid_grant", "code");
    };
    let proof = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier").as_bytes()));
    let wrong = [
        ("client_id", field("client_id") == code.client),
        ("redirect_uri", field("redirect_uri") == code.redirect_uri),
        ("resource", field("resource") == code.resource),
        ("code_verifier", field("code_verifier").len() >= 43 && proof == code.challenge),
    ];
    if let Some((name, _)) = wrong.into_iter().find(|(_, right)| !right) {
        return refuse(stream, ledger, "invalid_grant", name);
    }
    let family = ledger.next_family();
    let answer = tokens(ledger, &code.client, &code.resource, &code.scope, family);
    reply_json(stream, "200 OK", &answer)
}

fn refresh(stream: &mut TcpStream, ledger: &mut Ledger, fields: &Fields) -> io::Result<()> {
    let refused = ledger.fault(|fault| match fault {
        Fault::RefuseRefresh(error) => Some(*error),
        _ => None,
    });
    if let Some(error) = refused {
        return refuse(stream, ledger, error, "\u{1b}[2J refresh");
    }
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let rotates = !ledger.has(&Fault::NoRotation);
    let Some(token) = ledger.refresh.get_mut(field("refresh_token")) else {
        return refuse(stream, ledger, "invalid_grant", "unknown refresh token");
    };
    if rotates && std::mem::replace(&mut token.used, true) {
        let family = token.family;
        ledger.counts.reuses += 1;
        ledger.access.retain(|_, token| token.family != family);
        ledger.refresh.retain(|_, token| token.family != family);
        return refuse(stream, ledger, "invalid_grant", "reused refresh token");
    }
    let token = token.clone();
    let same = field("client_id") == token.client && field("resource") == ledger.resource();
    if !same {
        return refuse(stream, ledger, "invalid_grant", "client or resource");
    }
    let mut answer = tokens(ledger, &token.client, field("resource"), &token.scope, token.family);
    if !rotates && let Some(fields) = answer.as_object_mut() {
        fields.remove("refresh_token");
    }
    reply_json(stream, "200 OK", &answer)
}

fn tokens(ledger: &mut Ledger, client: &str, resource: &str, scope: &str, family: usize) -> Value {
    let audience = ledger.fault(|fault| match fault {
        Fault::Audience(other) => Some(other.clone()),
        _ => None,
    });
    let kind = ledger.fault(|fault| match fault {
        Fault::TokenType(other) => Some(other.clone()),
        _ => None,
    });
    let token = Token {
        client: client.to_owned(),
        audience: audience.unwrap_or_else(|| resource.to_owned()),
        scope: scope.to_owned(),
        family,
        ends: Instant::now() + ledger.lifetime,
        used: false,
    };
    let (mut access, refresh) = (ledger.next("access"), ledger.next("refresh"));
    if let Some(signer) = &ledger.signer {
        access = signer.sign(&signer.claims(&ledger.base, scope, ledger.lifetime.as_secs()));
    }
    let mut answer = json!({
        "access_token": access,
        "token_type": kind.unwrap_or_else(|| "Bearer".to_owned()),
        "expires_in": ledger.claimed_lifetime.unwrap_or(ledger.lifetime.as_secs()),
        "scope": scope,
    });
    if !ledger.has(&Fault::NoRefreshToken) {
        answer["refresh_token"] = json!(refresh);
        ledger.refresh.insert(refresh, token.clone());
    }
    ledger.access.insert(access, token);
    answer
}

pub(super) fn revoke(asked: &Asked, stream: &mut TcpStream, ledger: &mut Ledger) -> io::Result<()> {
    ledger.counts.revocations += 1;
    let mut fields = fields(&asked.body);
    if !identified(asked, &mut fields, ledger) {
        return refuse(stream, ledger, "invalid_client", "revocation");
    }
    let token = fields.get("token").cloned().unwrap_or_default();
    let family = ledger.refresh.get(&token).or(ledger.access.get(&token)).map(|known| known.family);
    if let Some(family) = family {
        ledger.access.retain(|_, token| token.family != family);
        ledger.refresh.retain(|_, token| token.family != family);
    }
    reply(stream, "200 OK", &[], b"")
}

fn refuse(stream: &mut TcpStream, ledger: &mut Ledger, error: &str, why: &str) -> io::Result<()> {
    ledger.counts.violations += 1;
    ledger.refusals.push(format!("{error}: {why}"));
    let body = json!({"error": error, "error_description": why});
    let status = if error == "invalid_client" { "401 Unauthorized" } else { "400 Bad Request" };
    reply_json(stream, status, &body)
}
