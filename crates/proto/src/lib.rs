//! Generated code of the public wire API; by hand only the codec that guards it.
//! What goes in are the files of `proto/`; what comes out are prost messages and tonic services, with every
//! `bytes` field as a `bytes::Bytes` that shares the frame's memory. Names and numbers are the wire contract.

pub mod codec;
pub mod frame;
mod frugal;

/// One version of a key.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// etcd's services and their messages.
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}
