//! What a dry run says of each key: a line each, or a JSON object with `-w json`.

use super::{Error, print};
use crate::client::Format;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// What would become of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFate {
    Restore,
    Replace,
    Keep,
    Refuse,
}

impl KeyFate {
    fn verb(self) -> &'static str {
        match self {
            KeyFate::Restore => "restore",
            KeyFate::Replace => "replace",
            KeyFate::Keep => "keep",
            KeyFate::Refuse => "refuse",
        }
    }
}

/// Where a key lies.
#[derive(Clone, Copy, Debug)]
pub struct KeyName<'a> {
    /// None in the coordination store.
    pub namespace: Option<&'a str>,
    pub key: &'a [u8],
}

pub fn tell(format: Format, fate: KeyFate, name: KeyName<'_>) -> Result<(), Error> {
    let line = if format == Format::Json { json_line(fate, name) } else { plain_line(fate, name) };
    print(line.as_bytes())
}

fn plain_line(fate: KeyFate, KeyName { namespace, key }: KeyName<'_>) -> String {
    let namespace = namespace.map(|namespace| format!("{namespace} ")).unwrap_or_default();
    format!("{} {namespace}{}\n", fate.verb(), String::from_utf8_lossy(key).escape_debug())
}

fn json_line(fate: KeyFate, KeyName { namespace, key }: KeyName<'_>) -> String {
    let mut line = json!({ "outcome": fate.verb() });
    if let Some(namespace) = namespace {
        line["namespace"] = Value::from(namespace);
    }
    match std::str::from_utf8(key) {
        Ok(text) => line["key"] = Value::from(text),
        Err(_) => line["key_base64"] = Value::from(STANDARD.encode(key)),
    }
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_on_one_line_whatever_it_is_made_of() {
        let of_data = KeyName { namespace: Some("shop"), key: b"order/1" };
        assert_eq!(plain_line(KeyFate::Restore, of_data), "restore shop order/1\n");
        let of_coord = KeyName { namespace: None, key: b"two\nlines" };
        assert_eq!(plain_line(KeyFate::Keep, of_coord), "keep two\\nlines\n");
        let parsed = |line: String| serde_json::from_str::<Value>(&line).unwrap();
        let told = parsed(json_line(KeyFate::Replace, of_data));
        assert_eq!(told, json!({ "outcome": "replace", "namespace": "shop", "key": "order/1" }));
        let bytes = KeyName { namespace: None, key: &[255, 0] };
        assert_eq!(
            parsed(json_line(KeyFate::Refuse, bytes)),
            json!({ "outcome": "refuse", "key_base64": "/wA=" })
        );
    }
}
