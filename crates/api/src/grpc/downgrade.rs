//! Downgrades, as etcd's clients ask for them: whether a version can be gone back to, and that the cluster should.
//! The cluster remembers the target in a document. Members change nothing by it: their formats are their own, and a
//! snapshot of any member is what an older etcd is started from.

use crate::ETCD_VERSION;
use crate::grpc::refusal;
use base::{Code, FormatLevel};
use bytes::Bytes;
use proto::etcdserverpb::downgrade_request::DowngradeAction;
use proto::etcdserverpb::{DowngradeInfo, DowngradeRequest};
use server::{DocumentContent, Handle};
use tonic::Status;

/// The version to go back to; empty while no downgrade is under way.
struct DowngradeTarget(Bytes);

impl DocumentContent for DowngradeTarget {
    const NAME: &'static str = "cluster/downgrade";

    fn decode(bytes: Bytes) -> Option<DowngradeTarget> {
        Some(DowngradeTarget(bytes))
    }

    fn encode(&self, _: FormatLevel) -> Bytes {
        self.0.clone()
    }

    fn unwritten() -> Option<DowngradeTarget> {
        Some(DowngradeTarget(Bytes::new()))
    }
}

impl DowngradeTarget {
    fn check_none_under_way(&self) -> Result<(), Code> {
        if self.0.is_empty() { Ok(()) } else { Err(Code::DowngradeInProgress) }
    }
}

/// The version of the cluster, in etcd's short form.
pub async fn run(handle: &Handle, request: &DowngradeRequest) -> Result<String, Status> {
    let action = DowngradeAction::try_from(request.action)
        .map_err(|_| Status::unknown("etcdserver: unknown method"))?;
    let outcome = match action {
        DowngradeAction::Validate => validate(handle, &request.version).await,
        DowngradeAction::Enable => enable(handle, &request.version).await,
        DowngradeAction::Cancel => cancel(handle).await,
    };
    outcome.map_err(refusal::render)?;
    Ok(short(ETCD_VERSION).to_owned())
}

/// As far as this member knows.
pub fn info(handle: &Handle) -> DowngradeInfo {
    let target =
        handle.documents().get_here(DowngradeTarget::NAME).map(|(_, bytes)| bytes).unwrap_or_default();
    DowngradeInfo {
        enabled: !target.is_empty(),
        target_version: String::from_utf8_lossy(&target).into_owned(),
    }
}

/// The target can be gone back to and no downgrade is under way.
async fn validate(handle: &Handle, version: &str) -> Result<(), Code> {
    parse_target(version)?;
    let (_, target) = handle.documents().read::<DowngradeTarget>().await?;
    target.check_none_under_way()
}

async fn enable(handle: &Handle, version: &str) -> Result<(), Code> {
    let (major, minor) = parse_target(version)?;
    let wanted = Bytes::from(format!("{major}.{minor}.0"));
    let enabled = handle.documents().update(|target: &mut DowngradeTarget| {
        target.check_none_under_way()?;
        target.0 = wanted.clone();
        Ok::<_, Code>(())
    });
    Ok(enabled.await?)
}

/// None that is under way is no error, as in etcd.
async fn cancel(handle: &Handle) -> Result<(), Code> {
    let cancelled = handle.documents().update(|target: &mut DowngradeTarget| {
        target.0.clear();
        Ok::<_, Code>(())
    });
    Ok(cancelled.await?)
}

/// The version, if it can be gone back to.
fn parse_target(version: &str) -> Result<(u64, u64), Code> {
    let target = parse(version).ok_or(Code::DowngradeVersionFormat)?;
    if Some(target) == previous() { Ok(target) } else { Err(Code::DowngradeVersion) }
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
        assert_eq!(previous(), Some((3, 6)));
        assert_eq!(parse("3.6"), Some((3, 6)));
        assert_eq!(parse("3.6.0"), Some((3, 6)));
        for text in ["", "3", "x", "3.x", "3.5.0.1", "v3.5"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(short(ETCD_VERSION), "3.7");
    }
}
