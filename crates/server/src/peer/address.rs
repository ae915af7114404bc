//! Where a stream may come from that proves nothing, in a cluster whose peers are open: from an address at which a member is
//! reached, or from the machine itself.

use crate::mutant::Mutant;
use base::mutant::planted;
use std::net::IpAddr;

/// `members` are the addresses of all of them, as they were last looked up. Of a connection from this machine it depends on
/// its way which address it bears, so `trusts_this_machine` lets all of its loopback addresses in.
pub fn is_of_a_member(remote: IpAddr, members: &[IpAddr], trusts_this_machine: bool) -> bool {
    let remote = remote.to_canonical();
    (trusts_this_machine && remote.is_loopback())
        || members.contains(&remote)
        || planted(Mutant::PeerAddressUnchecked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_addresses_of_members_and_this_machine_are_let_in() {
        let members = [ip("10.0.0.1"), ip("10.0.0.2"), ip("fd00::1")];
        for remote in ["10.0.0.1", "10.0.0.2", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(is_of_a_member(ip(remote), &members, false), "{remote}");
        }
        for remote in ["10.0.0.3", "fd00::2", "::ffff:10.0.0.3", "0.0.0.0", "::"] {
            assert!(!is_of_a_member(ip(remote), &members, true), "{remote}");
        }
        for remote in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            assert!(is_of_a_member(ip(remote), &members, true), "{remote}");
            assert!(!is_of_a_member(ip(remote), &members, false), "{remote}");
        }
        assert!(!is_of_a_member(ip("10.0.0.1"), &[], true));
    }

    #[test]
    fn a_planted_bug_is_found() {
        let test = only_addresses_of_members_and_this_machine_are_let_in;
        assert!(base::mutant::is_caught(Mutant::PeerAddressUnchecked, test));
    }
}
