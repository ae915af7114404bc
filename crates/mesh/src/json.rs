//! Just enough JSON to merge two documents: a value as a tree, read from text and written in one canonical form.
//! Members are sorted, numbers and strings keep the spelling that they came with. Text that is not JSON, or nested
//! too deep, is no value.

use std::collections::BTreeMap;

/// Documents within documents.
const DEPTH_MAX: usize = 64;

/// In the order in which one is preferred to another where only one can stay.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Json {
    Null,
    Bool(bool),
    /// As it was spelled.
    Number(String),
    /// With its escapes, without its quotes.
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Json {
    pub fn parse(text: &str) -> Option<Json> {
        let mut parser = Parser { text, at: 0 };
        let json = parser.value(DEPTH_MAX)?;
        parser.space();
        (parser.at == text.len()).then_some(json)
    }

    pub fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(spelled) => out.push_str(spelled),
            Json::Text(spelled) => write_text(spelled, out),
            Json::List(items) => {
                out.push('[');
                for (nth, item) in items.iter().enumerate() {
                    out.push_str(if nth > 0 { "," } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (nth, (name, value)) in members.iter().enumerate() {
                    out.push_str(if nth > 0 { "," } else { "" });
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Objects are merged member by member; of anything else the greater stays. Commutative, associative, idempotent.
    pub fn merge(self, other: Json) -> Json {
        match (self, other) {
            (Json::Object(mut left), Json::Object(right)) => {
                for (name, theirs) in right {
                    let merged = match left.remove(&name) {
                        Some(ours) => ours.merge(theirs),
                        None => theirs,
                    };
                    left.insert(name, merged);
                }
                Json::Object(left)
            }
            (left, right) => left.max(right),
        }
    }
}

fn write_text(spelled: &str, out: &mut String) {
    out.push('"');
    out.push_str(spelled);
    out.push('"');
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        let depth = depth.checked_sub(1)?;
        self.space();
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.string().map(Json::Text),
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, json: Json) -> Option<Json> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            json
        })
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn number(&mut self) -> Option<Json> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let whole = self.at;
        self.digits()?;
        if self.text[whole..self.at].starts_with('0') && self.at > whole + 1 {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(Json::Number(self.text[from..self.at].to_owned()))
    }

    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let from = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    let escape = *self.text.as_bytes().get(self.at + 1)?;
                    let hex = self.text.as_bytes().get(self.at + 2..self.at + 6);
                    let lawful = match escape {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => true,
                        b'u' => hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)),
                        _ => false,
                    };
                    self.at += if lawful { 2 } else { return None };
                }
                0..=0x1f => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(self.text[from..self.at - 1].to_owned())
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut items = Vec::new();
        if self.eat(b']').is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.eat(b']').is_some() {
                return Some(Json::List(items));
            }
            self.eat(b',')?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut members = BTreeMap::new();
        if self.eat(b'}').is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek()? != b'"' {
                return None;
            }
            let name = self.string()?;
            self.eat(b':')?;
            members.insert(name, self.value(depth)?);
            if self.eat(b'}').is_some() {
                return Some(Json::Object(members));
            }
            self.eat(b',')?;
        }
    }
}

#[cfg(test)]
mod tests;
