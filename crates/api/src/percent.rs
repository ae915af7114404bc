//! Percent-encoding, as URLs and some headers have it.
//! Text goes in, bytes come out; a percent sign without two hexadecimal digits behind it is no encoding.

/// The bytes that a text stands for.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = tail;
    }
    Some(bytes)
}

/// Encodes percent signs and what is not printable ASCII, as gRPC does in `grpc-message`.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'%' | ..=0x1f | 0x7f.. => text.push_str(&format!("%{byte:02X}")),
            printable => text.push(char::from(*printable)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_half_a_code_is_none() {
        assert_eq!(decode("a%2Fb%C3%A9+"), Some("a/bé+".as_bytes().to_vec()));
        for text in ["%", "%2", "%zz", "%+f", "a%2"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
