//! The calls that are answered on connections beyond the limit: probes, metrics, and what operators need to list
//! and change the members.

const PATHS: [&str; 16] = [
    "/health",
    "/livez",
    "/readyz",
    "/metrics",
    "/version",
    "/grpc.health.v1.Health/",
    "/etcdserverpb.Cluster/",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.Maintenance/Alarm",
    "/etcdserverpb.Maintenance/MoveLeader",
    "/v3/cluster/",
    "/v3/maintenance/status",
    "/v3/maintenance/alarm",
    "/v3/maintenance/transfer-leadership",
    "/v1/store/replace-member",
    "/v1/store/accept-loss",
];

pub fn is_urgent(path: &[u8]) -> bool {
    PATHS.iter().any(|beginning| path.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_and_members_are_urgent_and_data_is_not() {
        for path in ["/health?serializable=true", "/readyz/serializable", "/etcdserverpb.Cluster/MemberList"]
        {
            assert!(is_urgent(path.as_bytes()), "{path}");
        }
        for path in [
            "/",
            "/v3/kv/put",
            "/etcdserverpb.KV/Range",
            "/etcdserverpb.Maintenance/Snapshot",
            "/v1/data/health",
        ] {
            assert!(!is_urgent(path.as_bytes()), "{path}");
        }
    }
}
