//! Scans as streams: pages are asked for as the client takes them, each under the caller's permissions of then.

use super::head::CallHead;
use super::{DataApi, message};
use crate::rest::Rest;
use crate::rest::pages::Pages;
use crate::rest::range;
use crate::rest::refusal::Refusal;
use mesh::{Scan, ScanView};
use proto::althing::data::v1 as wire;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

/// Pages that wait for the client.
const PAGES_MAX: usize = 1;

pub async fn stream(
    rest: Rest,
    metadata: MetadataMap,
    request: wire::ScanRequest,
) -> Result<Response<BoxStream<wire::ScanResponse>>, Status> {
    let mut walk = Walk::begin(&rest, &metadata, request).await.map_err(message::status)?;
    // Whether the caller may is the outcome of the call, and not of a message.
    let first = walk.page(&rest, &metadata).await.map_err(message::status)?;
    let (sender, receiver) = mpsc::channel(PAGES_MAX);
    tokio::spawn(async move {
        let mut page = Ok(first);
        loop {
            let is_last = page.is_err() || walk.pages.is_over();
            let page_now = page.map_err(message::status);
            if sender.send(page_now).await.is_err() || is_last {
                return;
            }
            page = walk.page(&rest, &metadata).await;
        }
    });
    Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
}

/// Where a scan is.
struct Walk {
    pages: Pages,
}

impl Walk {
    async fn begin(rest: &Rest, metadata: &MetadataMap, request: wire::ScanRequest) -> Result<Walk, Refusal> {
        let wire::ScanRequest { scope, keys, limit, r, keys_only, reverse } = request;
        let fill = |head: CallHead| {
            let head = head.reading(Some(wire::ReadOptions { r, ..Default::default() }))?;
            Ok(head.ranging(keys))
        };
        let (rest, head) = DataApi::new(rest.clone()).head(metadata, scope, fill).await?;
        let scan = Scan { view: ScanView { keys_only, reverse }, ..range::scan_of(&rest, &head)? };
        let pages = Pages::of(scan, head.timeout()?).up_to(Some(limit).filter(|limit| *limit != 0));
        Ok(Walk { pages })
    }

    async fn page(&mut self, rest: &Rest, metadata: &MetadataMap) -> Result<wire::ScanResponse, Refusal> {
        let rest = DataApi::new(rest.clone()).admit(metadata).await?;
        let page = self.pages.next(&rest).await?.unwrap_or_default();
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let found = page.records.iter().map(|(key, record)| message::listed(text(key.name_slice()), record));
        let named = page.names.iter();
        let named = named.map(|key| wire::Entry { key: text(key.name_slice()), ..Default::default() });
        Ok(wire::ScanResponse {
            entries: found.chain(named).collect(),
            missing_partitions: page.n_missing.into(),
            next: page.next.map_or(String::new(), |next| text(&next)),
        })
    }
}

/// How many keys there are. Permissions are looked at again for each page.
pub async fn count(
    api: &DataApi,
    metadata: &MetadataMap,
    request: wire::CountRequest,
) -> Result<wire::CountResponse, Refusal> {
    let wire::CountRequest { scope, keys, r } = request;
    let mut walk = Walk::begin(
        &api.rest,
        metadata,
        wire::ScanRequest { scope, keys, r, keys_only: true, ..Default::default() },
    )
    .await?;
    let mut told = wire::CountResponse::default();
    while !walk.pages.is_over() {
        let page = walk.page(&api.rest, metadata).await?;
        told.count += page.entries.len() as u64;
        told.missing_partitions = told.missing_partitions.max(page.missing_partitions);
    }
    Ok(told)
}

pub async fn delete(
    api: &DataApi,
    metadata: &MetadataMap,
    request: wire::DeleteRangeRequest,
) -> Result<wire::DeleteRangeResponse, Refusal> {
    let wire::DeleteRangeRequest { scope, keys, w } = request;
    if keys.as_ref().is_none_or(|keys| *keys == wire::Keys::default()) {
        return Err(Refusal::bad("name what is to be deleted: a prefix, or a start and an end"));
    }
    let fill = |head: CallHead| {
        let head = head.writing(Some(wire::WriteOptions { w, ..Default::default() }))?;
        Ok(head.ranging(keys))
    };
    let (rest, head) = api.head(metadata, scope, fill).await?;
    let scan = Scan { view: ScanView { keys_only: true, reverse: false }, ..range::scan_of(&rest, &head)? };
    rest.permit_deletion(&scan)?;
    let mut pages = Pages::of(scan, head.timeout()?);
    let mut told = wire::DeleteRangeResponse::default();
    while let Some(page) = pages.next(&rest).await? {
        let (seen, failed) = range::delete_page(&rest, &head, &page).await?;
        told.deleted += seen - failed;
        told.failed += failed;
        told.missing_partitions = told.missing_partitions.max(page.n_missing.into());
    }
    Ok(told)
}
