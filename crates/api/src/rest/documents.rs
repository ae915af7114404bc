//! Documents of the cluster that routes read and change, with what a client is told when that fails.

use super::Rest;
use super::refusal::Refusal;
use base::Code;
use server::{DocumentContent, DocumentError};

/// A document as it is now.
pub async fn now<D: DocumentContent>(rest: &Rest) -> Result<D, Refusal> {
    let read = rest.handle().documents().read::<D>().await;
    read.map(|(_, content)| content).map_err(|error| refusal::<D, Code>(error))
}

/// Changes a document, again if another request changed it meanwhile.
pub async fn update<D: DocumentContent, T>(
    rest: &Rest,
    change: impl Fn(&mut D) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    rest.handle().documents().update(change).await.map_err(|error| refusal::<D, Refusal>(error))
}

fn refusal<D: DocumentContent, E: Into<Refusal>>(error: DocumentError<E>) -> Refusal {
    let what = D::NAME;
    match error {
        DocumentError::Unreadable => {
            Refusal::new(Code::NotSeenHere, format!("the {what} cannot be read here"))
        }
        DocumentError::Busy => {
            Refusal::new(Code::TooManyRequests, format!("others change the {what} all the time; try again"))
        }
        DocumentError::Refused(refusal) => refusal.into(),
        DocumentError::Code(code) => code.into(),
    }
}
