//! The token of somebody whose certificate says who it is: made where the certificate was verified, and honoured by this
//! process alone, because nobody else can make one.
//! A name goes in and a badge comes out, and the other way round. A badge lives as long as the process; what its name
//! may do is looked up anew with every request, as for any other token.

use super::password::secret;
use std::sync::{Arc, LazyLock};

/// Between the secret and the name; no other kind of token has it.
const MARK: char = '/';

/// Drawn when it is first needed. Without random numbers of the kernel there are no badges.
static SECRET: LazyLock<Option<String>> =
    LazyLock::new(|| Some(format!("{}{}", secret().ok()?, secret().ok()?)));

pub(super) fn badge_of(name: &str) -> Option<String> {
    let name: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}{MARK}{name}", SECRET.as_ref()?))
}

/// A secret of this process, for whatever it keeps to itself.
pub(super) fn process_secret() -> Option<&'static str> {
    SECRET.as_deref()
}

/// Whose badge this is, if it is one.
pub(super) fn name_on(token: &str) -> Option<Arc<str>> {
    let (shown, name) = token.split_once(MARK)?;
    if !same(shown.as_bytes(), SECRET.as_ref()?.as_bytes()) {
        return None;
    }
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = name.as_bytes().chunks(2).map(digit).collect::<Option<_>>()?;
    Some(String::from_utf8(bytes).ok()?.into())
}

/// Takes as long for a near miss as for a far one.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |seen, (one, other)| seen | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_badge_names_whom_it_was_made_for_and_no_other_token_is_one() {
        for name in ["alice", "Ærø/1", ""] {
            let badge = badge_of(name).unwrap();
            assert_eq!(name_on(&badge).as_deref(), Some(name));
            assert!(badge.is_ascii());
        }
        let badge = badge_of("alice").unwrap();
        let (secret, name) = badge.split_once(MARK).unwrap();
        let near = format!("{}x{MARK}{name}", &secret[1..]);
        for other in ["", "/", "/616c696365", "abcdefghijklmnop.17", &near, &secret[1..], secret] {
            assert_eq!(name_on(other), None, "{other}");
        }
        assert_eq!(name_on(&format!("{secret}{MARK}6")).as_deref(), Some("\u{6}"));
        assert_eq!(name_on(&format!("{secret}{MARK}zz")), None);
    }
}
