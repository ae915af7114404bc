//! Signed tokens (JSON Web Tokens) as etcd gives them out with `--auth-token jwt`: a name, the auth revision, an end.
//! Key files and the name of a method go in and become `JwtKeys`; claims go in and a token comes out, a token and the time
//! go in and its claims come out. The method belongs to the keys and is never taken from a token.

mod der;
mod keys;
mod method;
mod pem;
mod token;

pub use keys::{Error, JwtKeys};
pub use method::SigningMethod;
pub use token::Claims;
