//! The calendar, in UTC: seconds since 1970 as a date and a time of day, and back. Moments are written as RFC 3339 has
//! them, with milliseconds: `2025-01-22T10:30:00.000Z`. They are read back with or without the milliseconds; other
//! time zones than UTC are not.

use std::fmt;

/// A second of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

impl UtcTime {
    /// Seconds since 1970 go in. Years are counted from March, so that a leap day is the last day of its year.
    pub fn of(seconds: u64) -> UtcTime {
        let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        UtcTime {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// Seconds since 1970; none before, after the year 9999, and for what is in no calendar.
    pub fn seconds(self) -> Option<u64> {
        let UtcTime { year, month, day, hour, minute, second } = self;
        let is_date = (1_970..=9_999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_date || hour >= 24 || minute >= 60 || second >= 60 {
            return None;
        }
        let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let leap_days = year / 4 - year / 100 + year / 400;
        let days = (year * 365 + leap_days + (153 * from_march + 2) / 5 + day).checked_sub(719_469)?;
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        // The 30th of February is a day of March.
        (UtcTime::of(seconds) == self).then_some(seconds)
    }
}

/// Without a fraction and without the zone: `2025-01-22T10:30:00`.
impl fmt::Display for UtcTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UtcTime { year, month, day, hour, minute, second } = self;
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

/// Milliseconds since 1970 go in.
pub fn rfc3339(ms: u64) -> String {
    format!("{}.{:03}Z", UtcTime::of(ms / 1_000), ms % 1_000)
}

/// What was written above, and shorter fractions of a second.
pub fn parse(text: &str) -> Option<u64> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    let digits = (1..=3).contains(&fraction.len()).then_some(fraction.len())?;
    let fraction = number(fraction)?;
    let seconds = UtcTime { year, month, day, hour, minute, second }.seconds()?;
    Some(seconds * 1_000 + fraction * 10_u64.pow(3 - digits as u32))
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let parts: Option<Vec<u64>> = text.splitn(4, between).map(number).collect();
    parts?.try_into().ok()
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_people_read_them() {
        let table = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_737_541_800_045, "2025-01-22T10:30:00.045Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (ms, text) in table {
            assert_eq!(rfc3339(ms), text);
            assert_eq!(parse(text), Some(ms));
        }
        assert_eq!(parse("2025-01-22T10:30:00Z"), Some(1_737_541_800_000));
        assert_eq!(parse("2025-01-22T10:30:00.5Z"), Some(1_737_541_800_500));
        for day in 0..40_000 {
            assert_eq!(parse(&rfc3339(day * 86_400_000)), Some(day * 86_400_000));
        }
    }

    #[test]
    fn what_is_no_moment_is_not_read() {
        for text in [
            "",
            "2025-01-22",
            "2025-02-30T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-01-22T24:00:00Z",
            "2025-01-22T10:30:00",
            "2025-01-22T10:30:00.Z",
            "2025-01-22T10:30:00.1234Z",
            "2025-01-22T10:30:00+01:00",
            "1969-12-31T23:59:59Z",
            "+2025-01-22T10:30:00Z",
            "99999999999999999999-01-01T00:00:00Z",
            "2025-01-22T9999999999999999999:30:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_moment_can_be_written() {
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }
}
