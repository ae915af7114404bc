//! Moments as people read them.

use base::date::UtcTime;

/// In UTC, to the second: the store does not know better.
pub fn utc(millis: i64) -> String {
    match u64::try_from(millis) {
        Ok(0) | Err(_) => "time unknown".to_owned(),
        Ok(millis) => format!("{}Z", UtcTime::of(millis / 1_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        assert_eq!(utc(0), "time unknown");
        assert_eq!(utc(-1), "time unknown");
        assert_eq!(utc(1), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(utc(4_102_444_799_000), "2099-12-31T23:59:59Z");
    }
}
