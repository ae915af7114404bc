//! Moments as people read them.

const MILLIS_PER_DAY: i64 = 86_400_000;

/// In UTC, to the second: the store does not know better.
pub fn utc(millis: i64) -> String {
    if millis == 0 {
        return "time unknown".to_owned();
    }
    let (day, in_day) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY) / 1_000);
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (in_day / 3_600, in_day / 60 % 60, in_day % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date of a day that is counted from 1970, by Hinnant's algorithm: years begin in March, so that the leap day is
/// the last.
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * of_year + 2) / 153;
    let date = of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        assert_eq!(utc(0), "time unknown");
        assert_eq!(utc(1), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(utc(4_102_444_799_000), "2099-12-31T23:59:59Z");
    }
}
