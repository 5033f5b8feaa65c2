//! Buckets without stored keys: the identity of the machine, by a simulated metadata endpoint.

use std::time::Duration;

use lro_spool::{Bucket, ObjectOptions, ObjectSpool, Quota, RemoteKind, Spool, SpoolError};
use testkit::cloud_storage::{AZURE_TOKEN_PATH, CloudStorage, METADATA_TOKEN};

use super::options;
use crate::fixture::{fast, id, put, whole};

#[test]
fn g51_azure_without_stored_keys_uses_the_identity_of_the_machine() {
    let storage = CloudStorage::start();
    let settings = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "account".to_owned()),
        ("AZURE_STORAGE_ENDPOINT", storage.url("")),
        ("AZURE_ALLOW_HTTP", "true".to_owned()),
        ("AZURE_MSI_ENDPOINT", storage.url(AZURE_TOKEN_PATH)),
        ("AZURE_CLIENT_ID", "3f2b".to_owned()),
    ];
    let bucket = Bucket::from_url("az://results/spool", settings, options()).unwrap();
    let spool = ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap();
    put(&spool, id(1), b"[1,2]").unwrap();
    assert_eq!(whole(&spool, id(1)), b"[1,2]");
    assert!(spool.list().unwrap().is_empty(), "the listing of this bucket always is");
    let (tokens, objects) = storage.requests();
    assert_eq!(tokens.len(), 1, "it is cached: {tokens:?}");
    let asked = &tokens[0].target;
    assert!(asked.contains("client_id=3f2b") && asked.contains("storage.azure.com"), "{asked}");
    assert!(objects.len() > 3, "{objects:?}");
    let authorization = format!("Bearer {METADATA_TOKEN}");
    assert!(objects.iter().all(|one| one.header("authorization") == Some(authorization.as_str())));
}

#[test]
fn g51_a_metadata_endpoint_that_gives_no_token_is_an_error_and_not_a_wait() {
    let storage = CloudStorage::start();
    let settings = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "account".to_owned()),
        ("AZURE_STORAGE_ENDPOINT", storage.url("")),
        ("AZURE_ALLOW_HTTP", "true".to_owned()),
        ("AZURE_MSI_ENDPOINT", storage.url("/nothing-here")),
    ];
    let options = options().retries(0, Duration::ZERO);
    let bucket = Bucket::from_url("az://results", settings, options).unwrap();
    let spool = ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap();
    let began = std::time::Instant::now();
    let failed = spool.list().map(drop);
    assert!(matches!(failed, Err(SpoolError::Remote { .. })), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(4));
    assert!(storage.requests().1.iter().all(|one| one.path() == "/nothing-here"));
}

/// Nothing is sent: a token of the machine is worth as much as a key.
#[test]
fn g51_a_metadata_endpoint_of_another_machine_in_clear_text_is_refused() {
    let open = |url: &str, name: &str, value: &str| {
        let settings = [("AZURE_STORAGE_ACCOUNT_NAME", "account"), (name, value)];
        Bucket::from_url(url, settings, ObjectOptions::new(fast()))
    };
    for (url, name, value) in [
        ("az://results", "AZURE_MSI_ENDPOINT", "http://192.0.2.1/token"),
        ("az://results", "AZURE_IDENTITY_ENDPOINT", "http://identity.example/token"),
        ("s3://results", "AWS_METADATA_ENDPOINT", "http://192.0.2.1"),
        ("s3://results", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@identity.example/token"),
        ("gs://results", "GCE_METADATA_HOST", "192.0.2.1:80"),
        ("gs://results", "GCE_METADATA_ROOT", "metadata.example"),
        ("gs://results", "GCE_METADATA_IP", "[2001:db8::1]"),
    ] {
        let refused = open(url, name, value).map(drop);
        let Err(SpoolError::Remote { source, .. }) = refused else { panic!("{name}={value}") };
        assert_eq!(source.kind(), RemoteKind::Misused);
        assert!(source.to_string().contains(name), "{source}");
    }
    for (url, name, value) in [
        (
            "az://results",
            "AZURE_MSI_ENDPOINT",
            "http://169.254.169.254/metadata/identity/oauth2/token",
        ),
        ("az://results", "AZURE_IDENTITY_ENDPOINT", "http://localhost:42356/msi/token"),
        ("az://results", "AZURE_MSI_ENDPOINT", "https://identity.example/token"),
        ("gs://results", "GCE_METADATA_HOST", "metadata.google.internal"),
        ("gs://results", "GCE_METADATA_HOST", "127.0.0.1:8080"),
        ("gs://results", "GCE_METADATA_IP", "169.254.169.254"),
    ] {
        assert!(open(url, name, value).is_ok(), "{name}={value}");
    }
}
