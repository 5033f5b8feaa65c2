//! Hostile URLs, in every place where a server can name one.

use std::sync::Arc;

use atlatl_login::{HttpTransport as _, NetworkTransport, Reach, TransportRequest};
use testkit::http::{HttpServer, reply};

use crate::public::{AUTHORITY, Public, up_to_the_browser};

type Place = (&'static str, fn(Public, &str) -> Public);

const PLACES: &[Place] = &[
    ("challenge", |network, url| network.pointing(url)),
    ("authorization_servers", |network, url| network.trusting(url)),
    ("issuer", |network, url| network.with("issuer", url)),
    ("authorization_endpoint", |network, url| network.with("authorization_endpoint", url)),
    ("token_endpoint", |network, url| network.with("token_endpoint", url)),
    ("registration_endpoint", |network, url| network.with("registration_endpoint", url)),
    ("revocation_endpoint", |network, url| network.with("revocation_endpoint", url)),
];

#[tokio::test]
async fn a_server_on_the_internet_is_logged_in_at() {
    let network = Arc::new(Public::new());
    let url = up_to_the_browser(Arc::clone(&network)).await.unwrap();
    assert!(url.as_str().starts_with("https://as.example.com/authorize?"), "{url}");
    assert!(network.requests.lock().unwrap().len() >= 4);
}

#[tokio::test]
async fn no_hostile_url_is_fetched_or_opened_wherever_it_occurs() {
    let here = HttpServer::start(|_, stream| reply(stream, "200 OK", &[], b"{}"));
    let urls = testkit::hostile::urls(here.port());
    assert!(urls.len() >= 60);
    let mut refused = 0;
    for url in &urls {
        for (place, put) in PLACES {
            let network = Arc::new(put(Public::new(), url));
            let ended = up_to_the_browser(Arc::clone(&network)).await;
            for asked in network.requests.lock().unwrap().iter() {
                let known = ["https://mcp.example.com/", "https://as.example.com/"];
                let within = known.iter().any(|origin| asked.as_str().starts_with(origin));
                assert!(within, "{place} {url:?}: asked {asked}");
                assert!(asked.as_str().len() < 5000);
            }
            match ended {
                // A pointer that is passed over: the well-known place is asked instead.
                Ok(opened) => {
                    let right = opened.as_str().starts_with("https://as.example.com/authorize?");
                    assert!(right && *place == "challenge", "{place} {url:?}: opened {opened}");
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.chars().count() < 1000, "{place} {url:?}: {told}");
                    assert!(!told.contains(char::is_control), "{place} {url:?}: {told:?}");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(here.asked().len(), 0);
    assert!(refused >= urls.len() * (PLACES.len() - 1), "{refused}");
}

#[tokio::test]
async fn a_name_that_resolves_to_this_machine_is_not_fetched() {
    let here = HttpServer::start(|_, stream| reply(stream, "200 OK", &[], b"{}"));
    let ask = |reach| {
        let url = format!("http://localhost:{}/x", here.port()).parse().unwrap();
        let (headers, body) = (http::HeaderMap::new(), Vec::new());
        NetworkTransport.send(TransportRequest {
            method: http::Method::GET,
            url,
            headers,
            body,
            reach,
        })
    };
    assert!(ask(Reach::Public).await.is_err());
    assert_eq!(here.asked().len(), 0);
    // So that it was the name, and not the listener, that was wrong.
    assert_eq!(ask(Reach::Loopback).await.unwrap().status(), 200);
}

#[tokio::test]
async fn urls_of_other_public_hosts_are_taken() {
    let token = "https://oauth.example.net/token";
    let network = Arc::new(Public::new().with("token_endpoint", token));
    assert!(up_to_the_browser(network).await.is_ok());
    let network = Arc::new(Public::new().pointing(&format!("{AUTHORITY}/nowhere")));
    assert!(up_to_the_browser(network).await.is_ok());
}
