//! The stream of `Maintenance.Snapshot`: pieces of a backup, each with what comes after it.
//! It shows what this member had applied when it was asked, and ends with an error if it is not whole.

use crate::ETCD_VERSION;
use crate::grpc::refusal;
use base::Code;
use proto::etcdserverpb::SnapshotResponse;
use server::{BackupPieces, Handle};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

type SnapshotSender = mpsc::Sender<Result<SnapshotResponse, Status>>;

pub async fn stream(handle: &Handle) -> Result<BoxStream<SnapshotResponse>, Code> {
    let pieces = handle.maintenance().backup().await?;
    // One response waits; the core reads the following pieces ahead.
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(send_pieces(pieces, sender));
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

async fn send_pieces(mut pieces: BackupPieces, responses: SnapshotSender) {
    loop {
        let response = match pieces.next().await {
            Ok(None) => return,
            Ok(Some(piece)) => Ok(SnapshotResponse {
                // As etcd answers it.
                header: None,
                remaining_bytes: piece.left_bytes,
                blob: piece.bytes,
                version: ETCD_VERSION.to_owned(),
            }),
            Err(code) => Err(refusal::render(code)),
        };
        let ends = response.is_err();
        if responses.send(response).await.is_err() || ends {
            return;
        }
    }
}
