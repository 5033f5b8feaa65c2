//! Refresh of expiring tokens.

use std::{fs, time::Duration};

use atlatl_login::LoginError;
use testkit::authority::{Authority, AuthorityFault};

use crate::person::{Person, call};

#[tokio::test]
async fn an_expired_token_is_refreshed_once_and_the_new_one_is_kept() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let login = person.login(&authority);
    let old = login.bearer().await.unwrap().unwrap();
    person.age(3541);
    let new = login.bearer().await.unwrap().unwrap();
    assert_ne!(old, new);
    assert_eq!(call(&authority, Some(&new)).0, 200);
    assert_eq!(login.bearer().await.unwrap().unwrap(), new);
    assert_eq!((authority.counts().refreshes, authority.counts().violations), (1, 0));
}

#[tokio::test]
async fn a_token_with_more_than_a_minute_is_not_refreshed() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    person.age(3500);
    person.login(&authority).bearer().await.unwrap().unwrap();
    assert_eq!(authority.counts().refreshes, 0);
}

#[tokio::test]
async fn many_tasks_of_one_process_refresh_once() {
    let authority = Authority::with(&[AuthorityFault::SlowRefresh(Duration::from_millis(200))]);
    let person = Person::at(&authority).await;
    person.age(3600);
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let login = person.login(&authority);
            tokio::spawn(async move { login.bearer().await.unwrap().unwrap() })
        })
        .collect();
    for task in tasks {
        assert_eq!(call(&authority, Some(&task.await.unwrap())).0, 200);
    }
    assert_eq!((authority.counts().refreshes, authority.counts().reuses), (1, 0));
}

#[tokio::test]
async fn a_refresh_token_that_is_not_replaced_stays() {
    let authority = Authority::with(&[AuthorityFault::NoRotation]);
    let person = Person::at(&authority).await;
    for _ in 0..3 {
        person.age(3600);
        let bearer = person.login(&authority).bearer().await.unwrap().unwrap();
        assert_eq!(call(&authority, Some(&bearer)).0, 200);
    }
    assert_eq!(authority.counts().refreshes, 3);
}

#[tokio::test]
async fn a_caller_that_goes_away_during_a_refresh_does_not_lose_the_login() {
    let authority = Authority::with(&[AuthorityFault::SlowRefresh(Duration::from_millis(300))]);
    let person = Person::at(&authority).await;
    person.age(3600);
    let login = person.login(&authority);
    let hurried = tokio::time::timeout(Duration::from_millis(100), login.bearer()).await;
    assert!(hurried.is_err());
    let bearer = login.bearer().await.unwrap().unwrap();
    assert_eq!(call(&authority, Some(&bearer)).0, 200);
    assert_eq!((authority.counts().refreshes, authority.counts().reuses), (1, 0));
}

#[tokio::test]
async fn a_rejected_refresh_ends_the_login_and_says_what_to_run() {
    let authority = Authority::with(&[AuthorityFault::RefuseRefresh("invalid_grant")]);
    let person = Person::at(&authority).await;
    person.age(3600);
    let error = person.login(&authority).bearer().await.unwrap_err();
    let mcp = authority.mcp();
    assert_eq!(
        error.to_string(),
        format!("{mcp} requires a login: run `atlatl login {mcp}`, or pass a key with --header")
    );
    assert!(matches!(error, LoginError::Needed { .. }));
    assert!(person.logins.list().unwrap().is_empty());
    assert!(person.login(&authority).bearer().await.unwrap().is_none());
}

#[tokio::test]
async fn a_failure_without_a_verdict_keeps_the_login() {
    for fault in [AuthorityFault::TokenEndpointDown, AuthorityFault::RefuseRefresh("server_error")]
    {
        let authority = Authority::start();
        let person = Person::at(&authority).await;
        authority.ledger().faults = vec![fault];
        person.age(3600);
        let before = fs::read(person.file()).unwrap();
        let error = person.login(&authority).bearer().await.unwrap_err();
        assert!(matches!(error, LoginError::Unreachable { .. }), "{error}");
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
        assert_eq!(fs::read(person.file()).unwrap(), before);
        authority.ledger().faults.clear();
        assert!(person.login(&authority).bearer().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn an_authority_that_is_gone_keeps_the_login_and_the_token_to_its_last_second() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let login = person.login(&authority);
    person.age(3550);
    drop(authority);
    assert!(login.bearer().await.unwrap().is_some());
    person.age(60);
    let error = login.bearer().await.unwrap_err();
    assert!(matches!(error, LoginError::Unreachable { .. }), "{error}");
    assert_eq!(person.logins.list().unwrap().len(), 1);
}

#[tokio::test]
async fn without_a_refresh_token_a_login_ends_with_its_token() {
    let authority = Authority::with(&[AuthorityFault::NoRefreshToken]);
    let person = Person::at(&authority).await;
    person.age(3590);
    assert!(person.login(&authority).bearer().await.unwrap().is_some());
    person.age(10);
    let error = person.login(&authority).bearer().await.unwrap_err();
    assert!(matches!(error, LoginError::Needed { .. }), "{error}");
}

#[tokio::test]
async fn an_unknown_client_needs_a_new_login() {
    let authority = Authority::with(&[AuthorityFault::RefuseRefresh("invalid_client")]);
    let person = Person::at(&authority).await;
    person.age(3600);
    let error = person.login(&authority).bearer().await.unwrap_err();
    assert!(matches!(error, LoginError::Needed { .. }), "{error}");
}

#[tokio::test]
async fn a_resource_above_the_server_is_written_the_same_way_in_every_request() {
    let authority = Authority::start();
    // Without a slash at the end, which `Url` would add.
    authority.ledger().resource_path = "";
    let person = Person::at(&authority).await;
    person.age(3600);
    let bearer = person.login(&authority).bearer().await.unwrap().unwrap();
    assert_eq!(call(&authority, Some(&bearer)).0, 200);
    assert_eq!(authority.counts().violations, 0, "{:?}", authority.ledger().refusals);
}

#[tokio::test]
async fn a_refresh_token_is_not_carried_on_by_a_redirect() {
    let elsewhere = testkit::http::HttpServer::start(|_, stream| {
        testkit::http::reply(stream, "200 OK", &[], b"{}")
    });
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    authority.ledger().faults = vec![AuthorityFault::RedirectToken(elsewhere.url("/token"))];
    person.age(3600);
    let error = person.login(&authority).bearer().await.unwrap_err();
    assert!(matches!(error, LoginError::Unreachable { .. }), "{error}");
    assert_eq!(elsewhere.asked().len(), 0);
    assert_eq!(person.logins.list().unwrap().len(), 1);
}
