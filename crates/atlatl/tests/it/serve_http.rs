//! `atlatl serve --http`: to whom it listens, and how it ends.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use crate::program::Program;
use crate::serving::{Serving, authorization};

const TOKEN: &str = "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";

/// The whole answer to a GET of `path`.
fn get(serving: &Serving, path: &str, more: &str) -> String {
    let address = serving.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let more = format!("{}{more}", authorization(&serving.url, more));
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_file_of_tokens_must_be_its_owners_alone_and_no_token_is_shown() {
    let program = Program::new().file("work/tokens", format!("{TOKEN}\n"));
    let auth = ["--set", "server.auth=token-file:tokens"];
    let args = [&["serve", "--http", "127.0.0.1:0"], &auth[..]].concat();
    // A file of root, who may run this test, may be readable by its group.
    for mode in [0o644, 0o604, 0o602] {
        fs::set_permissions(program.path("work/tokens"), Permissions::from_mode(mode)).unwrap();
        let run = program.run(&args);
        assert_eq!(run.status, 1, "{run}");
        assert!(run.stderr.contains("other users can read this file"), "{run}");
    }
    // A token that was put in the wrong place is not printed.
    let misplaced = format!("server.auth={TOKEN}");
    let run = program.run(&["serve", "--http", "127.0.0.1:0", "--set", &misplaced]);
    assert_eq!(run.status, 2, "{run}");
    assert!(!run.stderr.contains(TOKEN), "{run}");

    fs::set_permissions(program.path("work/tokens"), Permissions::from_mode(0o600)).unwrap();
    let serving = Serving::start(&program, &auth);
    let refused = get(&serving, "/v1/memories", "");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let admitted = get(&serving, "/v1/memories", &bearer);
    assert!(admitted.starts_with("HTTP/1.1 200 "), "{admitted}");
    for answer in [refused, admitted, get(&serving, "/metrics", &bearer)] {
        assert!(!answer.contains(TOKEN), "{answer}");
    }
}

#[test]
fn it_ends_on_a_signal_even_if_clients_are_connected() {
    // At the same time, since each server waits for its client.
    let ends = ["-TERM", "-INT"].map(|signal| {
        thread::spawn(move || {
            let program = Program::new();
            let mut serving = Serving::start(&program, &[]);
            let address = serving.url.strip_prefix("http://").unwrap();
            let mut idle = TcpStream::connect(address).unwrap();
            idle.write_all(b"GET /hea").unwrap();
            assert!(get(&serving, "/healthz", "").ends_with("ok\n"));
            let began = Instant::now();
            let status = serving.end_by(signal);
            assert!(status.success(), "{signal}: {status}");
            assert!(began.elapsed() < Duration::from_secs(20), "{signal}");
        })
    });
    for end in ends {
        end.join().unwrap();
    }
}
