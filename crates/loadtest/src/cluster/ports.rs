//! Ports: free ones on the loopback address, for parts that are killed and come back to them.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, ensure};

/// Below those that the kernel gives to outgoing connections: while a part is down, one of many clients
/// would get its port sooner or later, and the part could not come back.
const RANGE: std::ops::Range<u16> = 21_000..31_000;

/// So many different ports that nobody listens on.
pub(super) fn free(count: usize) -> Result<Vec<u16>> {
    let mut held = Vec::new();
    // Each is held until all are found.
    for port in RANGE {
        if held.len() == count {
            break;
        }
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    }
    ensure!(held.len() == count, "there are no {count} free ports between {RANGE:?}");
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_one_that_is_taken_is_left_out() {
        let first = free(3).unwrap();
        assert!(first.is_sorted_by(|a, b| a < b), "{first:?}");
        let Ok(_taken) = TcpListener::bind((Ipv4Addr::LOCALHOST, first[1])) else { return };
        assert!(!free(3).unwrap().contains(&first[1]));
    }
}
