//! The user of the other end of a TCP connection on this machine.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::{fs, io};

use crate::listen::user_id;

/// The kernel's list of connections cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot read which users have connections")]
struct TableError {
    path: &'static str,
    #[source]
    source: io::Error,
}

/// Whether the user of each connection to `address` can be found: on Linux. Fails there if the kernel's
/// list of connections cannot be read.
pub fn knows_peer_users(address: SocketAddr) -> io::Result<bool> {
    if !cfg!(target_os = "linux") {
        return Ok(false);
    }
    read(table(address))?;
    Ok(true)
}

/// Whether the process that connected from `peer` to `local` runs as the user of this process. True on
/// systems that do not show the users of connections. Blocks: the list may be long.
pub(crate) fn is_of_this_user(local: SocketAddr, peer: SocketAddr) -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let user = find_user(|| read(table(peer)), peer, local);
    user.is_ok_and(|user| user == Some(user_id()))
}

fn table(address: SocketAddr) -> &'static str {
    if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" }
}

fn read(path: &'static str) -> io::Result<String> {
    fs::read_to_string(path)
        .map_err(|source| io::Error::new(source.kind(), TableError { path, source }))
}

/// The user of the connection from `from` to `to`. Reads the list twice if necessary: it is not read at
/// once, and an entry can move meanwhile.
fn find_user(
    mut read: impl FnMut() -> io::Result<String>,
    from: SocketAddr,
    to: SocketAddr,
) -> io::Result<Option<u32>> {
    match user_of(&read()?, from, to) {
        None => Ok(user_of(&read()?, from, to)),
        user => Ok(user),
    }
}

/// The user of the connection from `from` to `to`, in the kernel's list of connections.
fn user_of(connections: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (kernel_form(from), kernel_form(to));
    connections.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let ends = (fields.next()?, fields.next()?);
        // State, queues, timer and retransmissions come before the user.
        let user = fields.nth(4)?;
        (ends == (&*from, &*to)).then(|| user.parse().ok()).flatten()
    })
}

/// An address and port as the kernel prints them: words in the byte order of the machine.
fn kernel_form(address: SocketAddr) -> String {
    let words: Vec<u32> = match address.ip() {
        IpAddr::V4(ip) => vec![u32::from_ne_bytes(ip.octets())],
        IpAddr::V6(ip) => ip
            .octets()
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect(),
    };
    let ip = words.iter().fold(String::new(), |mut text, word| {
        let _ = write!(text, "{word:08X}");
        text
    });
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_this_process_is_of_this_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Some machines have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let local = accepted.local_addr().unwrap();
            assert_eq!(knows_peer_users(local).unwrap(), cfg!(target_os = "linux"));
            assert!(is_of_this_user(local, peer));
            drop(client);
            // No process is connected from that port.
            assert!(!is_of_this_user(local, listener.local_addr().unwrap()));
        }
    }

    #[cfg(target_endian = "little")]
    const LIST: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
         0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 1\n\
         1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2\n";

    #[cfg(target_endian = "little")]
    #[test]
    fn the_list_is_read_again_for_a_missing_entry_and_not_for_a_third_time() {
        let (server, client) = ("127.0.0.1:8080", "127.0.0.1:54321");
        let (server, client) = (server.parse().unwrap(), client.parse().unwrap());
        for (lists, user, reads) in
            [(["", LIST], Some(1000), 2), ([LIST, ""], Some(1000), 1), (["", ""], None, 2)]
        {
            let mut rest = lists.iter();
            let mut count = 0;
            let read = || {
                count += 1;
                Ok((*rest.next().expect("two reads at most")).to_owned())
            };
            assert_eq!(find_user(read, client, server).unwrap(), user);
            assert_eq!(count, reads);
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error_with_its_path() {
        let error = read("/no/such/list").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("/no/such/list"), "{error}");
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        assert!(find_user(|| read("/no/such/list"), address, address).is_err());
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_user_is_found_in_the_list_of_the_kernel() {
        let (server, client) = ("127.0.0.1:8080", "127.0.0.1:54321");
        let user = |from: &str, to: &str| user_of(LIST, from.parse().unwrap(), to.parse().unwrap());
        assert_eq!(user(client, server), Some(1000));
        assert_eq!(user(server, client), Some(0));
        assert_eq!(user(client, "127.0.0.1:8081"), None);
    }
}
