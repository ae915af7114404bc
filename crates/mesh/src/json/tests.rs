use super::*;
use proptest::prelude::*;

fn canonical(text: &str) -> Option<String> {
    let mut out = String::new();
    Json::parse(text)?.write(&mut out);
    Some(out)
}

#[test]
fn documents_are_read_and_written_in_one_form() {
    for (text, form) in [
        (" { \"b\" : [1, -2.5e+3 ,true] , \"a\":null } ", r#"{"a":null,"b":[1,-2.5e+3,true]}"#),
        (r#""a\"\\\u00e9é""#, r#""a\"\\\u00e9é""#),
        ("[]", "[]"),
        ("{}", "{}"),
        ("0", "0"),
        ("-0.5", "-0.5"),
    ] {
        assert_eq!(canonical(text).as_deref(), Some(form));
        assert_eq!(canonical(form).as_deref(), Some(form));
    }
}

#[test]
fn what_is_no_document_is_refused() {
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\"}",
        "01",
        "-",
        "1.",
        ".5",
        "tru",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "{a:1}",
        "1 2",
        "\"\n\"",
    ] {
        assert_eq!(canonical(text), None, "{text:?}");
    }
    assert_eq!(Json::parse(&"[".repeat(100_000)), None, "too deep");
    assert!(Json::parse(&format!("{}{}", "[".repeat(60), "]".repeat(60))).is_some());
}

proptest! {
    #[test]
    fn whatever_text_comes_reading_it_does_not_panic(text: String) {
        if let Some(form) = canonical(&text) {
            prop_assert_eq!(canonical(&form), Some(form));
        }
    }

    #[test]
    fn whatever_looks_like_a_document_does_not_panic(text in "[\\[\\]{}\",:0-9a-z\\\\.\\-+ ]{0,40}") {
        if let Some(form) = canonical(&text) {
            prop_assert_eq!(canonical(&form), Some(form));
        }
    }
}
