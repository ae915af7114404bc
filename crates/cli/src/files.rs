//! The limit on open files (`RLIMIT_NOFILE`): it is raised to what the system allows at the start, and client connections
//! get what is left beyond a reserve for the log, the store, peers and listening sockets. So connections can never take
//! the last descriptor.

use api::{BEYOND_LIMIT_MAX, ConnectionLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that connections do not get, unless that is more than half of all.
const RESERVED: usize = 512;

/// Raises the limit to the hard one, and returns what it is now. Where it cannot be raised, it stays.
pub fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If the system refuses, the limit stays as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// The connections that fit below so many files, at most as many as were asked for.
pub fn connections_below(files: usize, asked: usize) -> usize {
    let reserved = RESERVED.min(files / 2);
    let free = files.saturating_sub(reserved).saturating_sub(BEYOND_LIMIT_MAX.min(files / 8));
    asked.min(free).max(1)
}

/// The limits on connections, with half of all from one address if nothing else was asked for.
pub fn limits(all: usize, per_address: usize) -> ConnectionLimits {
    let limits = ConnectionLimits::of(all);
    match per_address {
        0 => limits,
        asked => ConnectionLimits {
            per_address: asked.min(all),
            loopback: limits.loopback.max(asked.min(all)),
            ..limits
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(connections_below(1_048_576, 16_384), 16_384);
        assert_eq!(connections_below(4_096, 16_384), 4_096 - RESERVED - BEYOND_LIMIT_MAX);
        assert_eq!(connections_below(256, 16_384), 256 - 128 - 32);
        assert_eq!(connections_below(0, 16_384), 1);
    }

    #[test]
    fn an_address_has_half_unless_it_is_said_otherwise() {
        assert_eq!(limits(100, 0), ConnectionLimits { all: 100, per_address: 50, loopback: 88 });
        assert_eq!(limits(100, 7).per_address, 7);
        assert_eq!(limits(100, 1_000).per_address, 100);
    }
}
