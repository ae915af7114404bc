//! Blanks secrets in what is collected for a report: texts that are known to be secret, and what is spelt as a
//! credential. Bytes go in, bytes of which no secret is part come out.

const BLANK: &[u8] = b"***";
/// What is shorter may be part of any word.
const SECRET_BYTES_MIN: usize = 4;
/// What follows one of these up to the end of the word is a credential.
const MARKS: [&str; 3] = ["Bearer ", "Basic ", "althing-join-"];
/// What stands between the two is a key or a certificate.
const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";

pub struct Redactor {
    secrets: Vec<Vec<u8>>,
}

impl Redactor {
    /// The longest first, so that no rest of one stays.
    pub fn new(secrets: Vec<String>) -> Redactor {
        let mut secrets: Vec<Vec<u8>> = secrets
            .into_iter()
            .filter(|secret| secret.len() >= SECRET_BYTES_MIN)
            .map(String::into_bytes)
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redactor { secrets }
    }

    pub fn blank(&self, text: Vec<u8>) -> Vec<u8> {
        let text = self.secrets.iter().fold(text, |text, secret| replace_all(&text, secret));
        let text = MARKS.iter().fold(text, |text, mark| blank_behind(&text, mark.as_bytes()));
        blank_pem(&text)
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn replace_all(text: &[u8], secret: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = find(rest, secret) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(BLANK);
        rest = &rest[at + secret.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn blank_behind(text: &[u8], mark: &[u8]) -> Vec<u8> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"'<>,;".contains(byte);
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = find(rest, mark) {
        let begin = at + mark.len();
        let len = rest[begin..].iter().position(is_end).unwrap_or(rest.len() - begin);
        out.extend_from_slice(&rest[..begin]);
        out.extend_from_slice(if len > 0 { BLANK } else { &[] });
        rest = &rest[begin + len..];
    }
    out.extend_from_slice(rest);
    out
}

/// A block without its end is blanked up to the end of the text.
fn blank_pem(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = find(rest, PEM_BEGIN) {
        let begin = at + PEM_BEGIN.len();
        out.extend_from_slice(&rest[..begin]);
        out.extend_from_slice(BLANK);
        rest = &rest[begin..];
        let end = find(rest, PEM_END).unwrap_or(rest.len());
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank(secrets: &[&str], text: &str) -> String {
        let redactor = Redactor::new(secrets.iter().map(|secret| (*secret).to_owned()).collect());
        String::from_utf8(redactor.blank(text.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn known_secrets_are_blanked_wherever_they_are() {
        assert_eq!(blank(&["hunter22"], "a hunter22, hunter22b"), "a ***, ***b");
        assert_eq!(blank(&["hunter", "hunter22"], "hunter22"), "***", "the longest first");
        assert_eq!(blank(&["abc"], "abc"), "abc", "too short to be told from words");
        assert_eq!(blank(&[], "nothing"), "nothing");
    }

    #[test]
    fn what_is_spelt_as_a_credential_is_blanked() {
        assert_eq!(blank(&[], "Authorization: Bearer abc.def\nnext"), "Authorization: Bearer ***\nnext");
        assert_eq!(blank(&[], "--join-token althing-join-00ff, x"), "--join-token althing-join-***, x");
        assert_eq!(blank(&[], "ends with Basic "), "ends with Basic ");
    }

    #[test]
    fn keys_in_pem_are_blanked_whole() {
        let key = "a\n-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END PRIVATE KEY-----\nb";
        assert_eq!(blank(&[], key), "a\n-----BEGIN ***-----END PRIVATE KEY-----\nb");
        let in_json =
            r#"{"pem": "-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\n", "n": 1}"#;
        assert!(!blank(&[], in_json).contains("MHcC") && blank(&[], in_json).ends_with(r#""n": 1}"#));
        assert_eq!(blank(&[], "-----BEGIN PRIVATE KEY-----\nMIIE"), "-----BEGIN ***", "its end was cut off");
    }
}
