//! The values of all settings, each with the place it came from.
//! A value is kept as it was written until `check` has looked at it; after that the typed getters cannot fail.

use crate::config::setting::Id;
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub text: String,
    pub origin: Origin,
}

/// Where a value came from, weakest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// Follows another setting.
    Derived,
    File(PathBuf),
    Environment(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("the default"),
            Origin::Derived => f.write_str("the default, which follows other settings"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Environment(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// One value for each row of the table, in its order.
#[derive(Clone, Debug)]
pub struct Values(pub(super) Vec<Value>);

impl Values {
    pub fn get(&self, id: Id) -> &Value {
        &self.0[id as usize]
    }

    pub fn text(&self, id: Id) -> &str {
        &self.get(id).text
    }

    pub fn number(&self, id: Id) -> u64 {
        self.text(id).parse().expect("checked to be a number")
    }
}
