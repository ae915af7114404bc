//! What a bucket answers when it is asked for its files: XML, of which three elements matter.

/// A page of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// Keys, and how many bytes each has.
    pub files: Vec<(String, u64)>,
    /// Where the next page begins.
    pub next: Option<String>,
}

impl Listing {
    /// None if the text is no listing.
    pub fn parse(text: &str) -> Option<Listing> {
        if !text.contains("<ListBucketResult") {
            return None;
        }
        let mut files = Vec::new();
        for entry in text.split("<Contents>").skip(1) {
            let entry = entry.split("</Contents>").next()?;
            files.push((text_of(entry, "Key")?, text_of(entry, "Size")?.parse().ok()?));
        }
        let is_cut = text_of(text, "IsTruncated").is_some_and(|word| word == "true");
        let next = text_of(text, "NextContinuationToken").filter(|_| is_cut);
        (next.is_some() == is_cut).then_some(Listing { files, next })
    }
}

/// What stands in the first element of this name.
pub(super) fn text_of(text: &str, element: &str) -> Option<String> {
    let from = text.find(&format!("<{element}>"))? + element.len() + 2;
    let length = text[from..].find(&format!("</{element}>"))?;
    let plain = &text[from..from + length];
    let names = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(names.iter().fold(plain.to_owned(), |text, (name, letter)| text.replace(name, letter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_with_the_place_of_the_next() {
        let text = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated>\
            <NextContinuationToken>a&amp;b</NextContinuationToken>\
            <Contents><Key>p/one</Key><Size>5</Size></Contents><Contents><Key>p/two</Key><Size>60</Size></Contents></ListBucketResult>";
        let listing = Listing::parse(text).unwrap();
        assert_eq!(listing.files, [("p/one".to_owned(), 5), ("p/two".to_owned(), 60)]);
        assert_eq!(listing.next.as_deref(), Some("a&b"));
    }

    #[test]
    fn what_is_no_listing_is_not_taken_for_an_empty_one() {
        assert_eq!(Listing::parse("<html></html>"), None);
        assert_eq!(
            Listing::parse("<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"),
            None
        );
        assert_eq!(
            Listing::parse("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
            None
        );
        let empty = Listing::parse("<ListBucketResult></ListBucketResult>").unwrap();
        assert_eq!((empty.files.len(), empty.next), (0, None));
    }
}
