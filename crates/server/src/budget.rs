//! The memory that all large answers together may take.
//! A reader of a piece, or of a whole answer, reserves its bytes first, in turn with others; dropping the share
//! releases them, once the client has taken the bytes. A reservation that waits too long is refused.

use base::Code;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long an answer waits for its share.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Budget {
    free: Arc<Semaphore>,
    bytes_max: usize,
}

/// Bytes that are reserved until it is dropped.
#[derive(Debug)]
pub struct BudgetShare {
    permit: OwnedSemaphorePermit,
}

impl BudgetShare {
    pub fn bytes(&self) -> usize {
        self.permit.num_permits()
    }
}

impl Budget {
    pub fn new(bytes_max: usize) -> Budget {
        Budget { free: Arc::new(Semaphore::new(bytes_max)), bytes_max }
    }

    /// A request for more than the budget gets all of it.
    pub async fn reserve(&self, bytes: usize) -> Result<BudgetShare, Code> {
        let permits = u32::try_from(bytes.min(self.bytes_max)).expect("the budget is below 4 GiB");
        let reserved = timeout(RESERVE_TIMEOUT, self.free.clone().acquire_many_owned(permits)).await;
        let permit = reserved.map_err(|_| Code::TooManyRequests)?.expect("it is never closed");
        Ok(BudgetShare { permit })
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub fn reserved_bytes(&self) -> usize {
        self.bytes_max - self.free.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_waits_until_others_give_back() {
        let budget = Arc::new(Budget::new(100));
        let first = budget.reserve(60).await.unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.reserve(50).await.unwrap().bytes() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        assert_eq!(waiting.await.unwrap(), 50);
        assert_eq!(budget.reserved_bytes(), 0);
    }

    #[tokio::test]
    async fn more_than_everything_is_everything() {
        let budget = Budget::new(100);
        assert_eq!(budget.reserve(1_000).await.unwrap().bytes(), 100);
    }
}
