//! Many processes share one login.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use atlatl_login::Logins;
use testkit::authority::{Authority, AuthorityFault};

use crate::person::{Person, call};

const FOLDER: &str = "ATLATL_TEST_FOLDER";
const SERVER: &str = "ATLATL_TEST_SERVER";
const READY: &str = "ATLATL_TEST_READY";

/// One process of the tests below, when it is started by them: waits for the sign, asks for a
/// token, and leaves what it got in a file of the test.
#[tokio::test]
async fn one_of_many() {
    let (Ok(folder), Ok(server), Ok(ready)) = (env::var(FOLDER), env::var(SERVER), env::var(READY))
    else {
        return;
    };
    fs::write(&ready, "").unwrap();
    let go = Path::new(&ready).with_file_name("go");
    until(|| go.exists());
    let login = Logins::at(folder).for_server(&server.parse().unwrap());
    let bearer = login.bearer().await.unwrap().unwrap();
    fs::write(Path::new(&ready).with_extension("token"), bearer.header()).unwrap();
}

fn start(person: &Person, authority: &Authority, ready: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "processes::one_of_many"])
        .env(FOLDER, person.folder())
        .env(SERVER, authority.mcp())
        .env(READY, ready)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn until(mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < end, "it did not happen");
        thread::sleep(Duration::from_millis(2));
    }
}

#[tokio::test]
async fn f40_sixteen_processes_refresh_once() {
    let authority = Authority::with(&[AuthorityFault::SlowRefresh(Duration::from_millis(400))]);
    let person = Person::at(&authority).await;
    person.age(3600);
    let signs = tempfile::tempdir().unwrap();
    let ready = |n: usize| signs.path().join(format!("{n}.ready"));
    let children: Vec<Child> = (0..16).map(|n| start(&person, &authority, &ready(n))).collect();
    until(|| (0..16).all(|n| ready(n).exists()));
    fs::write(signs.path().join("go"), "").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let counts = authority.counts();
    assert_eq!((counts.refreshes, counts.reuses, counts.violations), (1, 0, 0));
    let current = person.login(&authority).bearer().await.unwrap().unwrap();
    assert_eq!(call(&authority, Some(&current)).0, 200);
    for n in 0..16 {
        let token = fs::read_to_string(ready(n).with_extension("token")).unwrap();
        assert_eq!(token, current.header(), "process {n}");
    }
    assert_eq!(person.logins.list().unwrap().len(), 1);
    assert_eq!(fs::metadata(person.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn f40_a_process_killed_during_its_refresh_blocks_no_other() {
    let authority = Authority::with(&[AuthorityFault::SlowRefresh(Duration::from_mins(1))]);
    let person = Person::at(&authority).await;
    person.age(3600);
    let signs = tempfile::tempdir().unwrap();
    fs::write(signs.path().join("go"), "").unwrap();
    let mut child = start(&person, &authority, &signs.path().join("0.ready"));
    until(|| authority.counts().refreshes == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    authority.ledger().faults.clear();
    let begun = Instant::now();
    let bearer = person.login(&authority).bearer().await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(call(&authority, Some(&bearer)).0, 200);
}
