//! Script: the shell that has the server as its child.
//!
//! A static value is never dropped, and a test may be killed; but whatever ends a process closes its
//! pipes. So a shell reads one, and takes server and directory with it when it closes.

use std::path::Path;
use std::process::Command;

use super::NOBODY;

/// `$1` is the directory of the programs, `$2` the home, and what follows is how a server is run.
const SCRIPT: &str = r#"
programs=$1 home=$2
shift 2
# as_nobody COMMAND… runs it without root's rights, where there are any.
as_nobody() {
    if [ "$NOBODY" ]; then
        exec setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups "$@"
    fi
    exec "$@"
}
server=
start() {
    # One that was killed must be buried first: its number would look alive.
    [ -z "$server" ] || wait "$server"
    (as_nobody "$programs/postgres" -D "$home/data" -k "$home" "$@") >>"$home/log" 2>&1 &
    server=$!
}
(as_nobody "$programs/initdb" -D "$home/data" -U postgres -A trust --no-sync --locale=C \
    --encoding=UTF8) >"$home/log" 2>&1 &&
    printf 'local all postgres trust\nlocal all all scram-sha-256\n' >"$home/data/pg_hba.conf" &&
    start "$@"
while read -r _; do start "$@"; done
[ -z "$server" ] || { kill -INT "$server"; wait "$server"; } 2>/dev/null
rm -rf "$home"
"#;

/// The command; its input is the pipe.
pub(super) fn command(root: bool, programs: &Path, home: &Path, settings: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(programs).arg(home);
    for setting in ["listen_addresses=", "max_connections=60"].iter().chain(settings) {
        command.args(["-c", setting]);
    }
    command.env("NOBODY", if root { NOBODY.to_string() } else { String::new() });
    // Nothing that is set for a person's own server.
    for name in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGOPTIONS"] {
        command.env_remove(name);
    }
    command.current_dir("/");
    command
}
