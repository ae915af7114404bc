//! The file that `consul kv export` writes: a list of `{"key", "flags", "value"}` with values in base64. Folders, which are keys without
//! values that end with a slash, come over as keys with empty values.

use super::row::{Row, RowValue};
use crate::client::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct ConsulKey {
    key: String,
    #[serde(default)]
    value: Option<String>,
}

/// All rows.
pub fn read_export(path: &Path) -> Result<Vec<Row>, Error> {
    let file = path.display().to_string();
    let text = std::fs::read(path).map_err(|reason| Error::File { file: file.clone(), reason })?;
    parse(&text).map_err(|what| Error::Incomplete(format!("{file}: {what}")))
}

fn parse(text: &[u8]) -> Result<Vec<Row>, String> {
    let keys: Vec<ConsulKey> = serde_json::from_slice(text)
        .map_err(|error| format!("this is no list of keys as `consul kv export` writes it: {error}"))?;
    let row = |ConsulKey { key, value }: ConsulKey| {
        let value = STANDARD.decode(value.unwrap_or_default());
        let value = value.map_err(|_| format!("the value of {key} is no base64"))?;
        Ok(Row { key: key.into_bytes(), value: RowValue::of_bytes(value), ..Row::default() })
    };
    keys.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_is_read_and_other_files_are_refused() {
        let text = br#"[{"key": "app/", "flags": 0, "value": ""}, {"key": "app/port", "flags": 7, "value": "ODA4MA=="},
            {"key": "none", "flags": 0, "value": null}]"#;
        let row = |key: &str, value: &str| Row::of_bytes(key.into(), value.into());
        assert_eq!(parse(text), Ok(vec![row("app/", ""), row("app/port", "8080"), row("none", "")]));
        for bad in [&b"{}"[..], b"", br#"[{"key": "a", "value": "?"}]"#, br#"[{"value": ""}]"#] {
            assert!(parse(bad).is_err());
        }
    }
}
