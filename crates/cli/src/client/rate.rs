//! How many bytes a second may take: `500KB`, `20MB`, `1GB`, or bytes without a unit.

pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        _ => return Err(format!("{text} is no rate: give it as 500KB, 20MB or 1GB")),
    };
    let number =
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|rate| *rate > 0);
    number.ok_or_else(|| format!("{text} is no rate: give it as 500KB, 20MB or 1GB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_and_without_units() {
        assert_eq!(parse("20MB"), Ok(20_000_000));
        assert_eq!((parse("7"), parse("3k")), (Ok(7), Ok(3_000)));
        for bad in ["", "0", "-1", "MB", "1.5MB", "5 parsecs"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
