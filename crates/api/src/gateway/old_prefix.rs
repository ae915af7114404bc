//! The prefixes that the gateway had before `/v3/`: `/v3alpha/` in etcd 3.2 and 3.3, `/v3beta/` since 3.3.
//! A path goes in; the same path under `/v3/` comes out, if it has an old prefix.

use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use bytes::Bytes;

const OLD_PREFIXES: [&[u8]; 2] = [b"/v3beta/", b"/v3alpha/"];
const PREFIX: &[u8] = b"/v3/";

/// The path under the present prefix; `None` if it needs no change.
pub fn replace(path: &[u8]) -> Option<Bytes> {
    let rest = OLD_PREFIXES.iter().find_map(|old| path.strip_prefix(*old))?;
    Some([PREFIX, rest].concat().into())
}

/// The same for the path of a URI.
pub fn replace_in(uri: &mut Uri) {
    let old = uri.path_and_query().and_then(|path| replace(path.as_str().as_bytes()));
    let Some(path) = old.and_then(|path| PathAndQuery::from_maybe_shared(path).ok()) else { return };
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = Some(path);
    *uri = Uri::from_parts(parts).expect("only the path has changed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_prefixes_become_the_present_one_and_nothing_else_changes() {
        assert_eq!(replace(b"/v3beta/kv/range").as_deref(), Some(&b"/v3/kv/range"[..]));
        assert_eq!(replace(b"/v3alpha/watch?method=POST").as_deref(), Some(&b"/v3/watch?method=POST"[..]));
        for path in ["/v3/kv/range", "/v3beta", "/v3gamma/kv/range", "/x/v3beta/kv"] {
            assert_eq!(replace(path.as_bytes()), None, "{path}");
        }
        for (old, new) in
            [("http://h:1/v3beta/a?b", "http://h:1/v3/a?b"), ("/v3alpha/a", "/v3/a"), ("*", "*")]
        {
            let mut uri: Uri = old.parse().unwrap();
            replace_in(&mut uri);
            assert_eq!(uri, new);
        }
    }
}
