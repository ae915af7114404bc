use super::*;
use axum::http::Method;
use prost_reflect::DescriptorPool;

#[test]
fn calls_that_are_listed_as_reads_exist() {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
    let methods: Vec<String> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| format!("/{}/{}", method.parent_service().full_name(), method.name()))
        .collect();
    for path in READS {
        assert!(methods.iter().any(|method| method == path), "{path}");
    }
    assert!(methods.iter().any(|path| class_of(path) == AuditClass::Login));
    assert_eq!(class_of("/etcdserverpb.KV/Put"), AuditClass::Change);
    assert_eq!(class_of("/etcdserverpb.Maintenance/Snapshot"), AuditClass::Change);
    assert_eq!(class_of("/a.new.Service/Call"), AuditClass::Change);
}

#[test]
fn paths_of_the_gateway_are_of_the_class_of_their_calls() {
    for (path, class) in [
        ("/v3/kv/range", AuditClass::Read),
        ("/v3beta/kv/range", AuditClass::Read),
        ("/v3/kv/put", AuditClass::Change),
        ("/v3/auth/authenticate", AuditClass::Login),
        ("/v1/store/history", AuditClass::Read),
        ("/v1/lock/lock", AuditClass::Change),
        ("/v3", AuditClass::Change),
    ] {
        assert_eq!(class_of_gateway(path), class, "{path}");
    }
    assert_eq!(class_of_rest(&Method::HEAD, "/v1/data/{*key}"), AuditClass::Read);
    assert_eq!(class_of_rest(&Method::POST, "/v1/data/batch/read"), AuditClass::Read);
    assert_eq!(class_of_rest(&Method::POST, "/v1/data/batch"), AuditClass::Change);
    assert_eq!(class_of_rest(&Method::DELETE, "/v1/data/{*key}"), AuditClass::Change);
}

#[test]
fn a_trace_is_taken_as_w3c_writes_it_and_otherwise_left_out() {
    let id = "0af7651916cd43dd8448eb211c80319c";
    let whole = format!("00-{id}-b7ad6b7169203331-01");
    assert_eq!(trace_of(whole.as_bytes()).as_deref(), Some(id));
    for wrong in ["", "00-", id, &whole.to_uppercase(), &whole.replace('-', "_"), &whole[..34]] {
        assert_eq!(trace_of(wrong.as_bytes()), None, "{wrong}");
    }
}

#[test]
fn only_what_is_refused_to_the_caller_is_a_refusal() {
    assert_eq!(outcome_of(Code::PermissionDenied), AuditOutcome::Refused);
    assert_eq!(outcome_of(Code::Unavailable), AuditOutcome::Unknown);
    assert_eq!(outcome_of(Code::NotFound), AuditOutcome::Failed);
    for (status, outcome) in [
        (200, AuditOutcome::Ok),
        (401, AuditOutcome::Refused),
        (403, AuditOutcome::Refused),
        (404, AuditOutcome::Failed),
        (409, AuditOutcome::Failed),
        (503, AuditOutcome::Unknown),
    ] {
        assert_eq!(outcome_of_http(status), outcome, "{status}");
    }
}
