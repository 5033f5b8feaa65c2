//! OAuth endpoints: client registration, authorization, tokens and revocation.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use std::{io, thread};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::state::{Client, Code, Token};
use super::{AuthorityFault, AuthorityState, fields};
use crate::http::{ReceivedRequest, reply, reply_json};

type Fields = BTreeMap<String, String>;

pub(super) fn register(
    request: &ReceivedRequest,
    stream: &mut TcpStream,
    state: &mut AuthorityState,
) -> io::Result<()> {
    state.counts.registrations += 1;
    let body = request.json();
    let redirect = body["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
    if !redirect.starts_with("http://127.0.0.1:") {
        return refuse(stream, state, "invalid_redirect_uri", &redirect);
    }
    let id = state.next("client");
    let secret = state.has(&AuthorityFault::ClientSecrets).then(|| state.next("secret"));
    let mut answer = json!({"client_id": id, "redirect_uris": [redirect]});
    if let Some(secret) = &secret {
        answer["client_secret"] = json!(secret);
    }
    state.clients.insert(id, Client { redirect_uri: redirect, secret });
    reply_json(stream, "201 Created", &answer)
}

pub(super) fn authorize(
    request: &ReceivedRequest,
    stream: &mut TcpStream,
    state: &mut AuthorityState,
) -> io::Result<()> {
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    let fields = fields(query.as_bytes());
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let id = field("client_id");
    if state.has(&AuthorityFault::ClientDocuments) && id.starts_with("https://") {
        let redirect_uri = field("redirect_uri").to_owned();
        state.clients.insert(id.to_owned(), Client { redirect_uri, secret: None });
    }
    let client = state.clients.get(id);
    // Client and redirect URI are checked before anything is redirected.
    if client.is_none_or(|client| client.redirect_uri != field("redirect_uri")) {
        return refuse(stream, state, "invalid_request", "client or redirect");
    }
    let wrong = [
        ("response_type", field("response_type") == "code"),
        ("code_challenge_method", field("code_challenge_method") == "S256"),
        ("code_challenge", field("code_challenge").len() == 43),
        ("state", field("state").len() >= 16),
        ("resource", field("resource") == state.resource()),
    ];
    if let Some((name, _)) = wrong.into_iter().find(|(_, right)| !right) {
        return refuse(stream, state, "invalid_request", name);
    }
    let issuer = state.fault(|fault| match fault {
        AuthorityFault::IssuerInCallback(other) => Some(other.clone()),
        _ => None,
    });
    let issuer = issuer.unwrap_or_else(|| state.base.clone());
    let mut callback = form_urlencoded::Serializer::new(String::new());
    if state.has(&AuthorityFault::PersonSaysNo) {
        callback.append_pair("error", "access_denied");
        callback.append_pair("error_description", "<script>no</script>");
    } else {
        let code = state.next("code");
        callback.append_pair("code", &code);
        state.counts.codes += 1;
        let issued = Code {
            client: field("client_id").to_owned(),
            redirect_uri: field("redirect_uri").to_owned(),
            challenge: field("code_challenge").to_owned(),
            resource: field("resource").to_owned(),
            scope: field("scope").to_owned(),
        };
        state.codes.insert(code, issued);
    }
    callback.append_pair("state", field("state"));
    if !state.has(&AuthorityFault::NoIssuerInCallback) {
        callback.append_pair("iss", &issuer);
    }
    let url = format!("{}?{}", field("redirect_uri"), callback.finish());
    reply(stream, "302 Found", &[("Location", &url)], b"")
}

pub(super) fn token(
    request: &ReceivedRequest,
    stream: &mut TcpStream,
    state: &Mutex<AuthorityState>,
) -> io::Result<()> {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut guard = lock();
    guard.counts.token_requests += 1;
    let url = guard.fault(|fault| match fault {
        AuthorityFault::RedirectToken(url) => Some(url.clone()),
        _ => None,
    });
    if let Some(url) = url {
        return reply(stream, "307 Temporary Redirect", &[("Location", &url)], b"");
    }
    if guard.has(&AuthorityFault::TokenEndpointDown) {
        return reply(stream, "503 Service Unavailable", &[], b"");
    }
    let mut fields = fields(&request.body);
    if !authenticate(request, &mut fields, &guard) {
        return refuse(stream, &mut guard, "invalid_client", "who are you?");
    }
    match fields.get("grant_type").map(String::as_str) {
        Some("authorization_code") => exchange(stream, &mut guard, &fields),
        Some("refresh_token") => {
            guard.counts.refreshes += 1;
            let slow = guard.fault(|fault| match fault {
                AuthorityFault::SlowRefresh(time) => Some(*time),
                _ => None,
            });
            drop(guard);
            if let Some(time) = slow {
                thread::sleep(time);
            }
            refresh(stream, &mut lock(), &fields)
        }
        _ => refuse(stream, &mut guard, "unsupported_grant_type", ""),
    }
}

/// Whether the client is registered and sends its secret if it has one.
fn authenticate(request: &ReceivedRequest, fields: &mut Fields, state: &AuthorityState) -> bool {
    let mut secret = fields.get("client_secret").cloned();
    if let Some(basic) =
        request.header("authorization").and_then(|text| text.strip_prefix("Basic "))
    {
        let pair = BASE64_STANDARD.decode(basic).ok().and_then(|pair| String::from_utf8(pair).ok());
        let Some((id, password)) = pair.as_deref().and_then(|pair| pair.split_once(':')) else {
            return false;
        };
        fields.insert("client_id".to_owned(), id.to_owned());
        secret = Some(password.to_owned());
    }
    let client = fields.get("client_id").and_then(|id| state.clients.get(id));
    client.is_some_and(|client| client.secret.is_none() || client.secret == secret)
}

fn exchange(stream: &mut TcpStream, state: &mut AuthorityState, fields: &Fields) -> io::Result<()> {
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    // Removed, because a code can be used only once.
    let Some(code) = state.codes.remove(field("code")) else {
        return refuse(stream, state, "invalid_grant", "code");
    };
    let proof = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier").as_bytes()));
    let wrong = [
        ("client_id", field("client_id") == code.client),
        ("redirect_uri", field("redirect_uri") == code.redirect_uri),
        ("resource", field("resource") == code.resource),
        ("code_verifier", field("code_verifier").len() >= 43 && proof == code.challenge),
    ];
    if let Some((name, _)) = wrong.into_iter().find(|(_, right)| !right) {
        return refuse(stream, state, "invalid_grant", name);
    }
    let family = state.next_family();
    let answer = tokens(state, &code.client, &code.resource, &code.scope, family);
    reply_json(stream, "200 OK", &answer)
}

fn refresh(stream: &mut TcpStream, state: &mut AuthorityState, fields: &Fields) -> io::Result<()> {
    let refused = state.fault(|fault| match fault {
        AuthorityFault::RefuseRefresh(error) => Some(*error),
        _ => None,
    });
    if let Some(error) = refused {
        return refuse(stream, state, error, "\u{1b}[2J refresh");
    }
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let rotates = !state.has(&AuthorityFault::NoRotation);
    let Some(token) = state.refresh.get_mut(field("refresh_token")) else {
        return refuse(stream, state, "invalid_grant", "unknown refresh token");
    };
    if rotates && std::mem::replace(&mut token.used, true) {
        let family = token.family;
        state.counts.reuses += 1;
        state.access.retain(|_, token| token.family != family);
        state.refresh.retain(|_, token| token.family != family);
        return refuse(stream, state, "invalid_grant", "reused refresh token");
    }
    let token = token.clone();
    let same = field("client_id") == token.client && field("resource") == state.resource();
    if !same {
        return refuse(stream, state, "invalid_grant", "client or resource");
    }
    let mut answer = tokens(state, &token.client, field("resource"), &token.scope, token.family);
    if !rotates && let Some(fields) = answer.as_object_mut() {
        fields.remove("refresh_token");
    }
    reply_json(stream, "200 OK", &answer)
}

fn tokens(
    state: &mut AuthorityState,
    client: &str,
    resource: &str,
    scope: &str,
    family: usize,
) -> Value {
    let audience = state.fault(|fault| match fault {
        AuthorityFault::Audience(other) => Some(other.clone()),
        _ => None,
    });
    let kind = state.fault(|fault| match fault {
        AuthorityFault::TokenType(other) => Some(other.clone()),
        _ => None,
    });
    let token = Token {
        client: client.to_owned(),
        audience: audience.unwrap_or_else(|| resource.to_owned()),
        scope: scope.to_owned(),
        family,
        ends: Instant::now() + state.lifetime,
        used: false,
    };
    let (mut access, refresh) = (state.next("access"), state.next("refresh"));
    if let Some(signer) = &state.signer {
        access = signer.sign(&signer.claims(&state.base, scope, state.lifetime.as_secs()));
    }
    let mut answer = json!({
        "access_token": access,
        "token_type": kind.unwrap_or_else(|| "Bearer".to_owned()),
        "expires_in": state.claimed_lifetime.unwrap_or(state.lifetime.as_secs()),
        "scope": scope,
    });
    if !state.has(&AuthorityFault::NoRefreshToken) {
        answer["refresh_token"] = json!(refresh);
        state.refresh.insert(refresh, token.clone());
    }
    state.access.insert(access, token);
    answer
}

pub(super) fn revoke(
    request: &ReceivedRequest,
    stream: &mut TcpStream,
    state: &mut AuthorityState,
) -> io::Result<()> {
    state.counts.revocations += 1;
    let mut fields = fields(&request.body);
    if !authenticate(request, &mut fields, state) {
        return refuse(stream, state, "invalid_client", "revocation");
    }
    let token = fields.get("token").cloned().unwrap_or_default();
    let family = state.refresh.get(&token).or(state.access.get(&token)).map(|token| token.family);
    if let Some(family) = family {
        state.access.retain(|_, token| token.family != family);
        state.refresh.retain(|_, token| token.family != family);
    }
    reply(stream, "200 OK", &[], b"")
}

fn refuse(
    stream: &mut TcpStream,
    state: &mut AuthorityState,
    error: &str,
    why: &str,
) -> io::Result<()> {
    state.counts.violations += 1;
    state.refusals.push(format!("{error}: {why}"));
    let body = json!({"error": error, "error_description": why});
    let status = if error == "invalid_client" { "401 Unauthorized" } else { "400 Bad Request" };
    reply_json(stream, status, &body)
}
