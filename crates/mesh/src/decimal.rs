//! Exact decimals: a whole number of 10^-18, so that sums of money never round.
//! Text comes in and goes out; what does not fit exactly is refused, never rounded.

use std::fmt;

/// In units of 10^-18.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(pub i128);

const DIGITS: u32 = 18;
const ONE: i128 = 10i128.pow(DIGITS);

impl Decimal {
    pub const ONE: Decimal = Decimal(ONE);

    /// `-12.50`, `.5`, `7`: an optional sign, digits, at most eighteen of them behind the point.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let lawful = is_number(whole) && is_number(fraction) && !(whole.is_empty() && fraction.is_empty());
        if !lawful || fraction.len() > DIGITS as usize || whole.len() > 20 {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let padded = format!("{fraction:0<width$}", width = DIGITS as usize);
        let units = whole.checked_mul(ONE)?.checked_add(padded.parse().ok()?)?;
        Some(Decimal(if negative { -units } else { units }))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = (units / ONE as u128, units % ONE as u128);
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let fraction = format!("{fraction:0width$}", width = DIGITS as usize);
        write!(f, "{sign}{whole}.{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_does_not_fit_exactly_is_refused() {
        for text in
            ["", ".", "-", "1e3", "1.0000000000000000001", "999999999999999999999", "0x1", "1 ", "--1"]
        {
            assert_eq!(Decimal::parse(text), None, "{text:?}");
        }
        assert_eq!(Decimal::parse("0.1").map(|d| d.0 * 3), Decimal::parse("0.3").map(|d| d.0));
        assert_eq!(Decimal::parse("-12.50").unwrap().to_string(), "-12.5");
        assert_eq!(Decimal::parse(".5").unwrap().to_string(), "0.5");
    }

    proptest! {
        #[test]
        fn decimals_survive_a_round_trip(units in -(10i128.pow(38))..10i128.pow(38)) {
            let text = Decimal(units).to_string();
            prop_assert_eq!(Decimal::parse(&text), Some(Decimal(units)));
        }
    }
}
