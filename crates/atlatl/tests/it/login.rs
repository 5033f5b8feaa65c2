//! `atlatl login`, `whoami` and `logout`, against a real authority.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use testkit::authority::{Authority, AuthorityFault, visit};

use crate::program::{Program, Run, terminal};

/// A home whose `xdg-open` only writes down what it was given.
pub(crate) fn program() -> Program {
    let program = Program::new();
    let opened = program.path("opened");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" > {0}.part\nmv {0}.part {0}\n",
        opened.display()
    );
    let program = program.file("bin/xdg-open", script);
    let opener = program.path("bin/xdg-open");
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", program.path("bin").display());
    program.variable("PATH", &path)
}

/// Logs in with a person who opens the page that is printed.
pub(crate) fn log_in(program: &Program, args: &[&str]) -> Run {
    let mut child = program
        .command(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut stderr = String::new();
    loop {
        let mut line = String::new();
        if errors.read_line(&mut line).unwrap() == 0 {
            break;
        }
        if let Some((_, url)) = line.split_once("open this URL and log in: ") {
            visit(url.trim()).unwrap();
        }
        stderr.push_str(&line);
    }
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    Run { status: child.wait().unwrap().code().unwrap(), stdout, stderr }
}

fn assert_no_secret(authority: &Authority, runs: &[&Run]) {
    let secrets = authority.ledger().secrets();
    assert!(!secrets.is_empty());
    for run in runs {
        for secret in &secrets {
            assert!(!run.to_string().contains(secret), "{run}");
        }
    }
}

#[test]
fn a_login_is_made_shown_and_ended_without_a_secret_in_any_output() {
    let authority = Authority::with(&[AuthorityFault::ClientSecrets]);
    let program = program();
    let mcp = authority.mcp();
    let made = log_in(&program, &["login", &mcp, "--json"]);
    assert_eq!(made.status, 0, "{made}");
    let login = made.json();
    assert_eq!(
        (login["server"].as_str(), login["issuer"].as_str()),
        (Some(&*mcp), Some(&*authority.url("")))
    );
    assert!(
        login["scopes"] == serde_json::json!(["echo"]) && login["refreshable"] == true,
        "{made}"
    );
    // Without a terminal no browser is opened.
    assert!(!program.path("opened").exists());
    let folder = program.path("home/.local/share/atlatl/logins");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let who = program.run(&["whoami", "--json"]);
    assert!(who.status == 0 && who.json()[0]["server"] == *mcp, "{who}");
    let table = program.run(&["whoami"]);
    assert!(table.stdout.contains("until you log out"), "{table}");
    assert_no_secret(&authority, &[&made, &who, &table]);
    let secrets = authority.ledger().secrets();
    let out = program.run(&["logout", &mcp, "--json"]);
    assert!(out.status == 0 && out.json()["removed"] == 1 && out.stderr.is_empty(), "{out}");
    assert!(secrets.iter().all(|secret| !out.to_string().contains(secret)));
    assert_eq!((authority.counts().revocations, authority.counts().violations), (1, 0));
    assert_eq!(program.run(&["whoami", "--json"]).json(), serde_json::json!([]));
    let again = program.run(&["logout", &mcp]);
    assert!(again.status == 1 && again.stderr.contains("hint: atlatl whoami"), "{again}");
}

#[test]
fn a_browser_is_opened_on_a_terminal_with_one_argument() {
    let authority = Authority::start();
    let program = program();
    let (_person, terminal) = terminal();
    let mut child = program
        .command(&["login", &authority.mcp(), "--scope", "echo more"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(terminal))
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while !program.path("opened").exists() {
        assert!(Instant::now() < end, "no browser was opened");
        thread::sleep(Duration::from_millis(5));
    }
    let opened = fs::read_to_string(program.path("opened")).unwrap();
    let (count, url) = opened.split_once('\n').unwrap();
    assert!(count == "1" && url.contains("scope=echo+more"), "{opened}");
    visit(url.trim()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_authority_that_breaks_a_rule_is_reported_and_nothing_is_opened_or_kept() {
    let hostile = "http://as.example.com/$(touch was-here)".to_owned();
    for fault in [
        AuthorityFault::IssuerInCallback("https://evil.example/\u{1b}[2J".to_owned()),
        AuthorityFault::Metadata("authorization_endpoint", hostile),
    ] {
        let authority = Authority::with(&[fault]);
        let program = program();
        let run = log_in(&program, &["login", &authority.mcp()]);
        assert!(run.status == 1 && run.stderr.contains("error: refused: "), "{run}");
        assert!(!run.stderr.contains('\u{1b}'), "{run}");
        assert_eq!(program.run(&["whoami", "--json"]).json(), serde_json::json!([]));
        assert!(!program.path("work/was-here").exists() && !program.path("opened").exists());
    }
}

#[test]
fn what_cannot_be_a_server_is_refused() {
    let program = program();
    for typed in ["mcp.example.com", "file:///etc/passwd", "", "https://"] {
        let run = program.run(&["login", typed]);
        assert!(run.status == 2 && run.stderr.contains("expected the URL of a server"), "{run}");
    }
    for typed in ["http://mcp.example.com/mcp", "https://me:s3cret@mcp.example.com/mcp"] {
        let run = program.run(&["login", typed]);
        assert!(run.status == 1 && run.stderr.contains("refused: "), "{run}");
        assert!(!run.stderr.contains("s3cret"), "{run}");
    }
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = program().run(&["login", "https://mcp.example.com", "--port", &port]);
    assert!(
        run.status == 1 && run.stderr.contains("hint: use another --port, or omit it"),
        "{run}"
    );
}

#[test]
fn a_clients_secret_comes_from_a_private_file() {
    let program = program().file("work/secret", "s3cret\n");
    fs::set_permissions(program.path("work/secret"), fs::Permissions::from_mode(0o644)).unwrap();
    let args = ["login", "https://mcp.example.com", "--client-secret-file", "secret"];
    let run = program.run(&args);
    assert!(run.status == 2 && run.stderr.contains("--client-id"), "{run}");
    let run = program.run(&[&args[..], &["--client-id", "c"]].concat());
    assert!(run.status == 1 && run.stderr.contains("hint: chmod 600 secret"), "{run}");
    assert!(!run.stderr.contains("s3cret"), "{run}");
}

#[test]
fn a_folder_open_to_others_is_reported_with_the_command_that_fixes_it() {
    let program = program().file("home/.local/share/atlatl/logins/x", "");
    let folder = program.path("home/.local/share/atlatl/logins");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let run = program.run(&["whoami"]);
    assert!(run.status == 1, "{run}");
    assert!(run.stderr.contains("run `chmod 700 [DIR]/home/.local/share/atlatl/logins`"), "{run}");
}

#[test]
fn the_help_says_what_a_login_does() {
    for (command, says) in [
        ("login", "Print the URL and do not open a browser"),
        ("logout", "Log out of a remote MCP server"),
        ("whoami", "List the servers that you are logged in to"),
    ] {
        let run = Program::new().run(&[command, "--help"]);
        assert!(run.status == 0 && run.stdout.contains(says), "{run}");
    }
}
