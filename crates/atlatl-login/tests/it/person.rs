//! A simulated person with a browser, a login directory, and access to the protected endpoint.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
};

use atlatl_login::{Bearer, Login, LoginError, LoginRequest, Logins, ServerLogin, login};
use tempfile::TempDir;
use testkit::authority::{Authority, visit_in_background};
use url::Url;

/// A person, whose folder goes with them.
pub(crate) struct Person {
    dir: TempDir,
    pub(crate) logins: Logins,
}

impl Person {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let logins = Logins::at(dir.path().join("logins"));
        Self { dir, logins }
    }

    /// One that is logged in at `authority`.
    pub(crate) async fn at(authority: &Authority) -> Self {
        let person = Self::new();
        person.log_in(authority).await.unwrap();
        person
    }

    pub(crate) async fn log_in(&self, authority: &Authority) -> Result<Login, LoginError> {
        let request = LoginRequest::new(server(authority));
        login(&self.logins, &request, |url| drop(visit_in_background(url.as_str()))).await
    }

    pub(crate) fn login(&self, authority: &Authority) -> ServerLogin {
        self.logins.for_server(&server(authority))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("logins")
    }

    /// The one file that holds a login.
    pub(crate) fn file(&self) -> PathBuf {
        let mut files: Vec<PathBuf> = fs::read_dir(self.folder())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    /// Lets time pass over the kept login.
    pub(crate) fn age(&self, seconds: u64) {
        let file = self.file();
        let mut kept: serde_json::Value =
            serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let received = kept["received_at"].as_u64().unwrap();
        kept["received_at"] = (received - seconds).into();
        fs::write(file, kept.to_string()).unwrap();
    }
}

pub(crate) fn server(authority: &Authority) -> Url {
    authority.mcp().parse().unwrap()
}

/// Calls the protected tool: the status, and the challenge if there is one.
pub(crate) fn call(authority: &Authority, bearer: Option<&Bearer>) -> (u16, Option<String>) {
    let url = server(authority);
    let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap())).unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"héllo"}}}"#;
    let authorization =
        bearer.map_or(String::new(), |bearer| format!("Authorization: {}\r\n", bearer.header()));
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let challenge = answer.lines().find_map(|line| line.strip_prefix("WWW-Authenticate: "));
    assert!(status != 200 || answer.contains("héllo"), "{answer}");
    (status, challenge.map(str::to_owned))
}
