//! A value as a script holds it: bytes that are shared however often it is copied.

use bytes::Bytes;
use rhai::ImmutableString;

#[derive(Clone, Debug)]
pub struct Value {
    pub bytes: Bytes,
    /// Both values that are merged are text: then so is what is made of them.
    pub is_text: bool,
}

impl Value {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// None for bytes that are no text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok().filter(|_| self.is_text)
    }

    pub fn of_text(text: &str) -> Value {
        Value { bytes: Bytes::copy_from_slice(text.as_bytes()), is_text: true }
    }
}

impl From<ImmutableString> for Value {
    fn from(text: ImmutableString) -> Value {
        Value::of_text(&text)
    }
}
