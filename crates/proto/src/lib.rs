//! Generated code of the public wire API; by hand only the codec that guards it.
//! What goes in are the files of `proto/`; what comes out are prost messages and tonic services, with every
//! `bytes` field as a `bytes::Bytes` that shares the frame's memory. Names and numbers are the wire contract.

pub mod codec;
mod decode_limit;
pub mod frame;
pub mod pieces;

pub use decode_limit::DecodeLimit;

/// The files of `proto/`, compiled: an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Metadata of the answer to Defragment: what the stores took of the disk before, in bytes.
pub const BYTES_BEFORE: &str = "althing-bytes-before";
/// And what they take now.
pub const BYTES_AFTER: &str = "althing-bytes-after";

/// One version of a key.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// What users may do.
pub mod authpb {
    tonic::include_proto!("authpb");
}

/// etcd's services and their messages.
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

/// etcd's locks.
pub mod v3lockpb {
    tonic::include_proto!("v3lockpb");
}

/// etcd's elections.
pub mod v3electionpb {
    tonic::include_proto!("v3electionpb");
}

/// Services of our own. The nesting is that of the packages' names.
pub mod althing {
    pub mod auth {
        pub mod v1 {
            tonic::include_proto!("althing.auth.v1");
        }
    }
    pub mod data {
        pub mod v1 {
            tonic::include_proto!("althing.data.v1");
        }
    }
    pub mod inspect {
        pub mod v1 {
            tonic::include_proto!("althing.inspect.v1");
        }
    }
    pub mod backup {
        pub mod v1 {
            tonic::include_proto!("althing.backup.v1");
        }
    }
    pub mod lease {
        pub mod v1 {
            tonic::include_proto!("althing.lease.v1");
        }
    }
    pub mod lock {
        pub mod v1 {
            tonic::include_proto!("althing.lock.v1");
        }
    }
    pub mod store {
        pub mod v1 {
            tonic::include_proto!("althing.store.v1");
        }
    }
}

/// What roles permit on the data plane.
pub use althing::auth::v1 as data_auth;

/// Clients, watches, leases and what pins compaction.
pub use althing::inspect::v1 as inspect;

/// Locks with fencing tokens.
pub use althing::lock::v1 as lock;

/// gRPC's own health checking.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
