//! The bare relay: the least that carries lines both ways and keeps a large one.
//!
//! It reads a line, writes it to a new file, syncs that and passes the line on: what the proxy must
//! do as well, since a client may only be told of what is safe.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// The argument that makes the benchmark such a relay; the place to write into and the server's
/// command follow it.
pub(crate) const FLAG: &str = "--relay-into";
/// A greeting is not kept.
const LARGE: usize = 1 << 20;

pub(crate) fn run(directory: &Path, server: &[String]) -> io::Result<()> {
    let (program, arguments) = server.split_first().expect("a server");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().expect("piped");
    thread::spawn(move || {
        let mut client = io::stdin().lock();
        let mut line = Vec::new();
        while client.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if input.write_all(&line).is_err() {
                return;
            }
            line.clear();
        }
    });
    let mut output = BufReader::with_capacity(1 << 16, child.stdout.take().expect("piped"));
    let (mut client, mut line) = (io::stdout(), Vec::new());
    let mut kept = 0;
    while output.read_until(b'\n', &mut line)? > 0 {
        if line.len() >= LARGE {
            kept += 1;
            let mut file = File::create_new(directory.join(format!("bare-{kept}")))?;
            file.write_all(&line)?;
            file.sync_data()?;
        }
        client.write_all(&line)?;
        client.flush()?;
        line.clear();
    }
    child.wait().map(drop)
}
