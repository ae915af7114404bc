use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn unhuffed(hex: &str) -> String {
    String::from_utf8(huffman::decode(&bytes(hex)).unwrap()).unwrap()
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    let mut fields = Vec::new();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    decoder.decode(Bytes::copy_from_slice(block), |field| {
        fields.push((text(&field.name), text(&field.value)));
    })?;
    Ok(fields)
}

fn pairs(known: &[(&str, &str)]) -> Vec<(String, String)> {
    known.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_strings_of_the_rfc_are_decoded() {
    assert_eq!(unhuffed("f1e3 c2e5 f23a 6ba0 ab90 f4ff"), "www.example.com");
    assert_eq!(unhuffed("a8eb 1064 9cbf"), "no-cache");
    assert_eq!(
        unhuffed("d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff"),
        "Mon, 21 Oct 2013 20:13:21 GMT"
    );
    assert_eq!(unhuffed(""), "");
}

#[test]
fn a_code_must_end_in_ones_and_in_fewer_than_eight() {
    // 'a' is 00011: three ones fill its byte.
    assert_eq!(huffman::decode(&[0b0001_1111]).unwrap(), b"a");
    assert_eq!(huffman::decode(&[0b0001_1110]), Err(Malformed));
    assert_eq!(huffman::decode(&[0b0001_1111, 0xff]), Err(Malformed));
    // The end-of-string code is thirty ones and must not occur.
    assert_eq!(huffman::decode(&[0xff; 4]), Err(Malformed));
    assert_eq!(huffman::decode(&[0xff; 40]), Err(Malformed));
}

#[test]
fn the_requests_of_the_rfc_are_decoded_and_remembered() {
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let mut decoder = Decoder::default();
        let [first, second, third] = blocks.map(|block| fields(&mut decoder, &bytes(block)).unwrap());
        let common = |path, scheme| [(":method", "GET"), (":scheme", scheme), (":path", path)];
        let host = (":authority", "www.example.com");
        assert_eq!(first, pairs(&[&common("/", "http")[..], &[host]].concat()));
        assert_eq!(
            second,
            pairs(&[&common("/", "http")[..], &[host, ("cache-control", "no-cache")]].concat())
        );
        let custom = ("custom-key", "custom-value");
        assert_eq!(third, pairs(&[&common("/index.html", "https")[..], &[host, custom]].concat()));
    }
}

fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x40, name.len() as u8];
    block.extend_from_slice(name);
    block.push(value.len() as u8);
    block.extend_from_slice(value);
    block
}

#[test]
fn the_table_forgets_what_its_sender_forgets() {
    let mut decoder = Decoder::default();
    fields(&mut decoder, &literal(b"grpc-status", b"0")).unwrap();
    assert_eq!(fields(&mut decoder, &[0x80 | 62]).unwrap(), pairs(&[("grpc-status", "0")]));
    // The sender shrinks the table to nothing and lets it grow again.
    assert!(fields(&mut decoder, &[0x20, 0x3f, 0xe1, 0x1f]).is_ok());
    assert_eq!(fields(&mut decoder, &[0x80 | 62]), Err(Malformed));
}

#[test]
fn old_fields_give_way_to_new_ones() {
    let mut decoder = Decoder::default();
    // Each takes 34 + 100 bytes: thirty fit.
    for nth in 0..40u8 {
        fields(&mut decoder, &literal(&[b'a', b'a' + nth % 26], &[b'x'; 100])).unwrap();
    }
    assert!(fields(&mut decoder, &[0x80 | (61 + 30)]).is_ok());
    assert_eq!(fields(&mut decoder, &[0x80 | (61 + 31)]), Err(Malformed));
    // A field larger than the table empties it.
    let mut large = vec![0x40, 1, b'a', 0x7f, 0x81, 0x20];
    large.extend_from_slice(&[b'x'; 0x7f + 0x1001]);
    assert!(fields(&mut decoder, &large).is_ok());
    assert_eq!(fields(&mut decoder, &[0x80 | 62]), Err(Malformed));
}

#[test]
fn what_is_cut_short_or_out_of_place_is_refused() {
    let whole = literal(b"grpc-status", b"0");
    for len in 1..whole.len() {
        assert_eq!(fields(&mut Decoder::default(), &whole[..len]), Err(Malformed), "{len} bytes");
    }
    for block in [
        &[0x80][..],
        &[0xff; 6],
        // A table larger than was allowed, and a change of its size behind a field.
        &[0x3f, 0xe2, 0x1f],
        &[0x82, 0x20],
    ] {
        assert_eq!(fields(&mut Decoder::default(), block), Err(Malformed), "{block:02x?}");
    }
}

fn encoded(encoder: &mut Encoder, known: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    encoder.put_status(200, &mut out);
    known.iter().for_each(|(name, value)| encoder.put(name.as_bytes(), value.as_bytes(), &mut out));
    out
}

#[test]
fn what_every_answer_repeats_is_one_byte_from_the_second_time_on() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let known = [("content-type", "application/grpc"), ("grpc-status", "0")];
    let expected = pairs(&[&[(":status", "200")], &known[..]].concat());
    for _ in 0..3 {
        assert_eq!(fields(&mut decoder, &encoded(&mut encoder, &known)).unwrap(), expected);
    }
    assert_eq!(encoded(&mut encoder, &known).len(), 3);
    let others = [("grpc-status", "13"), ("content-type", "text/plain"), ("x", &"y".repeat(5_000)), known[1]];
    let expected = pairs(&[&[(":status", "200")], &others[..]].concat());
    assert_eq!(fields(&mut decoder, &encoded(&mut encoder, &others)).unwrap(), expected);
}

#[test]
fn a_receiver_that_keeps_little_or_nothing_still_understands() {
    let known = [("content-type", "application/grpc"), ("grpc-status", "0")];
    let expected = pairs(&[&[(":status", "200")], &known[..]].concat());
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    fields(&mut decoder, &encoded(&mut encoder, &known)).unwrap();
    for limits in [&[0][..], &[4_096], &[100, 70_000], &[REPEATED_FIT], &[0, 0], &[5, REPEATED_FIT]] {
        limits.iter().for_each(|limit| encoder.limit(*limit));
        for _ in 0..2 {
            let block = encoded(&mut encoder, &known);
            assert_eq!(fields(&mut decoder, &block).unwrap(), expected, "{limits:?}");
        }
    }
}

const REPEATED_FIT: usize = 104;

#[test]
fn every_static_status_is_written_by_its_index() {
    for status in [200, 204, 206, 304, 400, 404, 500, 431] {
        let mut out = Vec::new();
        Encoder::default().put_status(status, &mut out);
        let known = fields(&mut Decoder::default(), &out).unwrap();
        assert_eq!(known, pairs(&[(":status", &status.to_string())]));
        assert!(out.len() == 1 || status == 431);
    }
}
