use super::*;

macro_rules! key {
    ($name:literal) => {
        Some(&include_bytes!(concat!("../../keys/", $name, ".pem"))[..])
    };
}

#[test]
fn every_form_of_key_file_signs_and_verifies() {
    let rsa = [
        SigningMethod::Rs256,
        SigningMethod::Rs384,
        SigningMethod::Rs512,
        SigningMethod::Ps256,
        SigningMethod::Ps384,
        SigningMethod::Ps512,
    ];
    let mut tried = vec![
        (SigningMethod::Hs256, None, Some(&b"a secret"[..])),
        (SigningMethod::Hs384, None, Some(&b"a secret"[..])),
        (SigningMethod::Hs512, None, Some(&b"a secret"[..])),
        (SigningMethod::Rs256, key!("rs256.pub"), key!("rs256.pkcs1")),
        (SigningMethod::Rs256, key!("rs256.pub.pkcs1"), key!("rs256")),
        (SigningMethod::Rs256, key!("rs256.crt"), key!("rs256")),
        (SigningMethod::Es256, key!("es256.pub"), key!("es256")),
        (SigningMethod::Es256, None, key!("es256.sec1")),
        (SigningMethod::Es384, key!("es384.pub"), key!("es384")),
        (SigningMethod::EdDsa, key!("ed.pub"), key!("ed")),
    ];
    tried.extend(rsa.map(|method| (method, key!("rs256.pub"), key!("rs256"))));
    for (method, public, private) in tried {
        let keys =
            JwtKeys::load(method, public, private).unwrap_or_else(|error| panic!("{method:?}: {error}"));
        let signature = keys.signature_of(b"message").unwrap();
        assert!(keys.verifies(b"message", &signature), "{method:?}");
        assert!(!keys.verifies(b"massage", &signature), "{method:?}");
        assert!(!keys.verifies(b"message", b""), "{method:?}");
        if let Some(public) = public {
            let reader = JwtKeys::load(method, Some(public), None).unwrap();
            assert!(reader.verifies(b"message", &signature), "{method:?}");
            assert_eq!((reader.can_sign(), reader.signature_of(b"")), (false, Err(Error::VerifyOnly)));
        }
    }
}

#[test]
fn keys_of_another_method_and_keys_that_cannot_be_trusted_are_refused_at_the_start() {
    let load = |method, public, private| JwtKeys::load(method, public, private).map(|_| ()).unwrap_err();
    assert_eq!(load(SigningMethod::Rs256, None, None), Error::NoKey);
    assert_eq!(
        load(SigningMethod::Hs256, key!("rs256.pub"), None),
        Error::NoSecret("HS256"),
        "a public key is no secret"
    );
    assert_eq!(load(SigningMethod::Hs256, None, Some(b"")), Error::NoSecret("HS256"));
    assert_eq!(load(SigningMethod::Es256, None, key!("rs256")), Error::BadPrivate("ES256"));
    assert_eq!(load(SigningMethod::Es384, None, key!("es256")), Error::BadPrivate("ES384"));
    assert_eq!(load(SigningMethod::Es256, key!("es384.pub"), None), Error::BadPublic("ES256"));
    assert_eq!(load(SigningMethod::Rs256, key!("ed.pub"), None), Error::BadPublic("RS256"));
    assert_eq!(load(SigningMethod::Rs256, None, key!("short")), Error::BadPrivate("RS256"));
    assert_eq!(load(SigningMethod::Rs256, key!("short.pub"), None), Error::BadPublic("RS256"));
    assert_eq!(load(SigningMethod::Es256, None, key!("es256.locked")), Error::BadPrivate("ES256"));
    assert_eq!(load(SigningMethod::Rs256, Some(b"no key"), None), Error::BadPublic("RS256"));
    let other = ring::signature::Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let other = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, other.as_ref());
    let other = format!("-----BEGIN PRIVATE KEY-----\n{other}\n-----END PRIVATE KEY-----\n");
    assert_eq!(load(SigningMethod::EdDsa, key!("ed.pub"), Some(other.as_bytes())), Error::Mismatch);
}

#[test]
fn an_old_key_verifies_beside_the_new_one() {
    let pem = |label: &str, bytes: &[u8]| {
        let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let fresh = ring::signature::Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = ring::signature::Ed25519KeyPair::from_pkcs8(fresh.as_ref()).unwrap();
    let info = [
        &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00][..],
        pair.public_key().as_ref(),
    ];
    let both = pem("PUBLIC KEY", &info.concat()) + include_str!("../../keys/ed.pub.pem");
    let old = JwtKeys::load(SigningMethod::EdDsa, key!("ed.pub"), key!("ed")).unwrap();
    let private = pem("PRIVATE KEY", fresh.as_ref());
    let new = JwtKeys::load(SigningMethod::EdDsa, Some(both.as_bytes()), Some(private.as_bytes())).unwrap();
    assert!(new.verifies(b"m", &old.signature_of(b"m").unwrap()));
    assert!(new.verifies(b"m", &new.signature_of(b"m").unwrap()));
    assert!(!old.verifies(b"m", &new.signature_of(b"m").unwrap()));
}
