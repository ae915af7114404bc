//! Ids that clients give to their requests, so that a repetition is recognised. An id is any text; one that carries its time, a
//! UUID of version 7 or a ULID, is refused once it is older than requests are remembered.

use super::refusal::Refusal;
use base::Code;
use base::limits::MESH_REQUEST_WINDOW_MILLIS;

/// A ULID from before the year 2020 is a text that looks like one.
const ULID_MS_MIN: u64 = 1_577_836_800_000;

/// Refuses an id that is too old for its request to be remembered.
pub fn check_age(id: &str, now_ms: u64) -> Result<(), Refusal> {
    let made_ms = uuid_ms(id).or_else(|| ulid_ms(id).filter(|ms| (ULID_MS_MIN..=now_ms).contains(ms)));
    match made_ms {
        Some(made_ms) if made_ms.saturating_add(MESH_REQUEST_WINDOW_MILLIS) < now_ms => {
            let minutes = MESH_REQUEST_WINDOW_MILLIS / 60_000;
            let message = format!(
                "the X-Request-Id is older than {minutes} minutes, and whether its request was carried out is no \
                 longer known; read the key, and use a new id"
            );
            Err(Refusal::new(Code::RequestIdExpired, message))
        }
        _ => Ok(()),
    }
}

/// The time of a UUID of version 7: its first 48 bits.
fn uuid_ms(id: &str) -> Option<u64> {
    let parts: Vec<&str> = id.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_hex = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if lengths != [8, 4, 4, 4, 12] || !is_hex || !parts[2].starts_with('7') {
        return None;
    }
    u64::from_str_radix(&format!("{}{}", parts[0], parts[1]), 16).ok()
}

/// The time of a ULID: its first ten characters, five bits each.
fn ulid_ms(id: &str) -> Option<u64> {
    const DIGITS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |letter: char| DIGITS.find(letter.to_ascii_uppercase()).map(|at| at as u64);
    let digits = id.chars().map(digit).collect::<Option<Vec<_>>>()?;
    let lawful = digits.len() == 26 && digits[0] < 8;
    lawful.then(|| digits[..10].iter().fold(0, |ms, digit| ms << 5 | digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn ids_say_when_they_were_made() {
        assert_eq!(uuid_ms("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), Some(0x017f_22e2_79b0));
        assert_eq!(uuid_ms("919108f7-52d1-4320-9bac-f847db4148a8"), None, "version 4");
        assert_eq!(ulid_ms("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Some(1_469_922_850_259));
        assert_eq!(ulid_ms("not a ulid"), None);
    }

    #[test]
    fn an_id_is_refused_when_it_is_older_than_requests_are_remembered() {
        let uuid = |ms: u64| format!("{:08x}-{:04x}-7cc3-98c4-dc0c0c07398f", ms >> 16, ms & 0xffff);
        assert!(check_age(&uuid(NOW - 599_000), NOW).is_ok());
        let refused = check_age(&uuid(NOW - 601_000), NOW).unwrap_err();
        assert_eq!(refused.code, Code::RequestIdExpired);
        assert!(check_age(&uuid(NOW + 3_600_000), NOW).is_ok(), "a clock that is ahead");
        assert!(check_age("order-17", NOW).is_ok(), "text without a time");
        assert!(check_age("01ARZ3NDEKTSV4RRFFQ69G5FAV", NOW).is_ok(), "of 2016: text that looks like a time");
        assert!(check_age("01HZZZZZZZTSV4RRFFQ69G5FAV", NOW).is_err());
    }
}
