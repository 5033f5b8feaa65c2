//! The HTTP API.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use testkit::corpus;

use super::served::{AUTHORIZED, Served};
use crate::fixture::{Place, memories};

const MANY: usize = 10_000;

fn ids(page: &Value) -> Vec<String> {
    let id = |memory: &Value| memory["id"].as_str().unwrap().to_owned();
    page["memories"].as_array().unwrap().iter().map(id).collect()
}

#[test]
fn a6_10_000_memories_are_paged_by_limit_and_offset_and_never_offloaded() {
    let all = corpus::memories(MANY, 11);
    let mut place = Place::with(&all);
    // Regardless of other settings.
    place.config.prompt.offload.shared_filesystem = true;
    place.config.prompt.offload.threshold_tokens = 1;
    let served = Served::start(&place);
    for (limit, pages) in [(1000, 10), (777, 13)] {
        let mut met = HashSet::new();
        let mut order = Vec::new();
        for page in 0..pages {
            let offset = page * limit;
            let path =
                format!("/v1/memories?limit={limit}&offset={offset}&detail=light&status=any");
            let page = served.get(&path).json();
            assert_eq!((&page["total"], &page["offset"]), (&json!(MANY), &json!(offset)));
            assert_eq!(page["limit"], limit);
            assert_eq!(page["count"], limit.min(MANY - offset));
            assert!(page.get("offloaded").is_none() && page.get("next_cursor").is_none());
            for (id, memory) in ids(&page).into_iter().zip(page["memories"].as_array().unwrap()) {
                order.push(memory["created"].as_str().unwrap().to_owned());
                assert!(met.insert(id), "twice");
            }
        }
        assert_eq!(met.len(), MANY);
        assert!(order.is_sorted_by(|a, b| a >= b), "the newest first");
        assert!(all.iter().all(|memory| met.contains(memory.id.as_str())));
    }
    let beyond = served.get(&format!("/v1/memories?offset={MANY}&status=any")).json();
    assert_eq!((&beyond["count"], &beyond["total"]), (&json!(0), &json!(MANY)));
    let usual = served.get("/v1/memories").json();
    assert_eq!(
        (&usual["limit"], &usual["count"], &usual["detail"]),
        (&json!(50), &json!(50), &json!("full"))
    );

    // The filtered count, from the corpus.
    let tag = all[5].tags.as_ref().unwrap()[0].clone();
    let tagged =
        all.iter().filter(|memory| memory.tags.as_ref().is_some_and(|tags| tags.contains(&tag)));
    let page = served.get(&format!("/v1/memories?tags={tag}&limit=1&status=any")).json();
    assert_eq!((&page["total"], &page["count"]), (&json!(tagged.count()), &json!(1)));
    let episodic = all.iter().filter(|memory| memory.memory_type.to_string() == "episodic");
    let page =
        served.get("/v1/memories?memory_type=episodic&order=oldest&limit=3&status=any").json();
    assert_eq!(page["total"], json!(episodic.count()));
    assert!(place.files().is_empty());
}

#[test]
fn a6_search_is_paged_the_same_way() {
    let place = Place::with(&memories((0..250).map(|n| format!("Row {n} of the harbour."))));
    let served = Served::start(&place);
    let mut met = HashSet::new();
    for offset in (0..300).step_by(60) {
        let asked = json!({"query": "harbour", "limit": 60, "offset": offset, "detail": "light"});
        let page = served.send("POST", "/v1/search", &asked).json();
        assert_eq!((&page["total"], &page["offset"]), (&json!(250), &json!(offset)), "{page}");
        let found = ids(&page);
        assert_eq!(found.len(), 60.min(250_usize.saturating_sub(offset)), "{offset}");
        if !found.is_empty() {
            assert_eq!(page["scores"].as_array().unwrap().len(), found.len());
        }
        assert!(found.into_iter().all(|id| met.insert(id)), "twice");
    }
    assert_eq!(met.len(), 250);
    let none = served.send("POST", "/v1/search", &json!({"query": "nothing like this"})).json();
    assert_eq!((&none["total"], &none["memories"]), (&json!(0), &json!([])));
    assert!(place.files().is_empty());
}

