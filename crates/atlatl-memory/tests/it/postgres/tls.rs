//! TLS and credentials, against a server that accepts only encrypted connections.

mod capture;
mod certificates;
mod rotation;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{ConnectError, PlainText, Postgres, PostgresOptions, StoreError, contract};
use tempfile::TempDir;
use testkit::postgres::{APP, OWNER, PostgresServer};

use self::certificates::{Authority, Leaf};
use super::commit::{PASS, relay};
use super::pooler::uses_named_statements;
use super::tenants;

/// A server with a certificate for `localhost`, and a database with the schema.
struct Fixture {
    server: PostgresServer,
    authority: Authority,
    database: String,
    /// Files of clients.
    dir: TempDir,
}

impl Fixture {
    /// `rules` are lines of `pg_hba.conf`.
    fn start(rules: &str) -> Self {
        let authority = Authority::new("Atlatl test CA");
        let certificates = authority.server(&authority.leaf(&["localhost"], "localhost"));
        let server = PostgresServer::start_tls(&certificates, rules);
        let database = server.database_without_pgvector();
        // To see how the connection of another login is encrypted.
        server.sql("postgres", &format!("GRANT pg_read_all_stats TO {APP}"));
        let dir = tempfile::tempdir().unwrap();
        let fixture = Self { server, authority, database, dir };
        fixture.write("ca.pem", &fixture.authority.pem());
        let owner = fixture.options(OWNER, "localhost", &fixture.verified());
        Postgres::migrate(&owner).wait().unwrap();
        fixture
    }

    /// Writes a file that only its owner can read.
    fn write(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// The parameters that verify the server by its own CA.
    fn verified(&self) -> String {
        format!("sslmode=verify-full&sslrootcert={}", self.path("ca.pem"))
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes the certificate of a client; returns its parameters.
    fn client(&self, name: &str, leaf: &Leaf) -> String {
        self.write(&format!("{name}.crt"), &leaf.certificate);
        self.write(&format!("{name}.key"), &leaf.key);
        let (certificate, key) =
            (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        format!("&sslcert={certificate}&sslkey={key}")
    }

    fn options(&self, user: &str, host: &str, parameters: &str) -> PostgresOptions {
        self.options_at(user, host, self.server.port(), parameters)
    }

    fn options_at(&self, user: &str, host: &str, port: u16, parameters: &str) -> PostgresOptions {
        // A name with several addresses reports the error of the last one.
        let address = if host == "localhost" { "&hostaddr=127.0.0.1" } else { "" };
        let url = self.server.url_at(&format!("{host}:{port}"), user, &self.database);
        let mut options = PostgresOptions::new(format!("{url}?{parameters}{address}"));
        options.role = String::from(APP);
        options
    }
}

/// Connects, and returns the protocol of the connection: `TLSv1.3`, or nothing.
fn protocol(options: &PostgresOptions) -> Result<String, StoreError> {
    let store = Postgres::open(options).wait()?.tenant("a")?;
    let sql = "SELECT coalesce(version, '') FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    store.query_column(sql).wait().map(|rows| rows.concat())
}

#[track_caller]
fn refusal(options: &PostgresOptions) -> ConnectError {
    match Postgres::open(options).wait() {
        Err(StoreError::Connect(error)) => error,
        other => panic!("{options:?}: {other:?}"),
    }
}

#[track_caller]
fn assert_refused(options: &PostgresOptions, why: &str, hint: &str) {
    let refused = refusal(options);
    assert!(refused.why.contains(why), "{why}: {refused:?}");
    assert!(refused.hint.contains(hint), "{hint}: {refused:?}");
}

#[test]
fn g40_each_mode_encrypts_and_verifies_what_it_says() {
    let fixture = Fixture::start("");
    fixture.write("other.pem", &Authority::new("Another CA").pem());
    let (ca, other) = (fixture.path("ca.pem"), fixture.path("other.pem"));
    let with = |host: &str, parameters: &str| fixture.options(APP, host, parameters);
    // Neither checks the name: the certificate is not for 127.0.0.1.
    for (host, parameters) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
        ("localhost", format!("sslrootcert={ca}")),
        ("localhost", format!("sslrootcert={ca}&channel_binding=require")),
        // An address that does not count as this machine.
        ("0.0.0.0", "sslmode=require".to_owned()),
        ("0.0.0.0", format!("sslmode=verify-ca&sslrootcert={ca}")),
    ] {
        let options = with(host, &parameters);
        assert_eq!(protocol(&options).unwrap(), "TLSv1.3", "{host} {parameters}");
        assert!(uses_named_statements(&options), "without a pooler: {host} {parameters}");
    }
    let names = "for localhost, not for";
    for (host, parameters, why, hint) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), "no encryption", "sslmode=verify-full"),
        ("127.0.0.1", String::new(), "no encryption", "sslmode=verify-full"),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={other}"), &*other, "set sslrootcert"),
        ("127.0.0.1", format!("sslmode=prefer&sslrootcert={other}"), &*other, "set sslrootcert"),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={other}"), &*other, "set sslrootcert"),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}"), names, "subjectAltName"),
        ("0.0.0.0", format!("sslrootcert={ca}"), names, "subjectAltName"),
        ("localhost", "sslmode=verify-full".to_owned(), "system", "sslrootcert=FILE"),
        ("0.0.0.0", String::new(), "system", "sslrootcert=FILE"),
    ] {
        assert_refused(&with(host, &parameters), why, hint);
    }
    for parameters in ["sslmode=prefer", "sslmode=disable"] {
        let refused = Postgres::new(&with("0.0.0.0", parameters)).unwrap_err();
        assert!(matches!(refused, StoreError::PlainText { .. }), "{refused}");
    }
    let allowed = with("0.0.0.0", "").with_plain_text(PlainText::Anywhere);
    assert_eq!(protocol(&allowed).unwrap(), "TLSv1.3", "encrypted if the server offers it");
}

