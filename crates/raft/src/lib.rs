//! A pure adapter over the raft library: inputs in, ordered effects out.