#[test]
fn search_explains_itself_if_asked() {
    let contents = ["We deploy on Thursdays.", "我们选择了PostgreSQL数据库。"];
    let place = Place::with(&memories(contents.map(str::to_owned)));
    let served = Served::start(&place);
    for (query, snippet) in [
        ("deployed", "We **deploy** on Thursdays."),
        ("数据库", "我们选择了PostgreSQL**数据库**。"),
    ] {
        let page = served.send("POST", "/v1/search", &json!({"query": query})).json();
        assert!(page["matched_by"].is_null() && page["snippets"].is_null(), "{page}");
        let explained = json!({"query": query, "explain": true});
        let page = served.send("POST", "/v1/search", &explained).json();
        assert_eq!(page["matched_by"], json!(["words"]), "{page}");
        assert_eq!(page["snippets"], json!([{"text": snippet}]), "{page}");
    }
    let beyond = json!({"query": "deploy", "explain": true, "offset": 1});
    let page = served.send("POST", "/v1/search", &beyond).json();
    assert!(page["count"] == 0 && page["snippets"].is_null(), "{page}");
    served.send("POST", "/v1/search", &json!({"query": "x", "explain": 7})).is_problem(400);
}

#[test]
fn a6_a_memory_is_made_read_replaced_and_deleted() {
    let place = Place::new();
    let served = Served::start(&place);
    let made = served.send(
        "POST",
        "/v1/memories",
        &json!({
            "content": "We deploy on Thursdays.", "memory_type": "semantic", "tags": ["ops"],
            "extensions": {"ours": {"big": 12_345_678_901_234_567_890_u64}},
        }),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    let memory = made.json();
    let path = format!("/v1/memories/{}", memory["id"].as_str().unwrap());
    assert_eq!(made.header("location"), Some(path.as_str()));
    assert!(made.text().contains("12345678901234567890"));
    assert_eq!(served.get(&path).json(), memory);
    // Another process sees it as soon as it is acknowledged.
    assert_eq!(Served::start(&place).get(&path).json(), memory);

    let put = json!({"content": "We deploy on Fridays.", "memory_type": "procedural"});
    let replaced = served.send("PUT", &path, &put);
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    let now = replaced.json();
    assert_eq!((&now["id"], &now["created"]), (&memory["id"], &memory["created"]));
    assert_eq!((&now["content"], &now["memory_type"]), (&put["content"], &put["memory_type"]));
    assert!(now["tags"] == json!([]) && now.get("extensions").is_none(), "{now}");
    // A memory can be read and written back, including unknown fields.
    let mut again = now.clone();
    again["mood"] = json!("calm");
    let kept = served.send("PUT", &path, &again).json();
    assert_eq!((&kept["mood"], &kept["id"]), (&json!("calm"), &memory["id"]));
    let gone = served.send("PUT", &path, &now).json();
    assert!(gone.get("mood").is_none(), "{gone}");
    let now = gone;
    assert_eq!(served.get(&path).json(), now);

    let deleted = served.ask("DELETE", &path, &[], "");
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    served.ask("DELETE", &path, &[], "").is_problem(404);
    served.get(&path).is_problem(404);
    served.send("PUT", &path, &put).is_problem(404);
    assert_eq!(served.get("/v1/memories").json()["total"], 0);
}

#[test]
fn a6_every_error_is_a_problem_document() {
    let place = Place::with(&memories(["One.".to_owned()]));
    let served = Served::start(&place);
    for query in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "limit=1.5",
        "offset=-1",
        "offset=x",
        "nosuch=1",
        "memory_type=odd",
        "status=odd",
        "order=odd",
        "detail=odd",
        "since=yesterday",
        "min_confidence=2",
        "namespace=a%2F%2Fb",
    ] {
        served.get(&format!("/v1/memories?{query}")).is_problem(400);
    }
    for id in ["x", "00000000-0000-7000-8000-00000000ffff", "..%2Fx", "%FF", "%00", "a%20b"] {
        let path = format!("/v1/memories/{id}");
        served.get(&path).is_problem(404);
        served.ask("DELETE", &path, &[], "").is_problem(404);
        let body = json!({"content": "x", "memory_type": "semantic"});
        served.send("PUT", &path, &body).is_problem(404);
    }
    served.ask("POST", "/v1/search", &[], r#"{"nosuch":1}"#).is_problem(400);
    for body in ["{", "[]", "7", "null", "{\"content\":\"\u{1}\"}"] {
        served.ask("POST", "/v1/memories", &[], body).is_problem(400);
        served.ask("POST", "/v1/search", &[], body).is_problem(400);
    }
    for memory in [
        json!({}),
        json!({"content": "x"}),
        json!({"memory_type": "semantic"}),
        json!({"content": "", "memory_type": "semantic"}),
        json!({"content": "x", "memory_type": "odd"}),
        json!({"content": "x", "memory_type": "semantic", "tags": "one"}),
        json!({"content": "x", "memory_type": "semantic", "namespace": "a//b"}),
        json!({"content": "x".repeat((1 << 20) + 1), "memory_type": "semantic"}),
    ] {
        let answer = served.send("POST", "/v1/memories", &memory);
        answer.is_problem(422);
    }
    served.send("POST", "/v1/search", &json!({"query": "x", "mode": "odd"})).is_problem(400);
    served.send("POST", "/v1/search", &json!({})).is_problem(400);
    let host = served.address.to_string();
    let raw = [b"POST /v1/memories HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n", AUTHORIZED.as_bytes(), b"Host: ", host.as_bytes(), b"\r\n\r\n\xff\xfe"].concat();
    served.raw(&raw).is_problem(400);
    for path in ["/", "/v2", "/v1", "/v1/memories/", "/v1/memories/a/b", "/v1/nosuch"] {
        served.get(path).is_problem(404);
    }
    for (method, path, allowed) in [
        ("DELETE", "/v1/memories", "GET,HEAD,POST"),
        ("GET", "/v1/search", "POST"),
        ("DELETE", "/v1/offloads/x", "GET,HEAD"),
        ("PATCH", "/v1/memories/x", "GET,HEAD,PUT,DELETE"),
        ("DELETE", "/healthz", "GET,HEAD"),
        ("DELETE", "/mcp", "POST"),
    ] {
        let answer = served.ask(method, path, &[], "");
        answer.is_problem(405);
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
    let text = [("Host", host.as_str()), ("Content-Type", "text/plain")];
    served.bare("POST", "/v1/search", &text, "{}").is_problem(415);
    assert_eq!(served.get("/v1/memories").json()["total"], 1, "nothing was stored");
}

#[test]
fn half_a_body_is_answered_as_late_or_as_too_long() {
    let place = Place::new();
    let served = Served::start(&place);
    let host = served.address;
    let streams = [100_usize, 64 << 20].map(|length| {
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!(
            "POST /v1/memories HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{AUTHORIZED}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    });
    let answers = streams.map(|mut stream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    for (answer, status) in answers.iter().zip(["408", "413"]) {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[test]
fn a6_a_body_has_at_most_8_mib() {
    let place = Place::new();
    let served = Served::start(&place);
    let padded = |len: usize| {
        let body = r#"{"query":"x"}"#;
        format!("{body}{}", " ".repeat(len - body.len()))
    };
    assert_eq!(served.ask("POST", "/v1/search", &[], &padded(8 << 20)).status, 200);
    for path in ["/v1/search", "/v1/memories", "/mcp"] {
        served.ask("POST", path, &[], &padded((8 << 20) + 1)).is_problem(413);
    }
    // In chunks without a Content-Length.
    let host = served.address;
    let mut request = format!(
        "POST /v1/search HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{AUTHORIZED}\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for _ in 0..8 {
        request.extend_from_slice(b"100000\r\n");
        request.extend(vec![b' '; 1 << 20]);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"1\r\n \r\n0\r\n\r\n");
    served.raw(&request).is_problem(413);
    // A body of 64 MB is read to its end, so that the client reads the error response.
    let head = |length: usize, more: &str| {
        format!(
            "POST /v1/memories HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{AUTHORIZED}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
        )
    };
    let mut whole = head(64 << 20, "").into_bytes();
    whole.resize(whole.len() + (64 << 20), b' ');
    for _ in 0..4 {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(&whole).expect("all of it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("8388608"), "{answer}");
    }
    // With `Expect: 100-continue` the body need not be sent, and an endless body is not read forever.
    served.raw(head(64 << 20, "Expect: 100-continue\r\n").as_bytes()).is_problem(413);
    let mut endless = TcpStream::connect(host).unwrap();
    endless.write_all(head(1 << 40, "").as_bytes()).unwrap();
    let piece = vec![b' '; 1 << 20];
    let taken = (0..1000).take_while(|_| endless.write_all(&piece).is_ok()).count();
    assert!((128..300).contains(&taken), "{taken} MB");
    // A body that ends early.
    let cut = format!(
        "POST /v1/search HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{AUTHORIZED}\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    );
    assert_eq!(served.raw(cut.as_bytes()).status, 400);
}
