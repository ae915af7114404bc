//! Downgrades, as etcd's clients ask for them: whether a version can be gone back to, and that the cluster should.
//! The cluster remembers the target in a document. Members change nothing by it: their formats are their own, and a
//! snapshot of any member is what an older etcd is started from.

use crate::ETCD_VERSION;
use crate::grpc::refusal;
use base::Code;
use bytes::Bytes;
use proto::etcdserverpb::downgrade_request::DowngradeAction;
use proto::etcdserverpb::{DowngradeInfo, DowngradeRequest};
use server::Handle;
use tonic::Status;

/// The document with the target's version; empty when there is none.
const DOCUMENT: &str = "cluster/downgrade";

/// The version of the cluster, in etcd's short form.
pub async fn run(handle: &Handle, request: &DowngradeRequest) -> Result<String, Status> {
    let action = DowngradeAction::try_from(request.action)
        .map_err(|_| Status::unknown("etcdserver: unknown method"))?;
    let outcome = match action {
        DowngradeAction::Validate => validate(handle, &request.version).await.map(|_| ()),
        DowngradeAction::Enable => enable(handle, &request.version).await,
        DowngradeAction::Cancel => cancel(handle).await,
    };
    outcome.map_err(refusal::render)?;
    Ok(short(ETCD_VERSION).to_owned())
}

/// As far as this member knows.
pub fn info(handle: &Handle) -> DowngradeInfo {
    let target = handle.documents().get_here(DOCUMENT).map(|(_, bytes)| bytes).unwrap_or_default();
    DowngradeInfo {
        enabled: !target.is_empty(),
        target_version: String::from_utf8_lossy(&target).into_owned(),
    }
}

/// The version of the document, if the target can be gone back to and no downgrade is under way.
async fn validate(handle: &Handle, version: &str) -> Result<u64, Code> {
    let target = parse(version).ok_or(Code::DowngradeVersionFormat)?;
    if Some(target) != previous() {
        return Err(Code::DowngradeVersion);
    }
    match handle.documents().get(DOCUMENT).await? {
        Some((_, bytes)) if !bytes.is_empty() => Err(Code::DowngradeInProgress),
        Some((version, _)) => Ok(version),
        None => Ok(0),
    }
}

async fn enable(handle: &Handle, version: &str) -> Result<(), Code> {
    let expect = validate(handle, version).await?;
    let (major, minor) = parse(version).ok_or(Code::DowngradeVersionFormat)?;
    let target = Bytes::from(format!("{major}.{minor}.0"));
    match handle.documents().set(DOCUMENT, expect, target).await {
        Err(Code::DocumentChanged) => Err(Code::DowngradeInProgress),
        outcome => outcome.map(drop),
    }
}

/// None that is under way is no error, as in etcd.
async fn cancel(handle: &Handle) -> Result<(), Code> {
    match handle.documents().get(DOCUMENT).await? {
        Some((version, bytes)) if !bytes.is_empty() => {
            handle.documents().set(DOCUMENT, version, Bytes::new()).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// `3.5` of `3.5.0`.
fn short(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(short, _)| short)
}

/// The release before this one.
fn previous() -> Option<(u64, u64)> {
    let (major, minor) = parse(ETCD_VERSION)?;
    Some((major, minor.checked_sub(1)?))
}

/// The major and minor number of `3.5` or `3.5.0`.
fn parse(version: &str) -> Option<(u64, u64)> {
    let numbers: Option<Vec<u64>> = version.split('.').map(|number| number.parse().ok()).collect();
    match numbers?[..] {
        [major, minor] | [major, minor, _] => Some((major, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_release_before_can_be_gone_back_to() {
        assert_eq!(previous(), Some((3, 5)));
        assert_eq!(parse("3.5"), Some((3, 5)));
        assert_eq!(parse("3.5.0"), Some((3, 5)));
        for text in ["", "3", "x", "3.x", "3.5.0.1", "v3.5"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(short(ETCD_VERSION), "3.6");
    }
}
