use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn decoded(hex: &str) -> String {
    let mut out = Vec::new();
    huffman(&bytes(hex), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_examples_of_the_rfc_are_decoded() {
    assert_eq!(decoded("f1e3 c2e5 f23a 6ba0 ab90 f4ff"), "www.example.com");
    assert_eq!(decoded("a8eb 1064 9cbf"), "no-cache");
    assert_eq!(
        decoded("d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff"),
        "Mon, 21 Oct 2013 20:13:21 GMT"
    );
}

#[test]
fn a_status_is_found_in_a_literal_and_by_its_index_afterwards() {
    let mut decoder = Decoder::default();
    let mut block = vec![0x88, 0x40, 11];
    block.extend_from_slice(b"grpc-status");
    block.extend_from_slice(&[1, b'5']);
    assert_eq!(decoder.decode(&block).unwrap().status, Some(5));
    assert_eq!(decoder.decode(&[0x80 | 62]).unwrap().status, Some(5));
    assert_eq!(decoder.decode(&[0x88]).unwrap().status, None);
}

#[test]
fn the_table_forgets_what_its_sender_forgets() {
    let mut decoder = Decoder::default();
    let mut block = vec![0x40, 11];
    block.extend_from_slice(b"grpc-status");
    block.extend_from_slice(&[1, b'0']);
    decoder.decode(&block).unwrap();
    // The sender shrinks the table to nothing and lets it grow again.
    assert!(decoder.decode(&[0x20, 0x3f, 0xe1, 0x1f]).is_ok());
    assert_eq!(decoder.decode(&[0x80 | 62]), Err(Malformed));
}

#[test]
fn what_is_cut_short_is_refused() {
    let whole = [&[0x40, 11][..], b"grpc-status", &[1, b'0']].concat();
    for len in 1..whole.len() {
        assert_eq!(Decoder::default().decode(&whole[..len]), Err(Malformed), "{len} bytes");
    }
    assert_eq!(Decoder::default().decode(&[0x80]), Err(Malformed));
    assert_eq!(Decoder::default().decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Err(Malformed));
}
