use super::*;
use crate::SigningMethod;

const NOW: Duration = Duration::from_secs(1_000_000);

fn rsa() -> JwtKeys {
    JwtKeys::load(SigningMethod::Rs256, None, Some(include_bytes!("../../keys/rs256.pem"))).unwrap()
}

fn ann() -> Claims {
    Claims { user: "ann".to_owned(), revision: 7, ends: NOW * 2 }
}

/// A token with this header and these claims, signed as it should be.
fn forge(keys: &JwtKeys, header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = keys.signature_of(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

const HEADER: &str = r#"{"alg":"RS256","typ":"JWT"}"#;

#[test]
fn what_is_signed_is_read_until_it_ends() {
    let keys = rsa();
    let short = Claims { ends: NOW + Duration::from_secs(300), ..ann() };
    let token = keys.sign(&short).unwrap();
    assert_eq!(keys.read(&token, NOW), Some(short.clone()));
    assert_eq!(keys.read(&token, NOW + Duration::from_secs(299)), Some(short));
    assert_eq!(keys.read(&token, NOW + Duration::from_secs(300)), None, "ended");
    let odd = Claims { user: "an\"n\\é".to_owned(), revision: 1, ..ann() };
    assert_eq!(keys.read(&keys.sign(&odd).unwrap(), NOW), Some(odd));
}

#[test]
fn a_token_does_not_choose_how_it_is_checked() {
    let keys = rsa();
    let claims = r#"{"username":"root","revision":7,"exp":2000000}"#;
    assert!(keys.read(&forge(&keys, HEADER, claims), NOW).is_some());
    // Unsigned, by any spelling; and with the public key, which is public, taken for a secret.
    let public = include_bytes!("../../keys/rs256.pub.pem");
    let confused = JwtKeys::load(SigningMethod::Hs256, None, Some(public)).unwrap();
    for alg in ["none", "None", "NONE", "", "HS256", "RS384", "PS256", "rs256"] {
        let header = format!(r#"{{"alg":"{alg}"}}"#);
        let (head, body) = (URL_SAFE_NO_PAD.encode(&header), URL_SAFE_NO_PAD.encode(claims));
        for token in
            [format!("{head}.{body}."), forge(&confused, &header, claims), forge(&keys, &header, claims)]
        {
            assert_eq!(keys.read(&token, NOW), None, "{alg}: {token}");
        }
    }
    assert_eq!(keys.read(&forge(&confused, HEADER, claims), NOW), None, "signed by another method");
    assert_eq!(keys.read(&forge(&keys, r#"{"alg":"RS256","crit":["b64"]}"#, claims), NOW), None);
    assert_eq!(keys.read(&forge(&keys, r#"{"alg":"none","alg":"RS256"}"#, claims), NOW), None, "said twice");
}

#[test]
fn every_claim_that_is_there_is_honoured() {
    let keys = rsa();
    let read = |claims: &str| keys.read(&forge(&keys, HEADER, claims), NOW);
    let with = |more: &str| read(&format!(r#"{{"username":"ann","revision":7{more}}}"#));
    for fine in ["", r#","nbf":1000000"#, r#","iat":999999,"sub":"x","extra":{}"#] {
        let told = with(&format!(r#","exp":2000000{fine}"#));
        assert_eq!(told, Some(ann()), "{fine}");
        assert_eq!(with(fine), None, "without an end: {fine}");
    }
    let soon = Claims { ends: NOW, ..ann() };
    assert_eq!(with(r#","exp":1000000.5"#), Some(soon));
    let late = Claims { ends: Duration::from_secs(u64::MAX), ..ann() };
    assert_eq!(with(r#","exp":1e300"#), Some(late));
    for bad in [
        r#","exp":null"#,
        r#","exp":1000000"#,
        r#","exp":"1000001""#,
        r#","exp":-1"#,
        r#","exp":2000000,"nbf":1000001"#,
        r#","exp":2000000,"nbf":"0""#,
        r#","exp":2000000,"iat":1000001"#,
        r#","exp":2000000,"aud":"another service""#,
        r#","exp":1,"exp":2000000"#,
    ] {
        assert_eq!(with(bad), None, "{bad}");
    }
    for bad in [
        "{}",
        "",
        "[]",
        r#"{"username":"ann","exp":2000000}"#,
        r#"{"revision":7,"exp":2000000}"#,
        r#"{"username":7,"revision":7,"exp":2000000}"#,
        r#"{"username":"ann","revision":"7","exp":2000000}"#,
        r#"{"username":"ann","revision":-7,"exp":2000000}"#,
        r#"{"username":"ann","revision":7.5,"exp":2000000}"#,
        r#"{"username":"ann","revision":1e300,"exp":2000000}"#,
    ] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn whatever_is_changed_or_cut_is_refused() {
    let keys = rsa();
    let token = keys.sign(&ann()).unwrap();
    for at in 0..token.len() {
        assert_eq!(keys.read(&token[..at], NOW), None, "cut at {at}");
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_ne!(keys.read(&changed, NOW), Some(Claims { user: "root".to_owned(), ..ann() }));
        // The last letter has bits that say nothing; they must be zero.
        assert_eq!(keys.read(&changed, NOW), None, "changed at {at}");
    }
    for odd in ["", ".", "..", "...", &format!("{token}."), &format!(".{token}"), &format!("{token}=")] {
        assert_eq!(keys.read(odd, NOW), None, "{odd}");
    }
    assert_eq!(keys.read(&"A".repeat(1 << 20), NOW), None);
}

#[test]
fn other_keys_say_nothing_about_a_token() {
    let token = rsa().sign(&ann()).unwrap();
    let secret = |text: &[u8]| JwtKeys::load(SigningMethod::Hs256, None, Some(text)).unwrap();
    let shared = secret(b"one").sign(&ann()).unwrap();
    assert_eq!(secret(b"one").read(&shared, NOW), Some(ann()));
    assert_eq!(secret(b"other").read(&shared, NOW), None);
    assert_eq!(secret(b"one").read(&token, NOW), None);
    assert_eq!(rsa().read(&shared, NOW), None);
}

#[test]
fn a_generated_key_signs_what_its_public_half_reads() {
    let keys = JwtKeys::of_private(&JwtKeys::generate().unwrap()).unwrap();
    let [public] = keys.public_keys() else { panic!("one key has one public half") };
    let reader = JwtKeys::of_public(keys.method(), public).unwrap();
    let token = keys.sign(&ann()).unwrap();
    assert_eq!(reader.read(&token, NOW), Some(ann()));
    assert!(!reader.can_sign());
    let other = JwtKeys::of_private(&JwtKeys::generate().unwrap()).unwrap();
    assert_eq!(other.read(&token, NOW), None);
    let shared = JwtKeys::load(SigningMethod::Hs256, None, Some(b"secret")).unwrap();
    assert!(shared.public_keys().is_empty(), "a secret has no public half");
    assert!(JwtKeys::of_public(SigningMethod::Hs256, b"secret").is_err());
    assert!(JwtKeys::of_private(b"nonsense").is_err());
}
