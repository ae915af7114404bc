//! The driver of one node of the mesh, as `node` is for coord; the shell and the simulator run the same driver.
//! Requests, frames, reports, documents, completions and ticks go in; what to send, persist, flush, reply, propose and write
//! comes out, as plain values. The driver owns the machine of `mesh` and decides when it begins, which documents it follows,
//! what the leader of coord proposes, which region owns which homes, and where nodes of other regions are.

mod address_book;
mod discovery;
mod documents;
mod driver;
mod home_leases;
mod homes;
mod messages;
mod mutant;
mod planner;
mod reporter;
mod startup;

pub use address_book::{AddressBook, RegionNodes, RemoteNode};
pub use discovery::{
    DiscoveryContext, RegionQuery, answer_question, asking_region, is_region_question, refuse_question,
};
pub use documents::{Document, FOLLOWED, read_regions};
pub use driver::Driver;
pub use home_leases::HomeLeases;
pub use homes::AskTime;
pub use messages::{
    CoordMembers, DocumentProposal, DriverEvent, DriverSettings, HeldHome, Input, Message, Output,
};
pub use mutant::Mutant;
