//! What the stores of the coordination and of the data plane have in common for maintenance: a file that can be
//! rewritten while it is in use, and a view that has to be renewed after that.

use crate::error::Error;
use disk::Store;

pub trait StoreOwner {
    fn store(&mut self) -> &mut Store;

    /// Moves the view to what the store's file is now; its rows are the same.
    fn renew_view(&mut self) -> Result<(), Error>;
}
