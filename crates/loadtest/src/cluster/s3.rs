//! S3 of a cluster: a server whose buckets are directories.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::http_client::{HttpClient, Request};
use super::process::{Service, User};
use super::state::{State, text};

/// The bucket for results.
pub(super) const BUCKET: &str = "results";
const ACCESS_KEY: &str = "cluster";
/// Known to everyone on this machine, as the bucket is for nothing but trying.
const SECRET_KEY: &str = "secret-of-the-cluster";

/// Makes its directory, with the bucket.
pub(super) fn make(state: &State) -> Result<()> {
    fs::create_dir_all(state.dir.join("s3").join(BUCKET)).context("a bucket")
}

pub(super) fn service(state: &State) -> Result<Service> {
    let port = state.s3.port.to_string();
    let args = ["--host", "127.0.0.1", "--port", &port, "--access-key", ACCESS_KEY];
    let mut args: Vec<String> = args.map(str::to_owned).into();
    args.extend(["--secret-key".to_owned(), SECRET_KEY.to_owned()]);
    args.push(text(&state.dir.join("s3"))?);
    Ok(Service {
        name: "s3".to_owned(),
        program: state.programs.s3.clone(),
        args,
        env: Vec::new(),
        end: "TERM",
        user: User::Ours,
    })
}

/// Whether it answers at all; that it wants to know who asks is an answer.
pub(super) fn answers(state: &State) -> bool {
    let client = HttpClient::new(state.s3.port, Duration::from_secs(2));
    client.send(&Request::get("/")).is_ok()
}

/// How a server reaches it, by the variables that every client of S3 knows.
pub(super) fn variables(state: &State) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", state.s3.port)),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ]
}
