//! Authorization servers that violate one rule each.

use atlatl_login::{LoginError, LoginRequest, Rule, login};
use testkit::authority::{Authority, AuthorityFault, visit_in_background};

use crate::person::{Person, server};

/// The rule that a login at an authority with `fault` breaks, what is said of it, and whether a
/// person was sent to a browser.
async fn broken(fault: AuthorityFault) -> (Rule, String, bool) {
    let authority = Authority::with(&[fault]);
    let person = Person::new();
    let mut opened = false;
    let request = LoginRequest::new(server(&authority));
    let ended = login(&person.logins, &request, |url| {
        opened = true;
        visit_in_background(url.as_str());
    })
    .await;
    assert!(person.logins.list().unwrap().is_empty(), "nothing may be kept");
    let error = ended.unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    match error {
        LoginError::Refused(refusal) => (refusal.rule(), text, opened),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn another_issuer_in_the_metadata_is_refused() {
    let evil = "https://evil.example/\u{1b}[2J\u{202e}";
    let (rule, text, opened) = broken(AuthorityFault::IssuerInMetadata(evil.to_owned())).await;
    assert!(rule == Rule::Issuer && text.contains("evil.example") && !opened, "{text}");
}

#[tokio::test]
async fn another_issuer_in_the_callback_is_refused() {
    let fault = AuthorityFault::IssuerInCallback("https://evil.example".to_owned());
    let (rule, text, opened) = broken(fault).await;
    assert!(rule == Rule::Issuer && text.contains("evil.example") && opened, "{text}");
}

#[tokio::test]
async fn a_missing_issuer_is_refused_where_it_was_promised() {
    let (rule, text, opened) = broken(AuthorityFault::NoIssuerInCallback).await;
    assert!(rule == Rule::Issuer && text.contains("none") && opened, "{text}");
}

#[tokio::test]
async fn metadata_about_another_resource_is_refused() {
    for other in ["https://other.example/mcp", "http://127.0.0.1:1/mcp", "mcp", ""] {
        let (rule, text, opened) = broken(AuthorityFault::Resource(other.to_owned())).await;
        assert!(rule == Rule::Resource && text.contains(other) && !opened, "{other}: {text}");
    }
}

#[tokio::test]
async fn an_authority_without_s256_is_refused() {
    for methods in [Some(vec!["plain".to_owned()]), Some(vec![]), None] {
        let (rule, text, opened) = broken(AuthorityFault::PkceMethods(methods)).await;
        assert!(rule == Rule::Pkce && !opened, "{text}");
    }
}

#[tokio::test]
async fn tokens_that_are_no_bearer_tokens_are_refused() {
    for kind in ["DPoP", "mac", ""] {
        let (rule, text, _) = broken(AuthorityFault::TokenType(kind.to_owned())).await;
        assert!(rule == Rule::Token, "{text}");
    }
}

#[tokio::test]
async fn endpoints_without_encryption_are_refused() {
    for field in
        ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]
    {
        let fault = AuthorityFault::Metadata(field, "http://as.example.com/x".to_owned());
        let (rule, text, opened) = broken(fault).await;
        assert!(rule == Rule::Transport && !opened, "{field}: {text}");
    }
}

#[tokio::test]
async fn an_endpoint_with_parameters_that_contradict_ours_is_refused() {
    for parameter in [
        "state=fixed",
        "resource=https%3A%2F%2Fevil.example",
        "redirect_uri=x",
        "code_challenge_method=plain",
    ] {
        let authority = Authority::start();
        let endpoint = authority.url(&format!("/authorize?{parameter}"));
        let (rule, text, opened) =
            broken(AuthorityFault::Metadata("authorization_endpoint", endpoint)).await;
        assert!(rule == Rule::Form && !opened, "{parameter}: {text}");
    }
}

#[tokio::test]
async fn a_server_without_metadata_is_reported() {
    let nothing = testkit::http::HttpServer::start(|_, stream| {
        testkit::http::reply(stream, "404 Not Found", &[], b"")
    });
    let person = Person::new();
    let request = LoginRequest::new(nothing.url("/mcp").parse().unwrap());
    let ended = login(&person.logins, &request, |_| panic!("nothing to open")).await;
    let Err(LoginError::Refused(refusal)) = ended else { panic!("{ended:?}") };
    assert_eq!(refusal.rule(), Rule::Metadata);
    // Endpoints are not made up either.
    assert!(nothing.asked().iter().all(|asked| asked.method == "GET"));
}

#[tokio::test]
async fn an_answer_without_measure_is_refused() {
    let (rule, text, opened) = broken(AuthorityFault::HugeMetadata(1 << 20)).await;
    assert!(rule == Rule::Answer && !opened, "{text}");
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_not_followed() {
    let elsewhere = testkit::http::HttpServer::start(|_, stream| {
        testkit::http::reply(stream, "200 OK", &[], b"{}")
    });
    let (_, text, opened) =
        broken(AuthorityFault::RedirectMetadata(elsewhere.url("/metadata"))).await;
    assert!(!opened, "{text}");
    assert_eq!(elsewhere.asked().len(), 0);
}

#[tokio::test]
async fn a_code_is_not_carried_on_by_a_redirect_of_the_token_endpoint() {
    let elsewhere = testkit::http::HttpServer::start(|_, stream| {
        testkit::http::reply(stream, "200 OK", &[], b"{}")
    });
    let authority = Authority::with(&[AuthorityFault::RedirectToken(elsewhere.url("/token"))]);
    let person = Person::new();
    let error = person.log_in(&authority).await.unwrap_err();
    assert!(matches!(error, LoginError::Denied { .. }), "{error}");
    assert_eq!(elsewhere.asked().len(), 0);
}

#[tokio::test]
async fn a_server_that_streams_instead_of_asking_for_a_login_is_not_waited_for() {
    let open = testkit::http::HttpServer::start(|asked, stream| match asked.path() {
        "/mcp" => {
            testkit::http::begin_events(stream, &[])?;
            std::thread::sleep(std::time::Duration::from_secs(15));
            Ok(())
        }
        _ => testkit::http::reply(stream, "404 Not Found", &[], b""),
    });
    let person = Person::new();
    let request = LoginRequest::new(open.url("/mcp").parse().unwrap());
    let begun = std::time::Instant::now();
    let ended = login(&person.logins, &request, |_| panic!("nothing to open")).await;
    assert!(matches!(ended, Err(LoginError::Refused(_))), "{ended:?}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
}
