//! The query of a URL, taken apart: names and values, decoded.
//! An unknown parameter is refused by name, so that a typing error is not ignored; so is one
//! that comes twice.

use super::refusal::Refusal;
use crate::percent;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub fn parse(text: &str) -> Result<Query, Refusal> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::bad(format!("the parameter `{name}` comes twice; give it once")));
            }
            pairs.push((name, value));
        }
        Ok(Query { pairs })
    }

    /// The query made of names and values that came in another way, each once.
    pub fn of(pairs: Vec<(String, String)>) -> Query {
        Query { pairs }
    }

    /// The same, but for one parameter.
    pub fn with(&self, name: &str, value: impl ToString) -> Query {
        let others = self.pairs.iter().filter(|(other, _)| other != name).cloned();
        Query { pairs: others.chain([(name.to_owned(), value.to_string())]).collect() }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Refuses parameters other than these, and other than the namespace, which every request may name.
    pub fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        let is_known = |name: &str| name == "ns" || known.contains(&name);
        match self.pairs.iter().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::bad(format!(
                "unknown parameter `{name}`; this request takes {}",
                [known, &["ns"]].concat().join(", ")
            ))),
        }
    }

    /// A switch: `x`, `x=1`, `x=true` turn it on, `x=0`, `x=false` do not.
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.get(name) {
            None | Some("0" | "false") => Ok(false),
            Some("" | "1" | "true") => Ok(true),
            Some(value) => Err(Refusal::bad(format!("{name}={value} is neither true nor false"))),
        }
    }

    /// A whole number within bounds.
    pub fn number(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(Refusal::bad(format!("{name}={text} must be a whole number from {min} to {max}"))),
        }
    }
}

/// In a query a plus stands for a blank.
fn decode(text: &str) -> Result<String, Refusal> {
    let refusal = || Refusal::bad(format!("`{text}` is not percent-encoded UTF-8"));
    let bytes = percent::decode(&text.replace('+', " ")).ok_or_else(refusal)?;
    String::from_utf8(bytes).map_err(|_| refusal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_taken_apart() {
        let query = Query::parse("start=a%2Fb&end=x+y&explain&r=2").unwrap();
        assert_eq!((query.get("start"), query.get("end"), query.get("w")), (Some("a/b"), Some("x y"), None));
        assert!(query.flag("explain").unwrap());
        assert_eq!(query.number("r", 1, 5).unwrap(), Some(2));
        assert!(query.only(&["start", "end", "explain", "r"]).is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["a=%", "a=%ff", "%zz", "a=1&a=2"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
        let query = Query::parse("lmit=3&r=0&w=-1&explain=yes").unwrap();
        assert!(query.only(&["limit"]).is_err());
        assert!(query.number("r", 1, 5).is_err() && query.number("w", 1, 5).is_err());
        assert!(query.flag("explain").is_err());
    }
}
