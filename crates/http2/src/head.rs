//! The head of a request: fields go in as they are decoded, a valid head comes out.
//! What RFC 9113 calls malformed (section 8) is refused; what is more than the limit is counted and not kept.

use crate::hpack::Field;
use bytes::Bytes;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub method: Bytes,
    pub scheme: Bytes,
    /// With the query.
    pub path: Bytes,
    /// Empty when the client did not send one.
    pub authority: Bytes,
    /// Everything else, in the order in which it came.
    pub fields: Vec<Field>,
}

impl Head {
    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The request is none.
    Malformed,
    /// Its fields exceed the limit.
    TooLarge,
}

/// A head that is being put together.
#[derive(Debug)]
pub struct HeadBuilder {
    head: Head,
    bytes_left: Option<usize>,
    malformed: bool,
    /// Pseudo-fields stand before all others.
    plain: bool,
    content_length: Option<u64>,
}

impl HeadBuilder {
    /// For fields of so many bytes.
    pub fn new(bytes_max: usize) -> HeadBuilder {
        HeadBuilder {
            head: Head::default(),
            bytes_left: Some(bytes_max),
            malformed: false,
            plain: false,
            content_length: None,
        }
    }

    pub fn add(&mut self, field: Field) {
        self.bytes_left = self.bytes_left.and_then(|left| left.checked_sub(field.bytes()));
        if self.bytes_left.is_none() || self.malformed {
            return;
        }
        self.malformed = match field.name.first() {
            Some(b':') => !self.add_pseudo(field),
            _ => !self.add_plain(field),
        };
    }

    fn add_pseudo(&mut self, field: Field) -> bool {
        let head = &mut self.head;
        let place = match &*field.name {
            b":method" => &mut head.method,
            b":scheme" => &mut head.scheme,
            b":path" => &mut head.path,
            b":authority" => &mut head.authority,
            _ => return false,
        };
        // Each of them once, and none of them empty.
        let fits = !self.plain && place.is_empty() && !field.value.is_empty() && is_value(&field.value);
        *place = field.value;
        fits
    }

    fn add_plain(&mut self, field: Field) -> bool {
        self.plain = true;
        let sound = is_name(&field.name) && is_value(&field.value) && !is_of_connection(&field);
        if field.name == "content-length" {
            let length = std::str::from_utf8(&field.value).ok().and_then(|text| text.parse().ok());
            if length.is_none() || self.content_length.is_some_and(|known| Some(known) != length) {
                return false;
            }
            self.content_length = length;
        }
        self.head.fields.push(field);
        sound
    }

    /// The head, and the length of the body if the client declared it.
    pub fn finish(self) -> Result<(Head, Option<u64>), HeadError> {
        if self.bytes_left.is_none() {
            return Err(HeadError::TooLarge);
        }
        let head = self.head;
        let whole = !head.method.is_empty() && !head.scheme.is_empty() && !head.path.is_empty();
        if whole && !self.malformed { Ok((head, self.content_length)) } else { Err(HeadError::Malformed) }
    }

    /// After a body there may be fields, too; they are not read, but must be valid.
    pub fn finish_trailers(self) -> Result<(), HeadError> {
        let Head { method, scheme, path, authority, .. } = &self.head;
        let plain = [method, scheme, path, authority].iter().all(|pseudo| pseudo.is_empty());
        if plain && !self.malformed { Ok(()) } else { Err(HeadError::Malformed) }
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_token(*byte))
}

/// A byte of a name; capitals are not allowed any more.
fn is_token(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

fn is_value(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let forbidden = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
    !blank(value.first()) && !blank(value.last()) && !value.iter().any(forbidden)
}

/// Connection headers of HTTP/1 are not allowed here.
fn is_of_connection(field: &Field) -> bool {
    match &*field.name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => true,
        b"te" => field.value != "trailers",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: [(&str, &str); 3] = [(":method", "POST"), (":scheme", "http"), (":path", "/a?b")];

    fn draft(fields: &[(&'static str, &'static str)]) -> HeadBuilder {
        let mut draft = HeadBuilder::new(400);
        fields.iter().for_each(|(name, value)| draft.add(Field::from_static(name, value)));
        draft
    }

    fn finish(more: &[(&'static str, &'static str)]) -> Result<(Head, Option<u64>), HeadError> {
        draft(&[&LEAST[..], more].concat()).finish()
    }

    #[test]
    fn a_head_holds_what_was_said() {
        let more =
            [(":authority", "host"), ("te", "trailers"), ("content-length", "5"), ("a", ""), ("a", "b")];
        let (head, length) = finish(&more).unwrap();
        assert_eq!(
            (&*head.method, &*head.path, &*head.authority),
            (&b"POST"[..], &b"/a?b"[..], &b"host"[..])
        );
        assert_eq!((head.get("a").unwrap().len(), head.fields.len(), length), (0, 4, Some(5)));
        assert_eq!(head.get("b"), None);
    }

    #[test]
    fn what_is_missing_twice_or_out_of_place_is_malformed() {
        for missing in 0..LEAST.len() {
            let mut fields = LEAST.to_vec();
            fields.remove(missing);
            assert_eq!(draft(&fields).finish(), Err(HeadError::Malformed));
        }
        for more in [
            &[(":path", "/")][..],
            &[("a", "b"), (":authority", "late")],
            &[(":status", "200")],
            &[(":authority", "")],
            &[("Upper", "case")],
            &[("", "nameless")],
            &[("a b", "")],
            &[("a", "line\nbreak")],
            &[("a", " blank")],
            &[("connection", "close")],
            &[("transfer-encoding", "chunked")],
            &[("te", "gzip")],
            &[("content-length", "many")],
            &[("content-length", "1"), ("content-length", "2")],
        ] {
            assert_eq!(finish(more), Err(HeadError::Malformed), "{more:?}");
        }
    }

    #[test]
    fn more_fields_than_are_taken_are_not_kept() {
        let mut draft = draft(&LEAST);
        (0..100).for_each(|_| draft.add(Field::from_static("name", "value")));
        assert!(draft.head.fields.len() < 10);
        assert_eq!(draft.finish(), Err(HeadError::TooLarge));
    }

    #[test]
    fn trailers_are_plain_fields() {
        assert_eq!(draft(&[("a", "b")]).finish_trailers(), Ok(()));
        assert_eq!(draft(&[(":path", "/")]).finish_trailers(), Err(HeadError::Malformed));
        assert_eq!(draft(&[("A", "b")]).finish_trailers(), Err(HeadError::Malformed));
    }
}
