//! A value as a script holds it: bytes that are shared however often it is copied.

use bytes::Bytes;
use rhai::ImmutableString;

#[derive(Clone, Debug)]
pub struct ScriptValue {
    pub bytes: Bytes,
    /// Both values that are merged are text: then so is what is made of them.
    pub is_text: bool,
}

impl ScriptValue {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// None for bytes that are no text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok().filter(|_| self.is_text)
    }

    pub fn of_text(text: &str) -> ScriptValue {
        ScriptValue { bytes: Bytes::copy_from_slice(text.as_bytes()), is_text: true }
    }
}

impl From<ImmutableString> for ScriptValue {
    fn from(text: ImmutableString) -> ScriptValue {
        ScriptValue::of_text(&text)
    }
}
