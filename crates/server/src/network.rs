//! What of a client's address counts where clients have shares or turns: an address goes in, its network comes out.

use std::net::{IpAddr, Ipv6Addr};

/// The network of an address, all of which one client can own: of IPv6 the first 64 bits.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}
