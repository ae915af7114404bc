//! Rows as CSV. The first line names the columns: `key` and `value`, and those of `encoding`, `key_encoding`, `content_type`, `type`, `ttl` and
//! `lease` that are wanted. The encoding of a value is nothing for text, `json`, or `base64`.

use super::row::{Row, RowValue};
use crate::client::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use csv::{ByteRecord, Position, Reader, ReaderBuilder, Writer};
use std::fs::File;
use std::path::Path;

const COLUMNS: [&str; 8] =
    ["key", "value", "encoding", "key_encoding", "content_type", "type", "ttl", "lease"];

/// The first line.
pub fn head() -> Vec<u8> {
    line(COLUMNS.map(|name| name.as_bytes().to_vec()))
}

pub fn encode(row: &Row) -> Vec<u8> {
    let (key, key_encoding) = match std::str::from_utf8(&row.key) {
        Ok(_) => (row.key.clone(), ""),
        Err(_) => (STANDARD.encode(&row.key).into_bytes(), "base64"),
    };
    let (value, encoding, content_type) = match &row.value {
        RowValue::Text(text) => (text.clone(), "", ""),
        RowValue::Json(text) => (text.clone(), "json", ""),
        RowValue::Bytes { data, content_type } => (STANDARD.encode(data), "base64", content_type.as_str()),
    };
    let number = |number: Option<String>| number.unwrap_or_default().into_bytes();
    line([
        key,
        value.into_bytes(),
        encoding.into(),
        key_encoding.into(),
        content_type.into(),
        row.kind.clone().into_bytes(),
        number(row.ttl.map(|ttl| ttl.to_string())),
        number(row.lease.map(|lease| lease.to_string())),
    ])
}

fn line(fields: [Vec<u8>; COLUMNS.len()]) -> Vec<u8> {
    let mut writer = Writer::from_writer(Vec::new());
    // A vector takes every write.
    let _ = writer.write_record(&fields);
    writer.into_inner().unwrap_or_default()
}

pub struct TableFile {
    name: String,
    reader: Reader<File>,
    /// Where each of our columns stands in the file.
    places: [Option<usize>; COLUMNS.len()],
    pub bytes: u64,
}

impl TableFile {
    pub fn open(path: &Path) -> Result<TableFile, Error> {
        let name = path.display().to_string();
        let (file, bytes) = super::open(path)?;
        let mut reader = ReaderBuilder::new().from_reader(file);
        let refused = |what: String| Error::Incomplete(format!("{name}: {what}"));
        let head = reader.headers().map_err(|error| refused(error.to_string()))?.clone();
        if let Some(unknown) = head.iter().find(|column| !COLUMNS.contains(&column.trim())) {
            return Err(refused(format!(
                "there is no column {unknown}; the first line names {}",
                COLUMNS.join(", ")
            )));
        }
        let places = COLUMNS.map(|column| head.iter().position(|other| other.trim() == column));
        if places[0].is_none() || places[1].is_none() {
            return Err(refused("the first line must name the columns key and value".to_owned()));
        }
        Ok(TableFile { name, reader, places, bytes })
    }

    /// Behind the row that was read last: the offset and the line.
    pub fn place(&self) -> (u64, u64) {
        (self.reader.position().byte(), self.reader.position().line())
    }

    pub fn go_on(&mut self, offset: u64, line: u64) -> Result<(), Error> {
        let mut position = Position::new();
        position.set_byte(offset).set_line(line);
        let sought = self.reader.seek(position);
        sought.map_err(|error| Error::Incomplete(format!("{}: {error}", self.name)))
    }

    /// None at the end.
    pub fn next(&mut self) -> Result<Option<Row>, Error> {
        let line = self.reader.position().line();
        let refused = |what: String| Error::Incomplete(format!("{}, line {line}: {what}", self.name));
        let mut record = ByteRecord::new();
        if !self.reader.read_byte_record(&mut record).map_err(|error| refused(error.to_string()))? {
            return Ok(None);
        }
        decode(&record, &self.places).map(Some).map_err(refused)
    }
}

fn decode(record: &ByteRecord, places: &[Option<usize>; COLUMNS.len()]) -> Result<Row, String> {
    let field = |nth: usize| places[nth].and_then(|place| record.get(place)).unwrap_or_default();
    let text =
        |nth: usize| std::str::from_utf8(field(nth)).map_err(|_| format!("{} is no UTF-8", COLUMNS[nth]));
    let key = match text(3)? {
        "" => field(0).to_vec(),
        "base64" => STANDARD.decode(field(0)).map_err(|_| "the key is no base64".to_owned())?,
        other => return Err(format!("there is no encoding {other} of keys, only base64")),
    };
    let value = match text(2)? {
        "" => RowValue::of_bytes(field(1).to_vec()),
        "json" => RowValue::of_json(text(1)?).ok_or("the value is no JSON")?,
        "base64" => RowValue::of_base64(text(1)?, text(4)?).ok_or("the value is no base64")?,
        other => return Err(format!("there is no encoding {other}, only json and base64")),
    };
    let ttl = match text(6)? {
        "" => None,
        ttl => Some(ttl.parse().map_err(|_| format!("{ttl} is no number of seconds"))?),
    };
    let lease = match text(7)? {
        "" => None,
        lease => Some(lease.parse().map_err(|_| format!("{lease} is no lease"))?),
    };
    Ok(Row { key, value, kind: text(5)?.to_owned(), ttl, lease })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &[u8]) -> (tempfile::NamedTempFile, Result<TableFile, Error>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let table = TableFile::open(file.path());
        (file, table)
    }

    #[test]
    fn rows_come_back_from_their_lines_and_from_any_place() {
        let row = |key: &[u8], value: RowValue| Row { key: key.to_vec(), value, ..Row::default() };
        let mut rows = vec![
            row(b"plain", RowValue::Text("a,\"b\"\nc".into())),
            row(&[1, 255], RowValue::of_blob(vec![0, 255], "image/png")),
            row("é".as_bytes(), RowValue::Json(r#"{"a": [1.50, "x"]}"#.into())),
            row(b"", RowValue::Text(String::new())),
        ];
        rows[1] = Row { kind: "lww_register".into(), ttl: Some(9), lease: Some(-3), ..rows[1].clone() };
        let text = rows.iter().fold(head(), |text, row| [text, encode(row)].concat());
        let (_file, table) = file(&text);
        let mut table = table.unwrap();
        let mut places = vec![table.place()];
        for row in &rows {
            assert_eq!(table.next().unwrap().as_ref(), Some(row));
            places.push(table.place());
        }
        assert_eq!(table.next().unwrap(), None);
        for (nth, (offset, line)) in places.into_iter().enumerate() {
            table.go_on(offset, line).unwrap();
            assert_eq!(table.next().unwrap(), rows.get(nth).cloned(), "{nth}");
        }
    }

    #[test]
    fn columns_may_stand_in_any_order_and_errors_name_the_line() {
        let (_file, table) = file(b"value,key\n1,a\n");
        assert_eq!(table.unwrap().next().unwrap(), Some(Row::of_bytes(b"a".to_vec(), b"1".to_vec())));
        for bad in [&b"key\na\n"[..], b"key,value,colour\na,1,red\n", b""] {
            assert!(file(bad).1.is_err());
        }
        for bad in ["a,1,hex,", "a,{,json,", "a,?,base64,", "a,1,,soon", "a,1"] {
            let (_file, table) = file(format!("key,value,encoding,ttl\n{bad}\n").as_bytes());
            let error = table.unwrap().next().unwrap_err().to_string();
            assert!(error.contains("line 2"), "{bad}: {error}");
        }
    }
}
