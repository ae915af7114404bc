//! A password that is typed at the terminal and not shown there.
//! Standard input must be a terminal. While a password is typed, every key comes here and none is a signal, so that the
//! terminal is restored however the typing ends.

use super::Error;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Write};

const END_OF_TEXT: u8 = 3;
const END_OF_INPUT: u8 = 4;
const BACKSPACE: u8 = 8;
const ERASE_LINE: u8 = 21;
const DELETE: u8 = 127;

/// Whether there is a terminal to ask at.
pub fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Prompts for a password that exists.
pub fn ask(user: &str) -> Result<String, Error> {
    ask_with(&format!("Password of {user}: "))
}

/// Prompts for a new password, twice, because a typing error cannot be seen.
pub fn ask_twice(user: &str) -> Result<String, Error> {
    let password = ask(user)?;
    if password.is_empty() {
        return Err(Error::Usage("the password is empty".to_owned()));
    }
    if ask_with(&format!("Type password of {user} again for confirmation: "))? == password {
        Ok(password)
    } else {
        Err(Error::Usage("the two passwords differ".to_owned()))
    }
}

fn ask_with(prompt: &str) -> Result<String, Error> {
    let quiet = NoEcho::begin().map_err(|error| Error::Input(error.into()))?;
    let show = |text: &str| {
        let mut err = std::io::stderr().lock();
        err.write_all(text.as_bytes()).and_then(|()| err.flush()).map_err(Error::Output)
    };
    show(prompt)?;
    let typed = read_line();
    drop(quiet);
    show("\n")?;
    String::from_utf8(typed?).map_err(|_| Error::Usage("the password is no UTF-8".to_owned()))
}

fn read_line() -> Result<Vec<u8>, Error> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        match rustix::io::read(std::io::stdin(), &mut byte) {
            Ok(0) => return Err(end_of_input()),
            Ok(_) => match take(&mut line, byte[0]) {
                TypedInput::More => {}
                TypedInput::Line => return Ok(line),
                TypedInput::End => return Err(end_of_input()),
                TypedInput::Interrupt => return Err(Error::Interrupted),
            },
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Input(error.into())),
        }
    }
}

/// No password was given: an empty one is not meant.
pub fn end_of_input() -> Error {
    Error::Input(std::io::ErrorKind::UnexpectedEof.into())
}

#[derive(Debug, PartialEq, Eq)]
enum TypedInput {
    More,
    Line,
    End,
    Interrupt,
}

fn take(line: &mut Vec<u8>, byte: u8) -> TypedInput {
    match byte {
        b'\r' | b'\n' => return TypedInput::Line,
        END_OF_TEXT => return TypedInput::Interrupt,
        END_OF_INPUT if line.is_empty() => return TypedInput::End,
        END_OF_INPUT => {}
        ERASE_LINE => line.clear(),
        BACKSPACE | DELETE => {
            // A letter may be several bytes.
            while line.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
        }
        byte => line.push(byte),
    }
    TypedInput::More
}

/// A terminal that does not echo, until this is dropped.
struct NoEcho {
    before: Termios,
}

impl NoEcho {
    fn begin() -> rustix::io::Result<NoEcho> {
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &quiet)?;
        Ok(NoEcho { before })
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> (Vec<u8>, TypedInput) {
        let mut line = Vec::new();
        for byte in bytes {
            match take(&mut line, *byte) {
                TypedInput::More => {}
                end => return (line, end),
            }
        }
        (line, TypedInput::More)
    }

    #[test]
    fn keys_do_what_they_do_in_a_line() {
        for (bytes, line, end) in [
            (&b"secret\r"[..], &b"secret"[..], TypedInput::Line),
            (b"sex\x7fcret\n", b"secret", TypedInput::Line),
            ("ab\u{e9}\u{20ac}\x7f\x08\n".as_bytes(), b"ab", TypedInput::Line),
            (b"\x7f\x7fa\n", b"a", TypedInput::Line),
            (b"wrong\x15right\n", b"right", TypedInput::Line),
            (b"a\x04b\n", b"ab", TypedInput::Line),
            (b"\x04", b"", TypedInput::End),
            (b"abc\x03", b"abc", TypedInput::Interrupt),
            (b"\r", b"", TypedInput::Line),
        ] {
            assert_eq!(typed(bytes), (line.to_vec(), end), "{}", bytes.escape_ascii());
        }
    }
}
