//! Signs requests to a bucket (AWS Signature Version 4): the request and the credentials go in, the headers that prove them
//! come out.

use super::credentials::Credentials;
use crate::object::sha256;
use http::Method;
use ring::hmac;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) struct Signer {
    pub region: String,
    pub credentials: Credentials,
}

impl Signer {
    /// The headers to be added. `path` and `query` are encoded, and the query in the order of its names.
    pub fn sign(
        &self,
        method: &Method,
        host: &str,
        path: &str,
        query: &str,
        body: &[u8],
    ) -> Vec<(&'static str, String)> {
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64);
        self.sign_at(&moment(ms), method, host, path, query, body)
    }

    fn sign_at(
        &self,
        moment: &str,
        method: &Method,
        host: &str,
        path: &str,
        query: &str,
        body: &[u8],
    ) -> Vec<(&'static str, String)> {
        let digest = hex(&sha256(body));
        let mut headers = vec![("x-amz-content-sha256", digest.clone()), ("x-amz-date", moment.to_owned())];
        headers.extend(self.credentials.session_token.clone().map(|token| ("x-amz-security-token", token)));
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: String = headers.iter().map(|(name, _)| format!(";{name}")).collect();
        let canonical = format!("{method}\n{path}\n{query}\nhost:{host}\n{lines}\nhost{names}\n{digest}");
        let day = &moment[..8];
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hex(&sha256(canonical.as_bytes())));
        let secret = format!("AWS4{}", self.credentials.secret);
        let steps = [day, &self.region, "s3", "aws4_request", &text];
        let signed = steps.iter().fold(secret.into_bytes(), |key, step| mac(&key, step));
        let key_id = &self.credentials.key_id;
        let proof = format!(
            "AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders=host{names}, Signature={}",
            hex(&signed)
        );
        headers.push(("authorization", proof));
        headers
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `20250122T103000Z`.
fn moment(ms: u64) -> String {
    let text = base::date::rfc3339(ms);
    let (seconds, _) = text.split_once('.').unwrap_or((&text, ""));
    format!("{}Z", seconds.replace(['-', ':'], ""))
}

/// As S3 encodes: slashes of a path stay, those of a query do not.
pub(super) fn uri_encode(text: &str, slashes_too: bool) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (byte == b'/' && !slashes_too);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Amazon's own documentation: listing a bucket.
    #[test]
    fn a_request_is_signed_as_the_specification_shows() {
        let credentials = Credentials {
            key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        };
        let signer = Signer { region: "us-east-1".to_owned(), credentials };
        let host = "examplebucket.s3.amazonaws.com";
        let headers = signer.sign_at("20130524T000000Z", &Method::GET, host, "/", "max-keys=2&prefix=J", b"");
        let proof = &headers.last().unwrap().1;
        let expected = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(proof.ends_with(expected), "{proof}");
    }

    #[test]
    fn moments_and_paths_are_written_as_s3_reads_them() {
        assert_eq!(moment(1_369_353_600_000), "20130524T000000Z");
        assert_eq!(uri_encode("a b/c+d", false), "a%20b/c%2Bd");
        assert_eq!(uri_encode("a/b", true), "a%2Fb");
    }
}
