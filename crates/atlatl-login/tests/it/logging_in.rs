//! A login from the first request to the stored file.

use std::{fs, os::unix::fs::PermissionsExt as _};

use atlatl_login::{LoginError, LoginRequest, Secret, login};
use testkit::authority::{Authority, AuthorityFault, visit_in_background};

use crate::person::{Person, call, server};

#[tokio::test]
async fn a_person_logs_in_and_the_token_works() {
    let authority = Authority::start();
    let person = Person::new();
    assert_eq!(call(&authority, None).0, 401);
    assert!(person.login(&authority).bearer().await.unwrap().is_none());
    let login = person.log_in(&authority).await.unwrap();
    assert_eq!(login.server, server(&authority));
    assert_eq!(login.issuer, authority.url(""));
    assert_eq!(login.scopes, ["echo"]);
    assert!(login.refreshable && login.expires_at == Some(login.received_at + 3600));
    let bearer = person.login(&authority).bearer().await.unwrap().unwrap();
    assert_eq!(call(&authority, Some(&bearer)).0, 200);
    let counts = authority.counts();
    assert_eq!((counts.registrations, counts.codes, counts.token_requests), (1, 1, 1));
    assert_eq!((counts.violations, counts.refreshes), (0, 0), "{:?}", authority.ledger().refusals);
}

#[tokio::test]
async fn a_login_is_one_private_file_whose_name_tells_nothing() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    person.log_in(&authority).await.unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(person.folder()), mode(person.file())), (0o700, 0o600));
    let name = person.file().file_name().unwrap().to_str().unwrap().to_owned();
    // Digests alone: any digits may stand in one by chance.
    let digest = |c: char| c.is_ascii_hexdigit() || c == '-';
    assert!(name.strip_suffix(".json").is_some_and(|name| name.chars().all(digest)), "{name}");
    assert_eq!(person.logins.list().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_shown_of_logins_has_no_secret() {
    let authority = Authority::with(&[AuthorityFault::ClientSecrets]);
    let person = Person::at(&authority).await;
    let list = person.logins.list().unwrap();
    let login = person.login(&authority);
    let bearer = login.bearer().await.unwrap();
    let printed = format!(
        "{list:?} {:?} {login:?} {bearer:?} {}",
        person.logins,
        serde_json::to_string(&list).unwrap()
    );
    let secrets = authority.ledger().secrets();
    assert_eq!(secrets.len(), 3);
    for secret in secrets {
        assert!(!printed.contains(&secret), "{printed}");
    }
}

#[tokio::test]
async fn the_secret_of_a_registration_is_kept_and_used() {
    let authority = Authority::with(&[AuthorityFault::ClientSecrets]);
    let person = Person::at(&authority).await;
    person.age(3600);
    let bearer = person.login(&authority).bearer().await.unwrap().unwrap();
    assert_eq!(call(&authority, Some(&bearer)).0, 200);
    assert_eq!(authority.counts().violations, 0, "{:?}", authority.ledger().refusals);
}

#[tokio::test]
async fn a_known_client_does_not_register() {
    let authority = Authority::with(&[AuthorityFault::ClientSecrets]);
    let person = Person::new();
    let mut request = LoginRequest::new(server(&authority));
    request.client_id = Some("known".to_owned());
    request.client_secret = Some(Secret::new("s"));
    let opened = std::sync::Mutex::new(None);
    let told = std::sync::Mutex::new(None);
    let ended = login(&person.logins, &request, |url| {
        *opened.lock().unwrap() = Some(url.clone());
        // The authority does not know it; the person gives up.
        let pair =
            |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
        let back = format!("{}?error=access_denied&state={}", pair("redirect_uri"), pair("state"));
        *told.lock().unwrap() = Some(visit_in_background(&back));
    });
    assert!(matches!(ended.await, Err(LoginError::Denied { .. })));
    let url = opened.into_inner().unwrap().unwrap();
    assert!(url.query().unwrap().contains("client_id=known"), "{url}");
    assert_eq!(authority.counts().registrations, 0);
    let page = told.into_inner().unwrap().unwrap().join().unwrap().unwrap();
    assert!(page.contains("The login failed") && page.starts_with("HTTP/1.1 400"), "{page}");
}

#[tokio::test]
async fn a_person_who_says_no_is_not_logged_in_and_no_words_become_markup() {
    let authority = Authority::with(&[AuthorityFault::PersonSaysNo]);
    let person = Person::new();
    let page = std::sync::Mutex::new(None);
    let request = LoginRequest::new(server(&authority));
    let ended = login(&person.logins, &request, |url| {
        *page.lock().unwrap() = Some(visit_in_background(url.as_str()));
    })
    .await;
    let said = ended.unwrap_err().to_string();
    assert!(said.contains("access_denied"), "{said}");
    let page = page.into_inner().unwrap().unwrap().join().unwrap().unwrap();
    assert!(page.contains("&lt;script&gt;no") && !page.contains("<script"), "{page}");
    assert!(person.logins.list().unwrap().is_empty());
}

#[tokio::test]
async fn logging_out_removes_the_file_and_revokes_the_tokens() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let bearer = person.login(&authority).bearer().await.unwrap().unwrap();
    let forgotten = person.logins.forget(&server(&authority)).await.unwrap();
    assert_eq!((forgotten.removed, forgotten.not_revoked), (1, None));
    assert_eq!(authority.counts().revocations, 1);
    assert_eq!(call(&authority, Some(&bearer)).0, 401);
    assert!(person.logins.list().unwrap().is_empty());
    assert_eq!(person.logins.forget(&server(&authority)).await.unwrap().removed, 0);
}

#[tokio::test]
async fn logging_out_works_when_the_authority_is_gone() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let server = server(&authority);
    drop(authority);
    let forgotten = person.logins.forget(&server).await.unwrap();
    assert_eq!(forgotten.removed, 1);
    assert!(forgotten.not_revoked.is_some());
    assert!(person.logins.list().unwrap().is_empty());
}

#[tokio::test]
async fn a_new_login_takes_the_place_of_one_by_another_issuer() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let file = person.file();
    let name = file.file_name().unwrap().to_str().unwrap();
    let (stem, _) = name.split_once('-').unwrap();
    // As stored when the server has changed its authorization server.
    let other = file.with_file_name(format!("{stem}-{}.json", "0".repeat(32)));
    fs::copy(&file, &other).unwrap();
    assert_eq!(person.logins.list().unwrap().len(), 2);
    person.log_in(&authority).await.unwrap();
    assert_eq!(person.logins.list().unwrap().len(), 1);
    assert!(!other.exists());
}

#[tokio::test]
async fn a_document_about_the_client_takes_the_place_of_a_registration() {
    let document = "https://client.example/atlatl.json";
    let authority = Authority::with(&[AuthorityFault::ClientDocuments]);
    let person = Person::new();
    let mut request = LoginRequest::new(server(&authority));
    request.client_metadata_url = Some(document.to_owned());
    let made = login(&person.logins, &request, |url| drop(visit_in_background(url.as_str())));
    assert_eq!(made.await.unwrap().client_id, document);
    assert_eq!((authority.counts().registrations, authority.counts().violations), (0, 0));
    for wrong in ["http://client.example/atlatl.json", "https://client.example/", "x"] {
        request.client_metadata_url = Some(wrong.to_owned());
        let ended = login(&person.logins, &request, |_| panic!("nothing to open")).await;
        assert!(matches!(ended, Err(LoginError::Refused(_))), "{wrong}");
    }
}
