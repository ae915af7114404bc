//! Ports for members that are started on this machine: returns as many free ports as asked for.
//! They lie below the kernel's ephemeral range, because each outgoing connection takes one of that, and a
//! member that is to listen on such a port, or on the same port again after a restart, may find it taken.
//! No port is returned twice by one process.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below are the ports of well-known services.
const FIRST: u32 = 10_000;
/// Linux's default start of the ephemeral range.
const KERNELS_FIRST: u32 = 32_768;

static TRIED: AtomicU32 = AtomicU32::new(0);

pub fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    (0..count).map(|_| free_port()).collect()
}

pub fn free_port() -> io::Result<u16> {
    Ok(listen()?.local_addr()?.port())
}

/// Listens on such a port. Where the search begins depends on the process, so that two on one machine rarely look at
/// the same ports.
pub fn listen() -> io::Result<TcpListener> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let Some(width) = kernels_first(&range).checked_sub(FIRST).filter(|width| *width > 0) else {
        // The ephemeral range begins too low to stay below it.
        return TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    };
    let begin = std::process::id().wrapping_mul(997);
    let candidates = (0..width).map(|_| {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        FIRST + begin.wrapping_add(tried) % width
    });
    candidates
        .filter_map(|port| u16::try_from(port).ok())
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "no port is free"))
}

fn kernels_first(range: &str) -> u32 {
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(KERNELS_FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_are_named_once_and_are_not_the_kernels() {
        let ports = free_ports(100).unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 100);
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let end = kernels_first(&range);
        assert!(end <= FIRST || ports.iter().all(|port| (FIRST..end).contains(&u32::from(*port))));
    }

    #[test]
    fn an_unknown_ephemeral_range_is_linuxs() {
        assert_eq!(kernels_first("40000\t60999\n"), 40_000);
        assert_eq!(kernels_first(""), KERNELS_FIRST);
    }
}
