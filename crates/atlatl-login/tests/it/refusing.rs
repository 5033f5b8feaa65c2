//! A server that refuses the token.

use atlatl_login::LoginError;
use testkit::authority::{Authority, AuthorityFault};

use crate::person::{Person, call};

#[tokio::test]
async fn a_revoked_token_is_replaced_once() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let login = person.login(&authority);
    let sent = login.bearer().await.unwrap().unwrap();
    authority.ledger().revoke_access();
    let (status, challenge) = call(&authority, Some(&sent));
    assert_eq!(status, 401);
    let other = login.refused(Some(&sent), challenge.as_deref()).await.unwrap();
    assert_eq!(call(&authority, Some(&other)).0, 200);
    assert_eq!(authority.counts().refreshes, 1);
}

#[tokio::test]
async fn what_another_process_got_meanwhile_is_used() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let (here, there) = (person.login(&authority), person.login(&authority));
    let sent = here.bearer().await.unwrap().unwrap();
    authority.ledger().revoke_access();
    let theirs = there.refused(Some(&sent), None).await.unwrap();
    assert_eq!(here.refused(Some(&sent), None).await.unwrap(), theirs);
    assert_eq!(authority.counts().refreshes, 1);
}

#[tokio::test]
async fn a_login_that_was_ended_at_the_authority_needs_a_person() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let login = person.login(&authority);
    let sent = login.bearer().await.unwrap().unwrap();
    authority.ledger().revoke_all();
    let error = login.refused(Some(&sent), None).await.unwrap_err();
    assert!(matches!(error, LoginError::Needed { .. }), "{error}");
    assert_eq!(authority.counts().refreshes, 1);
    assert!(person.logins.list().unwrap().is_empty());
}

#[tokio::test]
async fn a_token_for_another_audience_is_refused_by_the_server_and_not_refreshed_for_ever() {
    let authority =
        Authority::with(&[AuthorityFault::Audience("https://other.example/mcp".to_owned())]);
    let person = Person::at(&authority).await;
    let login = person.login(&authority);
    let mut sent = login.bearer().await.unwrap().unwrap();
    for _ in 0..2 {
        let (status, challenge) = call(&authority, Some(&sent));
        assert_eq!(status, 401);
        match login.refused(Some(&sent), challenge.as_deref()).await {
            Ok(other) => sent = other,
            Err(error) => {
                assert!(matches!(error, LoginError::Needed { .. }), "{error}");
                assert_eq!(authority.counts().refreshes, 1);
                return;
            }
        }
    }
    panic!("a second token was given for one refusal");
}

#[tokio::test]
async fn without_a_login_a_refusal_says_what_to_run() {
    let authority = Authority::start();
    let person = Person::new();
    let error = person.login(&authority).refused(None, None).await.unwrap_err();
    assert!(error.to_string().contains(&format!("`atlatl login {}`", authority.mcp())), "{error}");
    // Looking makes no folder.
    assert!(!person.folder().exists());
}

#[tokio::test]
async fn a_login_that_was_made_meanwhile_is_used() {
    let authority = Authority::start();
    let person = Person::new();
    let login = person.login(&authority);
    person.log_in(&authority).await.unwrap();
    let bearer = login.refused(None, None).await.unwrap();
    assert_eq!(call(&authority, Some(&bearer)).0, 200);
}

#[tokio::test]
async fn missing_rights_are_named_and_not_refreshed() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    authority.ledger().wanted_scope = Some("files:write".to_owned());
    let login = person.login(&authority);
    let sent = login.bearer().await.unwrap().unwrap();
    let (status, challenge) = call(&authority, Some(&sent));
    assert_eq!(status, 403);
    let error = login.refused(Some(&sent), challenge.as_deref()).await.unwrap_err();
    let wanted = format!("run `atlatl login {} --scope \"files:write\"`", authority.mcp());
    assert!(error.to_string().ends_with(&wanted), "{error}");
    let hostile = "Bearer error=\"insufficient_scope\", scope=\"a $(touch x)\"";
    let error = login.refused(Some(&sent), Some(hostile)).await.unwrap_err();
    assert!(error.to_string().ends_with(&format!("run `atlatl login {}`", authority.mcp())));
    assert_eq!(authority.counts().refreshes, 0);
}
