//! One key with its value, wherever it comes from, and the checksum of many: the same rows have the same one in any order and format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Context, SHA256};
use serde_json::Value;
use std::fmt;

/// The type of bytes that have no other.
const ANY_BYTES: &str = "application/octet-stream";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub key: Vec<u8>,
    pub value: RowValue,
    /// The type in the data plane, as `orset`; empty for that of the namespace, and for keys of coordination.
    pub kind: String,
    /// How long it lives, in seconds.
    pub ttl: Option<u64>,
    /// The lease in the coordination store; then `ttl` is what was granted.
    pub lease: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowValue {
    Text(String),
    /// Anything but a text in quotes, digit for digit.
    Json(String),
    Bytes {
        data: Vec<u8>,
        content_type: String,
    },
}

impl Default for RowValue {
    fn default() -> RowValue {
        RowValue::Text(String::new())
    }
}

impl RowValue {
    /// Bytes are text if they can be.
    pub fn of_bytes(bytes: Vec<u8>) -> RowValue {
        match String::from_utf8(bytes) {
            Ok(text) => RowValue::Text(text),
            Err(error) => RowValue::of_blob(error.into_bytes(), ""),
        }
    }

    pub fn of_blob(data: Vec<u8>, content_type: &str) -> RowValue {
        let content_type = if content_type.is_empty() { ANY_BYTES } else { content_type };
        RowValue::Bytes { data, content_type: content_type.to_owned() }
    }

    /// None if it is no JSON.
    pub fn of_json(text: &str) -> Option<RowValue> {
        let parsed: &serde_json::value::RawValue = serde_json::from_str(text).ok()?;
        let text = parsed.get();
        if text.starts_with('"') {
            return serde_json::from_str(text).ok().map(RowValue::Text);
        }
        Some(RowValue::Json(text.to_owned()))
    }

    /// From base64. None if it is none.
    pub fn of_base64(text: &str, content_type: &str) -> Option<RowValue> {
        let data = STANDARD.decode(text).ok()?;
        if !content_type.is_empty() {
            return Some(RowValue::of_blob(data, content_type));
        }
        Some(RowValue::of_bytes(data))
    }

    /// As coordination keeps it.
    pub fn bytes(&self) -> &[u8] {
        match self {
            RowValue::Text(text) | RowValue::Json(text) => text.as_bytes(),
            RowValue::Bytes { data, .. } => data,
        }
    }

    /// The texts of an array of texts.
    pub fn elements(&self) -> Option<Vec<String>> {
        let RowValue::Json(text) = self else { return None };
        serde_json::from_str(text).ok()
    }
}

impl Row {
    pub fn of_bytes(key: Vec<u8>, value: Vec<u8>) -> Row {
        Row { key, value: RowValue::of_bytes(value), ..Row::default() }
    }

    /// How much of a transfer it is.
    pub fn size(&self) -> usize {
        self.key.len() + self.value.bytes().len()
    }

    /// The key as it is printed.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    fn digest(&self) -> u128 {
        let tag = match &self.value {
            RowValue::Text(_) => "text",
            RowValue::Json(_) => "json",
            RowValue::Bytes { content_type, .. } => content_type,
        };
        let mut context = Context::new(&SHA256);
        for part in [&self.key[..], self.kind.as_bytes(), tag.as_bytes(), self.value.bytes()] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let digest = context.finish();
        u128::from_be_bytes(digest.as_ref()[..16].try_into().expect("the digest has 32 bytes"))
    }
}

/// The checksum of many rows: how long they live is not part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowChecksum(u128);

impl RowChecksum {
    pub fn add(&mut self, row: &Row) {
        self.0 = self.0.wrapping_add(row.digest());
    }

    pub fn parse(text: &str) -> Option<RowChecksum> {
        u128::from_str_radix(text, 16).ok().map(RowChecksum)
    }
}

impl fmt::Display for RowChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A list of what a store of another kind keeps under one key.
pub fn json_of(value: &Value) -> RowValue {
    RowValue::Json(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, value: &str) -> Row {
        Row::of_bytes(key.into(), value.into())
    }

    fn sum(rows: &[Row]) -> RowChecksum {
        let mut sum = RowChecksum::default();
        rows.iter().for_each(|row| sum.add(row));
        sum
    }

    #[test]
    fn the_checksum_knows_rows_and_not_their_order() {
        let (a, b) = (row("a", "1"), row("b", "2"));
        assert_eq!(sum(&[a.clone(), b.clone()]), sum(&[b.clone(), a.clone()]));
        for other in [row("a", "2"), row("b", "1"), row("a1", ""), row("", "a1")] {
            assert_ne!(sum(&[a.clone(), b.clone()]), sum(&[other, b.clone()]));
        }
        let json = Row { value: RowValue::Json("1".into()), ..a.clone() };
        assert_ne!(sum(std::slice::from_ref(&a)), sum(&[json]), "a number is no text");
        let sum = sum(&[a]);
        assert_eq!(RowChecksum::parse(&sum.to_string()), Some(sum));
    }

    #[test]
    fn json_keeps_its_digits_and_texts_lose_their_quotes() {
        assert_eq!(RowValue::of_json(" 1.50 "), Some(RowValue::Json("1.50".into())));
        assert_eq!(RowValue::of_json(r#""a\u00e9""#), Some(RowValue::Text("aé".into())));
        assert_eq!(RowValue::of_json("{"), None);
        assert_eq!(RowValue::of_bytes(vec![255]), RowValue::of_blob(vec![255], ""));
    }
}
