//! Faults of logins and of HTTP authentication.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::*;

const LOGINS: &str = "home/.local/share/atlatl/logins";
const SERVER: &str = "https://mcp.example.com/mcp";

/// An expired login that cannot be refreshed.
fn logged_in() -> Program {
    let login = json!({
        "server": SERVER, "issuer": "https://example.com", "resource": SERVER,
        "token_endpoint": "https://example.com/token", "client_id": "c", "secret_in": "body",
        "scopes": [], "access_token": "secret-token", "expires_in": 60, "received_at": 1_700_000_000
    });
    let program = machine().file(&format!("{LOGINS}/a.json"), login.to_string());
    fs::set_permissions(program.path(LOGINS), Permissions::from_mode(0o700)).unwrap();
    let file = program.path(LOGINS).join("a.json");
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    program
}

#[test]
fn a_login_that_has_ended_is_a_warning_and_a_fault_where_a_client_needs_it() {
    let program = logged_in();
    let run = doctor(&program, &[]);
    assert_eq!(warning(&run, "login", SERVER), format!("atlatl login {SERVER}"));
    assert!(!run.stdout.contains("secret-token"), "{run}");
    let entry =
        json!({"command": atlatl(), "args": ["proxy", "--tools", "separate", "--url", SERVER]});
    let program = program.file("home/.claude.json", config("s", &entry));
    fault(&doctor(&program, &[]), "login", SERVER);
    fs::remove_file(program.path(LOGINS).join("a.json")).unwrap();
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_login_that_others_may_read_is_a_fault() {
    let program = logged_in();
    let file = program.path(LOGINS).join("a.json");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let fix = fault(&doctor(&program, &[]), "login-file", "logins/a.json");
    assert_eq!(fix, format!("chmod 600 [DIR]/{LOGINS}/a.json"));
    follow(&program, &fix);
    warning(&doctor(&program, &[]), "login", SERVER);
    fs::write(&file, "{}").unwrap();
    let fix = fault(&doctor(&program, &[]), "login-file", "logins/a.json");
    assert!(fix.starts_with(&format!("rm [DIR]/{LOGINS}/a.json")), "{fix}");
}

#[test]
fn tokens_that_are_not_there_or_open_to_others_are_a_fault_and_can_be_made() {
    let program = machine();
    let set = format!("server.auth=token-file:{}", program.path("tokens").display());
    let fix = fault(&doctor(&program, &["--set", &set]), "server-auth", "[DIR]/tokens");
    follow(&program, &fix);
    is_well(&doctor(&program, &["--set", &set]));
    fs::set_permissions(program.path("tokens"), Permissions::from_mode(0o644)).unwrap();
    let fix = fault(&doctor(&program, &["--set", &set]), "server-auth", "[DIR]/tokens");
    assert_eq!(fix, "chmod 600 [DIR]/tokens");
    follow(&program, &fix);
    is_well(&doctor(&program, &["--set", &set]));
    fs::write(program.path("tokens"), "# none yet\n").unwrap();
    fault(&doctor(&program, &["--set", &set]), "server-auth", "[DIR]/tokens");
    // The value may be a token in the wrong setting.
    let run = doctor(&program, &["--set", "server.auth=hunter2-hunter2"]);
    fault(&run, "server-auth", "server.auth");
    assert!(!run.stdout.contains("hunter2"), "{run}");
}

#[test]
fn an_address_that_anyone_reaches_and_asks_is_a_fault() {
    let file = "home/.config/atlatl/config.toml";
    let program = machine().file(file, "[server]\nlisten = \"0.0.0.0:7171\"\n");
    let run = doctor(&program, &[]);
    let fix = fault(&run, "server-listen", "server.listen");
    assert_eq!(fix, format!("in [DIR]/{file}, line 2, write listen = \"127.0.0.1:7171\""));
    fs::write(program.path(file), "[server]\nlisten = \"127.0.0.1:7171\"\n").unwrap();
    is_well(&doctor(&program, &[]));
}

#[test]
fn g02_a_socket_that_others_could_replace_or_a_token_that_others_read_is_a_fault() {
    let program = machine();
    let socket = format!("server.listen=unix:{}", program.path("run/s").display());
    let set = ["--set", &socket];
    let fix = fault(&doctor(&program, &set), "server-listen", "server.listen");
    assert_eq!(fix, "mkdir -p -m 700 [DIR]/run");
    follow(&program, &fix);
    is_well(&doctor(&program, &set));
    fs::set_permissions(program.path("run"), Permissions::from_mode(0o777)).unwrap();
    let fix = fault(&doctor(&program, &set), "server-listen", "server.listen");
    assert_eq!(fix, "chmod go-w [DIR]/run");
    follow(&program, &fix);
    is_well(&doctor(&program, &set));

    let token = "home/.local/state/atlatl/token";
    let program = program.file(token, "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya\n");
    fs::set_permissions(program.path(token), Permissions::from_mode(0o644)).unwrap();
    let set = ["--set", "server.listen=127.0.0.1:7171"];
    let run = doctor(&program, &set);
    let fix = fault(&run, "server-auth", &format!("[DIR]/{token}"));
    assert!(!run.stdout.contains("q7Zt"), "{run}");
    assert_eq!(fix, format!("chmod 600 [DIR]/{token}"));
    follow(&program, &fix);
    is_well(&doctor(&program, &set));
}
