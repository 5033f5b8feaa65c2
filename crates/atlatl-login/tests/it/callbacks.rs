//! Requests to the callback listener.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use atlatl_login::{Callback, LoginRequest, login, parse_callback};
use proptest::prelude::*;
use testkit::authority::{Authority, visit, visit_in_background};

use crate::person::{Person, server};

proptest! {
    #[test]
    fn prop_any_bytes_are_read_and_never_ours_by_chance(head in prop::collection::vec(any::<u8>(), 0..300)) {
        let ours = matches!(parse_callback(&head, "a-state-of-22-characters"), Callback::NotOurs { .. });
        prop_assert!(ours);
    }

    #[test]
    fn prop_only_our_state_is_taken(state in "[a-zA-Z0-9_-]{1,30}", other in "\\PC{0,30}", code in "\\PC{1,30}", twice: bool) {
        let encode = |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let more = if twice { format!("&state={}", encode(&state)) } else { String::new() };
        let line = format!("GET /callback?code={}&state={}{more} HTTP/1.1\r\n\r\n", encode(&code), encode(&other));
        let granted = matches!(parse_callback(line.as_bytes(), &state), Callback::Granted { .. });
        prop_assert_eq!(granted, other == state && !twice);
        let line = format!("GET /callback?code={}&state={} HTTP/1.1\r\n\r\n", encode(&code), encode(&state));
        let granted = matches!(parse_callback(line.as_bytes(), &state), Callback::Granted { .. });
        prop_assert!(granted);
    }
}

#[tokio::test]
async fn strangers_at_the_listener_change_nothing() {
    let authority = Authority::start();
    let person = Person::new();
    let request = LoginRequest::new(server(&authority));
    let mut silent = None;
    let logged_in = login(&person.logins, &request, |url| {
        let redirect = url.query_pairs().find(|(key, _)| key == "redirect_uri").unwrap().1;
        let (back, url) = (redirect.into_owned(), url.to_string());
        // One that says nothing and stays, as browsers do.
        let place = back.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        silent = Some(TcpStream::connect(&place).unwrap());
        std::thread::spawn(move || {
            let forged = ["?code=x&state=guessed", "?error=access_denied", "?code=x", ""];
            for query in forged {
                let page = visit(&format!("{back}{query}")).unwrap();
                assert!(page.starts_with("HTTP/1.1 400"), "{page}");
            }
            let mut flood = TcpStream::connect(&place).unwrap();
            let _ = flood.write_all(&vec![b'a'; 1 << 20]);
            let _ = flood.read(&mut [0; 16]);
            visit(&url).unwrap();
        });
    });
    logged_in.await.unwrap();
    assert_eq!(authority.counts().codes, 1);
}

#[tokio::test]
async fn the_page_says_how_it_ended_and_stays_nowhere() {
    let authority = Authority::start();
    let person = Person::new();
    let request = LoginRequest::new(server(&authority));
    let mut page = None;
    login(&person.logins, &request, |url| page = Some(visit_in_background(url.as_str())))
        .await
        .unwrap();
    let page = page.unwrap().join().unwrap().unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("You are logged in"), "{page}");
    for header in ["Cache-Control: no-store", "Referrer-Policy: no-referrer", "default-src 'none'"]
    {
        assert!(page.contains(header), "{page}");
    }
}
