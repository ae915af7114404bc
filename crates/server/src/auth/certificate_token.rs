//! Certificate tokens: the token of a client whose certificate names it, made where the certificate was verified. Only
//! this process accepts it, because no other process knows the secret in it.
//! A name goes in and a token comes out, and the other way round. It is valid as long as the process runs; the name's
//! permissions are looked up with every request, as for any other token.

use super::password::secret;
use std::sync::{Arc, LazyLock};

/// Between the secret and the name; no other kind of token has it.
const MARK: char = '/';

/// Drawn when it is first needed. Without random numbers of the kernel there are no certificate tokens.
static SECRET: LazyLock<Option<String>> =
    LazyLock::new(|| Some(format!("{}{}", secret().ok()?, secret().ok()?)));

pub(super) fn make(name: &str) -> Option<String> {
    let name: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}{MARK}{name}", SECRET.as_ref()?))
}

/// The name in a certificate token; none for other tokens.
pub(super) fn name_in(token: &str) -> Option<Arc<str>> {
    let (shown, name) = token.split_once(MARK)?;
    if !same(shown.as_bytes(), SECRET.as_ref()?.as_bytes()) {
        return None;
    }
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = name.as_bytes().chunks(2).map(digit).collect::<Option<_>>()?;
    Some(String::from_utf8(bytes).ok()?.into())
}

/// Compares in constant time.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |seen, (one, other)| seen | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_token_names_its_client_and_no_other_token_is_one() {
        for name in ["alice", "Ærø/1", ""] {
            let token = make(name).unwrap();
            assert_eq!(name_in(&token).as_deref(), Some(name));
            assert!(token.is_ascii());
        }
        let token = make("alice").unwrap();
        let (secret, name) = token.split_once(MARK).unwrap();
        let near = format!("{}x{MARK}{name}", &secret[1..]);
        for other in ["", "/", "/616c696365", "abcdefghijklmnop.17", &near, &secret[1..], secret] {
            assert_eq!(name_in(other), None, "{other}");
        }
        assert_eq!(name_in(&format!("{secret}{MARK}6")).as_deref(), Some("\u{6}"));
        assert_eq!(name_in(&format!("{secret}{MARK}zz")), None);
    }
}
