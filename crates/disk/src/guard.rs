//! Reads files that may be damaged: a panic of the storage engine, or of a view of it, becomes an error here. Used
//! where files are opened and checked, and nowhere else: in a serving process, a store that cannot be read ends the
//! process. The partial result is dropped.

use crate::error::Error;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`, whose panics are damage to `file`.
pub fn catch_damage<T, E: From<Error>>(file: &str, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    silence_guarded_panics();
    let outer = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(outer);
    result.unwrap_or_else(|panic| {
        let what = panic_message(&*panic);
        Err(Error::Unreadable { file: file.to_owned(), what }.into())
    })
}

/// A caught panic is reported by the error, and not on standard error as well.
fn silence_guarded_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                hook(info);
            }
        }));
    });
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it cannot be read").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_names_the_file() {
        let error =
            catch_damage("store", || -> Result<(), Error> { panic!("page {} is gone", 7) }).unwrap_err();
        assert!(
            matches!(&error, Error::Unreadable { file, what } if file == "store" && what == "page 7 is gone")
        );
        assert!(catch_damage("store", || Ok::<_, Error>(7)).is_ok_and(|seven| seven == 7));
    }
}
