//! Durations as Go writes them, in which etcd's tools take and print them: `300ms`, `1m30s`, `2.5s`.

use std::time::Duration;

/// Longest unit first where one begins like another.
const UNITS: [(&str, f64); 8] =
    [("ms", 1e6), ("µs", 1e3), ("μs", 1e3), ("us", 1e3), ("ns", 1.0), ("h", 3.6e12), ("m", 6e10), ("s", 1e9)];
/// A century; more is a slip of the pen.
const SECONDS_MAX: f64 = 3.2e9;

pub fn parse(text: &str) -> Result<Duration, String> {
    let refusal = || format!("\"{text}\" is not a duration, as 5s, 300ms or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refusal)?;
        let count: f64 = rest[..digits].parse().map_err(|_| refusal())?;
        rest = &rest[digits..];
        let (unit, size) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit)).ok_or_else(refusal)?;
        rest = &rest[unit.len()..];
        nanos += count * size;
    }
    if text.is_empty() || nanos / 1e9 > SECONDS_MAX {
        return Err(refusal());
    }
    Ok(Duration::from_nanos(nanos as u64))
}

pub fn render(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}µs", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{}ms", nanos as f64 / 1e6),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = (nanos % 60_000_000_000) as f64 / 1e9;
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        for (text, millis) in
            [("5s", 5_000), ("300ms", 300), ("1m30s", 90_000), ("1.5h", 5_400_000), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "5 s", "-1s", "1.2.3s", "9999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_print_as_in_go() {
        let table = [(0, "0s"), (17, "17ns"), (2_395_310, "2.39531ms"), (1_500_000_000, "1.5s")];
        for (nanos, text) in table {
            assert_eq!(render(Duration::from_nanos(nanos)), text);
        }
        assert_eq!(render(Duration::from_secs(3_661)), "1h1m1s");
    }
}