#[test]
fn g40_certificates_that_do_not_fit_are_refused_with_their_reason() {
    let fixture = Fixture::start("");
    let authority = &fixture.authority;
    let verified = fixture.options(APP, "localhost", &fixture.verified());
    let unverified = fixture.options(APP, "localhost", "sslmode=require");
    let foreign = Authority::new("Atlatl test CA");
    let ca = fixture.path("ca.pem");
    for (leaf, why, hint) in [
        (authority.leaf(&["db.example", "192.0.2.1"], "x"), "for db.example, 192.0.2.1", "host"),
        (authority.leaf(&[], "localhost"), "for no name, not for localhost", "subjectAltName"),
        (authority.dated(&["localhost"], 2020, 2021), "expired on 2021-01-01", "renew"),
        (authority.dated(&["localhost"], 3000, 3001), "not valid before 3000-01-01", "clocks"),
        (foreign.leaf(&["localhost"], "localhost"), &*ca, "set sslrootcert"),
    ] {
        fixture.server.replace_certificates(&authority.server(&leaf));
        assert_refused(&verified, why, hint);
        // It encrypts, and says nothing about the server.
        assert_eq!(protocol(&unverified).unwrap(), "TLSv1.3");
    }
    let right = authority.server(&authority.leaf(&["localhost"], "localhost"));
    fixture.server.replace_certificates(&right);
    assert_eq!(protocol(&verified).unwrap(), "TLSv1.3");
}

