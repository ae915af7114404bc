//! How long a gRPC client is willing to wait, in its own words: a number and a unit.

use std::time::Duration;
use tonic::Status;

pub const HEADER: &str = "grpc-timeout";
/// No number is longer.
const DIGITS_MAX: usize = 8;

/// What cannot be understood is not waited for: then the server's own patience counts.
pub fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match unit {
        b'H' => Some(Duration::from_secs(number * 3_600)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// The answer to a client whose time is up; most are not there any more to hear it.
pub fn expired() -> Status {
    Status::cancelled("Timeout expired")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_understood() {
        assert_eq!(parse(b"3H"), Some(Duration::from_secs(10_800)));
        assert_eq!(parse(b"2M"), Some(Duration::from_secs(120)));
        assert_eq!(parse(b"99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(parse(b"5m"), Some(Duration::from_millis(5)));
        assert_eq!(parse(b"4999u"), Some(Duration::from_micros(4_999)));
        assert_eq!(parse(b"0n"), Some(Duration::ZERO));
    }

    #[test]
    fn anything_else_is_no_timeout() {
        for value in [&b""[..], b"S", b"5", b"5s", b"-5S", b"+5S", b"123456789S", b"5.5S", b" 5S"] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }
}
