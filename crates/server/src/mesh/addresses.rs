//! The driver's address book, for the other threads to read.

use mesh_node::AddressBook;
use std::sync::{Arc, RwLock};

#[derive(Default)]
pub(crate) struct Addresses {
    newest: RwLock<Arc<AddressBook>>,
}

impl Addresses {
    pub fn set(&self, book: AddressBook) {
        *self.newest.write().expect("no thread panics while it holds the addresses") = Arc::new(book);
    }

    pub fn get(&self) -> Arc<AddressBook> {
        self.newest.read().expect("no thread panics while it holds the addresses").clone()
    }
}