#[test]
fn g40_client_certificates_prove_who_connects() {
    let fixture = Fixture::start(
        "hostssl all certified all cert\nhostssl all mutual all scram-sha-256 clientcert=verify-ca\n",
    );
    for role in ["certified", "mutual"] {
        let password = testkit::postgres::PASSWORD;
        let sql = format!("CREATE ROLE {role} LOGIN PASSWORD '{password}'; GRANT {APP} TO {role}");
        fixture.server.sql("postgres", &sql);
    }
    let authority = &fixture.authority;
    let foreign = Authority::new("Another CA");
    let connect = |user: &str, client: &str| {
        fixture.options(user, "localhost", &format!("{}{client}", fixture.verified()))
    };
    let right = fixture.client("right", &authority.leaf(&[], "certified"));
    let other = fixture.client("other", &authority.leaf(&[], "somebody"));
    assert_eq!(protocol(&connect("certified", &right)).unwrap(), "TLSv1.3");
    assert_eq!(protocol(&connect("mutual", &other)).unwrap(), "TLSv1.3");
    for user in ["certified", "mutual"] {
        assert_refused(&connect(user, ""), "client certificate", "add sslcert=FILE");
    }
    assert_refused(&connect("certified", &other), "certificate", "the common name in sslcert");
    for (name, leaf, hint) in [
        ("foreign", foreign.leaf(&[], "certified"), "ssl_ca_file"),
        ("expired", authority.dated(&[], 2020, 2021), "renew sslcert"),
    ] {
        let client = fixture.client(name, &leaf);
        assert_refused(&connect("mutual", &client), "rejects the client certificate", hint);
    }
    // Files that cannot be used.
    let key = Path::new(&fixture.path("right.key")).to_owned();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_refused(&connect("certified", &right), "accessible to other users", "chmod 600");
    fs::remove_file(&key).unwrap();
    assert_refused(&connect("certified", &right), key.to_str().unwrap(), "check the path");
    fixture.write("right.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n");
    assert_refused(&connect("certified", &right), "no private key", "openssl pkey");
    fixture.write("right.key", &authority.leaf(&[], "certified").key);
    assert_refused(&connect("certified", &right), "sslcert", "openssl x509");
    let missing = fixture.options(APP, "localhost", "sslrootcert=/no/such.pem");
    assert_refused(&missing, "/no/such.pem", "check the path");
    let empty = fixture.write("empty.pem", "nothing\n");
    let empty = format!("sslrootcert={}", empty.display());
    assert_refused(&fixture.options(APP, "localhost", &empty), "no certificate", "BEGIN");
}

#[test]
fn g40_a_server_that_is_not_verified_gets_no_password_in_clear_text() {
    let fixture = Fixture::start("hostssl all clear all password\n");
    let password = testkit::postgres::PASSWORD;
    let sql = format!("CREATE ROLE clear LOGIN PASSWORD '{password}'; GRANT {APP} TO clear");
    fixture.server.sql("postgres", &sql);
    for (host, parameters) in [("localhost", "sslmode=require"), ("0.0.0.0", "sslmode=require")] {
        let refused = Postgres::open(&fixture.options("clear", host, parameters)).wait();
        assert!(matches!(refused, Err(StoreError::PlainText { .. })), "{refused:?}");
    }
    for parameters in
        [fixture.verified(), format!("sslmode=verify-ca&sslrootcert={}", fixture.path("ca.pem"))]
    {
        let verified = fixture.options("clear", "localhost", &parameters);
        assert_eq!(protocol(&verified).unwrap(), "TLSv1.3");
    }
}

#[test]
fn g40_a_server_without_tls_is_used_only_where_plain_text_is_allowed() {
    let server = PostgresServer::shared();
    let database = super::migrated(server);
    let port = relay(server.socket(), Arc::new(AtomicU8::new(PASS)));
    let with = |host: &str, parameters: &str| {
        let url = server.url_at(&format!("{host}:{port}"), APP, &database);
        let mut options = PostgresOptions::new(format!("{url}?{parameters}"));
        options.role = String::from(APP);
        options
    };
    let no_tls = "the server does not support TLS";
    for (host, parameters, hint) in [
        ("127.0.0.1", "sslmode=require", "omit sslmode"),
        ("127.0.0.1", "sslmode=verify-full", "omit sslmode"),
        ("0.0.0.0", "sslmode=require", "memory.allow_plain"),
        ("0.0.0.0", "", "memory.allow_plain"),
    ] {
        assert_refused(&with(host, parameters), no_tls, hint);
    }
    for options in [
        with("127.0.0.1", ""),
        with("127.0.0.1", "sslmode=prefer"),
        with("0.0.0.0", "").with_plain_text(PlainText::Anywhere),
        with("0.0.0.0", "sslmode=disable").with_plain_text(PlainText::Anywhere),
    ] {
        assert_eq!(protocol(&options).unwrap(), "", "{options:?}");
    }
}

#[test]
fn g40_over_tls_the_contract_is_kept_too() {
    let fixture = Fixture::start("");
    let options = fixture.options(APP, "localhost", &fixture.verified());
    let postgres = Postgres::open(&options).wait().unwrap();
    let tenant = tenants(&postgres);
    contract::run(|| Box::new(tenant()));
}
