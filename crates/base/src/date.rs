//! Moments as RFC 3339 writes them, in UTC with milliseconds: `2025-01-22T10:30:00.000Z`. They are read back with or
//! without the milliseconds; other places than UTC are not.

/// Milliseconds since 1970 go in.
pub fn rfc3339(ms: u64) -> String {
    let (seconds, milli) = (ms / 1_000, ms % 1_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// The date of a day counted from 1970, in the Gregorian calendar. The year is counted from March, so that the day
/// that comes every four years is its last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year_of_era, if month < 10 { month + 3 } else { month - 9 });
    (year + u64::from(month <= 2), month, day)
}

/// What was written above, and shorter fractions of a second.
pub fn parse(text: &str) -> Option<u64> {
    let (day, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [year, month, day] = numbers(day, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    let days = days_since_1970(year, month, day)?;
    let digits = (1..=3).contains(&fraction.len()).then_some(fraction.len())?;
    let milli = fraction.parse::<u64>().ok()? * 10_u64.pow(3 - digits as u32);
    let lawful =
        hour < 24 && minute < 60 && second < 60 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    lawful.then_some(seconds * 1_000 + milli)
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?;
    let parts: Option<Vec<u64>> = text.splitn(4, between).map(number).collect();
    parts?.try_into().ok()
}

/// The other way round than `civil`, which tells whether there is such a day.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let lawful = (1_970..=9_999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let (of_march, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let leap_days = of_march / 4 - of_march / 100 + of_march / 400;
    let days = (of_march * 365 + leap_days + (153 * month + 2) / 5 + day).checked_sub(719_469)?;
    (lawful && civil(days).2 == day).then_some(days)
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
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_moment_can_be_written() {
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }
}
