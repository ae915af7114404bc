//! Whether text is JSON that every reader can take: well formed, numbers in range, surrogates in pairs, not nested too deep.
//! Values are kept as their text, and what a check of the form alone lets pass breaks the answers that they become part of.

use crate::Mutant;
use base::mutant::planted;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Lists within lists. Readers commonly take 128, and a value lies a few deep in an answer.
pub const DEPTH_MAX: usize = 100;

/// What is wrong with the text, if anything is.
pub fn check(text: &[u8]) -> Result<(), String> {
    if planted(Mutant::ValueUnchecked) {
        return Ok(());
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    Element { depth: DEPTH_MAX }
        .deserialize(&mut reader)
        .and_then(|()| reader.end())
        .map_err(|error| error.to_string())
}

/// Reads one element and keeps nothing of it.
#[derive(Clone, Copy)]
struct Element {
    depth: usize,
}

impl Element {
    fn within<E: Error>(self) -> Result<Element, E> {
        let depth = self.depth.checked_sub(1);
        depth
            .map(|depth| Element { depth })
            .ok_or_else(|| E::custom(format_args!("nested deeper than {DEPTH_MAX}")))
    }
}

impl<'de> DeserializeSeed<'de> for Element {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let within = self.within()?;
        while list.next_element_seed(within)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let within = self.within()?;
        while object.next_key_seed(within)?.is_some() {
            object.next_value_seed(within)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_reader_can_take_is_told_with_what_is_wrong() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let right =
            ["null", "1e308", "-0.5", r#""\ud83d\ude00""#, r#"{"a":[1,{}],"a":2}"#, &deep(DEPTH_MAX), " 7 "];
        right.iter().for_each(|text| assert_eq!(check(text.as_bytes()), Ok(()), "{text}"));
        let digits = "9".repeat(400);
        let wrong = [
            "1e400",
            "1e999",
            r#""\ud800""#,
            &digits,
            &deep(DEPTH_MAX + 1),
            &deep(200),
            "",
            "{",
            "1 2",
            "nul",
        ];
        for text in wrong {
            let what = check(text.as_bytes()).expect_err(text);
            assert!(!what.is_empty());
            let value = serde_json::from_str::<serde_json::Value>(text);
            assert!(value.is_err() || text.len() == 2 * (DEPTH_MAX + 1), "{text}");
        }
    }
}
