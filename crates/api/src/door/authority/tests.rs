use super::*;
use tonic::codegen::http::uri::Authority;

/// `http://127.0.0.1:2379` as Go's client codes it.
const CODED: [u8; 16] =
    [0x9d, 0x29, 0xae, 0xe3, 0x0c, 0x04, 0x4b, 0x88, 0xb8, 0x05, 0xc0, 0xb8, 0x2b, 0xb8, 0x89, 0xb3];

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u32;
    [&len.to_be_bytes()[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// `:method: POST`, a path, and this value of `:authority`, indexed.
fn block(coded: bool, value: &[u8]) -> Vec<u8> {
    let len = value.len() as u8 | if coded { 0x80 } else { 0 };
    [&[0x83, 0x44, 2, b'/', b'x', 0x41, len], value, &[0x86]].concat()
}

fn passed(mender: &mut Mender, bytes: &[u8], at_once: usize) -> Vec<u8> {
    let mut out = vec![];
    bytes.chunks(at_once).for_each(|bytes| mender.pass(bytes, &mut out));
    out
}

#[test]
fn a_url_becomes_an_authority_however_it_arrives() {
    let settings = frame(4, 0, &[0; 12]);
    for (flags, around) in [(4, (&b""[..], &b""[..])), (0x2c, (&[2, 0, 0, 0, 0, 9][..], &[0, 0][..]))] {
        let headers =
            |value: &[u8]| frame(HEADERS, flags, &[around.0, &block(false, value), around.1].concat());
        let connection = [PREFACE, &settings, &headers(b"http://127.0.0.1:2379")].concat();
        let expected = [PREFACE, &settings, &headers(b"http--@127.0.0.1:2379")].concat();
        for at_once in [1, 2, 7, 1_000] {
            let mut mender = Mender::new();
            assert_eq!(passed(&mut mender, &connection, at_once), expected, "{at_once}");
            assert!(!mender.is_finished(), "there may be more of this client");
        }
    }
    assert!("http--@127.0.0.1:2379".parse::<Authority>().is_ok());
    assert!("HTTP@127.0.0.1:2379".parse::<Authority>().is_ok());
}

#[test]
fn what_is_coded_keeps_its_length_and_its_end() {
    for (exchange, wrong) in [(&PLAIN, "http://"), (&SECURE, "https://")] {
        let mut value = (exchange.from << (48 - exchange.bits) | 1).to_be_bytes()[2..].to_vec();
        value.extend([0xab; 9]);
        let before = value.clone();
        super::exchange(&mut value, true).expect(wrong);
        assert_eq!(value[6..], before[6..]);
        let number = value[..6].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        assert_eq!((number >> (48 - exchange.bits), number & 3), (exchange.to, 1), "{wrong}");
    }
    let mut value = CODED;
    assert!(super::exchange(&mut value, true).is_some());
    assert_ne!(value, CODED);
}

#[test]
fn whoever_begins_correctly_is_left_alone() {
    let headers = frame(HEADERS, 4, &block(false, b"127.0.0.1:2379"));
    let later = frame(HEADERS, 4, &block(false, b"http://127.0.0.1:2379"));
    let connection = [PREFACE, &headers, &later].concat();
    let mut mender = Mender::new();
    assert_eq!(passed(&mut mender, &connection, 11), connection);
    assert!(mender.is_finished());
    let mut mender = Mender::new();
    let http_1 = b"PRINT / HTTP/1.1\r\nhost: http://x\r\n\r\n";
    assert_eq!(passed(&mut mender, http_1, 3), http_1);
    assert!(mender.is_finished());
}

#[test]
fn garbage_goes_through_as_it_is() {
    let mut rng = base::Rng::new(7);
    for _ in 0..2_000 {
        let garbage: Vec<u8> = (0..rng.between(0, 60)).map(|_| rng.next_u64() as u8).collect();
        let torn = [PREFACE, &frame(HEADERS, rng.next_u64() as u8, &garbage)].concat();
        assert_eq!(passed(&mut Mender::new(), &torn, 13).len(), torn.len());
    }
}
