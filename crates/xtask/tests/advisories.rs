//! The advisory check of CI: every advisory without an exception fails, and so does an unused exception.

use std::process::Command;

use toml::{Table, Value};
use xtask::repository::Repository;

const CONFIG: &str = "deny.toml";

/// Runs the script of the gate with the exceptions of `deny.toml` reduced to `ignore`.
fn run(ignore: &[Value]) -> (bool, String) {
    let repository = Repository::open().expect("a checkout");
    let mut config: Table = repository.read(CONFIG).expect(CONFIG).parse().expect("TOML");
    config["advisories"]["ignore"] = ignore.to_vec().into();
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    std::fs::write(file.path(), config.to_string()).expect("a temporary file");
    let output = Command::new(repository.path(".ci/advisories")).arg(file.path()).output();
    let output = output.expect(".ci/advisories starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn g09_every_advisory_without_an_exception_fails() {
    let repository = Repository::open().unwrap();
    let config: Table = repository.read(CONFIG).unwrap().parse().unwrap();
    let exceptions = config["advisories"]["ignore"].as_array().unwrap();
    let (passed, text) = run(exceptions);
    assert!(passed && text.contains("advisory database of "), "{text}");

    let (passed, text) = run(&[]);
    assert!(!passed, "{text}");
    for exception in exceptions {
        let id = exception["id"].as_str().unwrap();
        assert!(text.contains(id), "{id} is not reported: {text}");
    }

    // An exception that nothing needs fails as well, so that none outlives its reason.
    let unused: Table = "id = \"RUSTSEC-2016-0001\"\nreason = \"x\"".parse().unwrap();
    let (passed, text) = run(&[exceptions.as_slice(), &[unused.into()]].concat());
    assert!(!passed && text.contains("RUSTSEC-2016-0001"), "{text}");
}
