//! Rows as lines of JSON: `{"key":"a","value":"b"}`, with `type`, `ttl`, `lease`, `content_type`, and `key_encoding` and `encoding` where
//! bytes are written in base64. A value may be any JSON; of a key of coordination it is a text.

use super::row::{Row, RowValue};
use crate::client::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

const RIGHT: &str =
    r#"a line is {"key": "a", "value": "b"}, with type, ttl, lease, encoding, key_encoding or content_type"#;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct JsonLine<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(borrow)]
    key_encoding: Option<Cow<'a, str>>,
    value: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(borrow)]
    encoding: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(borrow)]
    content_type: Option<Cow<'a, str>>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<i64>,
}

const BASE64: &str = "base64";

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// With its end of the line.
pub fn encode(row: &Row) -> Vec<u8> {
    let (key, key_encoding) = match std::str::from_utf8(&row.key) {
        Ok(key) => (Cow::Borrowed(key), None),
        Err(_) => (Cow::Owned(STANDARD.encode(&row.key)), Some(BASE64.into())),
    };
    let quoted = |text: &str| raw(serde_json::Value::from(text).to_string());
    let (value, encoding, content_type) = match &row.value {
        RowValue::Text(text) => (quoted(text), None, None),
        RowValue::Json(text) => (raw(text.replace(['\n', '\r'], " ")), None, None),
        RowValue::Bytes { data, content_type } => {
            (quoted(&STANDARD.encode(data)), Some(BASE64.into()), Some(content_type.as_str().into()))
        }
    };
    let kind = Some(row.kind.as_str()).filter(|kind| !kind.is_empty()).map(Cow::from);
    let (ttl, lease) = (row.ttl, row.lease);
    let line = JsonLine { key, key_encoding, value, encoding, content_type, kind, ttl, lease };
    let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn decode(text: &[u8]) -> Result<Row, String> {
    let line: JsonLine<'_> = serde_json::from_slice(text).map_err(|error| format!("{error}; {RIGHT}"))?;
    let known = |encoding: &Option<Cow<'_, str>>| match encoding.as_deref() {
        None => Ok(false),
        Some(BASE64) => Ok(true),
        Some(other) => Err(format!("there is no encoding {other}, only base64")),
    };
    let key = if known(&line.key_encoding)? {
        STANDARD.decode(line.key.as_bytes()).map_err(|_| "the key is no base64".to_owned())?
    } else {
        line.key.into_owned().into_bytes()
    };
    let value = RowValue::of_json(line.value.get()).ok_or_else(|| RIGHT.to_owned())?;
    let value = match (known(&line.encoding)?, value) {
        (false, value) => value,
        (true, RowValue::Text(text)) => {
            let content_type = line.content_type.as_deref().unwrap_or_default();
            RowValue::of_base64(&text, content_type).ok_or("the value is no base64")?
        }
        (true, _) => return Err("the value is no base64".to_owned()),
    };
    let kind = line.kind.unwrap_or_default().into_owned();
    Ok(Row { key, value, kind, ttl: line.ttl, lease: line.lease })
}

/// A file of such lines.
pub struct LineFile {
    name: String,
    file: BufReader<File>,
    /// Behind the line that was read last.
    pub offset: u64,
    pub line: u64,
    pub bytes: u64,
}

impl LineFile {
    pub fn open(path: &Path) -> Result<LineFile, Error> {
        let (file, bytes) = super::open(path)?;
        Ok(LineFile {
            name: path.display().to_string(),
            file: BufReader::new(file),
            offset: 0,
            line: 0,
            bytes,
        })
    }

    pub fn go_on(&mut self, offset: u64, line: u64) -> Result<(), Error> {
        (self.offset, self.line) = (offset, line);
        let sought = self.file.seek(SeekFrom::Start(offset));
        sought.map(drop).map_err(|reason| Error::File { file: self.name.clone(), reason })
    }

    /// None at the end.
    pub fn next(&mut self) -> Result<Option<Row>, Error> {
        loop {
            let mut text = Vec::new();
            let read = self.file.read_until(b'\n', &mut text);
            let read = read.map_err(|reason| Error::File { file: self.name.clone(), reason })?;
            if read == 0 {
                return Ok(None);
            }
            self.offset += read as u64;
            self.line += 1;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let row = decode(&text);
            return row
                .map(Some)
                .map_err(|what| Error::Incomplete(format!("{}, line {}: {what}", self.name, self.line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_their_lines() {
        let values = [
            RowValue::Text("a \"b\"\n".into()),
            RowValue::Json("[1, 2.50]".into()),
            RowValue::of_blob(vec![0, 255], "image/png"),
            RowValue::of_blob(vec![255], ""),
        ];
        for value in values {
            for key in [&b"a"[..], &[1, 255]] {
                let kind = "lww_register".to_owned();
                let row =
                    Row { key: key.to_vec(), value: value.clone(), kind, ttl: Some(5), lease: Some(-7) };
                let line = encode(&row);
                assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
                assert_eq!(decode(&line), Ok(row));
            }
        }
    }

    #[test]
    fn the_least_line_is_a_key_and_a_value_and_other_lines_are_refused() {
        assert_eq!(
            decode(br#"{"key": "a\tb", "value": "b"}"#),
            Ok(Row::of_bytes(b"a\tb".to_vec(), b"b".to_vec()))
        );
        let bad =
            [r#"{"key": "a"}"#, "[]", r#"{"key": "a", "value": 1, "tttl": 5}"#, r#"{"key": 1, "value": 1}"#]
                .map(str::to_owned);
        let encodings =
            ["base32", "base64"].map(|name| format!(r#"{{"key": "a", "value": "?", "encoding": "{name}"}}"#));
        for bad in bad.into_iter().chain(encodings) {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
